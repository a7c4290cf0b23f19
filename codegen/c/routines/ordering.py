"""Routines that sort and rank along an axis; equal elements keep their order, ascending or descending.

An element and its place are a ``Ranked``. Few of many are kept in a heap; else all are sorted by merging, from runs
that are sorted by insertion. Rows are shared among the threads of a team.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.routines.order_keys import order_key
from byoc.codegen.c.routines.registry import RoutineBody, RoutineCall, product, routine
from byoc.codegen.c.tiling.team import bounds_of_share
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.loops import Argument, CallFunction, Share, WrittenFunction
from byoc.ir.attrs import Attrs
from byoc.ir.types import TensorType
from byoc.relay.op.numeric.ordering import ArgsortAttrs, TopKAttrs
from byoc.relay.op.run_time.leading import LeadingOrderAttrs
from byoc.runtime.core.errors import OF_LENGTHS
from byoc.te import PrimExpr, Tensor, as_expr
from byoc.te.expr import INDEX, Checked, Select, binary, cast

PLACES = ("int32", "int64", "int16", "int8", "uint8", "uint16", "uint32", "uint64")  # dtypes of positions
FEW = 4  # a heap holds what is at most one in so many of the elements

_RANKED = WrittenFunction(
    "Ranked",
    lambda exprs: (
        """/* An element by its order, and its place. */
typedef struct {
  uint64_t key;
  int64_t place;
} Ranked;"""
    ),
)
_SINK = WrittenFunction(
    "ranked_sink",
    lambda exprs: (
        """static inline bool ranked_before(const Ranked *a, const Ranked *b) {
  return a->key < b->key || (a->key == b->key && a->place < b->place);
}

/* Put an entry at a hole of a heap whose last entry is on top. */
static inline void ranked_sink(Ranked *heap, int64_t count, int64_t hole, Ranked entry) {
  for (int64_t child; (child = 2 * hole + 1) < count; hole = child) {
    if (child + 1 < count && ranked_before(&heap[child], &heap[child + 1])) ++child;
    if (!ranked_before(&entry, &heap[child])) break;
    heap[hole] = heap[child];
  }
  heap[hole] = entry;
}"""
    ),
    (_RANKED,),
)
_MERGE = WrittenFunction(
    "ranked_sort",
    lambda exprs: (
        """/* Sort by the keys, equal ones as they stand; the result is in one of the two arrays. */
static inline Ranked *ranked_sort(Ranked *from, Ranked *to, int64_t count) {
  const int64_t run = 16;
  for (int64_t start = 0; start < count; start += run) {
    const int64_t end = count - start < run ? count : start + run;
    for (int64_t k = start + 1; k < end; ++k) {
      const Ranked entry = from[k];
      int64_t hole = k;
      for (; hole > start && entry.key < from[hole - 1].key; --hole) from[hole] = from[hole - 1];
      from[hole] = entry;
    }
  }
  for (int64_t width = run; width < count; width *= 2) {
    for (int64_t start = 0; start < count; start += 2 * width) {
      const int64_t middle = count - start < width ? count : start + width;
      const int64_t end = count - middle < width ? count : middle + width;
      int64_t left = start, right = middle, place = start;
      if (middle < end && from[middle].key < from[middle - 1].key) {
        while (left < middle && right < end) {
          const bool takes = from[right].key < from[left].key;
          to[place++] = from[takes ? right : left];
          right += takes;
          left += !takes;
        }
      }
      for (; left < middle; ++left) to[place++] = from[left];
      for (; right < end; ++right) to[place++] = from[right];
    }
    Ranked *const other = from;
    from = to;
    to = other;
  }
  return from;
}"""
    ),
    (_RANKED,),
)
_ROWS = """/* @WHAT of rows [begin, end); *values* or *places* may be nobody's. */
static void @NAME(
  const @T *data, @T *values, @P *places, int64_t *scratch,
  int64_t begin, int64_t end, int64_t count, int64_t kept, int64_t inner, int64_t descends) {
  const uint64_t flip = descends ? UINT64_MAX : 0;
  for (int64_t r = begin; r < end; ++r) {
    const @T *row = data + (r / inner * count * inner + r % inner);
@ORDER
    const int64_t first = r / inner * kept * inner + r % inner;
    if (values)
      for (int64_t k = 0; k < kept; ++k) values[first + k * inner] = row[ranked[k].place * inner];
    if (places)
      for (int64_t k = 0; k < kept; ++k) places[first + k * inner] = (@P)ranked[k].place;
  }
}"""
_FIRST = """/* The first in order of rows [begin, end): selected where they are few, else of all of them sorted. */
static void @NAME(
  const @T *data, @T *values, @P *places, int64_t *scratch,
  int64_t begin, int64_t end, int64_t count, int64_t kept, int64_t inner, int64_t descends) {
  if (kept * @FEW <= count)
    @SELECT(data, values, places, scratch, begin, end, count, kept, inner, descends);
  else
    @SORT(data, values, places, scratch, begin, end, count, kept, inner, descends);
}"""
_SHAPE = WrittenFunction(
    "keep_shape",
    lambda exprs: (
        """/* One thread of a team keeps a shape. */
static inline void keep_shape(int64_t *shape, int64_t begin, int64_t end, int64_t rank, const int64_t *sizes) {
  for (int64_t k = 0; begin < end && k < rank; ++k) shape[k] = sizes[k];
}"""
    ),
)
_SELECTED = """    Ranked *ranked = (Ranked *)scratch + r * kept;
    for (int64_t k = 0; k < kept; ++k) ranked[k] = (Ranked){@KEY(row[k * inner]) ^ flip, k};
    for (int64_t hole = kept / 2; hole-- > 0;) ranked_sink(ranked, kept, hole, ranked[hole]);
    for (int64_t k = kept; kept > 0 && k < count; ++k) {
      const uint64_t key = @KEY(row[k * inner]) ^ flip;
      if (key < ranked[0].key) ranked_sink(ranked, kept, 0, (Ranked){key, k});
    }
    for (int64_t last = kept - 1; last > 0; --last) {
      const Ranked entry = ranked[last];
      ranked[last] = ranked[0];
      ranked_sink(ranked, last, 0, entry);
    }"""
_SORTED = """    Ranked *own = (Ranked *)scratch + 2 * r * count;
    for (int64_t k = 0; k < count; ++k) own[k] = (Ranked){@KEY(row[k * inner]) ^ flip, k};
    const Ranked *ranked = ranked_sort(own, own + count, count);"""


def _function(select: bool, dtype: str, places: str) -> WrittenFunction:
    """``select_rows`` or ``sort_rows`` of elements of *dtype*, whose places are stored as another."""
    key = order_key(dtype)
    name = f"{'select' if select else 'sort'}_rows_{dtype}_{places}"

    def write(exprs: ExprWriter) -> str:
        words = {
            "ORDER": _SELECTED if select else _SORTED,
            "WHAT": "The first in order" if select else "The order",
            "NAME": name,
            "KEY": key.name,
            "T": exprs.language.types[dtype],
            "P": exprs.language.types[places],
        }
        text = _ROWS
        for word, value in words.items():
            text = text.replace(f"@{word}", value)
        return text

    return WrittenFunction(name, write, (key, _SINK if select else _MERGE))


def _first(dtype: str, places: str) -> WrittenFunction:
    """``first_rows``, which selects or sorts by the number that is asked for."""
    select, sort = _function(True, dtype, places), _function(False, dtype, places)
    name = f"first_rows_{dtype}_{places}"

    def write(exprs: ExprWriter) -> str:
        words = {"NAME": name, "SELECT": select.name, "SORT": sort.name, "FEW": str(FEW)}
        words |= {"T": exprs.language.types[dtype], "P": exprs.language.types[places]}
        text = _FIRST
        for word, value in words.items():
            text = text.replace(f"@{word}", value)
        return text

    return WrittenFunction(name, write, (select, sort))


@dataclass(frozen=True)
class _Ordering:
    """What is asked of *data* along *axis*: the first *kept* in order, all where it is None."""

    data: Tensor
    axis: int
    ascends: bool
    kept: int | None

    def body(self, values: Tensor | None, places: Tensor | None, place: str) -> RoutineBody:
        """The statements that fill *values* and *places*; *place* is of errors."""
        axis, shape = self.axis % self.data.ndim, self.data.shape
        count = shape[axis]
        select = self.kept is not None and (not isinstance(count, int) or self.kept * FEW <= count)
        kept: PrimExpr = as_expr(count if self.kept is None else self.kept, INDEX)
        checks = []
        if self.kept is not None and not isinstance(count, int):
            checks = [f"{place}: k{OF_LENGTHS}{axis}"]
            kept = Checked(kept, as_expr(count, INDEX) + 1, checks[0])
        stored = self.kept if select and self.kept is not None else count
        scratch = Tensor("ranked", (*shape[:axis], stored, *shape[axis + 1 :], 2 if select else 4), "int64")
        rows = product((*shape[:axis], *shape[axis + 1 :]))
        begin, end = bounds_of_share(rows)
        arguments: list[Argument] = [self.data, values, places, scratch, begin, end]
        arguments += [as_expr(count, INDEX), kept, product(shape[axis + 1 :]), as_expr(not self.ascends, INDEX)]
        function = _function(select, self.data.dtype, "int64" if places is None else places.dtype)
        call = [Share(begin, end, rows), CallFunction(function, arguments)]
        return RoutineBody([[] if 0 in shape else call], (scratch,), checks)


def _refusal(attrs: Attrs, types: Sequence[TensorType]) -> str | None:
    """Positions are integers, of elements that have an order."""
    assert isinstance(attrs, ArgsortAttrs | TopKAttrs)
    if attrs.dtype not in PLACES:
        return f"positions of dtype {attrs.dtype}"
    return None if types[0].shape else "a tensor without an axis"


@routine("topk", refuses=_refusal)
def topk(site: RoutineCall) -> RoutineBody:
    """The first *k* in order along an axis, or all."""
    attrs, data = site.attrs, site.inputs[0]
    assert isinstance(attrs, TopKAttrs)
    names = ("values", "indices") if attrs.ret_type == "both" else (attrs.ret_type,)
    found = dict(zip(names, site.outputs, strict=True))
    ordering = _Ordering(data, attrs.axis, attrs.is_ascend, attrs.k if attrs.k >= 1 else None)
    return ordering.body(found.get("values"), found.get("indices"), site.place)


@routine("argsort", refuses=_refusal)
def argsort(site: RoutineCall) -> RoutineBody:
    """The places in order along an axis."""
    attrs = site.attrs
    assert isinstance(attrs, ArgsortAttrs)
    return _Ordering(site.inputs[0], attrs.axis, attrs.is_ascend, None).body(None, site.outputs[0], site.place)


@routine("sort", refuses=_refusal)
def sort(site: RoutineCall) -> RoutineBody:
    """The elements in order along an axis."""
    attrs = site.attrs
    assert isinstance(attrs, ArgsortAttrs)
    return _Ordering(site.inputs[0], attrs.axis, attrs.is_ascend, None).body(site.outputs[0], None, site.place)


@routine("dyn.leading_order", refuses=_refusal)
def leading_order(site: RoutineCall) -> RoutineBody:
    """As many of the first in order as an input says, at the front, and the shape that they have."""
    attrs, (data, number), shape = site.attrs, site.inputs, site.outputs[-1]
    assert isinstance(attrs, LeadingOrderAttrs)
    names = ("values", "indices") if attrs.ret_type == "both" else (attrs.ret_type,)
    found = dict(zip(names, site.outputs[:-1], strict=True))
    values, places = found.get("values"), found.get("indices")
    axis, count = attrs.axis % data.ndim, as_expr(data.shape[attrs.axis], INDEX)
    check = f"{site.place}: k{OF_LENGTHS}{axis}"
    given = cast(INDEX, number(*([0] * number.ndim)))
    # a negative number does not count from the end
    low, instead = (1, count) if attrs.every else (0, given - (count + 1))
    kept = Checked(Select(binary("lt", given, low), instead, given), count + 1, check)
    scratch = Tensor("ranked", (*data.shape, 4), "int64")
    rows = product((*data.shape[:axis], *data.shape[axis + 1 :]))
    begin, end = bounds_of_share(rows)
    arguments: list[Argument] = [data, values, places, scratch, begin, end]
    arguments += [count, kept, product(data.shape[axis + 1 :]), as_expr(not attrs.is_ascend, INDEX)]
    function = _first(data.dtype, "int64" if places is None else places.dtype)
    once, done = bounds_of_share(as_expr(1, INDEX))
    sizes = [*data.shape[:axis], kept, *data.shape[axis + 1 :]]
    return RoutineBody(
        [
            [Share(once, done, 1), CallFunction(_SHAPE, [shape, once, done, data.ndim, sizes])],
            [] if 0 in data.shape else [Share(begin, end, rows), CallFunction(function, arguments)],
        ],
        (scratch,),
        [check],
    )
