"""Attention over keys block by block, with a running maximum and a running sum: rows of scores of any length.

Of each row the largest score so far, the sum of the exponentials, and the sums of the values that these weigh are kept.
Where a block of keys raises the largest score, both sums are multiplied by the exponential of the difference. So a
block of rows needs the same few kilobytes however many keys there are. The largest score begins at the least number,
not at minus infinity, so that a block whose scores are all minus infinity adds nothing; where no block adds anything,
the sum is the NaN that a softmax over these scores is. Source: Milakov & Gimelshein 2018, Online normalizer calculation
for softmax, algorithm 3; Dao et al. 2022, FlashAttention, algorithm 1.

Of a free number of keys the last block is as long as the others: what it reads behind the last key is zeros, which
stand in local copies (``padded_loads.py``), and the exponentials there are 0.

Requires that the softmax's division stands behind the product (``kernel/deferred_normalization.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.codegen.c.contraction.shape import PANEL
from byoc.codegen.c.rows.padded_loads import PaddedLoads
from byoc.codegen.c.rows.row_stages import BlockOfRows, Cut, RowStages, ScheduleNest, loads_in, reduces_in
from byoc.codegen.c.tiling.blocks import at
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.loops import Alloc, For, IfThenElse, Stmt
from byoc.codegen.kernel.reductions import combine
from byoc.codegen.kernel.simplify import same_size
from byoc.ir.types import dtype_bytes
from byoc.te import Dimension, Index, PrimExpr, Tensor, cast, const, exp
from byoc.te.expr import INDEX, Binary, Const, Intrinsic, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, mentions

MOST_KEYS = 256  # of a block
FEWEST_KEYS = 16
FREE_KEYS = 64  # of a block, where the number of keys is free
ZERO = const(0, INDEX)


@dataclass(frozen=True)
class KeyTiles:
    """Rows over *length* keys, *count* at a time: *keyed* are the stages that have an element for each key.

    The softmax between them is *top*, its largest scores, *powers*, the exponentials, and *inverse*, one over the sum.
    """

    top: Tensor
    powers: Tensor
    inverse: Tensor
    keyed: tuple[Tensor, ...]
    length: Dimension
    count: int

    def row_bytes(self, found: RowStages) -> int:
        """The bytes that one row needs."""
        others = [s for s in found.stages if s not in self.keyed]
        kept = sum(self.count * dtype_bytes(s.dtype) for s in self.keyed)
        beside = sum(estimated_size(_row_shape(found, s)) * dtype_bytes(s.dtype) for s in others)
        return kept + beside + 4 * dtype_bytes(self.powers.dtype)


def key_tiles_of(found: RowStages) -> KeyTiles | None:
    """How the stages are done by blocks of keys; None where they are not two products around a softmax."""
    parts = [_tagged(found, f"softmax_{name}") for name in ("max", "exp", "inverse")]
    top, powers, inverse = parts
    if top is None or powers is None or inverse is None or not _is_softmax(top, powers, inverse):
        return None
    length = powers.shape[-1]
    keyed = _keyed(found, top, powers)
    if keyed is None or not _is_apart(found, keyed, (top, powers, inverse)):
        return None
    beside = [d for s in found.stages if s not in keyed for d in _row_shape(found, s)]
    if not all(isinstance(d, int) for d in beside):
        return None
    if isinstance(length, int):
        count = _block_length(length, [n.tensor for s in keyed for n in loads_in(s.body)])
    elif _may_be_padded(found, keyed):
        count = FREE_KEYS
    else:
        return None
    return KeyTiles(top, powers, inverse, keyed, length, count)


def _may_be_padded(found: RowStages, keyed: Sequence[Tensor]) -> bool:
    """Whether what the stages read for a key has a known size, and no key is part of a word."""
    top = next(s for s in found.stages if s.tag == "softmax_max")
    if not isinstance(top.body, Reduce) or not isinstance(top.body.body, Load) or top.body.body.tensor not in keyed:
        return False  # what is absent is left out of the scores themselves
    reading = [*keyed, found.stages[-1]]
    sizes = [a.extent for s in keyed for r in reduces_in(s.body) for a in r.axes]
    loads = [n for s in reading for n in loads_in(s.body)]
    return all(isinstance(d, int) for d in sizes) and not any(n.is_word or n.tensor.tag == PANEL for n in loads)


def _tagged(found: RowStages, tag: str) -> Tensor | None:
    named = [s for s in found.stages if s.tag == tag]
    return named[0] if len(named) == 1 else None


def _is_softmax(top: Tensor, powers: Tensor, inverse: Tensor) -> bool:
    """Whether the stages are what their tags say, over the last axis of *powers*."""
    power, sums = powers.body, reduces_in(inverse.body)
    largest = isinstance(top.body, Reduce) and top.body.kind == "max" and _runs_over(top.body, powers)
    if not largest or not isinstance(power, Intrinsic) or power.name != "exp":
        return False
    less = power.args[0]
    if not isinstance(less, Binary) or less.op != "sub" or not _reads(less.right, top):
        return False
    return len(sums) == 1 and sums[0].kind == "sum" and _reads(sums[0].body, powers) and _runs_over(sums[0], powers)


def _runs_over(reduce: Reduce, powers: Tensor) -> bool:
    return len(reduce.axes) == 1 and same_size(reduce.axes[0].extent, powers.shape[-1])


def _reads(expr: PrimExpr, tensor: Tensor) -> bool:
    return isinstance(expr, Load) and expr.tensor is tensor


def _weighed(found: RowStages) -> Reduce | None:
    """The sum over the keys that the last stage is."""
    sums = reduces_in(found.stages[-1].body)
    return sums[0] if len(sums) == 1 and sums[0].kind == "sum" and len(sums[0].axes) == 1 else None


def _keyed(found: RowStages, top: Tensor, powers: Tensor) -> tuple[Tensor, ...] | None:
    """The stages with an element for each key, each read only at its reader's own key; None where one is not."""
    weighed = _weighed(found)
    if weighed is None:
        return None
    assert isinstance(top.body, Reduce) and powers.body is not None
    keyed: set[Tensor] = set()
    open_ends: list[tuple[PrimExpr, Index]] = [
        (top.body.body, top.body.axes[0]),
        (powers.body, powers.axes[-1]),
        (weighed.body, weighed.axes[0]),
    ]
    while open_ends:
        expr, key = open_ends.pop()
        for load in loads_in(expr):
            if load.tensor not in found.stages or not any(mentions(i, key) for i in load.indices):
                continue
            stage = load.tensor
            assert stage.body is not None
            if not _at_key(load, key, found.depth) or not same_size(stage.shape[-1], powers.shape[-1]):
                return None
            if stage not in keyed:
                keyed.add(stage)
                open_ends.append((stage.body, stage.axes[-1]))
    length, terms = powers.shape[-1], weighed.axes[0].extent
    if isinstance(length, int) and isinstance(terms, int):
        whole_words = length % terms == 0
    else:
        whole_words = same_size(length, terms)
    return tuple(s for s in found.stages if s in keyed) if powers in keyed and whole_words else None


def _at_key(load: Load, key: Index, depth: int) -> bool:
    """Whether *load* takes the element, or the word, of *key* itself."""
    *leading, last = load.indices
    if isinstance(last, Binary) and last.op == "mul" and isinstance(last.right, Const) and load.is_word:
        last = last.left
    return len(leading) == depth and last is key and not any(mentions(i, key) for i in leading)


def _is_apart(found: RowStages, keyed: Sequence[Tensor], softmax: tuple[Tensor, Tensor, Tensor]) -> bool:
    """Whether no stage needs a number of a whole row before it is known."""
    top, powers, inverse = softmax
    last, weighed = found.stages[-1], _weighed(found)
    for stage in found.stages[:-1]:
        read = {n.tensor for n in loads_in(stage.body)}
        late = {inverse} if stage in keyed or stage is top else {inverse, top, *keyed}
        late |= {top} if stage is not powers else set()
        if stage is not inverse and read & late:
            return False
    behind = map_expr(last.element, lambda e: const(0, e.dtype) if e is weighed else None)
    inside = {n.tensor for n in loads_in(weighed)}
    return not inside & {top, inverse} and not {n.tensor for n in loads_in(behind)} & {top, *keyed}


def _block_length(length: int, read: Sequence[Tensor]) -> int:
    """The keys of a block: whole panels, and blocks as equal as these allow."""
    panels = [int(t.shape[-1]) for t in read if t.tag == PANEL]
    step = math.lcm(FEWEST_KEYS, *panels)
    steps = -(-length // step)
    return step * -(-steps // -(-steps // max(MOST_KEYS // step, 1)))


def _row_shape(found: RowStages, stage: Tensor) -> list[Dimension]:
    """The extents of *stage* beside its position."""
    leading = found.leading_of(stage)
    return [a.extent for a in stage.axes if not any(a is b for b in leading)]


def over_keys(blocks: KeyTiles, block: BlockOfRows, schedule: ScheduleNest) -> list[Stmt]:
    """The statements that compute the last stage at *block*; *schedule* gives the loops of one nest."""
    return _OverKeys(blocks, block, schedule).statements()


class _OverKeys:
    def __init__(self, blocks: KeyTiles, block: BlockOfRows, schedule: ScheduleNest):
        self.blocks, self.block, self.schedule = blocks, block, schedule
        self.last = block.found.stages[-1]
        weighed = _weighed(block.found)
        assert weighed is not None
        self.weighed, dtype = weighed, blocks.powers.dtype
        self.top = block.array("top", (1,), dtype)
        self.next_top = block.array("next_top", (1,), dtype)
        self.kept = block.array("kept", (1,), dtype)  # what a sum is multiplied by
        self.sum = block.array("sum", (1,), dtype)
        self.least = float(np.finfo(dtype).min)
        self.padded: PaddedLoads | None = None
        shape = _row_shape(block.found, self.last)
        assert all(isinstance(d, int) for d in shape)  # as key_tiles_of requires
        self.total = block.array("total", [int(d) for d in shape], weighed.dtype)

    def statements(self) -> list[Stmt]:
        """The stages of whole rows, the blocks of keys, and what is done with the sums."""
        blocks, block = self.blocks, self.block
        code: list[Stmt] = []
        for stage in block.found.stages[:-1]:
            if stage not in (*blocks.keyed, blocks.top, blocks.inverse):
                code += self._kept(stage, {})
        for array, first in ((self.top, self.least), (self.sum, 0.0), (self.total, 0.0)):
            code += [Alloc(array, aligned=True), *self._filled(array, lambda *_, v=first, a=array: const(v, a.dtype))]
        block.local[blocks.top] = self.top
        length, count = blocks.length, blocks.count
        whole = length // count
        if whole != 0:
            number = Index("keys", whole)
            code.append(For(number, whole, self._step(number, count)))
        if isinstance(length, PrimExpr):
            start = length // count * count
            code.append(IfThenElse(start < length, self._step(length // count, count, PaddedLoads(start, length))))
        elif length % count:
            code += self._step(const(length // count, INDEX), length % count)
        return [*code, *self._finish()]

    def _step(self, number: PrimExpr, count: int, padded: PaddedLoads | None = None) -> list[Stmt]:
        """The block of *number*, which has *count* keys; fewer of them exist where its loads are *padded*."""
        blocks, self.padded = self.blocks, padded
        code: list[Stmt] = [Alloc(self.next_top, aligned=True), Alloc(self.kept, aligned=True)]
        for stage in self.block.found.stages:
            if stage is blocks.top:
                assert isinstance(stage.body, Reduce)
                code += self._raise_top(self._cut(stage.body.axes[0], number, count))
            elif stage in blocks.keyed:
                code += self._kept(stage, self._cut(stage.axes[-1], number, count))
            elif stage is blocks.inverse:
                (reduce,) = reduces_in(stage.body)
                code += self._added(self.sum, stage, reduce, self._cut(reduce.axes[0], number, count))
            elif stage is self.last:
                cut = self._cut(self.weighed.axes[0], number, count)
                code += self._added(self.total, stage, self.weighed, cut)
        return code

    def _cut(self, axis: Index, number: PrimExpr, count: int) -> dict[Index, Cut]:
        """The part of *axis*, over the keys or over words of them, in block *number* of *count* keys."""
        length = self.blocks.length
        terms = length // int(axis.extent) if isinstance(length, int) else 1
        return {axis: Cut(number * (self.blocks.count // terms), Index(axis.name, count // terms))}

    def _kept(self, stage: Tensor, cuts: Mapping[Index, Cut]) -> list[Stmt]:
        declared, nest = self.block.keep(stage, cuts)
        absent = self.padded.filled_up(nest.stage, 0.0) if self.padded and stage is self.blocks.powers else []
        return [declared, *self._scheduled(nest, cuts), *absent]

    def _scheduled(self, nest: Nest, cuts: Mapping[Index, Cut]) -> list[Stmt]:
        """The loops of *nest*, behind those that copy what it reads of keys that may not exist."""
        if self.padded is None or not cuts:
            return self.schedule(nest)
        (cut,) = cuts.values()
        copies, nest = self.padded.copied(nest, cut.inner, self.block.local.values())
        return [*copies, *self.schedule(nest)]

    def _raise_top(self, cuts: Mapping[Index, Cut]) -> list[Stmt]:
        """The largest scores with those of one block, and what the sums so far are multiplied by."""
        stage, top, larger = self.blocks.top, self.top, self.next_top

        def largest(row: Index, *rest: Index) -> PrimExpr:
            return combine("max", self.block.value(stage, stage.body, row, cuts), top(row, *rest))

        scores = {n.tensor for n in loads_in(stage.body)}
        absent = (
            [s for t in scores for s in self.padded.filled_up(self.block.local[t], self.least)] if self.padded else []
        )
        code = absent + self._filled(larger, largest, cuts)
        code += self._filled(self.kept, lambda *i: exp(top(*i) - larger(*i)))
        return code + self._filled(top, lambda *i: larger(*i))

    def _added(self, array: Tensor, stage: Tensor, reduce: Reduce, cuts: Mapping[Index, Cut]) -> list[Stmt]:
        """*array*, the sums so far that *reduce* of *stage* takes, with those of one block."""

        def total(row: Index, *inner: Index) -> PrimExpr:
            inside = zip(self.block.inner(stage), inner, strict=True)
            places: dict[Index, PrimExpr] = dict(inside) if stage is self.last else {}
            term = at(self.block.value(stage, reduce, row, cuts), places)
            return array(row, *inner) * cast(array.dtype, self.kept(row, ZERO)) + term

        return self._filled(array, total, cuts)

    def _filled(
        self, array: Tensor, value: Callable[..., PrimExpr], cuts: Mapping[Index, Cut] | None = None
    ) -> list[Stmt]:
        """Fill *array* with ``value(row, ...)``, made along *cuts*."""
        axes = (self.block.row(), *(Index(f"i{k}", d) for k, d in enumerate(array.shape[1:])))
        return self._scheduled(Nest(array, axes, axes, value(*axes)), cuts or {})

    def _whole_sum(self, row: Index) -> PrimExpr:
        """The sum of a row's exponentials: a NaN, as that of NaNs, where every score was minus infinity."""
        total = self.sum(row, ZERO)
        return Select(total.equal(0.0), const(math.nan, total.dtype), total)

    def _finish(self) -> list[Stmt]:
        """One over the sums, and the last stage's value from its totals."""
        block, inverse, row = self.block, self.blocks.inverse, self.block.row()
        one_over = block.array(inverse.name, (1,), inverse.dtype)
        (summed,) = reduces_in(inverse.body)

        def value(stage: Tensor, reduce: Reduce, total: PrimExpr, row: Index) -> PrimExpr:
            body = map_expr(stage.element, lambda e: total if e is reduce else None)
            return block.value(stage, body, row)

        code: list[Stmt] = [Alloc(one_over, aligned=True)]
        code += self._filled(one_over, lambda r, _: value(inverse, summed, self._whole_sum(r), r))
        block.local[inverse] = one_over
        total = self.total(row, *block.inner(self.last))
        return code + self.schedule(block.store(value(self.last, self.weighed, total, row), row))
