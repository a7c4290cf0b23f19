"""What a random model may be made of: each proposal draws a node with its attributes and constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fuzz.generators.draft import FLOATS, INTEGERS, Draft, NotApplicable, Proposal, proposals

PROPOSALS: list[Proposal] = []
proposal = proposals(PROPOSALS)
ONNX_TYPE = {"float32": 1, "float64": 11, "int32": 6, "int64": 7, "bool": 9}
UNARY = (
    "Relu Sigmoid Tanh Neg Abs Exp Sqrt Erf Identity LeakyRelu Elu HardSigmoid HardSwish Softplus Floor Ceil Round "
    "Sign Reciprocal Log Sin Cos Mish Softsign Selu Celu".split()
)


def broadcast_together(a: Sequence[int], b: Sequence[int]) -> bool:
    """True when two shapes broadcast to one."""
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1], strict=False))


@proposal(4)
def unary(d: Draft) -> None:
    d.add(d.rng.choice(UNARY), [d.pick()])


@proposal(1)
def gelu(d: Draft) -> None:
    if d.opset < 20:
        raise NotApplicable
    d.add("Gelu", [d.pick(("float32",))], approximate=d.rng.choice(("none", "tanh")))


@proposal(1)
def integer_unary(d: Draft) -> None:
    d.add(d.rng.choice(("Neg", "Abs", "Sign", "Identity", "Relu")), [d.pick(INTEGERS)])


def broadcastable(d: Draft, a: str) -> str:
    """A value or constant that broadcasts with *a*."""
    shape, free, dtype = d.shape(a), d.free_axes(a), d.dtype(a)
    if d.rng.random() < 0.5:
        return d.pick((dtype,), where=lambda n: broadcast_together(d.shape(n), shape))
    kept = [1 if k in free or d.rng.random() < 0.3 else s for k, s in enumerate(shape)]
    kept = kept[d.rng.randrange(len(kept) + 1) :] if d.rng.random() < 0.6 else [1] * d.rng.randrange(2) + kept
    return d.weight(d.random_array(kept, dtype))


@proposal(9)
def binary(d: Draft) -> None:
    a = d.pick(FLOATS + INTEGERS)
    pair = [a, broadcastable(d, a)]
    d.rng.shuffle(pair)
    d.add(d.rng.choice(("Add", "Add", "Sub", "Mul", "Mul", "Div", "Min", "Max", "Pow", "PRelu")), pair)


@proposal(2)
def integer_binary(d: Draft) -> None:
    a = d.pick(INTEGERS)
    op = d.rng.choice(("Div", "Mod", "Mul", "Pow", "Sub"))
    if op in ("Div", "Mod"):
        known = d.shape(a) and len(d.shape(a)) - 1 not in d.free_axes(a)
        b = d.random_array([d.rng.choice((1, d.shape(a)[-1] if known else 1))], d.dtype(a))
        b[b == 0] = 3
        d.add(op, [a, d.weight(b)])
    else:
        d.add(op, [a, d.weight(np.array(d.rng.randrange(4), d.dtype(a)))])


@proposal(1)
def big_integers(d: Draft) -> None:
    a = d.pick(INTEGERS)
    big = 2**30 + 12345 if d.dtype(a) == "int32" else 2**62 + 99
    d.add(d.rng.choice(("Mul", "Add")), [a, d.weight(np.array(big, d.dtype(a)))])


@proposal(1)
def float_mod(d: Draft) -> None:
    a = d.pick(FLOATS)
    d.add("Mod", [a, d.weight(np.array(d.rng.choice((0.7, -0.6)), d.dtype(a)))], fmod=1)


@proposal(2)
def variadic(d: Draft) -> None:
    a = d.pick(FLOATS)
    d.add(d.rng.choice(("Sum", "Mean", "Max", "Min")), [a, *(broadcastable(d, a) for _ in range(d.rng.randrange(3)))])


@proposal(3)
def compare(d: Draft) -> None:
    a = d.pick(FLOATS + INTEGERS)
    d.add(d.rng.choice(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")), [a, broadcastable(d, a)])


@proposal(2)
def logic(d: Draft) -> None:
    a = d.pick(("bool",))
    op = d.rng.choice(("And", "Or", "Xor", "Not"))
    d.add(op, [a] if op == "Not" else [a, broadcastable(d, a)])


@proposal(2)
def where(d: Draft) -> None:
    a = d.pick(("bool",))
    b = d.pick(FLOATS + INTEGERS, where=lambda n: broadcast_together(d.shape(n), d.shape(a)))
    d.add("Where", [a, b, broadcastable(d, b)])


@proposal(3)
def cast(d: Draft) -> None:
    a = d.pick(FLOATS + INTEGERS + ("bool",))
    d.add("Cast", [a], to=ONNX_TYPE[d.rng.choice((*FLOATS, *INTEGERS, "bool", "float32"))])


@proposal(2)
def clip(d: Draft) -> None:
    a = d.pick(FLOATS + INTEGERS)
    low, high = sorted(d.random_array([2], d.dtype(a)).tolist())
    bounds = [d.weight(np.array(v, d.dtype(a))) for v in (low, high)]
    d.add("Clip", [a, *d.rng.choice((bounds, bounds[:1], ["", bounds[1]]))])


def spatial(d: Draft, a: str) -> tuple[int, ...]:
    """The sizes after batch and channels."""
    return d.shape(a)[2:]


@proposal(7)
def conv(d: Draft) -> None:
    a = d.pick(("float32", "float32", "float64"), (3, 4, 5), lambda n: 1 not in d.free_axes(n))
    c, size = d.shape(a)[1], spatial(d, a)
    groups = d.rng.choice([g for g in (1, 1, 1, 2, 3, 4, c) if c % g == 0])
    out = groups * d.rng.choice((1, 1, 2, 3)) if groups > 1 else d.rng.choice((1, 2, 3, 5, 8, 16, 17, 33, 40))
    kernel = [d.rng.choice((1, 1, 3, 3, 2, 5, 4)) for _ in size]
    attrs = {"group": groups, "kernel_shape": kernel if d.rng.random() < 0.7 else None}
    window(d, attrs, len(size))
    bias = [d.floats(out, dtype=d.dtype(a))] if d.rng.random() < 0.5 else []
    d.add("Conv", [a, d.floats(out, c // groups, *kernel, dtype=d.dtype(a)), *bias], **attrs)


def window(d: Draft, attrs: dict, rank: int, dilate: bool = True) -> None:
    """Add strides, dilations and padding to *attrs*, or leave them out."""
    if d.rng.random() < 0.6:
        attrs["strides"] = [d.rng.choice((1, 1, 2, 3)) for _ in range(rank)]
    if dilate and d.rng.random() < 0.3:
        attrs["dilations"] = [d.rng.choice((1, 2, 3)) for _ in range(rank)]
    how = d.rng.random()
    if how < 0.2:
        attrs["auto_pad"] = d.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif how < 0.8:
        limit = min(attrs.get("kernel_shape") or [3]) if "ceil_mode" in attrs or not dilate else 3
        attrs["pads"] = [d.rng.randrange(limit) for _ in range(2 * rank)]


@proposal(3)
def conv_transpose(d: Draft) -> None:
    a = d.pick(("float32",), (3, 4), lambda n: 1 not in d.free_axes(n))
    c, size = d.shape(a)[1], spatial(d, a)
    groups = d.rng.choice([g for g in (1, 1, 2, 3, c) if c % g == 0])
    out = d.rng.choice((1, 2, 3, 8))
    kernel = [d.rng.choice((1, 2, 3, 4)) for _ in size]
    attrs = {"group": groups, "kernel_shape": kernel}
    window(d, attrs, len(size))
    if attrs.get("auto_pad") and not d.is_static:
        raise NotApplicable
    if attrs.get("auto_pad") and any(k < s for k, s in zip(kernel, attrs.get("strides", kernel), strict=True)):
        raise NotApplicable  # ONNX Runtime then gives less than ONNX's formula
    if attrs.get("strides") and d.rng.random() < 0.4:
        attrs["output_padding"] = [d.rng.randrange(s) for s in attrs["strides"]]
    bias = [d.floats(out * groups)] if d.rng.random() < 0.5 else []
    d.add("ConvTranspose", [a, d.floats(c, out, *kernel), *bias], **attrs)


@proposal(4)
def pool(d: Draft) -> None:
    a = d.pick(("float32", "float32", "float64"), (3, 4, 5))
    op = d.rng.choice(("MaxPool", "AveragePool", "LpPool"))
    kernel = [d.rng.choice((1, 2, 3, 3, 4)) for _ in spatial(d, a)]
    attrs = {"kernel_shape": kernel, "ceil_mode": d.rng.randrange(2) if op != "LpPool" else None}
    if op == "AveragePool":
        attrs["count_include_pad"] = d.rng.randrange(2)
    window(d, attrs, len(kernel), op == "MaxPool" or (op == "AveragePool" and d.opset > 18))
    if attrs.get("auto_pad") and (op == "LpPool" or "dilations" in attrs):  # ONNX Runtime's own formula
        raise NotApplicable
    n = len(kernel)
    pads, spread = attrs.get("pads", [0] * 2 * n), attrs.get("dilations", [1] * n)
    rooms = [s + pads[k] + pads[k + n] - (kernel[k] - 1) * spread[k] for k, s in enumerate(spatial(d, a))]
    if min(rooms) < 1 and not attrs.get("auto_pad", "").startswith("SAME"):
        raise NotApplicable  # a window that does not fit: ONNX Runtime rounds its number towards zero
    d.add(op, [a], **attrs)


@proposal(1)
def global_pool(d: Draft) -> None:
    d.add(d.rng.choice(("GlobalAveragePool", "GlobalMaxPool")), [d.pick(("float32",), (3, 4, 5))])


@proposal(4)
def gemm(d: Draft) -> None:
    a = d.pick(FLOATS, (2,))
    ta, tb = d.rng.randrange(2), d.rng.randrange(2)
    axis = 0 if ta else 1
    if axis in d.free_axes(a):
        raise NotApplicable
    k, n = d.shape(a)[axis], d.rng.choice((1, 2, 3, 7, 8, 16, 17, 33))
    attrs = {"transA": ta, "transB": tb}
    if d.rng.random() < 0.4:
        attrs["alpha"], attrs["beta"] = d.rng.choice((1.0, 0.5, -2.0)), d.rng.choice((1.0, 0.5, 0.0))
    bias = []
    if d.rng.random() < 0.7:
        m = 1 if d.free_axes(a) else d.shape(a)[1 - axis]
        bias = [d.floats(*d.rng.choice(((n,), (1, n), (m, 1), (1,), (), (m, n))), dtype=d.dtype(a))]
    d.add("Gemm", [a, d.floats(*((n, k) if tb else (k, n)), dtype=d.dtype(a)), *bias], **attrs)


@proposal(6)
def matmul(d: Draft) -> None:
    a = d.pick(FLOATS + INTEGERS, (1, 2, 3, 4))
    shape = d.shape(a)
    if d.rng.random() < 0.4:
        k = shape[-1]
        b = d.pick((d.dtype(a),), (1, 2, 3, 4), lambda n: d.shape(n)[max(len(d.shape(n)) - 2, 0)] == k)
        d.add("MatMul", [a, b])
        return
    left = d.rng.random() < 0.3
    axis = len(shape) - 2 if left and len(shape) > 1 else len(shape) - 1
    if axis in d.free_axes(a):
        raise NotApplicable
    k, n = shape[axis], d.rng.choice((1, 2, 3, 5, 8, 16, 31))
    batch = [1 if i in d.free_axes(a) or d.rng.random() < 0.4 else s for i, s in enumerate(shape[:-2])]
    batch = batch[d.rng.randrange(len(batch) + 1) :]
    if d.rng.random() < 0.2:
        batch = [2, *([1] * max(0, len(shape) - 2))]
    core = d.rng.choice(([k], [n, k] if left else [k, n], [n, k] if left else [k, n]))
    b = d.weight(d.random_array(core if len(core) == 1 else batch + core, d.dtype(a)))
    d.add("MatMul", [b, a] if left else [a, b])


@proposal(3)
def softmax(d: Draft) -> None:
    a = d.pick(FLOATS, range(1, 7))
    op = d.rng.choice(("Softmax", "Softmax", "LogSoftmax", "Hardmax"))
    if op == "Hardmax" and not d.is_static:
        raise NotApplicable
    d.add(op, [a], axis=d.axis(a))


@proposal(2)
def layer_norm(d: Draft) -> None:
    a = d.pick(("float32",), range(1, 6))
    axis = d.axis(a)
    tail = range(axis % len(d.shape(a)), len(d.shape(a)))
    if d.free_axes(a) & set(tail) or d.opset < 17:
        raise NotApplicable
    shape = [d.shape(a)[k] for k in tail]
    bias = [d.floats(*shape)] if d.rng.random() < 0.6 else []
    d.add("LayerNormalization", [a, d.floats(*shape), *bias], axis=axis, epsilon=d.rng.choice((1e-5, 1e-2)))


@proposal(3)
def channel_norm(d: Draft) -> None:
    op = d.rng.choice(("BatchNormalization", "BatchNormalization", "InstanceNormalization"))
    a = d.pick(("float32",), (2, 3, 4, 5) if op[0] == "B" else (3, 4, 5), lambda n: 1 not in d.free_axes(n))
    c = d.shape(a)[1]
    more = [d.floats(c), d.weight(np.abs(d.random_array([c], "float32")) + 0.1)] if op[0] == "B" else []
    d.add(op, [a, d.floats(c), d.floats(c), *more], epsilon=1e-2)


@proposal(5)
def reduce(d: Draft) -> None:
    op = d.rng.choice("Sum Mean Max Min Prod L1 L2 SumSquare LogSumExp LogSum".split())
    a = d.pick(FLOATS + (INTEGERS if op in ("Sum", "Max", "Min", "Prod", "Mean") else ()))
    if d.dtype(a) in INTEGERS and np.abs(d.value(a)).max(initial=0) > 2**20:
        raise NotApplicable  # ONNX Runtime's sums of integers saturate
    rank = len(d.shape(a))
    axes = d.rng.sample(range(rank), d.rng.randrange(rank + 1))
    axes = [x - rank if d.rng.random() < 0.3 else x for x in axes]
    if op == "Prod" and d.value(a).size > (4 if d.dtype(a) in INTEGERS else 64):
        raise NotApplicable  # a product of many overflows on the way, in one order or another
    keep = d.rng.randrange(2)
    if d.opset >= 18 or op == "Sum":
        more = {"noop_with_empty_axes": 1} if d.rng.random() < 0.1 else {}
        d.add(f"Reduce{op}", [a, *([d.ints(axes)] if axes else [])], keepdims=keep, **more)
    else:
        d.add(f"Reduce{op}", [a], axes=axes or None, keepdims=keep)


@proposal(2)
def arg(d: Draft) -> None:
    a = d.pick(FLOATS + INTEGERS, range(1, 7))
    attrs = {"keepdims": d.rng.randrange(2), "select_last_index": d.rng.randrange(2)}
    d.add(d.rng.choice(("ArgMax", "ArgMin")), [a], axis=d.axis(a), **attrs)


@proposal(1)
def top_k(d: Draft) -> None:
    a = d.pick(FLOATS + INTEGERS, range(1, 7))
    axis = d.fixed_axis(a)
    k = d.rng.randrange(1, d.shape(a)[axis] + 1)
    d.add("TopK", [a, d.ints([k])], 2, axis=axis, largest=d.rng.randrange(2), sorted=1)


@proposal(1)
def cumsum(d: Draft) -> None:
    a = d.pick(FLOATS + INTEGERS, range(1, 7))
    attrs = {"exclusive": d.rng.randrange(2), "reverse": d.rng.randrange(2)}
    d.add("CumSum", [a, d.weight(np.array(d.axis(a), "int64"))], **attrs)
