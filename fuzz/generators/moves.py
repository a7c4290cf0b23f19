"""Proposals that move data: shapes, slices, joins, gathers, resizes."""

from __future__ import annotations

import itertools

import numpy as np

from fuzz.generators.draft import FLOATS, INTEGERS, Draft, NotApplicable
from fuzz.generators.nodes import PROPOSALS, proposal

__all__ = ["PROPOSALS"]  # with those of this file: import it from here
ALL = (*FLOATS, *INTEGERS, "bool")


@proposal(5)
def transpose(d: Draft) -> None:
    a = d.pick(ALL)
    perm = list(range(len(d.shape(a))))
    d.rng.shuffle(perm)
    d.add("Transpose", [a], perm=perm if d.rng.random() < 0.9 else None)


@proposal(6)
def reshape(d: Draft) -> None:
    a = d.pick(ALL)
    shape, free = d.shape(a), d.free_axes(a)
    factors, keep = list(shape), []
    if free:
        lead = max(free) + 1
        keep = [0 if d.rng.random() < 0.5 else -1 for _ in range(1)] if lead == 1 else [0] * lead
        factors = factors[lead:]
    parts = []
    for f in factors:
        p = next((p for p in (2, 3, 5, 7) if f % p == 0 and f > p), None)
        parts.extend([p, f // p] if p and d.rng.random() < 0.4 else [f])
    merged = []
    for p in parts:
        if merged and d.rng.random() < 0.5:
            merged[-1] *= p
        else:
            merged.append(p)
    if d.rng.random() < 0.3:
        d.rng.shuffle(merged)
    if d.rng.random() < 0.3:
        merged.insert(d.rng.randrange(len(merged) + 1), 1)
    if -1 not in keep and merged and d.rng.random() < 0.4:
        merged[d.rng.randrange(len(merged))] = -1
    d.add("Reshape", [a, d.ints(keep + merged)])


@proposal(3)
def squeeze(d: Draft) -> None:
    a = d.pick(ALL)
    shape, rank = d.shape(a), len(d.shape(a))
    ones = [k for k, s in enumerate(shape) if s == 1 and k not in d.free_axes(a)]
    if ones and d.rng.random() < 0.6:
        some = d.rng.sample(ones, d.rng.randrange(1, len(ones) + 1))
        d.add("Squeeze", [a, d.ints([k - rank if d.rng.random() < 0.3 else k for k in some])])
    else:
        d.add("Unsqueeze", [a, d.ints(d.rng.sample(range(-rank - 1, rank + 1), 1))])


@proposal(1)
def flatten(d: Draft) -> None:
    a = d.pick(ALL)
    rank = len(d.shape(a))
    d.add("Flatten", [a], axis=d.rng.randrange(-rank, rank + 1) if d.is_static else 1)


@proposal(4)
def concat(d: Draft) -> None:
    a = d.pick(ALL, range(1, 7))
    axis, shape = d.axis(a), d.shape(a)
    at = axis % len(shape)

    def fits(n: str) -> bool:
        other = d.shape(n)
        return len(other) == len(shape) and all(k == at or other[k] == shape[k] for k in range(len(shape)))

    parts = [a, *(d.pick((d.dtype(a),), where=fits) for _ in range(d.rng.randrange(1, 4)))]
    if not d.free_axes(a) and d.rng.random() < 0.3:
        sizes = [d.rng.randrange(1, 4) if k == at else s for k, s in enumerate(shape)]
        parts.append(d.weight(d.random_array(sizes, d.dtype(a))))
    d.rng.shuffle(parts)
    d.add("Concat", parts, axis=axis)


@proposal(3)
def split(d: Draft) -> None:
    a = d.pick(ALL, range(1, 7))
    axis = d.fixed_axis(a)
    size = d.shape(a)[axis]
    count = d.rng.randrange(1, min(size, 4) + 1)
    cuts = [0, *sorted(d.rng.sample(range(1, size), count - 1)), size]
    parts = [b - a for a, b in itertools.pairwise(cuts)]
    if len(set(parts)) == 1 and d.is_static and d.rng.random() < 0.5:
        d.add("Split", [a], count, axis=axis, **({"num_outputs": count} if d.opset >= 18 else {}))
    else:
        d.add("Split", [a, d.ints(parts)], count, axis=axis)


@proposal(5)
def slice_(d: Draft) -> None:
    a = d.pick(ALL, range(1, 7))
    rank = len(d.shape(a))
    axes = d.rng.sample(range(rank), d.rng.randrange(1, rank + 1))
    starts, ends, steps = [], [], []
    for k in axes:
        n = d.shape(a)[k]
        step = d.rng.choice((1, 1, 2, 3, -1, -1, -2, -3))
        near = () if k in d.free_axes(a) else (n // 2, -n, n, n - 1, -1000)
        far = (2**31 - 1, 2**63 - 1) if step > 0 else ()  # backwards, ONNX Runtime has a meaning of its own for these
        starts.append(d.rng.choice((0, 1, -1, 1000, *near)))
        ends.append(d.rng.choice((n, -1, n // 2 + 1, -(2**31), -(2**63) + 1, 0, 1, *far)))
        steps.append(step)
    axes = [k - rank if d.rng.random() < 0.3 else k for k in axes]
    more = [d.ints(axes), d.ints(steps)] if set(steps) != {1} or d.rng.random() < 0.5 else [d.ints(axes)]
    d.add("Slice", [a, d.ints(starts), d.ints(ends), *more])


@proposal(4)
def pad(d: Draft) -> None:
    a = d.pick(FLOATS + INTEGERS, range(1, 7))
    shape = d.shape(a)
    wrap = ("wrap",) if d.opset > 18 and d.is_static else ()
    mode = d.rng.choice(("constant", "constant", "edge", "reflect", *wrap))
    low = -1 if mode == "constant" else 0

    def amount(k: int) -> int:
        if k in d.free_axes(a) and d.rng.random() < 0.8:
            return 0
        if shape[k] == 1 and mode == "reflect":
            return 0
        return d.rng.choice((0, d.rng.randrange(low, min(4, shape[k]) if mode in ("reflect", "wrap") else 4)))

    pads = [amount(k % len(shape)) for k in range(2 * len(shape))]
    filled = mode == "constant" and d.rng.random() < 0.6
    fill = [d.weight(np.array(d.rng.choice((0, 2, -1)), d.dtype(a)))] if filled else []
    d.add("Pad", [a, d.ints(pads), *fill], mode=mode)


@proposal(3)
def gather(d: Draft) -> None:
    a = d.pick(ALL, range(1, 5))
    axis = d.fixed_axis(a)
    n = d.shape(a)[axis]
    shape = d.rng.choice(((), (1,), (3,), (2, 2)))
    indices = d.numbers.integers(-n, n, shape).astype(d.rng.choice(INTEGERS))
    d.add("Gather", [a, d.weight(np.asarray(indices))], axis=axis)


@proposal(1)
def gather_by_value(d: Draft) -> None:
    index = d.pick(INTEGERS, range(0, 3))
    a = d.pick(ALL, range(1, 4))
    axis = d.fixed_axis(a)
    d.add("Gather", [a, index], axis=axis)


@proposal(2)
def gather_elements(d: Draft) -> None:
    a = d.pick(ALL, range(1, 5))
    axis = d.fixed_axis(a)
    n = d.shape(a)[axis]
    shape = [d.rng.randrange(1, 4) if k == axis else d.rng.randrange(1, s + 1) for k, s in enumerate(d.shape(a))]
    shape = [1 if k in d.free_axes(a) else s for k, s in enumerate(shape)]
    d.add("GatherElements", [a, d.weight(d.numbers.integers(-n, n, shape).astype("int64"))], axis=axis)


@proposal(2)
def expand(d: Draft) -> None:
    a = d.pick(ALL)
    free = d.free_axes(a)
    shape = [1 if k in free else d.rng.choice((1, 2, 3) if s == 1 else (1, s)) for k, s in enumerate(d.shape(a))]
    d.add("Expand", [a, d.ints(d.rng.choice(([], [2], [1])) + shape)])


@proposal(2)
def tile(d: Draft) -> None:
    a = d.pick(ALL, range(1, 6))
    d.add("Tile", [a, d.ints([d.rng.choice((1, 1, 2, 3)) for _ in d.shape(a)])])


@proposal(2)
def resize(d: Draft) -> None:
    a = d.pick(("float32",), (4,))
    whole = [[f for f in (0.5, 1.0, 1.5, 2.0, 3.0) if (s * f).is_integer()] for s in d.shape(a)[2:]]
    scales = [1.0, 1.0, *map(d.rng.choice, whole)]
    mode = d.rng.choice(("nearest", "linear", "cubic"))
    places = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attrs = {"mode": mode, "coordinate_transformation_mode": d.rng.choice(places)}
    if mode == "nearest":
        attrs["nearest_mode"] = d.rng.choice(("round_prefer_floor", "floor", "ceil", "round_prefer_ceil"))
    if d.rng.random() < 0.6 or d.free_axes(a):
        d.add("Resize", [a, "", d.weight(np.array(scales, "float32"))], **attrs)
    else:
        sizes = [max(1, int(s * f)) for s, f in zip(d.shape(a), scales, strict=True)]
        d.add("Resize", [a, "", "", d.ints(sizes)], **attrs)


@proposal(1)
def depth_space(d: Draft) -> None:
    a = d.pick(("float32",), (4,))
    op = d.rng.choice(("DepthToSpace", "SpaceToDepth"))
    d.add(op, [a], blocksize=2, **({"mode": d.rng.choice(("DCR", "CRD"))} if op == "DepthToSpace" else {}))


@proposal(1)
def shape_arithmetic(d: Draft) -> None:
    """A reshape as exporters write it: sizes taken from the shape of the data."""
    a = d.pick(ALL, range(2, 5))
    (sizes,) = d.add("Shape", [a])
    (first,) = d.add("Gather", [sizes, d.weight(np.array(0, "int64"))], axis=0)
    (row,) = d.add("Unsqueeze", [first, d.ints([0])])
    (shape,) = d.add("Concat", [row, d.ints([-1])], axis=0)
    d.add("Reshape", [a, shape])


@proposal(1)
def trilu(d: Draft) -> None:
    a = d.pick(("float32", "int64"), range(2, 6))
    if d.opset < 14:
        raise NotApplicable
    d.add("Trilu", [a, d.weight(np.array(d.rng.randrange(-2, 3), "int64"))], upper=d.rng.randrange(2))


@proposal(1)
def gather_nd(d: Draft) -> None:
    a = d.pick(ALL, range(2, 5), lambda n: 0 not in d.free_axes(n) and 1 not in d.free_axes(n))
    n, m = d.shape(a)[:2]
    rows = np.stack([d.numbers.integers(-n, n, 3), d.numbers.integers(-m, m, 3)], -1)
    d.add("GatherND", [a, d.weight(rows.astype("int64"))])


@proposal(1)
def one_hot(d: Draft) -> None:
    a = d.pick(("int64",), range(0, 4))
    values = d.weight(np.array([0, 1], "float32"))
    d.add("OneHot", [a, d.weight(np.array(4, "int64")), values], axis=d.rng.choice((-1, 0)))
