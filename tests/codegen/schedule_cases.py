"""Programs made by hand from tensor expressions whose shapes hit each schedule of C, and what numpy computes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.codegen.kernel.inline import fuse_stages
from byoc.codegen.kernel.program import Group, Program
from byoc.runtime.core.signature import Signature, TensorSpec


@dataclass(frozen=True)
class Case:
    """Inputs as shapes (or arrays), the expression of the output, and what numpy says."""

    inputs: Sequence[object]
    compute: Callable[..., te.Tensor]
    expected: Callable[..., np.ndarray]
    dtype: str = "float32"
    symbols: dict[str, int] | None = None

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(3)
        sizes = self.symbols or {}
        result = []
        for item in self.inputs:
            if isinstance(item, np.ndarray):
                result.append(item)
                continue
            shape = [sizes.get(d, d) for d in item]
            result.append((rng.uniform(-3, 3, shape)).astype(self.dtype))
        return result

    def program(self, symbol: str) -> Program:
        shapes = [item.shape if isinstance(item, np.ndarray) else item for item in self.inputs]
        dtypes = [str(item.dtype) if isinstance(item, np.ndarray) else self.dtype for item in self.inputs]
        inputs = [
            te.placeholder([te.Size(d) if isinstance(d, str) else d for d in shape], dtype, f"x{k}")
            for k, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
        ]
        stages, outputs = fuse_stages([self.compute(*inputs)], set(inputs))
        out = outputs[0]
        specs = tuple(TensorSpec(t.name, tuple(s), t.dtype) for t, s in zip(inputs, shapes, strict=True))
        shape = tuple(d.name if isinstance(d, te.Size) else int(d) for d in out.shape)
        signature = Signature(symbol, specs, (TensorSpec("out", shape, out.dtype),))
        group = Group("kernel", (), stages)
        return Program(symbol, signature, tuple(inputs), (), outputs, (group,))


def _matmul(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    k = te.reduce_axis(a.shape[1], "k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="matmul")


def _dense(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    k = te.reduce_axis(a.shape[1], "k")
    return te.compute((a.shape[0], b.shape[0]), lambda i, j: te.sum(a[i, k] * b[j, k], k), name="dense")


def _dense_bias_relu(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
    product = _dense(a, b)
    biased = te.compute(product.shape, lambda i, j: product[i, j] + c[j], name="biased")
    return te.compute(product.shape, lambda i, j: te.maximum(biased[i, j], 0.0), name="relu")


def _conv(stride: int, size: int) -> Callable[[te.Tensor, te.Tensor], te.Tensor]:
    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        n, c, h, wide = x.shape
        k, i, j = (te.reduce_axis(e, a) for e, a in ((c, "k"), (size, "i"), (size, "j")))
        shape = (n, w.shape[0], (h - size) // stride + 1, (wide - size) // stride + 1)
        return te.compute(
            shape,
            lambda b, o, y, z: te.sum(x[b, k, y * stride + i, z * stride + j] * w[o, k, i, j], [k, i, j]),
            name="conv",
        )

    return compute


def _conv_numpy(stride: int, size: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def compute(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]
        return np.einsum("nchwij,ocij->nohw", windows.astype("float64"), w.astype("float64"))

    return compute


def _depthwise(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    i, j = te.reduce_axis(3, "i"), te.reduce_axis(3, "j")
    n, c, h, wide = x.shape
    return te.compute(
        (n, c, h - 2, wide - 2),
        lambda b, o, y, z: te.sum(x[b, o, y + i, z + j] * w[o, i, j], [i, j]),
        name="depthwise",
    )


def _depthwise_numpy(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,cij->nchw", windows.astype("float64"), w.astype("float64"))


def _pool(x: te.Tensor) -> te.Tensor:
    i, j = te.reduce_axis(3, "i"), te.reduce_axis(3, "j")
    shape = (x.shape[0], (x.shape[1] - 3) // 2 + 1, (x.shape[2] - 3) // 2 + 1)
    return te.compute(shape, lambda c, y, z: te.max(x[c, y * 2 + i, z * 2 + j], [i, j]), name="pool")


def _over_last(reduce: Callable[..., te.PrimExpr]) -> Callable[[te.Tensor], te.Tensor]:
    def compute(x: te.Tensor) -> te.Tensor:
        r = te.reduce_axis(x.shape[-1], "r")
        return te.compute(x.shape[:-1], lambda *i: reduce(x[(*i, r)], r), name="reduced")

    return compute


def _over_first(reduce: Callable[..., te.PrimExpr]) -> Callable[[te.Tensor], te.Tensor]:
    def compute(x: te.Tensor) -> te.Tensor:
        r = te.reduce_axis(x.shape[0], "r")
        return te.compute(x.shape[1:], lambda *i: reduce(x[(r, *i)], r), name="reduced")

    return compute


def _softmax(x: te.Tensor) -> te.Tensor:
    r, s = te.reduce_axis(x.shape[1], "r"), te.reduce_axis(x.shape[1], "s")
    top = te.compute((x.shape[0],), lambda i: te.max(x[i, r], r), name="top")
    e = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - top[i]), name="e")
    total = te.compute((x.shape[0],), lambda i: te.sum(e[i, s], s), name="total")
    return te.compute(x.shape, lambda i, j: e[i, j] / total[i], name="softmax")


def _softmax_numpy(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _layer_norm(x: te.Tensor, scale: te.Tensor) -> te.Tensor:
    r, s = te.reduce_axis(x.shape[-1], "r"), te.reduce_axis(x.shape[-1], "s")
    n, rows = float(x.shape[-1]), (*x.shape[:-1], 1)
    mean = te.compute(rows, lambda *i: te.sum(x[(*i[:-1], r)], r) / n, name="mean")
    deviation = te.compute(x.shape, lambda *i: x[i] - mean[(*i[:-1], 0)], name="deviation")
    square = te.compute(
        rows, lambda *i: te.sum(deviation[(*i[:-1], s)] * deviation[(*i[:-1], s)], s) / n, name="square"
    )
    return te.compute(
        x.shape, lambda *i: deviation[i] * te.rsqrt(square[(*i[:-1], 0)] + 1e-5) * scale[i[-1]], name="norm"
    )


def _layer_norm_numpy(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale


def _padded_pool(kind: Callable[..., te.PrimExpr], outside: float) -> Callable[[te.Tensor], te.Tensor]:
    """3x3, stride 2, one element of padding, channels innermost."""

    def compute(x: te.Tensor) -> te.Tensor:
        h, w, c = x.shape
        i, j = te.reduce_axis(3, "i"), te.reduce_axis(3, "j")

        def element(y, z, k):
            row, column = y * 2 + i - 1, z * 2 + j - 1
            inside = [row >= 0, row < h, column >= 0, column < w]
            inside = functools.reduce(lambda p, q: te.binary("and", p, q), inside)
            return kind(te.if_then_else(inside, x[row, column, k], outside), [i, j])

        return te.compute(((h + 1) // 2, (w + 1) // 2, c), element, name="pool")

    return compute


def _padded_pool_numpy(fold: Callable[..., np.ndarray], outside: float) -> Callable[[np.ndarray], np.ndarray]:
    def compute(x: np.ndarray) -> np.ndarray:
        h, w, _ = x.shape
        padded = np.pad(x, ((1, 1 + h % 2), (1, 1 + w % 2), (0, 0)), constant_values=outside)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (0, 1))[::2, ::2]
        return fold(windows, (-1, -2))[: (h + 1) // 2, : (w + 1) // 2]

    return compute


def _variance(x: te.Tensor) -> te.Tensor:
    r, s = te.reduce_axis(x.shape[1], "r"), te.reduce_axis(x.shape[1], "s")
    n = float(x.shape[1])
    return te.compute(
        (x.shape[0],),
        lambda i: te.sum(x[i, r] * x[i, r], r) / n - (te.sum(x[i, s], s) / n) * (te.sum(x[i, s], s) / n),
        name="variance",
    )


def _pad(x: te.Tensor) -> te.Tensor:
    n, h, w, c = x.shape

    def element(b, i, j, k):
        inside = [i >= 1, i < h + 1, j >= 2, j < w + 2]
        all_inside = functools.reduce(lambda p, q: te.binary("and", p, q), inside)
        return te.if_then_else(all_inside, x[b, i - 1, j - 2, k], 0.5)

    return te.compute((n, h + 2, w + 4, c), element, name="pad")


def _pad_numpy(x: np.ndarray) -> np.ndarray:
    return np.pad(x, ((0, 0), (1, 1), (2, 2), (0, 0)), constant_values=0.5)


def _concatenate(*parts: te.Tensor) -> te.Tensor:
    def element(i, j):
        start = sum(p.shape[1] for p in parts)
        value = None
        for part in reversed(parts):
            start -= part.shape[1]
            load = part[i, j - start]
            value = load if value is None else te.if_then_else(j < start + part.shape[1], load, value)
        return value

    return te.compute((parts[0].shape[0], sum(p.shape[1] for p in parts)), element, name="concatenate")


def _mapped(f: Callable[..., te.PrimExpr]) -> Callable[..., te.Tensor]:
    """*f* of the elements of tensors of one shape."""
    return lambda *x: te.compute(x[0].shape, lambda *i: f(*(t[i] for t in x)), name="mapped")


def _permuted(*order: int) -> Callable[[te.Tensor], te.Tensor]:
    def compute(x: te.Tensor) -> te.Tensor:
        shape = [x.shape[k] for k in order]
        return te.compute(shape, lambda *i: x[tuple(i[order.index(k)] for k in range(len(order)))], name="permuted")

    return compute


def _with_nans(*shape: int) -> np.ndarray:
    array = np.random.default_rng(5).normal(size=shape).astype("float32")
    array.reshape(-1)[::37] = np.nan
    return array


def _bools() -> np.ndarray:
    """A row of both, one of both with the last true, one of false alone, one of true alone."""
    rows = np.arange(200).reshape(2, 100) % 101 < 40
    return np.concatenate([rows, np.zeros((1, 100), bool), np.ones((1, 100), bool)])


CASES: dict[str, Case] = {
    **{
        f"matmul {m} {k} {n} {dtype}": Case([(m, k), (k, n)], _matmul, np.matmul, dtype)
        for m, k, n, dtype in [
            (1, 1, 1, "float32"),
            (13, 77, 50, "float32"),
            (4, 16, 16, "float32"),
            (7, 3, 5, "float64"),
            (33, 20, 67, "float64"),
            (9, 31, 17, "int32"),
            (5, 6, 7, "int64"),
            (5, 6, 7, "int8"),
            (3, 99, 3, "float32"),
        ]
    },
    **{
        f"dense {m} {k} {n} {dtype}": Case([(m, k), (n, k)], _dense, lambda a, b: a @ b.T, dtype)
        for m, k, n, dtype in [
            (1, 64, 10, "float32"),
            (13, 77, 50, "float32"),
            (7, 33, 5, "float64"),
            (2, 100, 3, "int32"),
            (1, 500, 1, "float32"),
            (6, 9, 4, "uint8"),
        ]
    },
    "dense with bias and relu": Case(
        [(5, 80), (19, 80), (19,)], _dense_bias_relu, lambda a, b, c: np.maximum(a @ b.T + c, 0)
    ),
    "matmul with symbolic rows": Case([("m", 40), (40, 24)], _matmul, np.matmul, symbols={"m": 11}),
    "matmul with fewer symbolic rows than a block": Case([("m", 40), (40, 24)], _matmul, np.matmul, symbols={"m": 1}),
    "matmul with a symbolic sum": Case([(6, "k"), ("k", 24)], _matmul, np.matmul, symbols={"k": 9}),
    "matmul with symbolic columns": Case([(6, 8), (8, "n")], _matmul, np.matmul, symbols={"n": 21}),
    "dense with symbolic rows": Case([("m", 40), (24, 40)], _dense, lambda a, b: a @ b.T, symbols={"m": 5}),
    "matmul over nothing": Case([(3, 0), (0, 20)], _matmul, np.matmul),
    "matmul of nothing": Case([(0, 4), (4, 20)], _matmul, np.matmul),
    **{
        f"conv {h}x{w} k{k} s{s}": Case([(2, 3, h, w), (5, 3, k, k)], _conv(s, k), _conv_numpy(s, k))
        for h, w, k, s in [(9, 23, 3, 1), (14, 37, 3, 2), (7, 7, 1, 1), (6, 5, 2, 1), (8, 60, 3, 1), (5, 4, 3, 1)]
    },
    "conv with a symbolic batch": Case(
        [("n", 3, 9, 23), (5, 3, 3, 3)], _conv(1, 3), _conv_numpy(1, 3), symbols={"n": 2}
    ),
    "depthwise": Case([(1, 6, 12, 30), (6, 3, 3)], _depthwise, _depthwise_numpy),
    "max pool": Case(
        [(4, 17, 41)],
        _pool,
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, ::2].max((-1, -2)),
    ),
    "a sum so long that float32 would lose digits": Case(
        [np.random.default_rng(9).uniform(100, 101, (1, 8, 300_001)).astype("float32")],
        _over_last(te.sum),
        lambda x: x.astype("float64").sum(-1),
    ),
    "softmax": Case([(6, 101)], _softmax, _softmax_numpy),
    **{
        f"softmax of {shape} {dtype}": Case([shape], _softmax, _softmax_numpy, dtype)
        for shape, dtype in [
            ((40, 7), "float32"),
            ((9, 16), "float32"),
            ((3, 500), "float64"),
            ((1, 33), "float32"),
            ((2, 3), "float32"),
        ]
    },
    "softmax with symbolic rows": Case([("n", 45)], _softmax, _softmax_numpy, symbols={"n": 11}),
    "softmax of symbolic length": Case([(9, "n")], _softmax, _softmax_numpy, symbols={"n": 77}),
    "softmax with NaNs": Case([_with_nans(9, 50)], _softmax, _softmax_numpy),
    **{
        f"layer norm of {shape}": Case([shape, (shape[-1],)], _layer_norm, _layer_norm_numpy)
        for shape in [(3, 5, 64), (40, 77), (2, 5000), (1, 20)]
    },
    **{
        f"padded {name} pool of {shape}": Case([shape], _padded_pool(f, fill), _padded_pool_numpy(g, fill))
        for shape in [(9, 12, 70), (5, 6, 16), (4, 4, 6)]
        for name, f, g, fill in [("max", te.max, np.max, -np.inf), ("sum", te.sum, np.sum, 0.0)]
    },
    **{
        f"{name} over the first axis of {shape} {dtype}": Case([shape], _over_first(f), lambda x, g=g: g(x, 0), dtype)
        for shape, dtype in [((49, 100), "float32"), ((5, 3, 17), "int32"), ((6, 200), "float64"), ((30, 5), "float32")]
        for name, f, g in [("sum", te.sum, np.sum), ("min", te.min, np.min)]
    },
    **{
        f"{name} over {length}": Case([(11, length)], _over_last(f), lambda x, g=g: g(x, -1))
        for length in (1, 3, 4, 15, 16, 31, 64, 65, 129, 1000)
        for name, f, g in [("sum", te.sum, np.sum), ("max", te.max, np.max)]
    },
    "two sums in one value": Case([(6, 101)], _variance, lambda x: x.astype("float64").var(1)),
    **{
        f"{name} over the last axis, {dtype}": Case([(5, 3, 71)], _over_last(f), lambda x, g=g: g(x, axis=-1), dtype)
        for name, f, g in [
            ("sum", te.sum, np.sum),
            ("max", te.max, np.max),
            ("min", te.min, np.min),
            ("argmax", te.argmax, np.argmax),
            ("argmin", te.argmin, np.argmin),
        ]
        for dtype in ("float32", "float64", "int64")
    },
    **{
        f"{name} over the first axis": Case([(7, 3, 71)], _over_first(f), lambda x, g=g: g(x, axis=0))
        for name, f, g in [("prod", te.prod, np.prod), ("max", te.max, np.max), ("argmin", te.argmin, np.argmin)]
    },
    **{
        f"{name} of bools": Case([_bools()], _over_last(f), lambda x, g=g: g(x, axis=-1))
        for name, f, g in [("any", te.any, np.any), ("all", te.all, np.all)]
    },
    **{
        f"{name} with NaNs": Case([_with_nans(6, 50)], _over_last(f), lambda x, g=g: g(x, axis=-1))
        for name, f, g in [
            ("max", te.max, np.max),
            ("min", te.min, np.min),
            ("argmax", te.argmax, np.argmax),
            ("argmin", te.argmin, np.argmin),
        ]
    },
    **{
        f"{name} over the first axis with NaNs": Case([_with_nans(9, 50)], _over_first(f), lambda x, g=g: g(x, axis=0))
        for name, f, g in [("max", te.max, np.max), ("min", te.min, np.min)]
    },
    "max of nothing but minus infinities": Case(
        [np.full((2, 40), -np.inf, "float32")], _over_last(te.argmax), lambda x: np.argmax(x, -1)
    ),
    "transpose": Case(
        [(5, 7, 9)],
        lambda x: te.compute((9, 5, 7), lambda i, j, k: x[j, k, i], name="t"),
        lambda x: x.transpose(2, 0, 1),
    ),
    "reshape": Case(
        [(6, 35)],
        lambda x: te.compute((5, 42), lambda i, j: x[(i * 42 + j) // 35, (i * 42 + j) % 35], name="r"),
        lambda x: x.reshape(5, 42),
    ),
    "scalar": Case([()], lambda x: te.compute((), lambda: x[()] * 2.0, name="twice"), lambda x: x * 2),
    **{f"padded {shape}": Case([shape], _pad, _pad_numpy) for shape in [(1, 5, 6, 20), (2, 3, 30, 1), (1, 1, 1, 3)]},
    "concatenated": Case([(6, 20), (6, 1), (6, 35)], _concatenate, lambda *x: np.concatenate(x, 1)),
    "concatenated along a symbolic axis": Case(
        [("n", 20), ("n", 7)], _concatenate, lambda *x: np.concatenate(x, 1), symbols={"n": 3}
    ),
    **{
        f"permuted {shape} by {order}": Case([shape], _permuted(*order), lambda x, o=order: x.transpose(o), dtype)
        for shape, order, dtype in [
            ((37, 50), (1, 0), "float32"),
            ((3, 200), (1, 0), "float32"),
            ((200, 3), (1, 0), "float64"),
            ((4, 21, 33), (1, 2, 0), "float32"),
            ((4, 21, 33), (0, 2, 1), "int32"),
            ((2, 3, 5, 20), (0, 2, 1, 3), "int8"),
        ]
    },
    "permuted along a symbolic axis": Case(
        [
            ("n", 30),
        ],
        _permuted(1, 0),
        lambda x: x.T,
        symbols={"n": 9},
    ),
    **{
        f"sigmoid of {shape}": Case([shape], _mapped(te.sigmoid), lambda x: 1 / (1 + np.exp(-x)))
        for shape in [(1,), (3,), (16,), (17,), (5, 7), (1, 1, 100), (3, 5, 43)]
    },
    **{
        f"relu of {dtype}": Case([(3, 77)], _mapped(lambda x: te.maximum(x, 0)), lambda x: np.maximum(x, 0), dtype)
        for dtype in ("float32", "float64", "int8", "int32", "int64")
    },
    "compared": Case([(9, 21), (9, 21)], _mapped(lambda x, y: x < y), np.less),
    "a broadcast row": Case(
        [(9, 21), (21,)], lambda x, y: te.compute(x.shape, lambda i, j: x[i, j] * y[j], name="scaled"), np.multiply
    ),
    "a broadcast column": Case(
        [(9, 21), (9, 1)], lambda x, y: te.compute(x.shape, lambda i, j: x[i, j] * y[i, 0], name="scaled"), np.multiply
    ),
    "rows by a table": Case(
        [np.array([3, 0, 4, 4]), np.arange(125, dtype="float32").reshape(5, 25)],
        lambda i, x: te.compute((4, 25), lambda a, b: x[i[a], b], name="taken"),
        lambda i, x: x[i],
    ),
    "below a diagonal": Case(
        [(40, 50)],
        lambda x: te.compute(x.shape, lambda i, j: te.if_then_else(j <= i + 3, x[i, j], -1.0), name="lower"),
        lambda x: np.where(np.arange(50) <= np.arange(40)[:, None] + 3, x, -1),
    ),
    "rows padded to whole blocks": Case(
        [(45, 20)],
        lambda x: te.compute(
            (3, 20, 16), lambda i, j, k: te.if_then_else(i * 16 + k < 45, x[i * 16 + k, j], 0.0), name="blocks"
        ),
        lambda x: np.pad(x, ((0, 3), (0, 0))).reshape(3, 16, 20).transpose(0, 2, 1),
    ),
    "where two positions are equal": Case(
        [(21, 33)],
        lambda x: te.compute(x.shape, lambda i, j: te.cast("float32", te.binary("eq", i, j)) + x[i, j], name="eye"),
        lambda x: np.eye(21, 33, dtype="float32") + x,
    ),
    "a symbolic row": Case([(4, "n")], _mapped(te.exp), np.exp, symbols={"n": 37}),
    "a position as a number": Case(
        [(4, 1)],
        lambda x: te.compute((4, 1), lambda i, j: x[i, j] + te.cast("float32", i + j), name="p"),
        lambda x: x + np.arange(4, dtype="float32")[:, None],
    ),
}
