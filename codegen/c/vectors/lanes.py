"""Reductions whose steps are elementwise loops over an array of partial results, which compilers vectorise.

By columns, for pools and the like: a piece of the innermost output axis, with all its results held side by side. By
partial results, for a long innermost summed axis: several interleaved results, combined at the end. Any commutative
reduction of any expression over any dtype; where there are several reductions in one value, the plain nest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.c.tiling.access import Access, accesses
from byoc.codegen.c.tiling.blocks import Chain, Places, at, block_of, chain_length, epilogue, in_chains
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.loops import Alloc, For, Stmt, Store
from byoc.codegen.kernel.reductions import combine, loops, neutral
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Index, PrimExpr, Tensor, cast, const, placeholder
from byoc.te.expr import INDEX, Reduce
from byoc.te.walk import unique_nodes

SMALLEST_WIDTH = 4
WIDEST = 64
PARTIALS = 16
SHORTEST_CHAIN = 64  # additions in float32 to one partial sum of a column


def lanes(nest: Nest, simplify: Simplifier) -> list[Stmt]:
    """The loop nest of *nest* by one of the two forms, or nothing where neither fits."""
    found = [n for n in unique_nodes(nest.value) if isinstance(n, Reduce)]
    if len(found) != 1 or found[0].kind.startswith("arg"):
        return []
    reduce = found[0]
    loads = accesses(reduce.body, (*nest.axes, *reduce.axes), simplify)
    column = nest.axes[-1] if nest.axes else None
    wide = column is not None and isinstance(column.extent, int) and column.extent >= SMALLEST_WIDTH
    if wide and _contiguous(loads, column):
        return _by_columns(nest, reduce)
    inner = reduce.axes[-1]
    if isinstance(inner.extent, int) and inner.extent >= 2 * PARTIALS and _contiguous(loads, inner):
        return _by_partials(nest, reduce)
    return _by_columns(nest, reduce) if wide else []


def _contiguous(loads: Sequence[Access], axis: Index | None) -> bool:
    return axis is not None and all(a.steps[axis] == 0 or a.steps[axis] == 1 for a in loads)


def _start(array: Tensor, kind: str) -> list[Stmt]:
    """Declare *array*, every element as a reduction over nothing."""
    x = Index("x", array.shape[0])
    return [Alloc(array), *loops([x], [Store(array, (x,), neutral(kind, array.dtype))])]


def _by_columns(nest: Nest, reduce: Reduce) -> list[Stmt]:
    column = nest.axes[-1]
    pieces = -(-int(column.extent) // WIDEST)
    block = block_of(column, -(-int(column.extent) // pieces))
    results = placeholder((block.count,), reduce.dtype, "results")
    x, y = Index("x", block.count), Index("x", block.count)

    def step(into: Tensor, where: Places) -> list[Stmt]:
        body = at(reduce.body, {column: block.start + x, **where})
        return loops([x], [Store(into, (x,), combine(reduce.kind, into[x], body))])

    def chain(where: Places, around: Chain) -> list[Stmt]:
        part, z = placeholder((block.count,), reduce.dtype, "part"), Index("x", block.count)
        total = Store(results, (z,), results[z] + part[z])
        return [*_start(part, reduce.kind), *around(step(part, where)), *loops([z], [total])]

    length = chain_length(reduce, SHORTEST_CHAIN)
    code = [
        *_start(results, reduce.kind),
        *(loops(reduce.axes, step(results, {})) if length is None else in_chains(reduce.axes, length, chain)),
        *loops([y], [epilogue(nest, reduce, results[y], {column: block.start + y})]),
    ]
    return loops(nest.axes[:-1], [block.over(code)])


def _by_partials(nest: Nest, reduce: Reduce) -> list[Stmt]:
    inner = reduce.axes[-1]
    extent = int(inner.extent)
    # a long sum in float32 would lose digits: numpy adds pairwise, we add in double
    wide = "float64" if reduce.kind == "sum" and reduce.dtype == "float32" else reduce.dtype
    partial = placeholder((PARTIALS,), wide, "partial")
    total = placeholder((), wide, "total")
    step, x = Index(inner.name, extent // PARTIALS), Index("x", PARTIALS)
    rest, y = Index(inner.name, extent % PARTIALS), Index("x", PARTIALS)

    def body(place: PrimExpr) -> PrimExpr:
        return cast(wide, at(reduce.body, {inner: place}))

    code = [
        *_start(partial, reduce.kind),
        *loops(
            [*reduce.axes[:-1], step, x],
            [Store(partial, (x,), combine(reduce.kind, partial[x], body(step * PARTIALS + x)))],
        ),
        Alloc(total, partial[const(0, INDEX)]),
        For(y, PARTIALS - 1, [Store(total, (), combine(reduce.kind, total[()], partial[y + 1]))]),
    ]
    if extent % PARTIALS:
        start = extent - extent % PARTIALS
        code += loops(
            [*reduce.axes[:-1], rest], [Store(total, (), combine(reduce.kind, total[()], body(rest + start)))]
        )
    return loops(nest.axes, [*code, epilogue(nest, reduce, cast(reduce.dtype, total[()]), {})])
