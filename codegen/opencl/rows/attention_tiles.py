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

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from byoc.codegen.kernel.attention import Attention
from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.loops import Stmt
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, numbered
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.device.statements import KernelWriter, OwnText
from byoc.codegen.opencl.rows.attention_sizes import ACROSS, DOWN, KIND, VECTOR, TileSizes, fitting_tiles, tile_sizes
from byoc.te import Index, PrimExpr, Tensor, binary
from byoc.te.tensor import Load
from byoc.te.walk import mentions, unique_nodes

_WORDS = "lane tx ty blocks first start queries keys values weights greatest tops kept scores totals sums i j r c d e"


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

    def write(self, writer: KernelWriter) -> None:
        _Tiled(self.found, self.tiles, writer).write()


class _Tiled:
    def __init__(self, found: Attention, tiles: TileSizes, to: KernelWriter):
        self.found, self.tiles, self.to = found, tiles, to
        self.line, self.block = to.writer.line, to.writer.block
        self.dtype = found.total.dtype
        self.ctype = to.exprs.language.types[self.dtype]
        simplify = to.exprs.simplify
        self.batch, self.batch_lets = numbered("batch", found.batch, simplify)
        self.row, self.row_lets = numbered("row", found.rows, simplify)
        self.column, self.column_lets = numbered("column", found.columns, simplify)
        self.name = {word: to.exprs.names.fresh(word) for word in _WORDS.split()}

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
            ("queries", t.block * t.line),
            ("keys", t.step * t.line),
            ("values", t.step * t.width),
            ("weights", t.block * t.row),
            ("greatest", t.block * ACROSS),
        ):
            line(f"__local {self.ctype} {n[word]}[{count}] __attribute__((aligned(16)));")
        for word, count in (("scores", t.rows * t.keys), ("totals", t.rows * t.columns)):
            line(f"{self.ctype} {n[word]}[{count}];")
        for word in ("sums", "tops", "kept"):
            line(f"{self.ctype} {n[word]}[{t.rows}];")
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
        place = f"{n['queries']}[{n['r']} * {t.line} + {n['d']}]"
        with self._dealt(t.block, t.depth, "r d", self._steps(self.found.query, self.row, self.found.depth)):
            self.to.declare(self.row, f"{n['first']} + {n['r']}")
            self.to.declare(self.found.depth, n["d"])
            self._guarded(
                f"{self.to.index(self.row)} < {self.to.extent(self.row)}", self.row_lets, place, self.found.query
            )
        for word, count in (("totals", t.rows * t.columns), ("sums", t.rows)):
            self._filled(word, count, f"= {self._literal(0.0)}")
        self._filled("tops", t.rows, f"= {least}")

    def _stage_keys(self, length: str) -> None:
        """One block of keys and values into local memory, once nobody reads the one before."""
        t, n, found = self.tiles, self.name, self.found
        self._barrier()
        inside = f"{self.to.index(found.key)} < {length}"
        with self._dealt(t.step, t.depth, "c d", self._steps(found.keyed, found.key, found.depth)):
            self.to.declare(found.key, f"{n['start']} + {n['c']}")
            self.to.declare(found.depth, n["d"])
            self._guarded(inside, [], f"{n['keys']}[{n['c']} * {t.line} + {n['d']}]", found.keyed)
        last = found.columns[-1] if found.columns else self.column
        with self._dealt(t.step, t.width, "c e", self._steps(found.column, found.key, last)):
            self.to.declare(found.key, f"{n['start']} + {n['c']}")
            self.to.declare(self.column, n["e"])
            exists = f"{inside} && {self.to.index(self.column)} < {self.to.extent(self.column)}"
            self._guarded(exists, self.column_lets, f"{n['values']}[{n['c']} * {t.width} + {n['e']}]", found.column)
        self._barrier()

    def _scores(self, length: str, rows: str) -> None:
        """The tile of scores of each work-item, in registers; the greatest of each of its rows in local memory."""
        t, n, found = self.tiles, self.name, self.found
        self._filled("scores", t.rows * t.keys, f"= {self._literal(0.0)}")
        v, d = t.vector, n["d"]
        with self.block(f"for (int {d} = 0; {d} < {t.depth}; {d} += {v}) {{"):
            for k in range(t.rows):
                self._vector(f"q{k}_", "queries", f"({n['ty']} * {t.rows} + {k}) * {t.line} + {d}")
            for k in range(t.keys):
                self._vector(f"k{k}_", "keys", f"({n['tx']} + {k * ACROSS}) * {t.line} + {d}")
            for i, j, part in itertools.product(range(t.rows), range(t.keys), self._parts()):
                self._step(f"{n['scores']}[{i * t.keys + j}]", f"q{i}_{part}", f"k{j}_{part}")
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
        with self._unrolled("i", t.rows):
            self.line(f"{self.ctype} part_ = {n['scores']}[{n['i']} * {t.keys}];")
            for j in range(1, t.keys):
                score = f"{n['scores']}[{n['i']} * {t.keys} + {j}]"
                self.line(f"part_ = {self.to.exprs.call('max', self.dtype, 'part_', score)};")
            self.line(f"{n['greatest']}[({n['ty']} * {t.rows} + {n['i']}) * {ACROSS} + {n['tx']}] = part_;")
        self._barrier()

    def _raise_tops(self) -> None:
        """The greatest score of each row so far, which all work-items of a row find out."""
        t, n = self.tiles, self.name
        with self._unrolled("i", t.rows):
            self.line(f"{self.ctype} top_ = {n['tops']}[{n['i']}];")
            with self._unrolled("c", ACROSS):
                score = f"{n['greatest']}[({n['ty']} * {t.rows} + {n['i']}) * {ACROSS} + {n['c']}]"
                self.line(f"top_ = {self.to.exprs.call('max', self.dtype, 'top_', score)};")
            self.line(f"{n['kept']}[{n['i']}] = exp({n['tops']}[{n['i']}] - top_);")
            self.line(f"{n['tops']}[{n['i']}] = top_;")

    def _weights(self, length: str, rows: str) -> None:
        """The powers, their sums of this work-item's keys, and the weights in local memory."""
        t, n, found = self.tiles, self.name, self.found
        row = f"{n['ty']} * {t.rows} + {n['i']}"
        self._filled("sums", t.rows, f"*= {n['kept']}[{n['i']}]")
        with self._tile(t.keys):
            self._scalar(found.power, f"exp({n['scores']}[{n['i']} * {t.keys} + {n['j']}] - {n['tops']}[{n['i']}])")
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
            self.line(f"{n['totals']}[{n['i']} * {t.columns} + {n['j']}] *= {n['kept']}[{n['i']}];")
        v, c = t.vector, n["c"]
        with self.block(f"for (int {c} = 0; {c} < {t.step}; {c} += {v}) {{"):
            for i in range(t.rows):
                self._vector(f"w{i}_", "weights", f"({n['ty']} * {t.rows} + {i}) * {t.row} + {c}")
            for k, part in enumerate(self._parts()):
                for j in range(0, t.columns, v):
                    place = f"({c} + {k}) * {t.width} + {t.column(n['tx'], str(j))}"
                    self._vector(f"v{j}{part.replace('.', '_')}_", "values", place)
                    for i, (e, own) in itertools.product(range(t.rows), enumerate(self._parts())):
                        value = f"v{j}{part.replace('.', '_')}_{own}"
                        self._step(f"{n['totals']}[{i * t.columns + j + e}]", f"w{i}_{part}", value)

    def _parts(self) -> list[str]:
        """What is written behind a vector's name for each of its elements."""
        return [f".s{k}" for k in range(VECTOR)] if self.tiles.vector > 1 else [""]

    def _vector(self, name: str, source: str, place: str) -> None:
        """*name* is the vector that lies in local memory at *place*."""
        kind = self.ctype if self.tiles.vector == 1 else f"{self.ctype}{VECTOR}"
        element = f"{self.name[source]}[{place}]"
        value = element if self.tiles.vector == 1 else f"*(__local const {kind} *)&{element}"
        self.line(f"const {kind} {name} = {value};")

    def _finish(self, rows: str) -> None:
        """The sums of whole rows, and what is made of them."""
        t, n, found = self.tiles, self.name, self.found
        row = f"{n['ty']} * {t.rows} + {n['i']}"
        self._barrier()
        with self._unrolled("i", t.rows):
            self.line(f"{n['weights']}[({row}) * {t.row} + {n['tx']}] = {n['sums']}[{n['i']}];")
        self._barrier()
        with self.block(f"for (int {n['i']} = 0; {n['i']} < {t.rows}; ++{n['i']}) {{"):
            self.to.declare(self.row, f"{n['first']} + {row}")
            with self.block(f"if ({self.to.index(self.row)} < {rows}) {{"):
                self.line(f"{self.ctype} whole_ = {self._literal(0.0)};")
                with self.block(f"for (int {n['c']} = 0; {n['c']} < {ACROSS}; ++{n['c']}) {{"):
                    self.line(f"whole_ += {n['weights']}[({row}) * {t.row} + {n['c']}];")
                self._scalar(found.sum, f"whole_ == {self._literal(0.0)} ? {self._literal(np.nan)} : whole_")
                self.to.block(self.row_lets)
                with self._unrolled("j", t.columns):
                    self.to.declare(self.column, t.column(n["tx"], n["j"]))
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
        return f"{n['weights']}[({n['ty']} * {t.rows} + {n['i']}) * {t.row} + {n['tx']} + {n['j']} * {ACROSS}]"

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
