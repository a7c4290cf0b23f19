"""Every match of every pattern, overlapping or not, and composites made of exactly those that were chosen.

MergeComposite takes the first row that fits; a planner chooses among all. A match is known again by the row of its
table and the number of its root, since matching at one root has one outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from byoc.contract.backend import Backend
from byoc.contract.checks import pattern_entries
from byoc.contract.registration import get_backend
from byoc.errors import PartitionError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.partition.calls import calls_of, functions_of
from byoc.relay.dataflow_pattern.grouper import Grouper, MatchedGroup
from byoc.relay.dataflow_pattern.indexed_graph import IndexedGraph
from byoc.relay.dataflow_pattern.mutable_graph import MutableGraph
from byoc.relay.dataflow_pattern.partitioning import composite_call, holds
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.infer_type import InferType
from byoc.relay.transform.cut.merge_composite import CompositeRecord, guarded_check


@dataclass(frozen=True)
class ChosenMatch:
    """A match in a plan: the function's name, the target, the row of its pattern table, the number of its root."""

    function: str
    target: str
    row: int
    root: int


@dataclass(frozen=True, eq=False)
class CompositeMatch:
    """One match: what a plan keeps of it, the numbers of the calls that it covers, and the call that it would become.

    ``call`` reads the arguments of the graph as it is; it stands in no graph.
    """

    chosen: ChosenMatch
    name: str
    numbers: tuple[int, ...]
    call: Call


def matches_of(name: str, func: Function, backends: Sequence[Backend], record: CompositeRecord) -> list[CompositeMatch]:
    """Every match in the function *name* of every row of every backend's table that its check accepts, by backend, row
    and root; those that cover another function's body, or no call, are left out. Checks that raise go to *record*.
    """
    number = {call: k for k, call in enumerate(calls_of(func))}
    graph = IndexedGraph(func)
    found: list[CompositeMatch] = []
    for backend in backends:
        for row, entry in enumerate(pattern_entries(backend)):
            check = guarded_check(entry.name, entry.asked, record)
            groups = Grouper(entry.pattern, graph, overlapping=True).groups
            for root in sorted((r for r in groups if r in number), key=number.__getitem__):
                if not holds(check, groups[root], {"Composite": entry.name}):
                    continue
                covered = _covered(groups[root], number)
                if covered is not None:
                    chosen = ChosenMatch(name, backend.name, row, number[root])
                    call = composite_call(groups[root], {"Composite": entry.name}, {})
                    found.append(CompositeMatch(chosen, entry.name, covered, call))
    return found


def _covered(group: MatchedGroup, number: dict[Call, int]) -> tuple[int, ...] | None:
    calls = [n for n in group.interior if isinstance(n, Call)]
    if any(call not in number for call in calls):
        return None
    return tuple(sorted(number[call] for call in calls))


def with_composites(mod: IRModule, chosen: Iterable[ChosenMatch]) -> tuple[IRModule, list[int]]:
    """*mod* where each chosen match is a composite function, and for each call of it, in order, its number in *mod*:
    its own, or that of its match's root (numbers begin anew in each function). Raises PartitionError where one does not
    match.
    """
    by_function: dict[str, list[ChosenMatch]] = {}
    for choice in chosen:
        by_function.setdefault(choice.function, []).append(choice)
    result = mod.shallow_copy()
    numbers: list[int] = []
    for var, func in functions_of(mod):
        made = by_function.get(var.name_hint)
        if made is None:
            numbers += range(sum(1 for _ in calls_of(func)))
            continue
        result[var], order = _formed(func, made)
        numbers += order
    return (InferType()(result) if by_function else mod), numbers


def _formed(func: Function, chosen: Sequence[ChosenMatch]) -> tuple[Function, list[int]]:
    graph = MutableGraph(func)
    number = {call: k for k, call in enumerate(calls_of(as_function(graph.root)))}
    changed: dict[RelayExpr, RelayExpr] = {}
    for _, group, name in sorted(_groups(graph, list(number), chosen), key=lambda item: item[0]):
        call = composite_call(group, {"Composite": name}, changed)
        graph.replace(group.interior, call.args, call)
        changed[group.root] = call
        number[call] = number[as_call(group.root)]
    made = as_function(graph.root)
    return made, [number[call] for call in calls_of(made)]


def _groups(
    graph: MutableGraph, calls: Sequence[Call], chosen: Sequence[ChosenMatch]
) -> Iterator[tuple[int, MatchedGroup, str]]:
    """The place, the group and the name of each chosen match."""
    rows: dict[tuple[str, int], list[ChosenMatch]] = {}
    for choice in chosen:
        rows.setdefault((choice.target, choice.row), []).append(choice)
    for (target, row), choices in rows.items():
        table = pattern_entries(get_backend(target))
        groups = Grouper(table[row].pattern, graph, overlapping=True).groups if row < len(table) else {}
        for choice in choices:
            group = groups.get(calls[choice.root]) if choice.root < len(calls) else None
            if group is None:
                raise PartitionError(
                    f"the plan was made for another module, or for another pattern table of {target}: its row {row} "
                    f"does not match operator {choice.root} of {choice.function}; make the plan again"
                )
            yield graph.index[group.root], group, table[row].name
