"""Sums over small windows that the product behind them computes as it fetches its operand: one launch instead of two.

A depthwise convolution, or a pool, whose only reader is a product in tiles that reads each of its elements once (a
1x1 convolution): the window is written out in the operand, so that the tensor between them is never in memory. Every
tile of rows computes the window again, so only products of few rows take one. Matrix units copy operands as they lie
in memory: where they multiply, the window stays a kernel.
"""

from __future__ import annotations

import itertools
import math

from byoc.codegen.kernel.expr_parts import loads_of, reduces_in
from byoc.codegen.kernel.inline import estimated_size, substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.reductions import combine, neutral
from byoc.codegen.kernel.rewrite_stages import with_body
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.kernel_plan import product
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.group_fusion import groups_joined, readers_of
from byoc.codegen.opencl.products.candidates import format_of
from byoc.codegen.opencl.products.shape import BlockProduct, tiled_product
from byoc.codegen.opencl.read_through import left_to_readers
from byoc.te import PrimExpr, Tensor, const, recurrence
from byoc.te.expr import INDEX, Reduce
from byoc.te.walk import checks_of, map_expr

KINDS = ("sum", "max", "min")
MOST_POINTS = 9  # of a window, which is written out
MOST_ROWS = 128  # of the product: each tile of them computes the window again (measured on an H100)


def compute_windows_in_products(program: Program, profile: DeviceProfile) -> Program:
    """*program* without the stages over small windows that products in tiles alone read."""
    if any(recurrence(group.stages) for group in program.groups):
        return program
    simplify = Simplifier()
    readers = readers_of(program)
    taken: dict[Tensor, Tensor] = {}

    def value(stage: Tensor, renamed: Tensor) -> Tensor | None:
        window = _window(renamed)
        if window is None or len(readers[stage]) != 1 or tiled_product(stage, simplify) is not None:
            return None
        (reader,) = readers[stage]
        p = tiled_product(reader, simplify)
        if p is None or format_of(p, profile) is not None or not _takes(p, stage, simplify):
            return None
        taken[reader] = stage
        return with_body(renamed, map_expr(renamed.element, lambda e: _written_out(window) if e is window else None))

    return groups_joined(left_to_readers(program, value), program, taken)


def _window(stage: Tensor) -> Reduce | None:
    """The only reduction of *stage*, where it goes over few points, whose number is known."""
    found = reduces_in(stage.element)
    if len(found) != 1 or found[0].kind not in KINDS or checks_of([stage.element]):
        return None
    extents = _extents(found[0])
    return found[0] if extents is not None and 0 < math.prod(extents) <= MOST_POINTS else None


def _extents(window: Reduce) -> list[int] | None:
    """The extents of the axes of *window*; None where one is free."""
    known = [a.extent for a in window.axes if isinstance(a.extent, int)]
    return known if len(known) == len(window.axes) else None


def _takes(p: BlockProduct, stage: Tensor, simplify: Simplifier) -> bool:
    """Whether *p* reads each element of *stage* once, as an operand, and has few lanes of the other one."""
    reading = [o for o in (p.left, p.right) if loads_of(o.value, stage)]
    if len(reading) != 1 or len(loads_of(p.nest.value, stage)) != 1:
        return False
    (operand,) = reading
    other = p.right if operand is p.left else p.left
    read = [a.extent for a in (*p.batch, *operand.lanes, *p.reduce.axes)]
    sizes = (simplify.polynomial(product(shape)).key() for shape in (read, stage.shape))
    return len(set(sizes)) == 1 and estimated_size([a.extent for a in other.lanes]) <= MOST_ROWS


def _written_out(window: Reduce) -> PrimExpr:
    """*window* without a reduction, its points in order."""
    value = neutral(window.kind, window.dtype)
    for point in itertools.product(*map(range, _extents(window) or ())):
        term = substitute_axes(window.body, window.axes, [const(k, INDEX) for k in point])
        value = combine(window.kind, value, term)
    return value
