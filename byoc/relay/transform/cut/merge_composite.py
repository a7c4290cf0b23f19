"""MergeComposite: what a pattern matches becomes a composite function. Source: ``relay.transform.MergeComposite``.

Requires types (the checks ask for them). Ensures: the rows of the table are tried in order, each over the whole
function; a match that an earlier row took is not looked into. A check that raises counts as no, and is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from byoc.errors import PartitionError, vendors_line
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.span import span_names
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function
from byoc.relay.match_check import MatchCheck, truth
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.infer_type import FunctionPass

if TYPE_CHECKING:
    from byoc.relay.dataflow_pattern.patterns import DFPattern

Check = Callable[[RelayExpr], object]


@dataclass(frozen=True)
class FailedCheck:
    """A check that raised: the pattern's name, the ONNX nodes of the match's root, and the error."""

    pattern: str
    nodes: tuple[str, ...]
    error: str

    def __str__(self) -> str:
        where = f" (node {', '.join(self.nodes)})" if self.nodes else ""
        return f"the check of pattern {self.pattern} failed and counts as no{where}: {self.error}"


@dataclass
class CompositeRecord:
    """What happened while composites were merged."""

    failed_checks: list[FailedCheck] = field(default_factory=list)

    def add(self, pattern: str, expr: RelayExpr, error: Exception) -> None:
        """Keep that the check of *pattern* raised *error* on the match *expr*."""
        self.failed_checks.append(FailedCheck(pattern, span_names(expr.span), vendors_line(error)))


def _always(pre: RelayExpr) -> bool:
    return True


def _checked_row(row: Sequence[object]) -> tuple[str, DFPattern, Check]:
    from byoc.relay.dataflow_pattern.patterns import DFPattern

    if not isinstance(row, (tuple, list)) or len(row) not in (2, 3):
        raise PartitionError(f"a row of a pattern table is (name, pattern) or (name, pattern, check), got {row!r}")
    name, pattern, check = (*row, None)[:3]
    if not isinstance(name, str) or not isinstance(pattern, DFPattern):
        raise PartitionError(f"a row of a pattern table begins with a name and a pattern, got {name!r} and {pattern!r}")
    if check is not None and not callable(check):
        raise PartitionError(f"the check of pattern {name!r} must be a function of the match's root, got {check!r}")
    return name, pattern, check or _always


def MergeComposite(pattern_table: Sequence[Sequence[object]], record: CompositeRecord | None = None) -> FunctionPass:
    """The pass that makes a function with the attribute ``Composite`` of each match of *pattern_table*.

    A row is ``(name, pattern)`` or ``(name, pattern, check)``; *check* gets the root of a match. Checks that raise are
    added to *record*. Raises PartitionError for a row that is neither.
    """
    from byoc.relay.dataflow_pattern.mutable_graph import MutableGraph
    from byoc.relay.dataflow_pattern.partitioning import partition_in_place

    if pattern_table is None:
        raise PartitionError("there is no pattern table: no backend has registered one under that name")
    rows = [_checked_row(row) for row in pattern_table]
    notes = record if record is not None else CompositeRecord()

    def merge(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        infer_expr(func, mod)
        graph = MutableGraph(func)
        changes = [
            partition_in_place(pattern, graph, {"Composite": name}, guarded_check(name, check, notes))
            for name, pattern, check in rows
        ]
        return as_function(graph.root if any(changes) else func)

    return FunctionPass(
        merge,
        PassInfo("MergeComposite", ends=REWRITES, law=Law("a function around calls computes what the calls compute")),
    )


def guarded_check(name: str, check: Check | None, record: CompositeRecord) -> Check:
    """*check* where an error counts as no: one vendor's mistake must not break a compilation."""
    if isinstance(check, MatchCheck):
        return _GuardedMatch(name, check, record)
    test = check or _always

    def guarded(pre: RelayExpr) -> bool:
        try:
            return truth(test, pre, "it")
        except Exception as error:
            record.add(name, pre, error)
            return False

    return guarded


class _GuardedMatch(MatchCheck):
    """The same for a check of whole matches."""

    def __init__(self, name: str, check: MatchCheck, record: CompositeRecord):
        self._name, self._check, self._record = name, check, record

    def takes(self, composite: Call) -> bool:
        try:
            return bool(self._check.takes(composite))
        except Exception as error:
            self._record.add(self._name, composite, error)
            return False
