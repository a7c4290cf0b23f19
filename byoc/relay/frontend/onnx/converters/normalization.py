"""Normalisations. Source: ONNX BatchNormalization-1 to 15, InstanceNormalization-1/6, LayerNormalization-17,
GroupNormalization-18/21, LRN-1. ONNX Runtime writes LayerNormalization into models of every opset.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.dims import agreeing
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter


def _channels_first(node: OnnxNode, value: RelayExpr) -> RelayExpr:
    """A value for each channel, in a shape that broadcasts against the data."""
    rank = node.rank(node[0])
    return relay.expand_dims(value, 1, rank - 2) if rank > 2 else value


def _normalised(node: OnnxNode, mean: RelayExpr, variance: RelayExpr, epsilon: float) -> RelayExpr:
    spread = relay.sqrt(relay.add(variance, node.like(epsilon, variance)))
    return relay.divide(relay.subtract(node[0], mean), spread)


@converter("BatchNormalization")
def _batch_norm_old(node: OnnxNode) -> list[RelayExpr]:
    """Before opset 9: ``spatial=0`` has a statistic for every element, ``is_test=0`` (before 7) means training."""
    if node.attrs.flag("spatial", True):
        return _batch_norm(node)
    scale, bias, mean, variance = (node[i] for i in range(1, 5))
    normalised = _normalised(node, mean, variance, node.attrs.float("epsilon", 1e-5))
    return [relay.add(relay.multiply(normalised, scale), bias)]


@converter("BatchNormalization", since=9)
def _batch_norm(node: OnnxNode) -> list[RelayExpr]:
    epsilon = node.attrs.float("epsilon", 1e-5)
    if any(node.has_output(i) for i in range(1, len(node.outputs))):
        raise node.error("the statistics of a batch are computed in training only; export the model for inference")
    data, scale, bias, mean, variance = node.required_inputs()[:5]
    normalised = relay.nn.batch_norm(data, scale, bias, mean, variance, axis=1, epsilon=epsilon)
    return [normalised[0]]


@converter("BatchNormalization", since=14)
def _batch_norm_modes(node: OnnxNode) -> list[RelayExpr]:
    if not node.attrs.flag("training_mode"):
        return _batch_norm(node)
    data, scale, bias = node[0], node[1], node[2]
    axes = [axis for axis in range(node.rank(data)) if axis != 1]
    mean = relay.mean(data, axis=axes)
    variance = relay.variance(data, axis=axes)
    normalised = _normalised(
        node, _channels_first(node, mean), _channels_first(node, variance), node.attrs.float("epsilon", 1e-5)
    )
    result = relay.add(relay.multiply(normalised, _channels_first(node, scale)), _channels_first(node, bias))
    momentum = node.attrs.float("momentum", 0.9)
    return [result, _blend(node, node[3], mean, momentum), _blend(node, node[4], variance, momentum)]


def _blend(node: OnnxNode, old: RelayExpr, new: RelayExpr, momentum: float) -> RelayExpr:
    kept = relay.multiply(old, node.like(momentum, old))
    return relay.add(kept, relay.multiply(new, node.like(1 - momentum, new)))


@converter("InstanceNormalization")
def _instance_norm(node: OnnxNode) -> RelayExpr:
    channels = node.shape(node[0])[1]
    scale, bias = (agreeing(node, node[k], 0, channels) for k in (1, 2))
    return relay.nn.instance_norm(node[0], scale, bias, axis=1, epsilon=node.attrs.float("epsilon", 1e-5))


@converter("LayerNormalization")
def _layer_norm(node: OnnxNode) -> list[RelayExpr]:
    axis = node.axis(node.attrs.int("axis", -1), node.rank(node[0]))
    statistics = any(node.has_output(i) for i in (1, 2))
    epsilon = node.attrs.float("epsilon", 1e-5)
    data, sizes = node[0], node.shape(node[1])
    if sizes and sizes[-1] != 1:
        data = agreeing(node, data, -1, sizes[-1])
    rows = layer_norm(node, data, node[1], node.optional(2), axis, epsilon, statistics)
    if node.attrs.int("stash_type", 1) == 1:  # the statistics are float32 whatever the data are
        rows[1:] = [relay.cast(r, "float32") if node.dtype(r) != "float32" else r for r in rows[1:]]
    return rows[: max(len(node.outputs), 1)]


def layer_norm(
    node: OnnxNode,
    data: RelayExpr,
    scale: RelayExpr,
    bias: RelayExpr | None,
    axis: int,
    epsilon: float,
    statistics: bool,
) -> list[RelayExpr]:
    """*data* normalised over the axes from *axis* on, and with *statistics* their mean and inverse deviation too."""
    rank, shift = node.rank(data), relay.zeros_like(scale) if bias is None else bias
    each = [node.shape(e) for e in (scale, shift)]  # a list of one is for all channels
    for_channels = all(len(s) == 1 and (s != (1,) or node.shape(data)[-1] == 1) for s in each)
    if not statistics and axis == rank - 1 and for_channels and node.dtype(data) == "float32":
        return [relay.nn.layer_norm(data, scale, shift, axis=-1, epsilon=epsilon)]
    axes = list(range(axis, rank))
    wide = relay.cast(data, "float32") if node.dtype(data) in ("float16", "bfloat16") else data
    mean = relay.mean(wide, axis=axes, keepdims=True)
    variance = relay.variance(wide, axis=axes, keepdims=True)
    inverse = relay.divide(node.like(1, wide), relay.sqrt(relay.add(variance, node.like(epsilon, wide))))
    normalised = relay.multiply(relay.subtract(wide, mean), inverse)
    scaled = relay.multiply(relay.cast(normalised, node.dtype(data)), scale)
    return [scaled if bias is None else relay.add(scaled, bias), mean, inverse]


@converter("GroupNormalization", since=18)
def _group_norm_by_group(node: OnnxNode) -> RelayExpr:
    """Until opset 20 there is a scale and a bias for each group, which its channels share."""
    groups = node.attrs.int("num_groups")
    (channels,) = node.static_dims_of(node[0], [1], "GroupNormalization")
    if groups < 1 or channels % groups:
        raise node.error(f"{channels} channels cannot be divided into {groups} groups")
    return _group_norm(node, *(node.fold(relay.repeat(node[i], channels // groups, axis=0)) for i in (1, 2)))


@converter("GroupNormalization", since=21)
def _group_norm_by_channel(node: OnnxNode) -> RelayExpr:
    return _group_norm(node, node[1], node[2])


def _group_norm(node: OnnxNode, scale: RelayExpr, bias: RelayExpr) -> RelayExpr:
    data, dtype = node[0], node.dtype(node[0])
    wide = (relay.cast(e, "float32") if "16" in dtype else e for e in (data, scale, bias))
    values, gamma, beta = wide
    result = relay.nn.group_norm(
        values, gamma, beta, num_groups=node.attrs.int("num_groups"), axis=1, epsilon=node.attrs.float("epsilon", 1e-5)
    )
    return relay.cast(result, dtype) if "16" in dtype else result


@converter("LRN")
def _lrn(node: OnnxNode) -> RelayExpr:
    """Of an even number of neighbours ONNX has one more after the element, Relay before it."""
    size = node.attrs.int("size")
    turned = size % 2 == 0
    result = relay.nn.lrn(
        relay.reverse(node[0], 1) if turned else node[0],
        size=size,
        axis=1,
        bias=node.attrs.float("bias", 1.0),
        alpha=node.attrs.float("alpha", 1e-4),
        beta=node.attrs.float("beta", 0.75),
    )
    return relay.reverse(result, 1) if turned else result


@converter("LpNormalization")
def _lp_normalization(node: OnnxNode) -> RelayExpr:
    """Divided by the norm along an axis; where the norm is 0 the result is 0."""
    axis = node.axis(node.attrs.int("axis", -1), node.rank(node[0]))
    data = node[0]
    if node.attrs.int("p", 2) == 1:
        norm = relay.sum(relay.abs(data), axis=[axis], keepdims=True)
    else:
        norm = relay.sqrt(relay.sum(relay.multiply(data, data), axis=[axis], keepdims=True))
    zero = relay.equal(norm, node.like(0, data))
    safe = relay.where(zero, relay.ones_like(norm), norm)
    return relay.divide(data, safe)
