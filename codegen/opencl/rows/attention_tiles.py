"""Attention in one kernel on a GPU: a work-group for a block of rows, which goes over the keys block by block.

Queries, keys, values and weights of a block lie in local memory; each work-item has a tile of scores and a tile of
results in registers, of the same rows. Of each row the greatest score so far, the sum of the powers, and the sums of
values that these weigh are kept; where a block raises the greatest score, what was summed is multiplied by the power of
the difference. The greatest score begins at the least number, not at minus infinity, so that keys whose scores are
minus infinity add nothing; where no key adds anything, the sum is the NaN that a softmax over these scores is. Source:
Milakov & Gimelshein 2018, algorithm 3; Dao et al. 2022, FlashAttention, algorithm 1.

Rows, columns and keys that do not exist are zeros in local memory, and are never loaded nor stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from byoc.codegen.kernel.attention import Attention
from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.loops import Stmt
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.choosing import STEP_PENALTY, Ranked, roughly
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, numbered
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.rows.row_statements import OwnText, RowWriter
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, binary
from byoc.te.expr import Const
from byoc.te.tensor import Load
from byoc.te.walk import mentions, unique_nodes

KIND = "attention"  # of schedules and choices
ACROSS, DOWN = 8, 16  # work-items of a group, along the keys and the columns, and along the rows
TILES = ((4, 4), (2, 4), (2, 2), (1, 2), (1, 1))  # rows and keys of a work-item, the largest that fits is taken
_WORDS = "lane tx ty blocks first start queries keys values weights tops kept scores totals sums i j r c d e".split()
LARGEST_LOCAL = 48 << 10  # bytes: what a kernel may have on every GPU that says that it has more
MOST_RESULTS = 64  # of a work-item, in registers
ENOUGH_GROUPS = 4  # for each unit; smaller blocks of rows are taken until there are as many


@dataclass(frozen=True)
class TileSizes:
    """How many *rows* and *keys* a work-item has, and *columns*, of which some may not exist."""

    rows: int
    keys: int
    columns: int
    depth: int

    @property
    def block(self) -> int:
        """The rows of a group."""
        return self.rows * DOWN

    @property
    def step(self) -> int:
        """The keys that a group takes at a time."""
        return self.keys * ACROSS

    @property
    def width(self) -> int:
        """The columns of a group, those too that do not exist."""
        return self.columns * ACROSS

    def bytes(self, dtype: str) -> int:
        """The local memory that a group needs."""
        tiles = (self.block + self.step) * (self.depth + 1) + self.step * self.width + self.block * (self.step + 1)
        return (tiles + 2 * self.block) * dtype_bytes(dtype)


def fitting_tiles(found: Attention, profile: DeviceProfile, simplify: Simplifier) -> list[TileSizes]:
    """The tiles of *found* that a device can launch, the largest first."""
    depth = int(found.depth.extent)
    column, _ = numbered("column", found.columns, simplify)
    columns = -(-int(_number(column, simplify) or 1) // ACROSS)
    room = min(profile.local_memory, LARGEST_LOCAL)
    if profile.max_group < ACROSS * DOWN:
        return []
    made = [TileSizes(rows, keys, columns, depth) for rows, keys in TILES if rows * columns <= MOST_RESULTS]
    return [t for t in made if t.bytes(found.total.dtype) <= room]


def tile_sizes(found: Attention, profile: DeviceProfile, simplify: Simplifier) -> TileSizes | None:
    """The tiles of *found*; None where the least are too large, or a group of work-items is."""
    fitting = fitting_tiles(found, profile, simplify)
    row, _ = numbered("row", found.rows, simplify)
    batch, _ = numbered("batch", found.batch, simplify)
    count, batches = _number(row, simplify), _number(batch, simplify)
    for tiles in fitting:
        if count is not None and tiles.block >= 2 * count and tiles is not fitting[-1]:
            continue  # most of its rows would not exist
        if count is None or batches is None or -(-count // tiles.block) * batches >= ENOUGH_GROUPS * profile.units:
            return tiles
    return fitting[-1] if fitting else None


def attention_space(found: Attention, profile: DeviceProfile, simplify: Simplifier) -> Ranked:
    """Every tile of *found*, the model's first."""
    fitting, expected = fitting_tiles(found, profile, simplify), tile_sizes(found, profile, simplify)
    if expected is None:
        return []
    base, own = roughly(found.stages, profile), fitting.index(expected)
    steps = {t: abs(k - own) for k, t in enumerate(fitting)}
    order = sorted(fitting, key=lambda t: steps[t])
    return [(base * (1 + STEP_PENALTY * steps[t]), Choice.of(KIND, rows=t.rows, keys=t.keys)) for t in order]


def _number(axis: Index, simplify: Simplifier) -> int | None:
    extent = simplify(as_index(axis.extent))
    return int(extent.value) if isinstance(extent, Const) else None


def tiled_attention(found: Attention, tiles: TileSizes, simplify: Simplifier) -> KernelPlan:
    """The kernel of *found* on a GPU."""
    row, _ = numbered("row", found.rows, simplify)
    batch, _ = numbered("batch", found.batch, simplify)
    blocks = binary("div", as_index(row.extent) + (tiles.block - 1), tiles.block)
    extent = simplify(binary("mul", blocks, as_index(batch.extent)))
    return KernelPlan(KIND, [TiledAttention(found, tiles)], extent, groups=True, items=ACROSS * DOWN)


@dataclass(frozen=True, eq=False)
class TiledAttention(OwnText):
    """The whole kernel."""

    found: Attention
    tiles: TileSizes

    def write(self, writer: RowWriter) -> None:
        _Tiled(self.found, self.tiles, writer).write()


class _Tiled:
    def __init__(self, found: Attention, tiles: TileSizes, to: RowWriter):
        self.found, self.tiles, self.to = found, tiles, to
        self.line, self.block = to.writer.line, to.writer.block
        self.dtype = found.total.dtype
        self.ctype = to.exprs.language.types[self.dtype]
        simplify = to.exprs.simplify
        self.batch, self.batch_lets = numbered("batch", found.batch, simplify)
        self.row, self.row_lets = numbered("row", found.rows, simplify)
        self.column, self.column_lets = numbered("column", found.columns, simplify)
        self.name = {word: to.exprs.names.fresh(word) for word in _WORDS}

    def write(self) -> None:
        """The lines of the kernel."""
        t, n, line = self.tiles, self.name, self.line
        rows, kind = self.to.extent(self.row), self.to.index_type
        line(f"const int {n['lane']} = get_local_id(0);")
        line(f"const int {n['tx']} = {n['lane']} % {ACROSS};")
        line(f"const int {n['ty']} = {n['lane']} / {ACROSS};")
        line(f"const {kind} {n['blocks']} = ({rows} + {t.block - 1}) / {t.block};")
        self.to.declare(self.batch, f"get_group_id(0) / {n['blocks']}")
        line(f"const {kind} {n['first']} = get_group_id(0) % {n['blocks']} * {t.block};")
        self.to.block(self.batch_lets)
        for word, count in (
            ("queries", t.block * (t.depth + 1)),
            ("keys", t.step * (t.depth + 1)),
            ("values", t.step * t.width),
            ("weights", t.block * (t.step + 1)),
            ("tops", t.block),
            ("kept", t.block),
        ):
            line(f"__local {self.ctype} {n[word]}[{count}];")
        for word, count in (("scores", t.rows * t.keys), ("totals", t.rows * t.columns), ("sums", t.rows)):
            line(f"{self.ctype} {n[word]}[{count}];")
        self._begin()
        length = self.to.extent(self.found.key)
        with self.block(f"for ({kind} {n['start']} = 0; {n['start']} < {length}; {n['start']} += {t.step}) {{"):
            self._stage_keys(length)
            self._scores(length, rows)
            self._raise_tops()
            self._weights(length, rows)
            self._add_values()
        self._finish(rows)

    def _begin(self) -> None:
        """Queries into local memory, sums at zero."""
        t, n = self.tiles, self.name
        least = self._literal(float(np.finfo(self.dtype).min))
        place = f"{n['queries']}[{n['r']} * {t.depth + 1} + {n['d']}]"
        with self._dealt(t.block, t.depth, "r d", self._steps(self.found.query, self.row, self.found.depth)):
            self.to.declare(self.row, f"{n['first']} + {n['r']}")
            self.to.declare(self.found.depth, n["d"])
            self._guarded(
                f"{self.to.index(self.row)} < {self.to.extent(self.row)}", self.row_lets, place, self.found.query
            )
        with self.block(f"if ({n['lane']} < {t.block}) {{"):
            self.line(f"{n['tops']}[{n['lane']}] = {least};")
        for word, count in (("totals", t.rows * t.columns), ("sums", t.rows)):
            self._filled(word, count, f"= {self._literal(0.0)}")

    def _stage_keys(self, length: str) -> None:
        """One block of keys and values into local memory, once nobody reads the one before."""
        t, n, found = self.tiles, self.name, self.found
        self._barrier()
        inside = f"{self.to.index(found.key)} < {length}"
        with self._dealt(t.step, t.depth, "c d", self._steps(found.keyed, found.key, found.depth)):
            self.to.declare(found.key, f"{n['start']} + {n['c']}")
            self.to.declare(found.depth, n["d"])
            self._guarded(inside, [], f"{n['keys']}[{n['c']} * {t.depth + 1} + {n['d']}]", found.keyed)
        last = found.columns[-1] if found.columns else self.column
        with self._dealt(t.step, t.width, "c e", self._steps(found.column, found.key, last)):
            self.to.declare(found.key, f"{n['start']} + {n['c']}")
            self.to.declare(self.column, n["e"])
            exists = f"{inside} && {self.to.index(self.column)} < {self.to.extent(self.column)}"
            self._guarded(exists, self.column_lets, f"{n['values']}[{n['c']} * {t.width} + {n['e']}]", found.column)
        self._barrier()

    def _scores(self, length: str, rows: str) -> None:
        """The tile of scores of each work-item, in registers and for the others in local memory."""
        t, n, found = self.tiles, self.name, self.found
        self._filled("scores", t.rows * t.keys, f"= {self._literal(0.0)}")
        with self.block(f"for (int {n['d']} = 0; {n['d']} < {t.depth}; ++{n['d']}) {{"):
            for k in range(t.rows):
                place = f"({n['ty']} * {t.rows} + {k}) * {t.depth + 1} + {n['d']}"
                self.line(f"const {self.ctype} q{k}_ = {n['queries']}[{place}];")
            for k in range(t.keys):
                place = f"({n['tx']} + {k * ACROSS}) * {t.depth + 1} + {n['d']}"
                self.line(f"const {self.ctype} k{k}_ = {n['keys']}[{place}];")
            for i in range(t.rows):
                for j in range(t.keys):
                    self._step(f"{n['scores']}[{i * t.keys + j}]", f"q{i}_", f"k{j}_")
        with self._tile(t.keys):
            own = f"{n['scores']}[{n['i']} * {t.keys} + {n['j']}]"
            self.to.declare(self.row, f"{n['first']} + {n['ty']} * {t.rows} + {n['i']}")
            self.to.declare(found.key, f"{n['start']} + {n['tx']} + {n['j']} * {ACROSS}")
            self.line(f"{self.ctype} score_ = {self._literal(-np.inf)};")
            with self.block(f"if ({self.to.index(self.row)} < {rows} && {self.to.index(found.key)} < {length}) {{"):
                self.to.block(self.row_lets)
                self._scalar(found.dot, own)
                self.line(f"score_ = {self.to.value(found.score)};")
            self.line(f"{own} = score_;")
            self.line(f"{self._weight_place()} = score_;")
        self._barrier()

    def _raise_tops(self) -> None:
        t, n = self.tiles, self.name
        with self.block(f"if ({n['lane']} < {t.block}) {{"):
            self.line(f"{self.ctype} top_ = {n['tops']}[{n['lane']}];")
            with self.block(f"for (int {n['c']} = 0; {n['c']} < {t.step}; ++{n['c']}) {{"):
                score = f"{n['weights']}[{n['lane']} * {t.step + 1} + {n['c']}]"
                self.line(f"top_ = {self.to.exprs.call('max', self.dtype, 'top_', score)};")
            self.line(f"{n['kept']}[{n['lane']}] = exp({n['tops']}[{n['lane']}] - top_);")
            self.line(f"{n['tops']}[{n['lane']}] = top_;")
        self._barrier()

    def _weights(self, length: str, rows: str) -> None:
        """The powers, their sums of this work-item's keys, and the weights in local memory."""
        t, n, found = self.tiles, self.name, self.found
        row = f"{n['ty']} * {t.rows} + {n['i']}"
        self._filled("sums", t.rows, f"*= {n['kept']}[{row}]")
        with self._tile(t.keys):
            self._scalar(found.power, f"exp({n['scores']}[{n['i']} * {t.keys} + {n['j']}] - {n['tops']}[{row}])")
            self.line(f"{n['sums']}[{n['i']}] += {self.to.value(found.power[()])};")
            if isinstance(found.weight, Load) and found.weight.tensor is found.power:
                self.line(f"{self._weight_place()} = {self.to.value(found.weight)};")
            else:
                self.to.declare(self.row, f"{n['first']} + {row}")
                self.to.declare(found.key, f"{n['start']} + {n['tx']} + {n['j']} * {ACROSS}")
                inside = (
                    f"{self.to.index(self.row)} < {self.to.extent(self.row)} && {self.to.index(found.key)} < {length}"
                )
                self._guarded(inside, self.row_lets, self._weight_place(), found.weight)
        self._barrier()

    def _add_values(self) -> None:
        t, n = self.tiles, self.name
        with self._tile(t.columns):
            self.line(
                f"{n['totals']}[{n['i']} * {t.columns} + {n['j']}] *= {n['kept']}[{n['ty']} * {t.rows} + {n['i']}];"
            )
        with self.block(f"for (int {n['c']} = 0; {n['c']} < {t.step}; ++{n['c']}) {{"):
            for i in range(t.rows):
                place = f"({n['ty']} * {t.rows} + {i}) * {t.step + 1} + {n['c']}"
                self.line(f"const {self.ctype} w{i}_ = {n['weights']}[{place}];")
            for j in range(t.columns):
                self.line(f"const {self.ctype} v{j}_ = {n['values']}[{n['c']} * {t.width} + {n['tx']} + {j * ACROSS}];")
                for i in range(t.rows):
                    self._step(f"{n['totals']}[{i * t.columns + j}]", f"w{i}_", f"v{j}_")

    def _finish(self, rows: str) -> None:
        """The sums of whole rows, and what is made of them."""
        t, n, found = self.tiles, self.name, self.found
        row = f"{n['ty']} * {t.rows} + {n['i']}"
        self._barrier()
        with self._unrolled("i", t.rows):
            self.line(f"{n['weights']}[({row}) * {t.step + 1} + {n['tx']}] = {n['sums']}[{n['i']}];")
        self._barrier()
        with self.block(f"for (int {n['i']} = 0; {n['i']} < {t.rows}; ++{n['i']}) {{"):
            self.to.declare(self.row, f"{n['first']} + {row}")
            with self.block(f"if ({self.to.index(self.row)} < {rows}) {{"):
                self.line(f"{self.ctype} whole_ = {self._literal(0.0)};")
                with self.block(f"for (int {n['c']} = 0; {n['c']} < {ACROSS}; ++{n['c']}) {{"):
                    self.line(f"whole_ += {n['weights']}[({row}) * {t.step + 1} + {n['c']}];")
                self._scalar(found.sum, f"whole_ == {self._literal(0.0)} ? {self._literal(np.nan)} : whole_")
                self.to.block(self.row_lets)
                with self._unrolled("j", t.columns):
                    self.to.declare(self.column, f"{n['tx']} + {n['j']} * {ACROSS}")
                    with self.block(f"if ({self.to.index(self.column)} < {self.to.extent(self.column)}) {{"):
                        self.to.block(self.column_lets)
                        self._scalar(found.total, f"{n['totals']}[{n['i']} * {t.columns} + {n['j']}]")
                        text = self.to.value(found.value)
                        self.line(f"{self.to.exprs.element(found.result, found.place)} = {text};")

    # pieces ---------------------------------------------------------------------------------------------------------

    def _literal(self, value: float) -> str:
        return self.to.exprs.language.literal(value, self.dtype)

    def _barrier(self) -> None:
        self.line("barrier(CLK_LOCAL_MEM_FENCE);")

    def _weight_place(self) -> str:
        t, n = self.tiles, self.name
        return f"{n['weights']}[({n['ty']} * {t.rows} + {n['i']}) * {t.step + 1} + {n['tx']} + {n['j']} * {ACROSS}]"

    def _scalar(self, tensor: Tensor, text: str) -> None:
        """The local *tensor* has the value *text*."""
        self.to.exprs.locals.add(tensor)
        name = self.to.exprs.names(tensor, tensor.name)
        self.line(f"const {self.to.exprs.language.types[tensor.dtype]} {name} = {text};")

    def _step(self, acc: str, left: str, right: str) -> None:
        self.line(f"{acc} = {self.to.exprs.call('step', self.dtype, acc, left, right)};")

    def _steps(self, expr: PrimExpr, outer: Index, inner: Index) -> bool:
        """Whether neighbours along *outer*, not along *inner*, lie side by side in what *expr* loads."""
        simplify = self.to.exprs.simplify
        loads = [n for n in unique_nodes(expr) if isinstance(n, Load) and n.indices and mentions(n, inner)]
        steps = [
            (p.coefficient(outer), p.coefficient(inner))
            for p in (simplify.flat_index(n.tensor, n.indices) for n in loads)
        ]
        return bool(steps) and all(a == 1 and b != 1 for a, b in steps)

    @contextmanager
    def _dealt(self, outer: int, inner: int, names: str, turned: bool) -> Iterator[None]:
        """The points of a tile, dealt out to neighbours along *inner*, or along *outer* where *turned*."""
        n = self.name
        first, second = (n[word] for word in names.split())
        items = ACROSS * DOWN
        with self.block(f"for (int {n['i']} = {n['lane']}; {n['i']} < {outer * inner}; {n['i']} += {items}) {{"):
            places = (f"{n['i']} % {outer}", f"{n['i']} / {outer}")
            places = places if turned else (f"{n['i']} / {inner}", f"{n['i']} % {inner}")
            self.line(f"const int {first} = {places[0]};")
            self.line(f"const int {second} = {places[1]};")
            yield

    def _guarded(self, cond: str, lets: Sequence[Stmt], place: str, expr: PrimExpr) -> None:
        """*place* holds *expr* where *cond* holds, else zero; nothing is loaded there."""
        self.line(f"{self.ctype} found_ = {self._literal(0.0)};")
        with self.block(f"if ({cond}) {{"):
            self.to.block(lets)
            self.line(f"found_ = {self.to.value(expr)};")
        self.line(f"{place} = found_;")

    def _filled(self, word: str, count: int, text: str) -> None:
        with self._unrolled("i", count):
            self.line(f"{self.name[word]}[{self.name['i']}] {text};")

    @contextmanager
    def _unrolled(self, word: str, count: int) -> Iterator[None]:
        index = self.name[word]
        self.line("#pragma unroll")
        with self.block(f"for (int {index} = 0; {index} < {count}; ++{index}) {{"):
            yield

    @contextmanager
    def _tile(self, count: int) -> Iterator[None]:
        """The rows of a work-item, and *count* positions beside each."""
        with self._unrolled("i", self.tiles.rows), self._unrolled("j", count):
            yield


def attention_plan(
    found: Attention, profile: DeviceProfile, simplify: Simplifier, choose: Callable[[], Choice | None]
) -> KernelPlan | None:
    """The kernel of *found*, by the tile that *choose* gives where it gives one; None where none fits the device."""
    if found.dot.dtype != found.total.dtype or found.power.dtype != found.total.dtype:
        return None
    choice = choose()
    tiles = tile_sizes(found, profile, simplify)
    if choice is not None:
        fitting = fitting_tiles(found, profile, simplify)
        tiles = next((t for t in fitting if (t.rows, t.keys) == (choice["rows"], choice["keys"])), tiles)
    return None if tiles is None else tiled_attention(found, tiles, simplify)
