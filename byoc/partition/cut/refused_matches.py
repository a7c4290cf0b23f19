"""Matches of patterns that were refused: by the pattern's check, or by the backend's verdict on the composite.

They are recorded in the verdicts on the operators that they cover, whether these were then taken alone or not. Matches
are found in the graph as it was before composites were formed; what a plan decides is known again by its operator and
its ONNX nodes, or by its number where nothing became a composite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from byoc.contract.verdict import Reason, callee_name
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.partition.boundaries import Boundaries, BoundaryView
from byoc.partition.calls import Decision, calls_of, functions_of
from byoc.relay.expr import Call, Function

if TYPE_CHECKING:
    from byoc.contract.backend import Backend
    from byoc.partition.cut.matches import TableMatches

Key = tuple[str, tuple[str, ...]]  # an operator and its ONNX nodes


@dataclass(frozen=True)
class RefusedMatch:
    """A match that did not become a composite of *target*: the calls that it covers, and every reason."""

    target: str
    pattern: str
    calls: tuple[Call, ...]
    reasons: tuple[Reason, ...]


def refused_matches(
    func: Function,
    backends: Sequence[Backend],
    view: BoundaryView,
    unchecked: Callable[[str], bool],
    found: TableMatches,
) -> Iterator[RefusedMatch]:
    """Every match in *func*, of those that *found* has or finds, that is refused, of the rows with a check, and of all
    rows of the targets that *unchecked* names; those that a user's rule keeps away are left out.
    """
    number = {call: k for k, call in enumerate(calls_of(func))}
    for backend in backends:
        for match in found.of(func, backend, unchecked(backend.name)):
            calls = tuple(n for n in match.group.interior if isinstance(n, Call))
            if any(call not in number or view.reason(backend.name, call) is not None for call in calls):
                continue
            reasons = match.check_reasons() or match.verdict.reasons
            if reasons:
                reported = tuple(replace(r, pattern=match.entry.name) for r in reasons)
                yield RefusedMatch(backend.name, match.entry.name, calls, reported)


def with_refused_matches(
    mod: IRModule,
    decisions: Sequence[Decision],
    backends: Sequence[Backend],
    boundaries: Boundaries,
    unchecked: Callable[[str], bool],
    found: TableMatches | None = None,
) -> tuple[Decision, ...]:
    """*decisions* about *mod* whose verdicts also list refused matches (see :func:`refused_matches`)."""
    if found is None:
        from byoc.partition.cut.matches import TableMatches

        found = TableMatches()
    if not any(unchecked(b.name) or any(e.check is not None for e in found.table(b)) for b in backends):
        return tuple(decisions)
    view = boundaries.on(mod)
    calls = [call for _, func in functions_of(mod) for call in calls_of(func)]
    number = {call: k for k, call in enumerate(calls)}
    by_number: dict[int, dict[str, dict[Reason, None]]] = {}
    by_key: dict[Key, dict[str, dict[Reason, None]]] = {}
    for _, func in functions_of(mod):
        for match in refused_matches(func, backends, view, unchecked, found):
            for call in match.calls:
                key = (callee_name(call), span_names(call.span))
                for verdicts in (by_number.setdefault(number[call], {}), by_key.setdefault(key, {})):
                    verdicts.setdefault(match.target, {}).update(dict.fromkeys(match.reasons))
    same = [callee_name(call) for call in calls] == [d.operator for d in decisions]
    return tuple(
        _with_matches(d, by_number.get(k, {}) if same else by_key.get((d.operator, d.nodes), {}) if d.nodes else {})
        for k, d in enumerate(decisions)
    )


def _with_matches(decision: Decision, matches: Mapping[str, Mapping[Reason, None]]) -> Decision:
    if not matches:
        return decision
    verdicts = tuple(
        (target, replace(v, matches=tuple(matches[target])) if target in matches else v)
        for target, v in decision.verdicts
    )
    return replace(decision, verdicts=verdicts)
