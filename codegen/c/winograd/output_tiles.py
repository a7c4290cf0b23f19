"""The sums of products back to pixels: ``A^T m A`` for a vector of filters at a time, then the stage's epilogue."""

from __future__ import annotations

from byoc.codegen.c.tiling.team import places_in
from byoc.codegen.c.winograd.lane_values import LaneValues, axes_of_tiles
from byoc.codegen.c.winograd.plan import WinogradPlan
from byoc.codegen.c.winograd.transforms import linear_forms, transforms
from byoc.codegen.kernel.loops import Alloc, For, If, Stmt, VectorStore
from byoc.codegen.kernel.reductions import loops
from byoc.te import Index, PrimExpr, Tensor, const, minimum, placeholder
from byoc.te.expr import INDEX, Reduce
from byoc.te.walk import map_expr, unique_nodes


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
        return [If(self.panel < last, self._pixels(plan.panel)), If(self.panel >= last, self._pixels(rest))]

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
