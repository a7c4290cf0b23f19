"""Proposals of the operators that no other file has: norms, scatters, samplings, index arithmetic, creation."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from fuzz.generators.draft import FLOATS, INTEGERS, Draft, NotApplicable, Proposal, proposals
from fuzz.generators.schema import schema_of

PROPOSALS: list[Proposal] = []
proposal = proposals(PROPOSALS)
ALL = (*FLOATS, *INTEGERS, "bool")


@proposal(2)
def scatter_elements(d: Draft) -> None:
    a = d.pick(ALL, range(1, 5), lambda n: not d.free_axes(n) and 0 not in d.shape(n))
    axis, shape = d.fixed_axis(a), list(d.shape(a))
    size = shape[axis]
    shape[axis] = d.rng.randrange(1, size + 1)
    places = np.stack([d.numbers.permutation(size)[: shape[axis]] for _ in range(int(np.prod(shape)) // shape[axis])])
    moved = [s for k, s in enumerate(shape) if k != axis]
    places = np.moveaxis(places.reshape([*moved, shape[axis]]), -1, axis) - d.rng.choice((0, size))
    adds = d.opset >= 16 and d.dtype(a) != "bool" and d.rng.random() < 0.4
    how = {"reduction": d.rng.choice(("add", "mul"))} if adds else {}
    d.add(
        "ScatterElements",
        [a, d.weight(places.astype("int64")), d.weight(d.random_array(shape, d.dtype(a)))],
        axis=axis,
        **how,
    )


@proposal(1)
def scatter_nd(d: Draft) -> None:
    a = d.pick(ALL, range(1, 5), lambda n: not d.free_axes(n) and 0 not in d.shape(n))
    n = d.shape(a)[0]
    rows = d.numbers.permutation(n)[: d.rng.randrange(1, n + 1)].reshape(-1, 1)
    updates = d.random_array([len(rows), *d.shape(a)[1:]], d.dtype(a))
    d.add("ScatterND", [a, d.weight(rows.astype("int64")), d.weight(updates)])


@proposal(1)
def compress(d: Draft) -> None:
    a = d.pick(ALL, range(1, 4), lambda n: not d.free_axes(n))
    axis = d.fixed_axis(a)
    d.add("Compress", [a, d.weight(d.random_array([d.shape(a)[axis]], "bool"))], axis=axis)


@proposal(1)
def non_zero(d: Draft) -> None:
    if not d.is_static:
        raise NotApplicable
    d.add("NonZero", [d.pick(ALL, range(1, 5))])


@proposal(1)
def sizes(d: Draft) -> None:
    a = d.pick(ALL)
    more = {"start": d.rng.randrange(-2, 3), "end": d.rng.randrange(-2, 4)} if d.opset >= 15 else {}
    if d.rng.random() < 0.5:
        d.add("Size", [a])
    else:
        d.add("Shape", [a], **more)


@proposal(1)
def creation(d: Draft) -> None:
    how = d.rng.randrange(4)
    if how == 0:
        values = [d.rng.choice((0, 1, 5)), d.rng.choice((6, 9)), d.rng.choice((1, 2))]
        d.add("Range", [d.weight(np.array(v, d.rng.choice(("int64",)))) for v in values])
    elif how == 1:
        a = d.pick(ALL, (2,))
        d.add("EyeLike", [a], k=d.rng.randrange(-2, 3), dtype=d.rng.choice((1, 7, 11)))
    elif how == 2:
        a = d.pick(ALL)
        (shape,) = d.add("Shape", [a])
        d.add("ConstantOfShape", [shape])
    else:
        d.add("Constant", [], value=numpy_helper.from_array(d.random_array([2, 3], d.rng.choice(ALL))))


@proposal(2)
def norms(d: Draft) -> None:
    op = d.rng.choice(("LRN", "LpNormalization", "GlobalLpPool", "GroupNormalization", "Softmax"))
    a = d.pick(("float32",), (3, 4), lambda n: 1 not in d.free_axes(n) and 0 not in d.shape(n))
    if schema_of(op, d.opset) is None:
        raise NotApplicable
    if op == "LRN":
        d.add(op, [a], size=d.rng.choice((1, 3, 5)), alpha=0.1, beta=0.75, bias=1.0)
    elif op == "LpNormalization":
        d.add(op, [a], axis=d.axis(a), p=d.rng.choice((1, 2)))
    elif op == "GlobalLpPool":
        d.add(op, [a], p=d.rng.choice((1, 2, 3)))
    elif op == "Softmax":
        d.add(op, [a], axis=d.axis(a))
    else:
        c = d.shape(a)[1]
        groups = d.rng.choice([g for g in (1, 2, 3, c) if c % g == 0])
        length = c if d.opset >= 21 else groups
        d.add(op, [a, d.floats(length), d.floats(length)], num_groups=groups)


@proposal(1)
def einsum(d: Draft) -> None:
    a = d.pick(FLOATS, (2, 3), lambda n: not d.free_axes(n) and 0 not in d.shape(n))
    letters = "abc"[: len(d.shape(a))]
    k, n = d.shape(a)[-1], d.rng.choice((1, 2, 7))
    b = d.floats(k, n, dtype=d.dtype(a))
    result = list(letters[:-1] + "z")
    d.rng.shuffle(result)
    d.add("Einsum", [a, b], equation=f"{letters},{letters[-1]}z->{''.join(result)}")


@proposal(1)
def reverse(d: Draft) -> None:
    a = d.pick(ALL, (2, 3, 4), lambda n: not d.free_axes(n) and 0 not in d.shape(n))
    time = d.rng.randrange(2)
    lengths = d.numbers.integers(1, d.shape(a)[time] + 1, d.shape(a)[1 - time])
    d.add("ReverseSequence", [a, d.weight(lengths.astype("int64"))], time_axis=time, batch_axis=1 - time)


@proposal(1)
def affine_grid(d: Draft) -> None:
    if d.opset < 20:
        raise NotApplicable
    theta = d.pick(("float32",), (3,), lambda n: d.shape(n)[1:] == (2, 3) and not d.free_axes(n))
    size = [d.shape(theta)[0], 1, d.rng.choice((1, 2, 5)), d.rng.choice((1, 3, 4))]
    d.add("AffineGrid", [theta, d.ints(size)], align_corners=d.rng.randrange(2))


@proposal(1)
def microsoft(d: Draft) -> None:
    """The operators that ONNX Runtime's own optimiser writes."""
    op = d.rng.choice(("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "SkipLayerNormalization", "FusedMatMul"))
    ranks = (3,) if op == "SkipLayerNormalization" else (2, 3)
    a = d.pick(("float32",), ranks, lambda n: len(d.shape(n)) - 1 not in d.free_axes(n) and 0 not in d.shape(n))
    width = d.shape(a)[-1]
    more: dict[str, list[str]] = {
        "BiasGelu": [d.floats(width)],
        "FastGelu": [d.floats(width)] if d.rng.random() < 0.5 else [],
        "SkipLayerNormalization": [a, d.floats(width), d.floats(width)],
        "FusedMatMul": [d.floats(5, width)],
    }
    attrs = {"transB": 1, "alpha": 0.5} if op == "FusedMatMul" else {}
    d.add(op, [a, *more.get(op, [])], domain="com.microsoft", **attrs)
