"""The reference meaning of tensor expressions, by numpy over whole index grids: for tests and for folding.

Slow and simple on purpose. Loads outside a tensor are clipped, because a Select evaluates both sides here and
discards one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from byoc.te.expr import DOTS, OF_BITS, Binary, Cast, Checked, Const, Index, Intrinsic, PrimExpr, Reduce, Select, Size
from byoc.te.recurrence import recurrence
from byoc.te.tensor import Load, Tensor
from byoc.te.walk import computed_under

Grid = dict[Index, np.ndarray]
_erf = np.vectorize(math.erf, otypes=[np.float64])

_BINARY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
_INTRINSIC: dict[str, Callable[..., np.ndarray]] = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "not": np.logical_not,
    "bit_not": np.bitwise_not,
    "atan2": np.arctan2,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": lambda x: _erf(x).astype(x.dtype),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "round": np.rint,
}
_REDUCE: dict[str, Callable[..., np.ndarray]] = {
    "sum": np.sum,
    "prod": np.prod,
    "min": np.min,
    "max": np.max,
    "any": np.any,
    "all": np.all,
}


def evaluate(tensor: Tensor, values: Mapping[Tensor, np.ndarray], sizes: Mapping[str, int] | None = None) -> np.ndarray:
    """The value of *tensor* given the values of its placeholders and of the named sizes."""
    return _Evaluator(dict(values), dict(sizes or {})).tensor(tensor)


class _Evaluator:
    def __init__(self, values: dict[Tensor, np.ndarray], sizes: dict[str, int]):
        self.values, self.sizes = values, sizes

    def tensor(self, tensor: Tensor) -> np.ndarray:
        if tensor not in self.values:
            ring = recurrence(computed_under([tensor], self.values))
            if tensor in ring:
                self.steps(ring)
            else:
                self.values[tensor] = self.elements(tensor, [np.arange(n) for n in self.shape(tensor)])
        return self.values[tensor]

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape of *tensor* in numbers."""
        return tuple(int(self.expr(d, {})) if isinstance(d, PrimExpr) else d for d in tensor.shape)

    def elements(self, tensor: Tensor, places: Sequence[np.ndarray]) -> np.ndarray:
        """The elements of *tensor* at *places*, the indices of each axis."""
        rank = len(places)
        grid = {
            axis: index.reshape([-1 if k == j else 1 for j in range(rank)])
            for k, (axis, index) in enumerate(zip(tensor.axes, places, strict=True))
        }
        with np.errstate(all="ignore"):
            value = np.asarray(self.expr(tensor.element, grid))
        return np.broadcast_to(value, [len(index) for index in places]).astype(_np(tensor.dtype))

    def steps(self, ring: Sequence[Tensor]) -> None:
        """The tensors of a recurrence, one step after another."""
        shapes = [self.shape(stage) for stage in ring]
        self.values.update((s, np.zeros(shape, _np(s.dtype))) for s, shape in zip(ring, shapes, strict=True))
        for step in range(shapes[0][0]):
            for stage, shape in zip(ring, shapes, strict=True):
                places = [np.array([step]), *(np.arange(n) for n in shape[1:])]
                self.values[stage][step] = self.elements(stage, places)[0]

    def expr(self, e: PrimExpr, grid: Grid) -> np.ndarray:
        return _RULES[type(e)](self, e, grid)

    def binary(self, e: Binary, grid: Grid) -> np.ndarray:
        a, b = self.expr(e.left, grid), self.expr(e.right, grid)
        if e.op == "div":
            result: np.ndarray = np.floor_divide(a, b) if np.asarray(a).dtype.kind in "iu" else np.divide(a, b)
            return result
        return _BINARY[e.op](a, b)

    def intrinsic(self, e: Intrinsic, grid: Grid) -> np.ndarray:
        args = [self.expr(a, grid) for a in e.args]
        if e.name in DOTS:
            return _DOTS[e.name](*args)
        if e.name in OF_BITS or e.name == "bits":
            return np.asarray(args[0], order="C").view(_np(e.dtype))
        return (_INTRINSIC.get(e.name) or getattr(np, e.name))(*args)

    def load(self, e: Load, grid: Grid) -> np.ndarray:
        source = self.tensor(e.tensor)
        index = [np.clip(self.expr(i, grid), 0, max(n - 1, 0)) for i, n in zip(e.indices, source.shape, strict=True)]
        if e.is_word:
            return _word(source, index, e.dtype)
        return source[tuple(index)] if source.ndim else source

    def checked(self, e: Checked, grid: Grid) -> np.ndarray:
        """The position alone: here both sides of a Select are evaluated, so that no index outside is an error."""
        index, extent = self.expr(e.index, grid), self.expr(e.extent, grid)
        return np.clip(np.where(index < 0, index + extent, index), 0, np.maximum(extent - 1, 0))

    def reduce(self, e: Reduce, grid: Grid) -> np.ndarray:
        """Reduction axes become trailing dimensions of the grid."""
        extents = [int(self.expr(a.extent, {})) if isinstance(a.extent, PrimExpr) else a.extent for a in e.axes]
        n = len(extents)
        inner = {axis: value.reshape(value.shape + (1,) * n) for axis, value in grid.items()}
        rank = max((v.ndim for v in inner.values()), default=n)
        for k, (axis, extent) in enumerate(zip(e.axes, extents, strict=True)):
            inner[axis] = np.arange(extent).reshape([-1 if j == rank - n + k else 1 for j in range(rank)])
        body = np.asarray(self.expr(e.body, inner))
        lead = np.broadcast_shapes(*(v.shape for v in grid.values())) if grid else ()
        body = np.broadcast_to(body, lead + tuple(extents)) if body.ndim <= rank else body
        if e.kind.startswith("arg"):
            result: np.ndarray = getattr(np, e.kind)(body, axis=-1)
            return result
        return _REDUCE[e.kind](body, axis=tuple(range(-n, 0))).astype(body.dtype)


def _np(dtype: str) -> np.dtype:
    return np.dtype(dtype)


def _word(source: np.ndarray, index: list[np.ndarray], dtype: str) -> np.ndarray:
    """The words of *dtype* that begin at the elements *index* of *source*."""
    word = _np(dtype)
    shape = np.broadcast_shapes(*(i.shape for i in index))
    flat = np.ravel_multi_index(tuple(np.broadcast_to(i, shape) for i in index), source.shape)
    places = flat[..., None] * source.itemsize + np.arange(word.itemsize)
    data = np.asarray(source, order="C").reshape(-1).view(np.uint8)
    return np.asarray(data[np.clip(places, 0, data.size - 1)], order="C").view(word)[..., 0]


def _dot_bf16(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    def parts(word: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (word << np.uint32(16)).view(np.float32), (word & np.uint32(0xFFFF0000)).view(np.float32)

    (a0, a1), (b0, b1) = parts(np.atleast_1d(a)), parts(np.atleast_1d(b))
    result: np.ndarray = total + a0 * b0 + a1 * b1
    return result


def _dot_u8s8(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    for shift in range(0, 32, 8):
        left = (a >> np.uint32(shift)).astype(np.uint8).astype(np.int32)
        total = total + left * (b >> np.uint32(shift)).astype(np.uint8).astype(np.int8).astype(np.int32)
    return total


_DOTS: dict[str, Callable[..., np.ndarray]] = {"dot_bf16": _dot_bf16, "dot_u8s8": _dot_u8s8}


_RULES: dict[type, Callable[..., np.ndarray]] = {
    Const: lambda s, e, g: np.asarray(e.value, _np(e.dtype)),
    Index: lambda s, e, g: g[e],
    Size: lambda s, e, g: np.asarray(s.sizes[e.name]),
    Binary: _Evaluator.binary,
    Intrinsic: _Evaluator.intrinsic,
    Cast: lambda s, e, g: s.expr(e.value, g).astype(_np(e.dtype)),
    Select: lambda s, e, g: np.where(s.expr(e.cond, g), s.expr(e.then, g), s.expr(e.otherwise, g)),
    Checked: _Evaluator.checked,
    Load: _Evaluator.load,
    Reduce: _Evaluator.reduce,
}
