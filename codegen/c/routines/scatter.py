"""Routines that write elements at positions; where positions repeat, in the order of the updates.

Each thread of a team fills a part of the result: it copies the data there, looks at all updates and writes those that
fall into its part. So nobody waits, and what is combined in which order does not depend on the number of threads. An
index that is negative counts from the end; one that is outside its dimension is an error of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.codegen.c.routines.registry import RoutineBody, RoutineCall, product, routine
from byoc.codegen.c.tiling.team import bounds_of_share
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.loops import Argument, CallFunction, Outside, Share, Stmt, WrittenFunction
from byoc.codegen.kernel.stored_types import stored_binary
from byoc.ir.attrs import Attrs
from byoc.ir.types import STORED, TensorType
from byoc.relay.op.movement.scatter import ScatterElementsAttrs, ScatterNDAttrs
from byoc.runtime.core.errors import OF_LENGTHS
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.te import Dimension, PrimExpr, Size, Tensor, as_expr, binary
from byoc.te.expr import INDEX, Checked

UPDATE = "update"  # the reduction that keeps the last
MEAN = "mean"  # of the element that was there and the updates
COMBINED = ("add", "mul", "min", "max", MEAN)  # reductions of two elements, by the names of te


def _combine(reduction: str, dtype: str) -> WrittenFunction:
    """``T combine_<reduction>_<dtype>(T a, T b)``: what becomes of *a* where *b* is written."""
    name = f"combine_{reduction}_{dtype}"

    def write(exprs: ExprWriter) -> str:
        ctype = exprs.language.types[dtype]
        a, b, value = stored_binary(reduction, dtype)
        # of two zeros numpy's minimum and maximum keep the one that is there as float16, the update elsewhere
        there, written = "ba" if dtype == "float16" and reduction in ("min", "max") else "ab"
        exprs.bound.update({id(a): there, id(b): written})
        text = exprs.text(value)
        for operand in (a, b):  # whose identities end with them
            del exprs.bound[id(operand)]
        return f"static inline {ctype} {name}({ctype} a, {ctype} b) {{\n  return {text};\n}}"

    return WrittenFunction(name, write)


_ONES = """
  for (int64_t k = first; k < last; ++k) counts[k] = @ONE;"""
_COPY = """  const int64_t extent = last - first;
  if (extent > 0) memcpy(result + first, data + first, (size_t)extent * sizeof *result);"""
_ND = """/* Elements [first, last) of *data*, with rows of *updates* at the coordinates along axis 0 of *indices*. */
static void @NAME(
  const @T *data, const @I *indices, const @T *updates, @T *result, int64_t first, int64_t last,
  int64_t stride, int64_t places, int64_t width, int64_t axes, const int64_t *sizes, uint64_t *const *outside@COUNTS) {
@COPY
  for (int64_t p = 0; p < places; ++p) {
    int64_t start = 0;
    for (int64_t axis = 0; axis < axes; ++axis)
      start = start * sizes[axis] + @CHECK;
    start *= width;
    const int64_t from = start < first ? first : start, to = last < start + width ? last : start + width;
    for (int64_t k = from; k < to; ++k) @WRITE
  }@LAST
}"""
_ELEMENTS = """/* Elements [first, last) of *data*, with each of *updates* at the position that *indices* hold. */
static void @NAME(
  const @T *data, const @I *indices, const @T *updates, @T *result, int64_t first, int64_t last,
  int64_t rank, int64_t axis, const int64_t *extents, const int64_t *sizes, uint64_t *const *outside@COUNTS) {
@COPY
  int64_t rows = 1, stride = 1;
  for (int64_t d = 0; d < rank - 1; ++d) rows *= extents[d];
  for (int64_t d = axis + 1; d < rank; ++d) stride *= sizes[d];
  const int64_t width = extents[rank - 1], step = axis != rank - 1;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t block = 0, inside = 0, scale = sizes[rank - 1];
    for (int64_t d = rank - 2, rest = r; d >= 0; scale *= sizes[d], rest /= extents[d], --d) {
      if (d < axis) block += rest % extents[d] * scale;
      if (d > axis) inside += rest % extents[d] * scale;
    }
    if (first < last && (block >= last || block + sizes[axis] * stride <= first)) continue;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t p = r * width + j;
      const int64_t k = block + inside + j * step + @CHECK * stride;
      if (k >= first && k < last) @WRITE
    }
  }@LAST
}"""


def _function(form: str, family: str, reduction: str, dtype: str, indices: str) -> WrittenFunction:
    """The function of a *family* for elements and indices of such dtypes, whose text is *form*."""
    name = f"{family}_{reduction}_{dtype}_{indices}"
    combine = None if reduction == UPDATE else _combine("add" if reduction == MEAN else reduction, dtype)
    divide = _combine("div", dtype) if reduction == MEAN else None
    index, size, found, update = (
        ("indices[p]", "sizes[axis]", "*outside[0]", "updates[p]")
        if form is _ELEMENTS
        else ("indices[axis * stride + p]", "sizes[axis]", "*outside[axis]", "updates[p * width + k - start]")
    )

    def write(exprs: ExprWriter) -> str:
        words = {
            "NAME": name,
            "COPY": _COPY if divide is None else _COPY + _ONES,
            "CHECK": exprs.call("check_index", INDEX, index, size, found),
            **_written(update, combine, divide, dtype),
            "T": exprs.language.types[dtype],
            "I": exprs.language.types[indices],
        }
        return _filled(form, words)

    return WrittenFunction(name, write, tuple(f for f in (combine, divide) if f is not None))


def _written(
    update: str, combine: WrittenFunction | None, divide: WrittenFunction | None, dtype: str
) -> dict[str, str]:
    """The words of a form that say what an *update* does to the element ``k``; *divide* makes a mean of a sum."""
    write = f"result[k] = {update if combine is None else f'{combine.name}(result[k], {update})'};"
    if combine is None or divide is None:
        return {"WRITE": write, "COUNTS": "", "LAST": ""}
    array = np.ones(1, numpy_dtype(dtype))
    one = f"(@T){array.view(f'uint{8 * array.itemsize}').item() if dtype in STORED else 1}"
    head = ", @T *counts"
    count = f"counts[k] = {combine.name}(counts[k], {one});"
    last = f"\n  for (int64_t k = first; k < last; ++k) result[k] = {divide.name}(result[k], counts[k]);"
    return {"WRITE": f"{{\n      {write}\n      {count}\n    }}", "COUNTS": head, "LAST": last, "ONE": one}


def _filled(form: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        form = form.replace(f"@{word}", value)
    return form


def _body(
    site: RoutineCall, function: WrittenFunction, more: Sequence[Argument], checks: Sequence[str], reduction: str
) -> RoutineBody:
    """The statements that share the result of *site* and call *function*, with *more* behind the bounds."""
    data, indices, updates = site.inputs
    total = product(data.shape)
    first, last = bounds_of_share(total)
    shared: list[Stmt] = [Share(first, last, total)]
    bounds: tuple[Dimension, Dimension] = (first, last)
    if 0 in data.shape:  # nothing to share, but every index is outside
        shared, bounds = [], (0, 0)
    counts = [Tensor("counts", data.shape, data.dtype)] if reduction == MEAN else []
    call = CallFunction(function, [data, indices, updates, site.outputs[0], *bounds, *more, *counts])
    return RoutineBody([[*shared, call]], counts, checks, reduction in ("add", "mul", MEAN) and "int" in data.dtype)


def _refused_reduction(reduction: str, dtype: str) -> str | None:
    """What all scatters refuse."""
    if reduction == MEAN and (dtype == "bool" or (dtype in STORED and "int" in dtype)):
        return f"the mean of {dtype}"
    return None if reduction in (UPDATE, *COMBINED) else f"the reduction {reduction}"


def _is_known(count: Dimension, size: Dimension) -> bool:
    """Whether two sizes were compared when types were inferred, numbers or the same by name."""
    if isinstance(count, Size) and isinstance(size, Size):
        return count.name == size.name
    return isinstance(count, int) and isinstance(size, int)


def _at_most(count: Dimension, size: Dimension, check: str) -> PrimExpr:
    """*count*, which is no more than *size*: under the name of a *check* an error of the run where it is more."""
    return Checked(as_expr(count, INDEX), as_expr(size, INDEX) + 1, check)


def _agreed(site: RoutineCall, places: Sequence[Dimension], checks: list[str]) -> list[Dimension]:
    """The sizes of the *places* that are written, as many as there are updates, which is checked when it runs."""
    agreed: list[Dimension] = []
    for axis, (count, given) in enumerate(zip(places, site.inputs[2].shape, strict=True)):
        if _is_known(count, given):
            agreed.append(count)
            continue
        names = [f"{site.place}: {what}{OF_LENGTHS}{axis}" for what in ("updates", "places of updates")]
        checks += names
        agreed.append(binary("min", _at_most(given, count, names[0]), _at_most(count, given, names[1])))
    return agreed


def _refuses_rows(attrs: Attrs, types: Sequence[TensorType]) -> str | None:
    assert isinstance(attrs, ScatterNDAttrs)
    return "indices without coordinates" if types[1].shape[0] == 0 else _refused_reduction(attrs.mode, types[0].dtype)


@routine("scatter_nd", refuses=_refuses_rows)
def scatter_nd(site: RoutineCall) -> RoutineBody:
    """Rows of updates at coordinates, which lie along the first axis of the indices."""
    attrs, (data, indices, _) = site.attrs, site.inputs
    assert isinstance(attrs, ScatterNDAttrs) and isinstance(indices.shape[0], int)
    axes, places = indices.shape[0], indices.ndim - 1
    checks = [f"{site.place} along axis {axis}" for axis in range(axes)]
    found = [Outside(check, size) for check, size in zip(checks, data.shape, strict=False)]
    sizes = _agreed(site, (*indices.shape[1:], *data.shape[axes:]), checks)
    more: list[Argument] = [
        product(indices.shape[1:]),
        product(sizes[:places]),
        product(sizes[places:]),
        axes,
        data.shape[:axes],
        found,
    ]
    function = _function(_ND, "scatter_nd", attrs.mode, data.dtype, indices.dtype)
    return _body(site, function, more, checks, attrs.mode)


def _refuses_elements(attrs: Attrs, types: Sequence[TensorType]) -> str | None:
    assert isinstance(attrs, ScatterElementsAttrs)
    data, indices, _ = types
    if not data.shape:
        return "a tensor without an axis"
    for axis, (count, size) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if axis != attrs.axis % data.ndim and isinstance(count, int) and isinstance(size, int) and count > size:
            return f"indices for {count} elements along axis {axis}, where the data has {size}"
    return _refused_reduction(attrs.reduction, types[0].dtype)


@routine("scatter_elements", refuses=_refuses_elements)
def scatter_elements(site: RoutineCall) -> RoutineBody:
    """Single updates, each at a position along an axis."""
    attrs, (data, indices, _) = site.attrs, site.inputs
    assert isinstance(attrs, ScatterElementsAttrs)
    place = attrs.axis % data.ndim
    checks = [f"{site.place} along axis {place}"]
    found = [Outside(checks[0], data.shape[place])]
    extents = _agreed(site, indices.shape, checks)
    for axis, size in enumerate(data.shape):
        if axis != place and not _is_known(indices.shape[axis], size):
            checks.append(f"{site.place}{OF_LENGTHS}{axis}")
            extents[axis] = _at_most(extents[axis], size, checks[-1])
    more: list[Argument] = [data.ndim, place, extents, data.shape, found]
    function = _function(_ELEMENTS, "scatter_elements", attrs.reduction, data.dtype, indices.dtype)
    return _body(site, function, more, checks, attrs.reduction)
