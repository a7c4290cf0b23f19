"""Padding and block rearrangement: ``nn.pad``, ``nn.mirror_pad``, ``nn.depth_to_space``, ``nn.space_to_depth``.

Source: ``relay/op/nn/pad.cc`` and ``depth_to_space`` of ``relay/op/nn/nn.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.size_var import parted, plus, times
from byoc.ir.traits import move
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.expr import Call, Constant
from byoc.relay.op.core.builder import Operand, as_expr, known_dtype, make_call
from byoc.relay.op.core.indexing import as_index
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.core.window import arranged, axes_of, tensor_of
from byoc.te import Index, PrimExpr, Tensor
from byoc.te.expr import Dimension

Pairs = Sequence[Sequence[int]]


@dataclass(frozen=True)
class PadAttrs(Attrs):
    """Attributes of ``nn.pad``: (before, after) for each axis."""

    pad_width: tuple[tuple[int, ...], ...]
    pad_mode: str = "constant"


@dataclass(frozen=True)
class DynPadAttrs(PadAttrs):
    """Attributes of ``dyn.nn.pad``: of the result what is *known*, as ``match_shape`` has it."""

    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class MirrorPadAttrs(Attrs):
    """Attributes of ``nn.mirror_pad``."""

    mode: str = "SYMMETRIC"
    pad_width: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class SubPixelAttrs(Attrs):
    """Attributes of ``nn.depth_to_space`` and ``nn.space_to_depth``: any *mode* but ``DCR`` is ``CRD``, as in Relay."""

    block_size: int
    layout: str = "NCHW"
    mode: str = "DCR"


def _padded_type(data: TensorType, pairs: Pairs, shortest: int | None) -> TensorType:
    """The type of padded data; where what is added comes from an axis it must be *shortest* longer than the pad.

    Where a constant or an edge is added, *shortest* is None; a negative number cuts off elements.
    """
    if len(pairs) != data.ndim or any(len(pair) != 2 for pair in pairs):
        raise TypeInferenceError(f"pad_width must be a pair for each of {data.ndim} axes, got {tuple(pairs)}")
    shape: list[Dim] = []
    for axis, (size, (before, after)) in enumerate(zip(data.shape, pairs, strict=True)):
        if isinstance(size, int) and size + min(before, 0) + min(after, 0) < 0:
            raise TypeInferenceError(f"axis {axis} has {size} elements, too few to cut {-before} and {-after} off")
        if shortest is not None and isinstance(size, int) and max(before, after) > size - shortest:
            raise TypeInferenceError(f"axis {axis} has {size} elements, too few to add {max(before, after)} from them")
        shape.append(size if before + after == 0 else plus(size, before + after))
    return TensorType(shape, data.dtype)


# mode -> by how much an axis must be longer than what is added to it
_SHORTEST: dict[str, int | None] = {"constant": None, "reflect": 1, "edge": None}
_MIRROR = {"SYMMETRIC": 0, "REFLECT": 1}


def _pad_relation(types: Sequence[Type], attrs: PadAttrs) -> TensorType:
    data, value = tensor_arg(types, 0), tensor_arg(types, 1, "pad_value")
    if attrs.pad_mode not in _SHORTEST:
        raise TypeInferenceError(f"pad_mode is one of {', '.join(_SHORTEST)}, got {attrs.pad_mode!r}")
    if any(d != 1 for d in value.shape):
        raise TypeInferenceError(f"pad_value must be a scalar, got {value}")
    if attrs.pad_mode == "edge" and any(d == 0 and sum(p) for d, p in zip(data.shape, attrs.pad_width, strict=False)):
        raise TypeInferenceError(f"an empty axis has no edge to pad with, got {data}")
    return _padded_type(data, attrs.pad_width, _SHORTEST[attrs.pad_mode])


def _mirror_relation(types: Sequence[Type], attrs: MirrorPadAttrs) -> TensorType:
    if any(min(pair, default=0) < 0 for pair in attrs.pad_width):
        raise TypeInferenceError(f"pad_width must not be negative, got {tuple(attrs.pad_width)}")
    if attrs.mode not in _MIRROR:
        raise TypeInferenceError(f"mode is one of {', '.join(_MIRROR)}, got {attrs.mode!r}")
    return _padded_type(tensor_arg(types, 0), attrs.pad_width, _MIRROR[attrs.mode])


def _within(place: PrimExpr, size: Dimension, mode: str) -> PrimExpr:
    """Where the element at *place*, which may lie outside an axis of *size*, is taken from."""
    last = as_index(size) - 1
    if mode == "edge":
        return te.minimum(te.maximum(place, 0), last)
    skip = 1 if mode == "reflect" else 0
    below = te.if_then_else(place < 0, (skip - 1) - place, place)
    return te.if_then_else(below > last, last * 2 + (1 - skip) - below, below)


def _padded(data: Tensor, pairs: Pairs, mode: str, value: PrimExpr, out_type: TensorType) -> list[Tensor]:
    def element(*index: Index) -> PrimExpr:
        inner, conditions = [], []
        for i, size, (before, after) in zip(index, data.shape, pairs, strict=True):
            place = i - before
            if mode != "constant":
                inner.append(_within(place, size, mode) if before or after else i)
                continue
            inner.append(place)
            conditions += [i >= before] if before > 0 else []
            conditions += [place < size] if after > 0 else []
        return te.if_then_else(te.all_of(*conditions), data(*inner), value)

    return [te.compute(te.shape_of(out_type), element, name="pad", tag="pad")]


def _pad_compute(attrs: PadAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    value = te.cast(inputs[0].dtype, inputs[1](*[0] * inputs[1].ndim))
    return _padded(inputs[0], attrs.pad_width, attrs.pad_mode, value, out_type)


def _mirror_compute(attrs: MirrorPadAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    return _padded(inputs[0], attrs.pad_width, attrs.mode.lower(), te.const(0, inputs[0].dtype), out_type)


def _block(attrs: SubPixelAttrs) -> int:
    if attrs.block_size < 1:
        raise TypeInferenceError(f"block_size must be positive, got {attrs.block_size}")
    return attrs.block_size


def _scaled(size: Dim, factor: int) -> Dim:
    return size if factor == 1 else times(size, factor)


def _divided(size: Dim, divisor: int, what: str) -> Dim:
    if isinstance(size, Any):
        return size if divisor == 1 else parted(size, divisor)
    if size % divisor:
        raise TypeInferenceError(f"{what} {size} cannot be divided by {divisor}")
    return size // divisor


def _depth_to_space_relation(types: Sequence[Type], attrs: SubPixelAttrs) -> TensorType:
    data, b = tensor_of(types[0], 4, "data"), _block(attrs)
    n, c, h, w = (data.shape[a] for a in axes_of(attrs.layout, "NCHW", "data"))
    dims = (n, _divided(c, b * b, "the depth"), _scaled(h, b), _scaled(w, b))
    return TensorType(arranged(dims, "NCHW", attrs.layout), data.dtype)


def _space_to_depth_relation(types: Sequence[Type], attrs: SubPixelAttrs) -> TensorType:
    data, b = tensor_of(types[0], 4, "data"), _block(attrs)
    n, c, h, w = (data.shape[a] for a in axes_of(attrs.layout, "NCHW", "data"))
    dims = (n, _scaled(c, b * b), _divided(h, b, "the height"), _divided(w, b, "the width"))
    return TensorType(arranged(dims, "NCHW", attrs.layout), data.dtype)


def _depth_to_space_compute(attrs: SubPixelAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    data, b, shape = inputs[0], attrs.block_size, te.shape_of(out_type)
    channels = shape[attrs.layout.index("C")]

    def element(*index: Index) -> PrimExpr:
        at: dict[str, PrimExpr] = dict(zip(attrs.layout, index, strict=True))
        inner = (at["H"] % b) * b + at["W"] % b
        at["C"] = inner * channels + at["C"] if attrs.mode == "DCR" else at["C"] * (b * b) + inner
        at["H"], at["W"] = at["H"] / b, at["W"] / b
        return data(*(at[letter] for letter in attrs.layout))

    return [te.compute(shape, element, name="depth_to_space")]


def _space_to_depth_compute(attrs: SubPixelAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    data, b = inputs[0], attrs.block_size
    channels = data.shape[attrs.layout.index("C")]

    def element(*index: Index) -> PrimExpr:
        at: dict[str, PrimExpr] = dict(zip(attrs.layout, index, strict=True))
        inner = at["C"] / channels
        at["C"] = at["C"] % channels
        at["H"], at["W"] = at["H"] * b + inner / b, at["W"] * b + inner % b
        return data(*(at[letter] for letter in attrs.layout))

    return [te.compute(te.shape_of(out_type), element, name="space_to_depth")]


def pad(data: RelayExpr, pad_width: Pairs | RelayExpr, pad_value: Operand = 0, pad_mode: str = "constant") -> Call:
    """Pad each axis by a value (constant), its edge, or its reflection. Source: ``relay.nn.pad``.

    *pad_width* may be a tensor of integers [rank, 2].
    """
    value = as_expr(pad_value, known_dtype(data) or "float32")
    if isinstance(pad_width, Constant):
        pad_width = pad_width.data.numpy().tolist()
    if isinstance(pad_width, RelayExpr):
        return make_call("dyn.nn.pad", [data, pad_width, value], DynPadAttrs((), pad_mode))
    return make_call("nn.pad", [data, value], PadAttrs(tuple(tuple(p) for p in pad_width), pad_mode))


def mirror_pad(data: RelayExpr, pad_width: Pairs, mode: str = "SYMMETRIC") -> Call:
    """Pad by reflection, with the edge (SYMMETRIC) or without it (REFLECT). Source: ``relay.nn.mirror_pad``."""
    return make_call("nn.mirror_pad", [data], MirrorPadAttrs(mode, tuple(tuple(p) for p in pad_width)))


def depth_to_space(data: RelayExpr, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Call:
    """Channels to blocks of pixels. Source: ``relay.nn.depth_to_space``."""
    return make_call("nn.depth_to_space", [data], SubPixelAttrs(block_size, layout, mode))


def space_to_depth(data: RelayExpr, block_size: int, layout: str = "NCHW") -> Call:
    """Blocks of pixels to channels. Source: ``relay.nn.space_to_depth``."""
    return make_call("nn.space_to_depth", [data], SubPixelAttrs(block_size, layout))


register_op(
    "nn.pad",
    inputs=("data", "pad_value"),
    rel=_pad_relation,
    doc="Padding of each axis.",
    attrs=PadAttrs,
    pattern=OpPattern.INJECTIVE,
    traits=move(0, 1),
    compute=_pad_compute,
    samples=[
        Sample([(2, 3, 4), ()], {"pad_width": ((0, 0), (1, 2), (3, 0))}),
        Sample([(3, 4), ()], {"pad_width": ((2, 1), (3, 3)), "pad_mode": "reflect"}),
        Sample([(3, 4), ()], {"pad_width": ((2, 5), (0, 1)), "pad_mode": "edge"}),
        Sample([(3, 4), ()], {"pad_width": ((2, 0), (0, 1))}, dtype="int32", low=-9, high=9),
        Sample([(4, 5, 3), ()], {"pad_width": ((-1, 2), (1, -2), (-1, -1))}),
    ],
).set_support_level(2)
register_op(
    "nn.mirror_pad",
    inputs=("data",),
    rel=_mirror_relation,
    doc="Padding by reflection.",
    attrs=MirrorPadAttrs,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_mirror_compute,
    samples=[
        Sample([(3, 4)], {"pad_width": ((3, 1), (0, 4))}),
        Sample([(3, 4)], {"pad_width": ((2, 1), (3, 3)), "mode": "REFLECT"}),
    ],
).set_support_level(2)
register_op(
    "nn.depth_to_space",
    inputs=("data",),
    rel=_depth_to_space_relation,
    doc="Channels to blocks of pixels.",
    attrs=SubPixelAttrs,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_depth_to_space_compute,
    samples=[
        Sample([(1, 8, 2, 3)], {"block_size": 2}),
        Sample([(2, 8, 2, 3)], {"block_size": 2, "mode": "CRD"}),
        Sample([(1, 2, 3, 9)], {"block_size": 3, "layout": "NHWC"}),
    ],
)
register_op(
    "nn.space_to_depth",
    inputs=("data",),
    rel=_space_to_depth_relation,
    doc="Blocks of pixels to channels.",
    attrs=SubPixelAttrs,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_space_to_depth_compute,
    samples=[Sample([(2, 3, 4, 6)], {"block_size": 2}), Sample([(1, 6, 3, 2)], {"block_size": 3, "layout": "NHWC"})],
)
