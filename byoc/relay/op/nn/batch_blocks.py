"""Blocks of space moved into the batch and back: ``nn.space_to_batch_nd`` and ``nn.batch_to_space_nd``.

The batch of blocks is the slower part of the new batch: element ``n`` of a block of offsets ``(o1, …)`` stands at
``((o1 * b2 + o2) …) * N + n``. Source: ``relay.nn.space_to_batch_nd``, as TensorFlow's SpaceToBatchND.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import as_index
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.te import Index, PrimExpr, Tensor

Pairs = Sequence[Sequence[int]]


@dataclass(frozen=True)
class SpaceToBatchNDAttrs(Attrs):
    """Attributes of ``nn.space_to_batch_nd``: a block size and a (before, after) padding for each spatial axis."""

    block_shape: tuple[int, ...] = ()
    paddings: tuple[tuple[int, ...], ...] = ()
    pad_value: float = 0.0


@dataclass(frozen=True)
class BatchToSpaceNDAttrs(Attrs):
    """Attributes of ``nn.batch_to_space_nd``: a block size and what is cut off each end of each spatial axis."""

    block_shape: tuple[int, ...] = ()
    crops: tuple[tuple[int, ...], ...] = ()


def _checked(data: TensorType, block: Sequence[int], pairs: Pairs, what: str) -> None:
    if data.ndim <= len(block):
        raise TypeInferenceError(f"data must have a batch and {len(block)} spatial axes, got {data}")
    if any(b < 1 for b in block):
        raise TypeInferenceError(f"block_shape must be positive, got {tuple(block)}")
    if len(pairs) != len(block) or any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise TypeInferenceError(f"{what} must be two numbers, not negative, for each spatial axis, got {tuple(pairs)}")


def _space_to_batch_rel(types: Sequence[Type], attrs: SpaceToBatchNDAttrs) -> Type:
    data, block = tensor_arg(types, 0), attrs.block_shape
    _checked(data, block, attrs.paddings, "paddings")
    batch = data.shape[0] if isinstance(data.shape[0], Any) else data.shape[0] * math.prod(block)
    sizes: list[Dim] = []
    for size, b, pair in zip(data.shape[1:], block, attrs.paddings, strict=False):
        if isinstance(size, Any):
            sizes.append(size if b == 1 and not sum(pair) else Any())
        elif (size + sum(pair)) % b:
            raise TypeInferenceError(f"a padded axis of {size + sum(pair)} cannot be cut in blocks of {b}")
        else:
            sizes.append((size + sum(pair)) // b)
    if isinstance(batch, Any) and math.prod(block) != 1:
        batch = Any()
    return TensorType((batch, *sizes, *data.shape[len(block) + 1 :]), data.dtype)


def _batch_to_space_rel(types: Sequence[Type], attrs: BatchToSpaceNDAttrs) -> Type:
    data, block = tensor_arg(types, 0), attrs.block_shape
    _checked(data, block, attrs.crops, "crops")
    count, batch = math.prod(block), data.shape[0]
    if isinstance(batch, Any):
        batch = batch if count == 1 else Any()
    elif batch % count:
        raise TypeInferenceError(f"a batch of {batch} does not hold {count} blocks each")
    else:
        batch = batch // count
    sizes: list[Dim] = []
    for size, b, pair in zip(data.shape[1:], block, attrs.crops, strict=False):
        if isinstance(size, Any):
            sizes.append(size if b == 1 and not sum(pair) else Any())
        elif size * b < sum(pair):
            raise TypeInferenceError(f"crops {tuple(pair)} take more than the {size * b} elements of an axis")
        else:
            sizes.append(size * b - sum(pair))
    return TensorType((batch, *sizes, *data.shape[len(block) + 1 :]), data.dtype)


def _space_to_batch_compute(attrs: SpaceToBatchNDAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    data, block, m = inputs[0], attrs.block_shape, len(attrs.block_shape)
    fill = te.const(float(attrs.pad_value) if "float" in data.dtype else int(attrs.pad_value), data.dtype)

    def element(*i: Index) -> PrimExpr:
        rest: PrimExpr = i[0] // as_index(data.shape[0])
        offsets: list[PrimExpr] = []
        for b in reversed(block):
            offsets.insert(0, rest % b)
            rest = rest // b
        places, inside = [], []
        for k, (b, (before, after)) in enumerate(zip(block, attrs.paddings, strict=True)):
            place = i[k + 1] * b + offsets[k] - before
            places.append(place)
            inside += [place >= 0] if before else []
            inside += [place < as_index(data.shape[k + 1])] if after else []
        value = data[(i[0] % as_index(data.shape[0]), *places, *i[m + 1 :])]
        return te.if_then_else(te.all_of(*inside), value, fill)

    return [te.compute(te.shape_of(out_type), element, "space_to_batch_nd")]


def _batch_to_space_compute(attrs: BatchToSpaceNDAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    data, block, m, shape = inputs[0], attrs.block_shape, len(attrs.block_shape), te.shape_of(out_type)

    def element(*i: Index) -> PrimExpr:
        cut: PrimExpr = te.const(0, te.expr.INDEX)
        places = []
        for k, (b, (before, _)) in enumerate(zip(block, attrs.crops, strict=True)):
            place = i[k + 1] + before
            cut = cut * b + place % b
            places.append(place // b)
        return data[(cut * as_index(shape[0]) + i[0], *places, *i[m + 1 :])]

    return [te.compute(shape, element, "batch_to_space_nd")]


register_op(
    "nn.space_to_batch_nd",
    inputs=("data",),
    attrs=SpaceToBatchNDAttrs,
    rel=_space_to_batch_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_space_to_batch_compute,
    operations=lambda attrs, types, out: 0,
    doc="Blocks of the padded spatial axes moved into the batch.",
    samples=(
        Sample([(2, 4, 6, 3)], {"block_shape": (2, 3), "paddings": ((0, 0), (0, 0))}),
        Sample([(1, 3, 5, 2)], {"block_shape": (2, 2), "paddings": ((1, 0), (2, 1)), "pad_value": -1.5}),
        Sample([(2, 4)], {"block_shape": (2,), "paddings": ((1, 1),)}, "int32", -9, 9),
    ),
)
register_op(
    "nn.batch_to_space_nd",
    inputs=("data",),
    attrs=BatchToSpaceNDAttrs,
    rel=_batch_to_space_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_batch_to_space_compute,
    operations=lambda attrs, types, out: 0,
    doc="Blocks of the batch moved back into the spatial axes, which are then cropped.",
    samples=(
        Sample([(12, 2, 2, 3)], {"block_shape": (2, 3), "crops": ((0, 0), (0, 0))}),
        Sample([(8, 3, 2, 2)], {"block_shape": (2, 2), "crops": ((1, 0), (0, 3))}),
    ),
)


def _pairs(pairs: Pairs) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(v) for v in pair) for pair in pairs)


def space_to_batch_nd(data: Operand, block_shape: Sequence[int], paddings: Pairs, pad_value: float = 0) -> Call:
    """Blocks of space to the batch: ``T[N, *S, ...] -> T[N prod(b), *(S padded / b), ...]``.

    Source: ``relay.nn.space_to_batch_nd``.
    """
    attrs = SpaceToBatchNDAttrs(tuple(int(b) for b in block_shape), _pairs(paddings), float(pad_value))
    return make_call("nn.space_to_batch_nd", [as_expr(data)], attrs)


def batch_to_space_nd(data: Operand, block_shape: Sequence[int], crops: Pairs) -> Call:
    """Blocks of the batch to space: ``T[N prod(b), *S, ...] -> T[N, *(S b cropped), ...]``.

    Source: ``relay.nn.batch_to_space_nd``.
    """
    attrs = BatchToSpaceNDAttrs(tuple(int(b) for b in block_shape), _pairs(crops))
    return make_call("nn.batch_to_space_nd", [as_expr(data)], attrs)
