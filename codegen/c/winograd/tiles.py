"""Winograd's tiles: of the image transformed, ``B^T d B``, and the sums of products back to pixels, ``A^T m A``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from byoc.codegen.c.tiling.blocks import at
from byoc.codegen.c.tiling.team import places_in
from byoc.codegen.c.winograd.lane_values import LaneValues, axes_of_tiles, let
from byoc.codegen.c.winograd.sizes import WinogradPlan
from byoc.codegen.c.winograd.transforms import linear_forms, transforms
from byoc.codegen.kernel.loops import Alloc, For, IfThenElse, Stmt, VectorStore
from byoc.codegen.kernel.reductions import loops
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Index, PrimExpr, Tensor, all_of, compute, const, logical_not, minimum, placeholder
from byoc.te.evaluate import evaluate
from byoc.te.expr import INDEX, Binary, Const, Reduce, Select
from byoc.te.walk import map_expr, unique_nodes

# Tiles of the image transformed, ``B^T d B``, a vector of channels at a time. Tiles inside the image are loaded as they
# lie; one at a border has zeros outside.

# (image, row and column of the tile, channel) -> the axes of the stage at that place
Places = Callable[[PrimExpr, PrimExpr, PrimExpr, PrimExpr], dict[Index, PrimExpr]]


class InputTiles:
    """The transform of tiles; *pixels* is its sum in the stage's expression, of factors times a pixel."""

    def __init__(self, plan: WinogradPlan, pixels: Reduce, places: Places, simplify: Simplifier):
        self.plan, self.places, self.simplify = plan, places, simplify
        assert isinstance(pixels.body, Binary)
        self.taps, self.pixel = pixels.axes, pixels.body.right
        self.n, self.row, self.column = axes_of_tiles(plan)
        lanes = plan.lanes
        while lanes > plan.channels:
            lanes //= 2
        self.lane = Index("lane", lanes)
        self.channel = Index("channel", plan.channels - lanes + 1)  # of lane 0

    def statements(self, tile: PrimExpr, target: Tensor, place: PrimExpr) -> list[Stmt]:
        """Tile *tile* of the image into ``target[point, place * channels + channel]``."""
        plan, lanes = self.plan, int(self.lane.extent)
        block = Index("channel_block", -(-plan.channels // lanes))
        start: PrimExpr = block * lanes
        if plan.channels % lanes:  # the last vector overlaps the one before
            start = minimum(start, plan.channels - lanes)
        inside, border = (
            [For(block, block.extent, [*let(self.channel, start), *self._transform(target, place, guarded)])]
            for guarded in (False, True)
        )
        position = places_in((self.n, self.row, self.column), tile)
        here = self._is_inside
        if isinstance(here, Const):
            return [*position, *(inside if here.value else border)]
        return [*position, IfThenElse(here, inside), IfThenElse(logical_not(here), border)]

    def _transform(self, target: Tensor, place: PrimExpr, guarded: bool) -> list[Stmt]:
        """One vector of channels: the columns of the tile first, then the rows of what comes out."""
        size = self.plan.size
        matrix = transforms(self.plan.outputs).input
        values = LaneValues(self.lane, target.dtype)
        columns = []
        for j in range(size):
            pixels = [self._load(values, i, j, guarded)[self.lane] for i in range(size)]
            forms = linear_forms(matrix, pixels, values.keep)
            columns.append([values.declare(f"row_{i}_{j}", form)[self.lane] for i, form in enumerate(forms)])
        for i in range(size):
            for j, form in enumerate(linear_forms(matrix, [column[i] for column in columns], values.keep)):
                point = const(i * size + j, INDEX)
                index = place * self.plan.channels + (self.channel + self.lane)
                values.code.append(VectorStore(target, (point, index), form, self.lane))
        return values.code

    def _load(self, values: LaneValues, i: int, j: int, guarded: bool) -> Tensor:
        """A variable with pixel (*i*, *j*) of the tile."""
        condition, value = self.pixels[i, j]
        if not guarded or (isinstance(condition, Const) and condition.value):
            return values.declare(f"pixel_{i}", value)
        pixel = values.declare(f"pixel_{i}", None)
        values.code.append(IfThenElse(condition, [VectorStore(pixel, (self.lane,), value, self.lane)]))
        return pixel

    @cached_property
    def pixels(self) -> dict[tuple[int, int], tuple[PrimExpr, PrimExpr]]:
        """Where each pixel of a tile exists, and its value there."""
        found = {}
        axes = self.places(self.n, self.row, self.column, self.channel + self.lane)
        for i in range(self.plan.size):
            for j in range(self.plan.size):
                places = {**axes, self.taps[0]: const(i, INDEX), self.taps[1]: const(j, INDEX)}
                value = self.simplify(at(self.pixel, places))
                conditions = []
                while isinstance(value, Select):
                    conditions.append(value.cond)
                    value = value.then
                found[i, j] = all_of(*conditions), value
        return found

    @cached_property
    def _is_inside(self) -> PrimExpr:
        """Whether the tile has all its pixels."""
        shape = (self.plan.down, self.plan.across)
        inside: np.ndarray = np.ones(shape, bool)
        for condition, _ in self.pixels.values():

            def element(row: Index, column: Index, condition: PrimExpr = condition) -> PrimExpr:
                return at(condition, {self.row: row, self.column: column})

            inside = inside & evaluate(compute(shape, element), {})
        rows, columns = np.nonzero(inside.any(axis=1))[0], np.nonzero(inside.any(axis=0))[0]
        if not inside.any() or inside.sum() != len(rows) * len(columns):
            return const(False, "bool")
        return self.simplify(
            all_of(
                self.row >= int(rows[0]),
                self.row <= int(rows[-1]),
                self.column >= int(columns[0]),
                self.column <= int(columns[-1]),
            )
        )


class OutputTiles:
    """The pixels of *stage* at one *panel* of filters from ``sums[point, tile, filter]``."""

    def __init__(self, plan: WinogradPlan, stage: Tensor, sums: Tensor, panel: Index):
        self.plan, self.stage, self.sums, self.panel = plan, stage, sums, panel
        self.n, self.row, self.column = axes_of_tiles(plan)
        self.pixels = placeholder((plan.outputs, plan.outputs, plan.panel), stage.dtype, "pixels")

    def statements(self, tile: PrimExpr, place: Index) -> list[Stmt]:
        """Tile *tile* of the image from ``sums[:, place]``."""
        plan = self.plan
        vector = Index("vector", plan.vectors)
        return [
            *places_in((self.n, self.row, self.column), tile),
            Alloc(self.pixels),
            *loops([vector], self._transform(place, vector)),
            *self._store(),
        ]

    def _transform(self, place: Index, vector: Index) -> list[Stmt]:
        """One vector of filters: the columns of the products first, then the rows of what comes out."""
        plan, lane = self.plan, Index("lane", self.plan.lanes)
        matrix = transforms(plan.outputs).inverse
        values = LaneValues(lane, self.stage.dtype)
        columns = []
        for j in range(plan.size):
            points = [const(i * plan.size + j, INDEX) for i in range(plan.size)]
            loads = [values.keep(self.sums[p, place, vector * plan.lanes + lane]) for p in points]
            forms = linear_forms(matrix, loads, values.keep)
            columns.append([values.declare(f"row_{i}_{j}", form)[lane] for i, form in enumerate(forms)])
        for i in range(plan.outputs):
            for j, form in enumerate(linear_forms(matrix, [column[i] for column in columns], values.keep)):
                index = (const(i, INDEX), const(j, INDEX), vector * plan.lanes + lane)
                values.code.append(VectorStore(self.pixels, index, form, lane))
        return values.code

    def _store(self) -> list[Stmt]:
        """What lies inside the image, through the epilogue: whole vectors, and at the end what there is."""
        plan = self.plan
        last, rest = divmod(plan.filters, plan.panel)
        if not rest:
            return self._pixels(plan.panel)
        if not last:
            return self._pixels(rest)
        return [
            IfThenElse(self.panel < last, self._pixels(plan.panel)),
            IfThenElse(self.panel >= last, self._pixels(rest)),
        ]

    def _pixels(self, valid: int) -> list[Stmt]:
        """The pixels of a tile at the first *valid* filters of the panel."""
        plan, lane = self.plan, Index("lane", self.plan.lanes)
        y, x = Index("y", plan.outputs), Index("x", plan.outputs)
        row, column = self.row * plan.outputs + y, self.column * plan.outputs + x
        reduce = outer_sum(self.stage.element)
        body: list[Stmt] = []
        for v in range(-(-valid // plan.lanes)):
            place = v * plan.lanes + lane
            places = (self.n, row, column, self.panel * plan.panel + place)
            table: dict[PrimExpr, PrimExpr] = {reduce: self.pixels[y, x, place]}
            table.update(zip(self.stage.axes, places, strict=True))
            value = map_expr(self.stage.element, table.get)
            count = min(valid - v * plan.lanes, plan.lanes)
            body.append(VectorStore(self.stage, places, value, lane, count if count < plan.lanes else None))
        for index, total, tile in ((x, plan.width, self.column), (y, plan.height, self.row)):
            bound: int | PrimExpr = plan.outputs
            if total % plan.outputs:
                bound = minimum(const(plan.outputs, INDEX), total - tile * plan.outputs)
            body = [For(index, bound, body)]
        return body


def outer_sum(body: PrimExpr) -> Reduce:
    """The sum over points and channels in the expression of a stage."""
    return next(n for n in unique_nodes(body) if isinstance(n, Reduce) and len(n.axes) == 3)
