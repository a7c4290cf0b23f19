"""A priority list for each operator, where several targets take it, in place of the order of all targets.

With preferences composites are chosen among all matches of all tables: those whose targets stand highest in the lists
of the operators inside come first, then the order of targets and of the rows. A match gives way to a target that
stands higher in the list of an operator inside and takes that operator alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from byoc.contract.backend import Backend
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.boundaries import FORCE, Boundaries, BoundaryView, PlacementRule
from byoc.partition.calls import calls_of, functions_of, names_of, nearest
from byoc.partition.cut.decide import judged
from byoc.relay.expr import Call
from byoc.relay.transform.cut.merge_composite import CompositeRecord

if TYPE_CHECKING:
    from byoc.partition.cut.matches import ChosenMatch, CompositeMatch


@dataclass(frozen=True)
class Preferences:
    """The lists, by the name of an operator or ONNX node, which may hold ``*``; the first that fits a call counts."""

    rules: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @staticmethod
    def of(prefer: Mapping[str, Sequence[str]] | None, targets: Collection[str]) -> Preferences:
        """The lists of *prefer*. Raises PartitionError for a target that is not asked for, or twice in a list."""
        rules: list[tuple[str, tuple[str, ...]]] = []
        if prefer is not None and not isinstance(prefer, Mapping):
            raise PartitionError('prefer is a mapping from names to targets: prefer={"nn.conv2d": ["acme2", "acme1"]}')
        for name, listed in (prefer or {}).items():
            if isinstance(listed, str) or not isinstance(listed, Iterable):
                raise PartitionError(f"prefer has a list of targets for each name; write {name!r}: [{str(listed)!r}]")
            listed = list(listed)
            for k, target in enumerate(listed):
                if target not in targets:
                    asked = ", ".join(targets) or "none"
                    raise PartitionError(
                        f"prefer: {name!r} names the target {target!r}, which is not asked for; asked: {asked}"
                    )
                if target in listed[:k]:
                    raise PartitionError(f"prefer: {name!r} names the target {target!r} twice; name each once")
            rules.append((name, tuple(listed)))
        return Preferences(tuple(rules))

    def check(self, known: Collection[str]) -> None:
        """Raises PartitionError with the nearest names for a list of what is not among *known*."""
        for name, _ in self.rules:
            if not PlacementRule(FORCE, name).matches(known):
                raise PartitionError(
                    f"prefer: no operator or ONNX node of the model is called {name!r}; "
                    f"the nearest: {nearest(name, known)}"
                )

    def list_of(self, call: Call) -> tuple[str, tuple[str, ...]]:
        """The name and the targets of the list that *call* has; two empty ones where it has none."""
        names = names_of(call) if self.rules else ()
        return next((rule for rule in self.rules if PlacementRule(FORCE, rule[0]).matches(names)), ("", ()))

    def order(self, call: Call, targets: Sequence[str]) -> list[str]:
        """*targets* by the list of *call*: the listed first, then the others as they are."""
        _, listed = self.list_of(call)
        return [*listed, *(t for t in targets if t not in listed)]


def form_preferred(
    mod: IRModule,
    backends: Sequence[Backend],
    boundaries: Boundaries,
    preferences: Preferences,
    record: CompositeRecord,
) -> tuple[IRModule, tuple[ChosenMatch, ...]]:
    """*mod*, which has types, with the composites that *preferences* choose, and which these are."""
    from byoc.partition.cut.matches import matches_of, with_composites

    view = boundaries.on(mod)
    chosen: list[ChosenMatch] = []
    for var, func in functions_of(mod):
        calls = list(calls_of(func))
        found = [m for m in matches_of(var.name_hint, func, backends, record) if _allowed(m, calls, backends, view)]
        taken: set[int] = set()
        for match in sorted(found, key=lambda m: _rank(m, calls, backends, preferences)):
            if taken.isdisjoint(match.numbers) and not _gives_way(match, calls, backends, view, preferences):
                taken.update(match.numbers)
                chosen.append(match.chosen)
    return with_composites(mod, chosen)[0], tuple(chosen)


def preferred_order(call: Call, backends: Sequence[Backend], preferences: Preferences) -> tuple[Sequence[Backend], str]:
    """*backends* as *call* prefers them, and why so, for a reason."""
    name, listed = preferences.list_of(call)
    order = preferences.order(call, [b.name for b in backends])
    return [_backend(backends, n) for n in order], f"in the list of {name}" if listed else ""


def _backend(backends: Sequence[Backend], name: str) -> Backend:
    return next(b for b in backends if b.name == name)


def _allowed(match: CompositeMatch, calls: Sequence[Call], backends: Sequence[Backend], view: BoundaryView) -> bool:
    target = match.chosen.target
    if any(view.reason(target, c) is not None for c in (match.call, *(calls[k] for k in match.numbers))):
        return False
    return bool(judged(_backend(backends, target), match.call))


def _rank(
    match: CompositeMatch, calls: Sequence[Call], backends: Sequence[Backend], preferences: Preferences
) -> tuple[int, int, int, int]:
    """Where the target stands in the lists of the operators inside, at worst; then its place, the row, the root."""
    names, target = [b.name for b in backends], match.chosen.target
    listed = [k for k in match.numbers if preferences.list_of(calls[k])[1]]
    worst = max((preferences.order(calls[k], names).index(target) for k in listed), default=0)
    return worst, names.index(target), match.chosen.row, match.chosen.root


def _gives_way(
    match: CompositeMatch,
    calls: Sequence[Call],
    backends: Sequence[Backend],
    view: BoundaryView,
    preferences: Preferences,
) -> bool:
    names, target = [b.name for b in backends], match.chosen.target
    for k in match.numbers:
        call = calls[k]
        order = preferences.order(call, names) if preferences.list_of(call)[1] else []
        for name in order[: order.index(target)] if order else ():
            if view.reason(name, call) is None and judged(_backend(backends, name), call):
                return True
    return False
