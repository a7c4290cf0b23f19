"""What a kernel has to do, counted from its expressions: arithmetic on data, and the bytes that must move at least.

Counts are those of the stages as they are written, each element once: what a schedule computes twice, pads, or reads
again because a cache was too small is its own, and lowers the rate that a profile reports. A factor of a sum's terms
counts once for each point of the axes that it depends on. Comparisons, casts, selections and 64-bit integers, which are
positions nearly always, are no operations; a fold counts one for each of its points. A convolution by Winograd's method
counts as the sum of products that it is, so that its rate may be above the peak.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from byoc.codegen.c.winograd.sizes import INPUT, META
from byoc.codegen.c.winograd.sizes import WinogradPlan as WinogradPlan
from byoc.codegen.c.winograd.transforms import KERNEL
from byoc.codegen.kernel.expr_parts import factors
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import own_kernel, product
from byoc.ir.types import dtype_bytes
from byoc.runtime.core.strict_json import MOST_NUMBER
from byoc.te import Index, PrimExpr, Tensor, binary, const
from byoc.te.expr import ARITHMETIC, BITS, FROM_BITS, INDEX, OF_BITS, TO_BITS, Binary, Checked, Const, Intrinsic, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, operands, reachable, unique_nodes

_CONVERSIONS = frozenset([*FROM_BITS, *TO_BITS, *OF_BITS, "bits"])


@dataclass(frozen=True)
class CountedWork:
    """Operations and bytes as size expressions, and the dtype that most is computed in."""

    operations: PrimExpr
    bytes: PrimExpr
    dtype: str


@dataclass(frozen=True)
class _Scope:
    """An expression that is evaluated at each of *points*: that of a stage, or of a fold inside of one."""

    value: PrimExpr
    points: PrimExpr
    is_fold: bool = False


def counted_work(
    stages: Sequence[Tensor], sources: Sequence[Tensor], targets: Sequence[Tensor], simplify: Simplifier
) -> CountedWork | None:
    """The work of a kernel that computes *stages*, reads *sources* and fills *targets*.

    None where it is more than a plan can record.
    """
    operations = nbytes = as_index(0)
    read: dict[Tensor, PrimExpr] = {}
    for scope in (scope for stage in stages for scope in _scopes(stage)):
        count = _operations(scope.value) + scope.is_fold
        operations = binary("add", operations, binary("mul", scope.points, as_index(count)))
        for load in (n for n in _outside_of_folds(scope.value) if isinstance(n, Load)):
            moved = binary("mul", scope.points, as_index(dtype_bytes(load.dtype)))
            read[load.tensor] = binary("add", read[load.tensor], moved) if load.tensor in read else moved
    for tensor in sources:  # of a table, of which few rows are looked up, no more than these
        moved = simplify(binary("min", _nbytes(tensor), simplify(read.get(tensor, as_index(0)))))
        nbytes = binary("add", nbytes, moved)
    for tensor in targets:
        nbytes = binary("add", nbytes, _nbytes(tensor))
    found = CountedWork(simplify(operations), simplify(nbytes), _dtype(stages))
    numbers = [n.value for e in (found.operations, found.bytes) for n in unique_nodes(e) if isinstance(n, Const)]
    return found if max(map(abs, numbers), default=0) <= MOST_NUMBER else None


def _scopes(stage: Tensor) -> Iterator[_Scope]:
    """The element of *stage*, and the bodies of the folds in it, each with how often it is evaluated."""
    plan = stage.meta.get(META)
    if isinstance(plan, WinogradPlan):
        yield from _scopes_of_winograd(stage, plan)
        return
    if own_kernel(stage) is not None:  # transforms what it reads once, whatever its expression says
        yield _Scope(stage.element, product(stage.shape))
        folds = (n for n in _outside_of_folds(stage.element) if isinstance(n, Reduce))
        read = {n.tensor: n for fold in folds for n in unique_nodes(fold) if isinstance(n, Load)}
        yield from (_Scope(load, product(tensor.shape)) for tensor, load in read.items())
        return
    left = [_Scope(stage.element, product(stage.shape))]
    while left:
        scope = left.pop()
        yield scope
        for fold in (n for n in _outside_of_folds(scope.value) if isinstance(n, Reduce)):
            points = binary("mul", scope.points, product([axis.extent for axis in fold.axes]))
            left += [_Scope(_terms(fold.body), points, is_fold=True), *_factors(stage, fold)]


def _terms(body: PrimExpr) -> PrimExpr:
    """*body* over what its factors are where these are computed."""
    computed = {f for f in factors(body) if _operations(f)}
    return map_expr(body, lambda e: const(1, e.dtype) if e in computed else None) if computed else body


def _factors(stage: Tensor, fold: Reduce) -> Iterator[_Scope]:
    """The factors of the terms of *fold* in which something is computed."""
    for factor in (f for f in factors(fold.body) if _operations(f)):
        used = {n for n in unique_nodes(factor) if isinstance(n, Index)}
        yield _Scope(factor, product([a.extent for a in (*stage.axes, *fold.axes) if a in used]))


def _scopes_of_winograd(stage: Tensor, plan: WinogradPlan) -> Iterator[_Scope]:
    """The epilogue, and a product of a pixel and a weight for each term; for tiles, what they read."""
    points = product(stage.shape)
    yield _Scope(stage.element, points)
    folds = [n for n in _outside_of_folds(stage.element) if isinstance(n, Reduce)]
    read = {n.tensor: n for fold in folds for n in unique_nodes(fold) if isinstance(n, Load)}
    if stage.tag == INPUT:
        yield from (_Scope(load, points) for load in read.values())
        return
    terms = binary("mul", points, as_index(KERNEL * KERNEL * plan.channels))
    first, second = list(read.values())[:2]
    yield _Scope(binary("mul", first, second), terms, is_fold=True)


def _outside_of_folds(value: PrimExpr) -> Iterator[PrimExpr]:
    """The nodes of *value* once each, folds but not what is in them."""
    return reachable([value], lambda e: () if isinstance(e, Reduce) else operands(e))


def _operations(value: PrimExpr) -> int:
    """The arithmetic on data in *value*, outside of folds and of indices."""
    nodes = reachable([value], lambda e: () if isinstance(e, Reduce | Load | Checked) else operands(e))
    return sum(map(_is_operation, nodes))


def _is_operation(node: PrimExpr) -> bool:
    if node.dtype in (INDEX, "bool"):
        return False
    if isinstance(node, Binary):
        return node.op in ARITHMETIC or node.op in BITS
    return isinstance(node, Intrinsic) and node.name not in _CONVERSIONS


def _nbytes(tensor: Tensor) -> PrimExpr:
    return binary("mul", product(tensor.shape), as_index(dtype_bytes(tensor.dtype)))


def _dtype(stages: Sequence[Tensor]) -> str:
    """The dtype of the first fold, as of a product's sum; of stages without one, that of the last."""
    folds = (n for stage in stages for n in unique_nodes(stage.element) if isinstance(n, Reduce) and n.dtype != INDEX)
    return next((fold.dtype for fold in folds), stages[-1].dtype)
