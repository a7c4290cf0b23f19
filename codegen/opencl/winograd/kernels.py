"""The kernels of the two transforms: a work-item transforms a whole tile in its registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.winograd.transforms import Keep, Matrix, linear_forms, transforms
from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import Alloc, IfThenElse, LetStmt, Stmt, Store
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, OwnKernel, numbered
from byoc.codegen.opencl.device.statements import LOCAL_SIZE, WorkItem
from byoc.codegen.opencl.winograd.tiles import WinogradTiles, pixel
from byoc.te import Index, PrimExpr, Tensor, binary, placeholder
from byoc.te.walk import loaded_tensors, map_expr


class _Registers:
    """Statements that keep values in variables."""

    def __init__(self, name: str, dtype: str):
        self._name, self._dtype = name, dtype
        self.statements: list[Stmt] = []

    def keep(self, value: PrimExpr) -> PrimExpr:
        """A variable for *value*."""
        variable = placeholder((), self._dtype, f"{self._name}{len(self.statements)}")
        self.statements.append(Alloc(variable, value))
        return variable[()]


def _on_both_axes(matrix: Matrix, values: Sequence[Sequence[PrimExpr]], keep: Keep) -> list[list[PrimExpr]]:
    """``matrix @ values @ matrix^T``, by columns and then by rows."""
    columns = [[keep(v) for v in linear_forms(matrix, column, keep)] for column in zip(*values, strict=True)]
    return [linear_forms(matrix, row, keep) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class _Tile:
    """Where a tile is: its number, the image, and its first row and column of results, as variables of a kernel."""

    number: Index
    image: Index
    top: Index
    left: Index

    @staticmethod
    def of(plan: WinogradTiles) -> _Tile:
        down, across = plan.down * plan.outputs, plan.across * plan.outputs
        return _Tile(Index("tile", plan.tiles), Index("image", plan.batch), Index("top", down), Index("left", across))

    def lets(self, plan: WinogradTiles) -> list[Stmt]:
        """The variables of the place, once that of the number is there."""
        number = self.number
        return [
            LetStmt(self.image, number // (plan.down * plan.across)),
            LetStmt(self.top, number // plan.across % plan.down * plan.outputs),
            LetStmt(self.left, number % plan.across * plan.outputs),
        ]


@dataclass(frozen=True)
class InputTransform(OwnKernel):
    """A work-item a channel of a tile; neighbours have neighbouring tiles, whose results lie side by side."""

    plan: WinogradTiles

    def kernel(self, stage: Tensor, simplify: Simplifier) -> KernelPlan:
        """That of *stage*, which reads the image."""
        return _input_kernel(stage, self.plan, simplify)


@dataclass(frozen=True)
class OutputTransform(OwnKernel):
    """A work-item a filter of a tile, with what is done with each of its sums."""

    plan: WinogradTiles

    def kernel(self, stage: Tensor, simplify: Simplifier) -> KernelPlan:
        """That of *stage*, which reads the products and whatever it reads beside."""
        return _output_kernel(stage, self.plan, simplify)


def _input_kernel(stage: Tensor, plan: WinogradTiles, simplify: Simplifier) -> KernelPlan:
    (image,) = loaded_tensors(stage.element)
    tile, channel = _Tile.of(plan), Index("channel", plan.channels)
    item, axes = numbered("item", [channel, tile.number], simplify)
    registers = _Registers("t", stage.dtype)

    def value(i: int, j: int) -> PrimExpr:
        place = tile.top + (i + plan.offsets[0]), tile.left + (j + plan.offsets[1])
        return registers.keep(pixel(image, (tile.image, channel, *place)))

    side = range(plan.size)
    results = _on_both_axes(transforms(plan.outputs).input, [[value(i, j) for j in side] for i in side], registers.keep)
    stores = [
        Store(stage, (as_index(i * plan.size + j), channel, tile.number), results[i][j]) for i in side for j in side
    ]
    code = [WorkItem(item, LOCAL_SIZE), *axes, *tile.lets(plan), *registers.statements, *stores]
    return KernelPlan("winograd_tiles", code, as_index(item.extent), local=LOCAL_SIZE)


def _output_kernel(stage: Tensor, plan: WinogradTiles, simplify: Simplifier) -> KernelPlan:
    (total,) = reduces_in(stage.element)
    (products,) = loaded_tensors(total)
    tile, filter = _Tile.of(plan), Index("filter", plan.filters)
    item, axes = numbered("item", [filter, tile.number], simplify)
    registers = _Registers("m", stage.dtype)

    def value(i: int, j: int) -> PrimExpr:
        return registers.keep(products[as_index(i * plan.size + j), filter, tile.number])

    side = range(plan.size)
    results = _on_both_axes(
        transforms(plan.outputs).inverse, [[value(i, j) for j in side] for i in side], registers.keep
    )
    code: list[Stmt] = [WorkItem(item, LOCAL_SIZE), *axes, *tile.lets(plan), *registers.statements]
    for i, values in enumerate(results):
        row = Index(f"y{i}", plan.height)
        inner: list[Stmt] = [LetStmt(row, tile.top + i)]
        for j, result in enumerate(values):
            column, sums = Index(f"x{i}_{j}", plan.width), placeholder((), stage.dtype, f"sum{i}_{j}")
            body = _with_sum(stage.element, total, sums[()])
            place = [tile.image, filter, row, column]
            store = Store(stage, place, substitute_axes(body, stage.axes, place))
            lines = [LetStmt(column, tile.left + j), Alloc(sums, result), store]
            inner += _where_inside(tile.left + j, plan.width, j, plan.outputs, lines)
        code += _where_inside(tile.top + i, plan.height, i, plan.outputs, inner)
    return KernelPlan("winograd_outputs", code, as_index(item.extent), local=LOCAL_SIZE)


def _with_sum(value: PrimExpr, total: PrimExpr, result: PrimExpr) -> PrimExpr:
    """*value* with *result* in the place of its sum *total*."""
    return map_expr(value, lambda e: result if e is total else None)


def _where_inside(place: PrimExpr, extent: int, number: int, outputs: int, body: list[Stmt]) -> list[Stmt]:
    """*body*, for result *number* along one side of a tile, where its *place* is inside of the image."""
    rest = extent % outputs
    return [IfThenElse(binary("lt", place, extent), body)] if 0 < rest <= number else body
