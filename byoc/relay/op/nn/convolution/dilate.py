"""Dilation: ``nn.dilate`` puts a value between neighbours. Source: ``relay/op/nn/nn.cc``, ``topi::nn::dilate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.size_var import plus, times
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.te import Index, PrimExpr, Tensor


@dataclass(frozen=True)
class DilateAttrs(Attrs):
    """Attributes of ``nn.dilate``: the distance of neighbours along each axis, and what stands between them."""

    strides: tuple[int, ...]
    dilation_value: float = 0.0


def _relation(types: Sequence[Type], attrs: DilateAttrs) -> TensorType:
    data = tensor_arg(types, 0)
    if len(attrs.strides) != data.ndim or any(stride < 1 for stride in attrs.strides):
        raise TypeInferenceError(f"strides must be a positive number for each of {data.ndim} axes, got {attrs.strides}")
    pairs = zip(data.shape, attrs.strides, strict=True)
    return TensorType([n if s == 1 or n == 0 else plus(times(plus(n, -1), s), 1) for n, s in pairs], data.dtype)


def _compute(attrs: DilateAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    data, value = inputs[0], te.cast(inputs[0].dtype, te.const(attrs.dilation_value, "float32"))

    def element(*index: Index) -> PrimExpr:
        pairs = list(zip(index, attrs.strides, strict=True))
        held = te.all_of(*((i % s).equal(0) for i, s in pairs if s > 1))
        return te.if_then_else(held, data(*(i / s if s > 1 else i for i, s in pairs)), value)

    return [te.compute(te.shape_of(out_type), element, name="dilate")]


def dilate(data: RelayExpr, strides: Sequence[int], dilation_value: float = 0.0) -> Call:
    """``T[n, …] -> T[(n - 1) stride + 1, …]`` with *dilation_value* between neighbours. Source: ``relay.nn.dilate``."""
    return make_call("nn.dilate", [data], DilateAttrs(tuple(int(s) for s in strides), float(dilation_value)))


register_op(
    "nn.dilate",
    inputs=("data",),
    rel=_relation,
    doc="Values between neighbours along each axis.",
    attrs=DilateAttrs,
    pattern=OpPattern.INJECTIVE,
    compute=_compute,
    samples=[
        Sample([(3, 4)], {"strides": (2, 3)}),
        Sample([(2, 3, 4)], {"strides": (1, 2, 1), "dilation_value": -1.5}),
        Sample([(5,)], {"strides": (2,), "dilation_value": 7.0}, dtype="int32", low=-9, high=9),
    ],
)
