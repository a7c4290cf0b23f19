"""The loops of a convolution by Winograd's method.

For each chunk of tiles of the image: the tiles are transformed, vectors along channels, into ``points`` matrices
[tiles, channels], where that was not done before by a stage of its own; then for each panel of filters there is one
product of matrices a point in register tiles, whose results are transformed back tile by tile and stored through the
epilogue.
Every element is stored by one thread, its terms added in the same order whatever the team.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.c.tiling.team import shared_over
from byoc.codegen.c.winograd.sizes import INPUT, META, OUTPUT, PAD, WEIGHTS, WinogradPlan
from byoc.codegen.c.winograd.tiles import InputTiles, OutputTiles, outer_sum
from byoc.codegen.kernel.loops import Alloc, For, IfThenElse, Prefetch, Stmt, VectorStore
from byoc.codegen.kernel.reductions import loops
from byoc.codegen.kernel.simplify import Simplifier
from byoc.errors import InternalError
from byoc.te import Index, PrimExpr, Tensor, const, minimum, placeholder
from byoc.te.expr import INDEX, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import unique_nodes

NEAR = 1 << 19  # bytes of weights that stay in a cache near to the core, with all else that is in use
AHEAD = 2048  # elements: how far the weights of a larger convolution are fetched ahead, over several pages' starts


def winograd(stage: Tensor, simplify: Simplifier) -> list[Stmt]:
    """The statements that fill the buffer of *stage*, shared among the team; nothing for a stage of another kind."""
    plan = stage.meta.get(META)
    if not isinstance(plan, WinogradPlan):
        return []
    rule = {INPUT: _input_statements, OUTPUT: _output_statements}[stage.tag]
    return rule(stage, plan, simplify)


def _input_statements(stage: Tensor, plan: WinogradPlan, simplify: Simplifier) -> list[Stmt]:
    """All tiles, each by one thread."""
    tile = Index("tile", plan.tiles)
    place = stage.axes[1]

    def places(n: PrimExpr, row: PrimExpr, column: PrimExpr, channel: PrimExpr) -> dict[Index, PrimExpr]:
        return {place: ((n * plan.down + row) * plan.across + column) * plan.channels + channel}

    tiles = InputTiles(plan, _pixels(stage), places, simplify)
    return shared_over([tile], tiles.statements(tile, stage, tile))


def _pixels(stage: Tensor) -> Reduce:
    """The sum over the inputs of a tile in the expression of *stage*."""
    found = [n for n in unique_nodes(stage.element) if isinstance(n, Reduce) and len(n.axes) == 2]
    if len(found) != 1:
        raise InternalError(f"{stage.name} has no transform of an image")
    return found[0]


def _output_statements(stage: Tensor, plan: WinogradPlan, simplify: Simplifier) -> list[Stmt]:
    return _Output(stage, plan, simplify).statements()


class _Output:
    """The products, and the transform back."""

    def __init__(self, stage: Tensor, plan: WinogradPlan, simplify: Simplifier):
        self.stage, self.plan, self.simplify = stage, plan, simplify
        loads = [n.tensor for n in unique_nodes(stage.element) if isinstance(n, Load)]
        self.weights = next(t for t in loads if t.tag == WEIGHTS)
        self.panel, self.chunk = Index("panel", plan.panels), Index("chunk", plan.chunks)
        self.sums = placeholder((plan.points, plan.together, plan.panel), stage.dtype, "products")
        if plan.stored:
            self.inputs = next(t for t in loads if t.tag == INPUT)
        else:
            shape = (plan.points, plan.together * plan.channels + PAD)
            self.inputs = placeholder(shape, stage.dtype, "tiles")

    def statements(self) -> list[Stmt]:
        """Parts to share: chunks where each transforms its own tiles, else panels of filters and in these chunks."""
        if self.plan.stored:
            return [Alloc(self.sums), *shared_over([self.panel, self.chunk], self._panel())]
        body = [*self._transform(), *loops([self.panel], self._panel())]
        return [Alloc(self.inputs), Alloc(self.sums), *shared_over([self.chunk], body)]

    @property
    def first(self) -> PrimExpr:
        """The first tile of the chunk."""
        return self.chunk * (self.plan.blocks * self.plan.rows)

    def _count(self) -> PrimExpr | int:
        """The tiles of the chunk."""
        plan = self.plan
        if isinstance(plan.chunks, int) and plan.chunks * plan.together == plan.tiles:
            return plan.together
        return minimum(const(plan.together, INDEX), plan.tiles - self.first)

    def _transform(self) -> list[Stmt]:
        tile = Index("tile", self.plan.together)
        n, y, x, _ = self.stage.axes
        outputs, summed = self.plan.outputs, outer_sum(self.stage.element).axes[-1]

        def places(image: PrimExpr, row: PrimExpr, column: PrimExpr, channel: PrimExpr) -> dict[Index, PrimExpr]:
            return {n: image, y: row * outputs, x: column * outputs, summed: channel}

        tiles = InputTiles(self.plan, _pixels(self.stage), places, self.simplify)
        return [For(tile, self._count(), tiles.statements(self.first + tile, self.inputs, tile))]

    def _panel(self) -> list[Stmt]:
        """One panel of filters: all products, then the tiles back."""
        tile = Index("tile", self.plan.together)
        back = OutputTiles(self.plan, self.stage, self.sums, self.panel)
        return [*self._products(), For(tile, self._count(), back.statements(self.first + tile, tile))]

    def _products(self) -> list[Stmt]:
        """For each point the rows of the chunk: whole blocks of them, and in the last chunk what remains."""
        plan = self.plan
        point, block = Index("point", plan.points), Index("block", plan.blocks)
        if not isinstance(plan.tiles, int) or not isinstance(plan.chunks, int):  # of a free batch all are whole
            whole_rows = (plan.tiles + (plan.rows - 1)) // plan.rows - self.chunk * plan.blocks
            counted = minimum(const(plan.blocks, INDEX), whole_rows) if plan.blocks > 1 else 1
            return loops([point], [For(block, counted, self._product(point, block * plan.rows, plan.rows))])
        whole, rest = divmod(plan.tiles, plan.rows)
        body: list[Stmt] = []
        if whole:
            count: PrimExpr | int = min(plan.blocks, whole)
            if plan.chunks > 1 and whole != plan.chunks * plan.blocks:
                count = minimum(const(plan.blocks, INDEX), whole - self.chunk * plan.blocks)
            body.append(For(block, count, self._product(point, block * plan.rows, plan.rows)))
        if rest:
            last = const((plan.chunks - 1) * plan.blocks * plan.rows, INDEX)
            begin = const(whole * plan.rows, INDEX) - last
            remaining = self._product(point, begin, rest)
            body += (
                remaining
                if plan.chunks == 1
                else [IfThenElse(self.chunk.equal(const(plan.chunks - 1, INDEX)), remaining)]
            )
        return loops([point], body)

    def _product(self, point: Index, begin: PrimExpr, rows: int) -> list[Stmt]:
        """The product of *rows* rows from *begin* on with the panel."""
        plan, dtype = self.plan, self.stage.dtype
        lane, channel = Index("lane", plan.lanes), Index("channel", plan.channels)
        sums = {
            (r, v): placeholder((plan.lanes,), dtype, f"sum_{r}_{v}") for r in range(rows) for v in range(plan.vectors)
        }
        columns = [placeholder((plan.lanes,), dtype, f"weights_{v}") for v in range(plan.vectors)]
        terms = self._columns(point, channel, columns, lane)
        first = begin + self.first if plan.stored else begin
        for r in range(rows):
            pixel = placeholder((), dtype, f"tile_{r}")
            terms.append(Alloc(pixel, self.inputs[point, (first + r) * plan.channels + channel]))
            for v, column in enumerate(columns):
                total = sums[r, v]
                terms.append(VectorStore(total, (lane,), total[lane] + pixel[()] * column[lane], lane))
        return [
            *(Alloc(t, const(0, dtype), vector=True) for t in sums.values()),
            For(channel, plan.channels, terms),
            *(
                VectorStore(self.sums, (point, begin + r, lane + v * plan.lanes), t[lane], lane)
                for (r, v), t in sums.items()
            ),
        ]

    def _columns(self, point: Index, channel: Index, columns: Sequence[Tensor], lane: Index) -> list[Stmt]:
        """The weights of one channel; large ones are fetched ahead."""
        lanes, code = self.plan.lanes, list[Stmt]()
        for v, column in enumerate(columns):
            value = self.weights[self.panel, point, channel, lane + v * lanes]
            code.append(Alloc(column, value, vector=True, lane=lane, held=self.plan.rows > 1))
            if self.plan.weight_bytes > NEAR:
                code.append(Prefetch(self.weights, (self.panel, point, channel, const(v * lanes + AHEAD, INDEX))))
        return code
