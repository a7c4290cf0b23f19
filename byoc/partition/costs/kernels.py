"""Which calls become one kernel, and the bytes that each kernel reads and writes.

A generator of fused code runs what FuseOps puts together as one kernel: between its calls nothing goes through memory.
Some kernels are then joined, as ``JoinGroups`` does: a view or a scale with the product that reads it, or whose result
it is, what is pointwise with the rows behind it, and two products of batches with a softmax between them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from byoc.ir.expr import RelayExpr
from byoc.ir.traits import Scaling
from byoc.ir.types import TensorType
from byoc.partition.costs.work import Kind, Work, size, work_of
from byoc.relay.analysis.operator_calls import traits_of
from byoc.relay.expr import Call, Constant, Tuple, TupleGetItem
from byoc.relay.transform.base.fusion_graph import build_graph
from byoc.relay.transform.fuse.fusion_groups import fusion_groups

LEVEL, MOST_CALLS = 3, 256
_POINTWISE = frozenset([Kind.POINTWISE, Kind.VIEW])
_VIEWS = frozenset([Kind.MOVE, Kind.VIEW])


@dataclass(frozen=True)
class Step:
    """A call in a kernel: its work, the bytes that it reads from outside and of constants, and those it gives away."""

    call: Call
    work: Work
    reads: int
    constants: int
    writes: int


Kernel = tuple[Step, ...]
WorkOf = Callable[[Call], Work]


def kernels_of(calls: Sequence[Call], fused: bool = True, work: WorkOf = work_of) -> list[Kernel]:
    """The kernels of *calls* of operators, which are in topological order; not *fused*, each is one by itself."""
    works = [work(call) for call in calls]
    group = _joined(calls, works, _fused(calls)) if fused and len(calls) > 1 else list(range(len(calls)))
    return _steps(calls, works, group)


def one_kernel(calls: Sequence[Call], work: WorkOf = work_of) -> Kernel:
    """*calls* of operators as one kernel: those of a fused function."""
    return _steps(calls, [work(call) for call in calls], [0] * len(calls))[0]


def producers(value: RelayExpr) -> Iterable[RelayExpr]:
    """What makes *value*: tuples and projections looked through."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, TupleGetItem):
            whole = node.tuple_value
            stack.append(whole.fields[node.index] if isinstance(whole, Tuple) else whole)
        elif isinstance(node, Tuple):
            stack.extend(reversed(node.fields))
        else:
            yield node


def _fused(calls: Sequence[Call]) -> list[int]:
    """For each call the number of its group under FuseOps."""
    read = {p for call in calls for arg in call.args for p in producers(arg)}
    sinks = [call for call in calls if call not in read]
    root: RelayExpr = sinks[0] if len(sinks) == 1 else Tuple(sinks)
    groups = fusion_groups(build_graph(root), LEVEL, MOST_CALLS)
    numbers: dict[object, int] = {}
    return [
        numbers.setdefault(groups[call], len(numbers)) if call in groups else -1 - k for k, call in enumerate(calls)
    ]


def _joined(calls: Sequence[Call], works: Sequence[Work], group: list[int]) -> list[int]:
    """*group* with the groups made one that a generator of code joins where nothing else reads what passes."""
    kinds: dict[int, set[Kind]] = {}
    for number, work, call in zip(group, works, calls, strict=True):
        kinds.setdefault(number, set()).add(Kind.MOVE if _is_scale(call) else work.kind)
    place = {call: k for k, call in enumerate(calls)}
    edges = {
        (group[place[p]], group[k])
        for k, call in enumerate(calls)
        for arg in call.args
        for p in producers(arg)
        if p in place and group[place[p]] != group[k]
    }
    readers = Counter(source for source, _ in edges)
    into = dict.fromkeys(group)
    parent = {number: number for number in into}
    for source, target in sorted(edges):
        first, second = _root(parent, source), _root(parent, target)
        if readers[source] == 1 and first != second and _joins(kinds[first], kinds[second]):
            parent[first] = second
            kinds[second] = kinds[first] | kinds[second]
    return [_root(parent, number) for number in group]


def _root(parent: Mapping[int, int], number: int) -> int:
    while parent[number] != number:
        number = parent[number]
    return number


def _is_scale(call: Call) -> bool:
    """Whether *call* multiplies or divides by one constant number, which the product beside it takes up."""
    traits = traits_of(call)
    if traits is None or traits.scaling is not Scaling.FACTOR:
        return False
    by, ty = call.args[1], call.args[1].checked_type
    if not isinstance(by, Constant) or not isinstance(ty, TensorType):
        return False
    return ty.is_static and math.prod(ty.concrete_shape) == 1


def _joins(first: set[Kind], second: set[Kind]) -> bool:
    """Whether a kernel of the kinds *first* is joined to the only one that reads it."""
    if first <= _VIEWS:
        return Kind.PRODUCT in second
    if Kind.PRODUCT in first:
        return (
            second <= _VIEWS
            or (Kind.ROWS in second and Kind.ROWS not in first)
            or (Kind.ROWS in first and Kind.PRODUCT in second)
        )
    return first <= _POINTWISE and Kind.ROWS in second


def _steps(calls: Sequence[Call], works: Sequence[Work], group: Sequence[int]) -> list[Kernel]:
    place = {call: k for k, call in enumerate(calls)}
    leaves = _leaving(calls, group, place)
    seen: set[tuple[int, RelayExpr]] = set()
    made: dict[int, list[Step]] = {}
    for k, call in enumerate(calls):
        reads = constants = 0
        for node in dict.fromkeys(p for arg in call.args for p in producers(arg)):
            inside = node in place and group[place[node]] == group[k]
            if inside or (group[k], node) in seen:
                continue
            seen.add((group[k], node))
            if isinstance(node, Constant):
                constants += size(node.checked_type)
            else:
                reads += size(node.checked_type)
        result = size(call.checked_type)
        if works[k].kind is Kind.MOVE:  # a slice or a selection reads what it gives
            reads, constants = min(reads, result), min(constants, result)
        made.setdefault(group[k], []).append(Step(call, works[k], reads, constants, result if leaves[k] else 0))
    return [tuple(steps) for steps in made.values()]


def _leaving(calls: Sequence[Call], group: Sequence[int], place: Mapping[Call, int]) -> list[bool]:
    """For each call whether its result leaves its kernel: another reads it, or none of *calls* does."""
    leaves, read = [False] * len(calls), [False] * len(calls)
    for k, call in enumerate(calls):
        for node in (p for arg in call.args for p in producers(arg)):
            if node in place:
                source = place[node]  # type: ignore[index]
                read[source] = True
                leaves[source] = leaves[source] or group[source] != group[k]
    return [a or not b for a, b in zip(leaves, read, strict=True)]
