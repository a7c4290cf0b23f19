"""Proposals of quantized operators: QuantizeLinear and what computes on integers with scales and zero points."""

from __future__ import annotations

import numpy as np

from fuzz.generators.draft import Draft, NotApplicable, Proposal, proposals

PROPOSALS: list[Proposal] = []
proposal = proposals(PROPOSALS)
BYTES = ("int8", "uint8")


def scale(d: Draft, *shape: int) -> str:
    """A positive float32 constant."""
    return d.weight(np.asarray(d.numbers.choice([0.02, 0.0625, 0.1, 0.25], shape), "float32"))


def zero(d: Draft, dtype: str, *shape: int) -> str:
    """A zero point of *dtype*."""
    low, high = (-6, 7) if dtype == "int8" else (110, 140)
    return d.weight(np.asarray(d.numbers.integers(low, high, shape), dtype))


def numbers(d: Draft, dtype: str, *shape: int) -> str:
    """A constant of bytes over their whole range."""
    limits = np.iinfo(dtype)
    return d.weight(np.asarray(d.numbers.integers(limits.min, limits.max + 1, shape), dtype))


@proposal(4)
def quantize(d: Draft) -> None:
    a, dtype = d.pick(("float32",)), d.rng.choice(BYTES)
    rank, per_axis = len(d.shape(a)), d.rng.random() < 0.4
    axis = d.fixed_axis(a) if per_axis and rank > 1 else None
    shape = () if axis is None else (d.shape(a)[axis],)
    pair = [scale(d, *shape), zero(d, dtype, *shape)]
    (made,) = d.add("QuantizeLinear", [a, *pair], axis=axis)
    if d.rng.random() < 0.7:
        d.add("DequantizeLinear", [made, *pair], axis=axis)


@proposal(2)
def dequantize(d: Draft) -> None:
    a = d.pick((*BYTES, "int32"))
    zeros = [] if d.dtype(a) == "int32" or d.rng.random() < 0.3 else [zero(d, d.dtype(a))]
    d.add("DequantizeLinear", [a, scale(d), *zeros])


@proposal(2)
def dynamic(d: Draft) -> None:
    d.add("DynamicQuantizeLinear", [d.pick(("float32",))], 3)


@proposal(3)
def product(d: Draft) -> None:
    a = d.pick(BYTES, (2, 3), lambda n: len(d.shape(n)) - 1 not in d.free_axes(n))
    k, n, other = d.shape(a)[-1], d.rng.choice((1, 3, 8, 17)), d.rng.choice(BYTES)
    b = numbers(d, other, k, n)
    if d.rng.random() < 0.5:
        zeros = d.rng.choice(([], [zero(d, d.dtype(a))], [zero(d, d.dtype(a)), zero(d, other)]))
        d.add("MatMulInteger", [a, b, *zeros])
        return
    per_column = (n,) if d.rng.random() < 0.4 else ()
    d.add(
        "QLinearMatMul",
        [
            a,
            scale(d),
            zero(d, d.dtype(a)),
            b,
            scale(d, *per_column),
            zero(d, other, *per_column),
            scale(d),
            zero(d, d.dtype(a)),
        ],
    )


@proposal(3)
def convolution(d: Draft) -> None:
    a = d.pick(BYTES, (4,), lambda n: 1 not in d.free_axes(n))
    c, out, k = d.shape(a)[1], d.rng.choice((1, 2, 5, 8)), d.rng.choice((1, 2, 3))
    if min(d.shape(a)) < 1:
        raise NotApplicable
    other = d.rng.choice(BYTES)
    attrs = {"pads": [d.rng.randrange(k) for _ in range(4)], "strides": [d.rng.choice((1, 2)) for _ in range(2)]}
    w = numbers(d, other, out, c, k, k)
    if d.rng.random() < 0.4:
        zeros = d.rng.choice(([], [zero(d, d.dtype(a))], [zero(d, d.dtype(a)), zero(d, other)]))
        d.add("ConvInteger", [a, w, *zeros], **attrs)
        return
    bias = [d.weight(d.numbers.integers(-999, 999, out).astype("int32"))] if d.rng.random() < 0.5 else []
    d.add(
        "QLinearConv",
        [
            a,
            scale(d),
            zero(d, d.dtype(a)),
            w,
            scale(d),
            zero(d, other),
            scale(d),
            zero(d, d.dtype(a)),
            *bias,
        ],
        **attrs,
    )
