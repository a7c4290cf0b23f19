"""Matches of patterns that were refused: by the pattern's check, or by the backend's verdict on the composite.

They are recorded in the verdicts on the operators that they cover, whether these were then taken alone or not. Matches
are found in the graph as it was before composites were formed; what a plan decides is known again by its operator and
its ONNX nodes, or by its number where nothing became a composite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from byoc.contract.verdict import ConstraintCheck, Reason, callee_name, first_sentence
from byoc.errors import vendors_line
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.partition.boundaries import Boundaries, BoundaryView
from byoc.partition.calls import Decision, calls_of, functions_of
from byoc.relay.expr import Call, Function

if TYPE_CHECKING:
    from byoc.contract.backend import Backend, PatternEntry
    from byoc.relay.dataflow_pattern.grouper import MatchedGroup

Key = tuple[str, tuple[str, ...]]  # an operator and its ONNX nodes


@dataclass(frozen=True)
class RefusedMatch:
    """A match that did not become a composite of *target*: the calls that it covers, and every reason."""

    target: str
    pattern: str
    calls: tuple[Call, ...]
    reasons: tuple[Reason, ...]


def refused_matches(
    func: Function, backends: Sequence[Backend], view: BoundaryView, unchecked: Callable[[str], bool]
) -> Iterator[RefusedMatch]:
    """Every match in *func* that is refused, of the rows with a check, and of all rows of the targets that *unchecked*
    names; those that a user's rule keeps away are left out.
    """
    from byoc.contract.checks import pattern_entries
    from byoc.partition.cut.decide import judged
    from byoc.relay.dataflow_pattern.grouper import Grouper
    from byoc.relay.dataflow_pattern.indexed_graph import IndexedGraph

    graph = IndexedGraph(func)
    number = {call: k for k, call in enumerate(calls_of(func))}
    for backend in backends:
        for entry in pattern_entries(backend):
            if entry.check is None and not unchecked(backend.name):
                continue
            groups = Grouper(entry.pattern, graph, overlapping=True).groups
            for root in sorted((r for r in groups if r in number), key=number.__getitem__):
                calls = tuple(n for n in groups[root].interior if isinstance(n, Call))
                if any(call not in number or view.reason(backend.name, call) is not None for call in calls):
                    continue
                match = _Match(entry, groups[root])
                reasons = match.check_reasons() or judged(backend, match.composite).reasons
                if reasons:
                    reported = tuple(replace(r, pattern=entry.name) for r in reasons)
                    yield RefusedMatch(backend.name, entry.name, calls, reported)


@dataclass(frozen=True)
class _Match:
    """A match of a row, and the composite that it would be, made when it is asked for: most checks need none."""

    entry: PatternEntry
    group: MatchedGroup

    @cached_property
    def composite(self) -> Call:
        from byoc.relay.dataflow_pattern.partitioning import composite_call

        return composite_call(self.group, {"Composite": self.entry.name}, {})

    def check_reasons(self) -> tuple[Reason, ...]:
        """Why the check of the row refuses the match: its constraints, or its docstring."""
        from byoc.relay.dataflow_pattern.partitioning import holds

        check = self.entry.asked
        if check is None:
            return ()
        if isinstance(check, ConstraintCheck):
            return check.refusals(self.composite)
        try:
            taken = holds(check, self.group, {})
        except Exception as error:  # whatever a vendor's check raises counts as no
            return (Reason("error", f"its check failed: {vendors_line(error)}"),)
        return () if taken else (Reason("check", first_sentence(check) or "its check says no"),)


def with_refused_matches(
    mod: IRModule,
    decisions: Sequence[Decision],
    backends: Sequence[Backend],
    boundaries: Boundaries,
    unchecked: Callable[[str], bool],
) -> tuple[Decision, ...]:
    """*decisions* about *mod* whose verdicts also list refused matches (see :func:`refused_matches`)."""
    if not backends:
        return tuple(decisions)
    from byoc.contract.checks import pattern_entries

    if not any(e.check is not None or unchecked(b.name) for b in backends for e in pattern_entries(b)):
        return tuple(decisions)
    view = boundaries.on(mod)
    calls = [call for _, func in functions_of(mod) for call in calls_of(func)]
    number = {call: k for k, call in enumerate(calls)}
    by_number: dict[int, dict[str, dict[Reason, None]]] = {}
    by_key: dict[Key, dict[str, dict[Reason, None]]] = {}
    for _, func in functions_of(mod):
        for match in refused_matches(func, backends, view, unchecked):
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
