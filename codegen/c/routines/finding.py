"""Routines that find elements: where those stand that are not 0.

Elements are looked at in blocks, twice: first they are counted, so that in the second pass each thread of a team knows
where what it finds begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.codegen.c.routines.registry import RoutineBody, RoutineCall, product, routine
from byoc.codegen.c.tiling.team import bounds_of_share
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.loops import CallFunction, Share, WrittenFunction
from byoc.ir.attrs import Attrs
from byoc.ir.types import STORED, TensorType
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.te import Tensor, as_expr, binary
from byoc.te.expr import INDEX, Const

BLOCK = 4096  # elements, whose places fit on the stack
MOST_AXES = 64

_COUNT = """/* How many elements of the blocks [first, last) are not 0. */
static void @NAME(const @T *data, int64_t *counts, int64_t first, int64_t last, int64_t total) {
  for (int64_t b = first; b < last; ++b) {
    const @T *block = data + b * @BLOCK;
    const int64_t left = total - b * @BLOCK;
    const int32_t size = left < @BLOCK ? (int32_t)left : @BLOCK;
    int32_t count = 0;
    for (int32_t k = 0; k < size; ++k) count += @FOUND;
    counts[b] = count;
  }
}"""
_PLACES = """/* The coordinates of what is not 0 in the blocks [first, last), and the shape of all of them. */
static void @NAME(
  const @T *data, const int64_t *counts, int32_t *places, int64_t *shape, int64_t first, int64_t last,
  int64_t blocks, int64_t total, int64_t rank, const int64_t *sizes) {
  if (first >= last) return;
  int64_t found = 0;
  for (int64_t b = 0; b < first; ++b) found += counts[b];
  if (last == blocks) {
    int64_t all = found;
    for (int64_t b = first; b < blocks; ++b) all += counts[b];
    shape[0] = all;
    shape[1] = rank;
  }
  const int64_t width = sizes[rank - 1];
  int32_t hits[@BLOCK], before[@AXES];
  int64_t row = -1;
  for (int64_t b = first; b < last; ++b) {
    const @T *block = data + b * @BLOCK;
    const int64_t left = total - b * @BLOCK;
    const int32_t size = left < @BLOCK ? (int32_t)left : @BLOCK;
    if (counts[b] == 0) continue;
    int32_t count = 0;
    for (int32_t k = 0; k < size; ++k) {
      hits[count] = k;
      count += @FOUND;
    }
    for (int32_t h = 0; h < count; ++h, ++found) {
      const int64_t place = b * @BLOCK + hits[h];
      if (row < 0 || place - row * width >= width) {
        row = place / width;
        int64_t rest = row;
        for (int64_t axis = rank - 2; axis >= 0; rest /= sizes[axis], --axis)
          before[axis] = (int32_t)(rest % sizes[axis]);
      }
      int32_t *to = places + found * rank;
      for (int64_t axis = 0; axis < rank - 1; ++axis) to[axis] = before[axis];
      to[rank - 1] = (int32_t)(place - row * width);
    }
  }
}"""


def _is_found(dtype: str) -> tuple[str, str]:
    """Whether ``block[k]`` is not 0, as C, and a table that this needs."""
    if dtype in ("float16", "bfloat16"):
        return "(block[k] & 0x7fff) != 0", ""
    if dtype not in STORED:
        return "block[k] != 0", ""
    codes = np.arange(256, dtype="uint8").view(numpy_dtype(dtype)).astype("float32") != 0
    rows = [", ".join(str(int(n)) for n in codes[k : k + 32]) for k in range(0, 256, 32)]
    table = ",\n  ".join(rows)
    return f"found_{dtype}[block[k]]", f"static const uint8_t found_{dtype}[256] = {{\n  {table}}};\n"


def _function(family: str, form: str, dtype: str) -> WrittenFunction:
    """The function of a *family* for elements of *dtype*, whose text is *form*."""
    name, (found, table) = f"{family}_{dtype}", _is_found(dtype)
    tables = (WrittenFunction(f"table_found_{dtype}", lambda exprs: table),) if table else ()

    def write(exprs: ExprWriter) -> str:
        words = {"NAME": name, "FOUND": found, "BLOCK": BLOCK, "AXES": MOST_AXES, "T": exprs.language.types[dtype]}
        text = form
        for word, value in words.items():
            text = text.replace(f"@{word}", str(value))
        return text

    return WrittenFunction(name, write, tables)


def _refusal(attrs: Attrs, types: Sequence[TensorType]) -> str | None:
    return None if 0 < types[0].ndim <= MOST_AXES else "a tensor without an axis"


@routine("dyn.leading_places", refuses=_refusal)
def leading_places(site: RoutineCall) -> RoutineBody:
    """The coordinates of the elements that are not 0, at the front, and how many there are."""
    (data,), (places, shape) = site.inputs, site.outputs
    total = product(data.shape)
    blocks = binary("div", total, as_expr(BLOCK, INDEX)) + 1  # of which the last may be empty
    counts = Tensor("counts", (int(blocks.value) if isinstance(blocks, Const) else blocks,), "int64")
    first, last = bounds_of_share(blocks)
    begin, end = bounds_of_share(blocks)
    count = CallFunction(_function("count_found", _COUNT, data.dtype), [data, counts, first, last, total])
    sizes = as_expr(data.ndim, INDEX), data.shape
    find = CallFunction(
        _function("places_found", _PLACES, data.dtype),
        [data, counts, places, shape, begin, end, blocks, total, *sizes],
    )
    return RoutineBody([[Share(first, last, blocks), count], [Share(begin, end, blocks), find]], (counts,))
