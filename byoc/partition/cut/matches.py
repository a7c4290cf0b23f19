"""Every match of every pattern, overlapping or not, and composites made of exactly those that were chosen.

MergeComposite takes the first row that fits; a planner chooses among all. A match is known again by the row of its
table and the number of its root, since matching at one root has one outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from byoc.contract.backend import Backend, PatternEntry
from byoc.contract.checks import pattern_entries
from byoc.contract.registration import get_backend
from byoc.contract.verdict import ConstraintCheck, Reason, Verdict, first_sentence
from byoc.errors import PartitionError, vendors_line
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.partition.calls import calls_among, calls_of, functions_of
from byoc.partition.cut.decide import judged
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.dataflow_pattern.grouper import Grouper, MatchedGroup
from byoc.relay.dataflow_pattern.indexed_graph import IndexedGraph
from byoc.relay.dataflow_pattern.mutable_graph import MutableGraph
from byoc.relay.dataflow_pattern.partitioning import composite_call, holds
from byoc.relay.expr import Call, Function
from byoc.relay.match_check import MatchCheck
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.infer_type import InferType
from byoc.relay.transform.cut.merge_composite import CompositeRecord, guarded_check
from byoc.relay.traverse import post_order


@dataclass(frozen=True)
class ChosenMatch:
    """A match in a plan: the function's name, the target, the row of its pattern table, the number of its root."""

    function: str
    target: str
    row: int
    root: int


@dataclass(frozen=True, eq=False)
class TableMatch:
    """One match of row number *row*, which is *entry*, of the table of *backend*.

    The composite that it would be, which reads the arguments of the graph as it is and stands in no graph, and what the
    backend says of it are found where they are asked for, once.
    """

    backend: Backend
    row: int
    entry: PatternEntry
    group: MatchedGroup

    @cached_property
    def composite(self) -> Call:
        """The call that the match would become."""
        return composite_call(self.group, {"Composite": self.entry.name}, {})

    @cached_property
    def verdict(self) -> Verdict:
        """What the backend says of the composite."""
        return judged(self.backend, self.composite)

    def is_accepted(self, record: CompositeRecord) -> bool:
        """Whether the check of the row accepts the match; a check that raises does not, and goes to *record*."""
        check = guarded_check(self.entry.name, self.entry.asked, record)
        return check.takes(self.composite) if isinstance(check, MatchCheck) else holds(check, self.group, {})

    def check_reasons(self) -> tuple[Reason, ...]:
        """Why the check of the row refuses the match: its constraints, or its docstring; () where it does not."""
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


class TableMatches:
    """The matches of each row of each table, checked or not, in each function that is asked about: found once.

    Backends are known by their names.
    """

    def __init__(self) -> None:
        self._tables: dict[str, tuple[PatternEntry, ...]] = {}
        self._graphs: dict[Function, tuple[IndexedGraph, dict[RelayExpr, int]]] = {}
        self._found: dict[tuple[Function, str, int], list[TableMatch]] = {}

    def table(self, backend: Backend) -> tuple[PatternEntry, ...]:
        """The rows of *backend*'s table."""
        if backend.name not in self._tables:
            self._tables[backend.name] = tuple(pattern_entries(backend))
        return self._tables[backend.name]

    def of(self, func: Function, backend: Backend, unchecked: bool = True) -> Iterator[TableMatch]:
        """The matches in *func*, by row and root, of the rows with a check or, with *unchecked*, of all; none whose
        root is in the body of another function.
        """
        for row, entry in enumerate(self.table(backend)):
            if unchecked or entry.check is not None:
                key = func, backend.name, row
                if key not in self._found:
                    self._found[key] = self._matches(func, backend, row, entry)
                yield from self._found[key]

    def _matches(self, func: Function, backend: Backend, row: int, entry: PatternEntry) -> list[TableMatch]:
        if func not in self._graphs:
            self._graphs[func] = IndexedGraph(func), {call: k for k, call in enumerate(calls_of(func))}
        graph, number = self._graphs[func]
        groups = Grouper(entry.pattern, graph, overlapping=True).groups
        roots = sorted((r for r in groups if r in number), key=number.__getitem__)
        return [TableMatch(backend, row, entry, groups[root]) for root in roots]


@dataclass(frozen=True, eq=False)
class CompositeMatch:
    """A match whose check accepts it: what a plan keeps of it, and the numbers of the calls that it covers."""

    chosen: ChosenMatch
    numbers: tuple[int, ...]
    source: TableMatch

    @property
    def name(self) -> str:
        """What the row of the table is called."""
        return self.source.entry.name

    @property
    def call(self) -> Call:
        """The call that it would become; it stands in no graph."""
        return self.source.composite


def matches_of(
    name: str,
    func: Function,
    backends: Sequence[Backend],
    record: CompositeRecord,
    found: TableMatches | None = None,
) -> list[CompositeMatch]:
    """Every match in the function *name* of every row of every backend's table that its check accepts, by backend, row
    and root; those that cover another function's body, or no call, are left out. Checks that raise go to *record*.
    *found* has what is matched already.
    """
    number = {call: k for k, call in enumerate(calls_of(func))}
    found = found or TableMatches()
    accepted: list[CompositeMatch] = []
    for backend in backends:
        for match in found.of(func, backend):
            if not match.is_accepted(record):
                continue
            covered = _covered(match.group, number)
            if covered is not None:
                chosen = ChosenMatch(name, backend.name, match.row, number[as_call(match.group.root)])
                accepted.append(CompositeMatch(chosen, covered, match))
    return accepted


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
            numbers += range(len(calls_of(func)))
            continue
        result[var], order = _formed(func, made)
        numbers += order
    return (InferType()(result) if by_function else mod), numbers


def _formed(func: Function, chosen: Sequence[ChosenMatch]) -> tuple[Function, list[int]]:
    graph = MutableGraph(func)
    number = {call: k for k, call in enumerate(calls_among(post_order(graph.root, open_children)))}
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
