"""Normalisations: batch, layer, instance and group norm, local response, L2. Source: ``relay/op/nn/nn.cc``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.op_parts import Implementation, Inputs
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import Any, TensorType, TupleType, Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.norm import (
    BatchNormAttrs,
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormalizeAttrs,
    LayerNormAttrs,
    LRNAttrs,
)
from byoc.relay.op.core.arguments import Arguments, takes_fields_of
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import is_float, normalize_axes, normalize_axis, only, tensor_arg
from byoc.relay.op.core.untyped_inputs import HasAxis, vectors_of_axis
from byoc.relay.op.core.window import differ
from byoc.relay.op.nn.norm_compute import (
    batch_norm_stages,
    group_norm_compute,
    instance_norm_compute,
    l2_normalize_compute,
    layer_norm_compute,
    lrn_compute,
)
from byoc.relay.tuple_wrapper import TupleWrapper


def _per_channel(*names: str) -> Callable[[Sequence[Type], HasAxis], TensorType]:
    """The relation of a norm whose inputs after the data hold one number for each index of ``attrs.axis``."""

    def relation(types: Sequence[Type], attrs: HasAxis) -> TensorType:
        data = tensor_arg(types, 0)
        channels = data.shape[normalize_axis(attrs.axis, data.ndim)]
        for index, name in enumerate(names, 1):
            ty = tensor_arg(types, index, name)
            if ty.ndim != 1 or differ(ty.shape[0], channels):
                raise TypeInferenceError(
                    f"{name} must hold {channels} numbers, one a channel of axis {attrs.axis}, got {ty}"
                )
            if ty.dtype != data.dtype:
                raise TypeInferenceError(f"{name} is {ty.dtype}, data is {data.dtype}: cast one of them")
        return data

    return relation


_moments = _per_channel("gamma", "beta", "moving_mean", "moving_var")
_affine = _per_channel("gamma", "beta")


def _batch_norm_relation(types: Sequence[Type], attrs: BatchNormAttrs) -> TupleType:
    return TupleType([_moments(types, attrs), types[3], types[4]])


def _inner_relation(types: Sequence[Type], attrs: InstanceNormAttrs | GroupNormAttrs) -> TensorType:
    data = _affine(types, attrs)
    if normalize_axis(attrs.axis, data.ndim) == 0 or data.ndim < 2:
        raise TypeInferenceError(f"the channels are an axis after the batch, got axis {attrs.axis} of {data}")
    return data


def _group_relation(types: Sequence[Type], attrs: GroupNormAttrs) -> TensorType:
    data = _inner_relation(types, attrs)
    channels = data.shape[normalize_axis(attrs.axis, data.ndim)]
    if attrs.num_groups < 1 or (not isinstance(channels, Any) and channels % attrs.num_groups):
        raise TypeInferenceError(f"{channels} channels cannot be divided into {attrs.num_groups} groups")
    return data


def _lrn_relation(types: Sequence[Type], attrs: LRNAttrs) -> TensorType:
    data = tensor_arg(types, 0)
    normalize_axis(attrs.axis, data.ndim)
    if attrs.size < 1:
        raise TypeInferenceError(f"size must be positive, got {attrs.size}")
    return data


def _l2_relation(types: Sequence[Type], attrs: L2NormalizeAttrs) -> TensorType:
    data = tensor_arg(types, 0)
    normalize_axes(attrs.axis, data.ndim)
    return data


@dataclass(eq=False, repr=False)
class BatchNormArguments(Arguments):
    """Arguments of ``batch_norm``."""

    data: RelayExpr
    gamma: RelayExpr
    beta: RelayExpr
    moving_mean: RelayExpr
    moving_var: RelayExpr
    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@takes_fields_of(BatchNormArguments)
def batch_norm(given: BatchNormArguments) -> TupleWrapper:
    """Normalise by given moments; field 0 is the result, 1 and 2 the moments. Source: ``relay.nn.batch_norm``."""
    inputs = [given.data, given.gamma, given.beta, given.moving_mean, given.moving_var]
    return TupleWrapper(make_call("nn.batch_norm", inputs, given.attrs(BatchNormAttrs)), 3)


def instance_norm(
    data: RelayExpr,
    gamma: RelayExpr,
    beta: RelayExpr,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """Normalise each channel of each batch item. Source: ``relay.nn.instance_norm``."""
    return make_call("nn.instance_norm", [data, gamma, beta], InstanceNormAttrs(axis, epsilon, center, scale))


def layer_norm(
    data: RelayExpr,
    gamma: RelayExpr,
    beta: RelayExpr,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """Normalise along *axis*. Source: ``relay.nn.layer_norm``."""
    return make_call("nn.layer_norm", [data, gamma, beta], LayerNormAttrs(axis, epsilon, center, scale))


@dataclass(eq=False, repr=False)
class GroupNormArguments(Arguments):
    """Arguments of ``group_norm``."""

    data: RelayExpr
    gamma: RelayExpr
    beta: RelayExpr
    num_groups: int
    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@takes_fields_of(GroupNormArguments)
def group_norm(given: GroupNormArguments) -> Call:
    """Normalise each group of channels of each batch item. Source: ``relay.nn.group_norm``."""
    return make_call("nn.group_norm", [given.data, given.gamma, given.beta], given.attrs(GroupNormAttrs))


def lrn(
    data: RelayExpr, size: int = 5, axis: int = 1, bias: float = 2, alpha: float = 0.00001, beta: float = 0.75
) -> Call:
    """Divide by a power of the mean square of *size* neighbours. Source: ``relay.nn.lrn``."""
    return make_call("nn.lrn", [data], LRNAttrs(size, axis, float(bias), alpha, beta))


def l2_normalize(data: RelayExpr, eps: float, axis: int | Sequence[int] | None = None) -> Call:
    """Divide by the Euclidean length along *axis*, all axes by default. Source: ``relay.nn.l2_normalize``."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis or ())
    return make_call("nn.l2_normalize", [data], L2NormalizeAttrs(eps, axes))


_VARIANCES = np.array([0.5, 1.5, 0.1], "float32")
_AFFINE = ("data", "gamma", "beta")

_FLOATS = only(is_float)
register_op(
    "nn.batch_norm",
    inputs=Inputs((*_AFFINE, "moving_mean", "moving_var"), infer=vectors_of_axis(4)),
    rel=_batch_norm_relation,
    doc="Normalisation by given moments.",
    attrs=BatchNormAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.OTHER, precision=Conversion.FOLLOW),
    compute=Implementation(batch_norm_stages, code_for=_FLOATS),
    samples=[
        Sample([(2, 3, 4, 5), (3,), (3,), (3,), _VARIANCES]),
        Sample([(2, 4, 3), (3,), (3,), (3,), _VARIANCES], {"axis": -1, "center": False, "epsilon": 1e-3}),
    ],
).set_support_level(1)
register_op(
    "nn.instance_norm",
    inputs=Inputs(_AFFINE, infer=vectors_of_axis(2)),
    rel=_inner_relation,
    doc="Normalisation of each channel of each batch item.",
    attrs=InstanceNormAttrs,
    pattern=OpPattern.OPAQUE,
    traits=Traits(OpKind.NORM, precision=Conversion.NEVER, passes=4.0),
    compute=Implementation(instance_norm_compute, code_for=_FLOATS),
    samples=[Sample([(2, 3, 4, 5), (3,), (3,)]), Sample([(2, 7, 3), (3,), (3,)], {"axis": 2, "scale": False})],
).set_support_level(1)
register_op(
    "nn.layer_norm",
    inputs=Inputs(_AFFINE, infer=vectors_of_axis(2)),
    rel=_affine,
    doc="Normalisation along one axis.",
    attrs=LayerNormAttrs,
    pattern=OpPattern.OPAQUE,
    traits=Traits(OpKind.ROWS, precision=Conversion.NEVER, passes=4.0),
    compute=Implementation(layer_norm_compute, code_for=_FLOATS),
    samples=[Sample([(2, 3, 8), (8,), (8,)]), Sample([(2, 5, 3), (5,), (5,)], {"axis": 1, "center": False})],
).set_support_level(1)
register_op(
    "nn.group_norm",
    inputs=Inputs(_AFFINE, infer=vectors_of_axis(2)),
    rel=_group_relation,
    doc="Normalisation of each group of channels.",
    attrs=GroupNormAttrs,
    pattern=OpPattern.OPAQUE,
    traits=Traits(OpKind.NORM, precision=Conversion.NEVER, passes=4.0),
    compute=Implementation(group_norm_compute, code_for=_FLOATS),
    samples=[
        Sample([(2, 6, 4, 3), (6,), (6,)], {"num_groups": 2}),
        Sample([(2, 5, 4), (4,), (4,)], {"num_groups": 4, "axis": -1}),
    ],
).set_support_level(1)
register_op(
    "nn.lrn",
    inputs=("data",),
    rel=_lrn_relation,
    # of short floats Relay's rounds each square too
    doc="Local response normalisation.",
    attrs=LRNAttrs,
    pattern=OpPattern.OPAQUE,
    traits=Traits(OpKind.NORM, passes=4.0),
    compute=Implementation(lrn_compute, code_for=only(lambda dtype: dtype in ("float32", "float64"))),
    samples=[
        Sample([(2, 7, 3, 4)], {"size": 3, "alpha": 0.1, "bias": 1.0}),
        Sample([(1, 3, 4, 5)], {"axis": 3}),
        Sample([(1, 6, 3)], {"size": 4, "alpha": 0.1}),
    ],
).set_support_level(2)
register_op(
    "nn.l2_normalize",
    inputs=("data",),
    rel=_l2_relation,
    doc="Division by the Euclidean length.",
    attrs=L2NormalizeAttrs,
    pattern=OpPattern.OPAQUE,
    traits=Traits(OpKind.NORM, precision=Conversion.NEVER, passes=4.0),
    compute=Implementation(l2_normalize_compute, code_for=_FLOATS),
    samples=[Sample([(2, 3, 4)], {"eps": 1e-6, "axis": (1,)}), Sample([(2, 3)], {"eps": 1e-3})],
).set_support_level(2)
