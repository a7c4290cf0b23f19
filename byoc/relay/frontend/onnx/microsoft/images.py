"""Convolutions and norms of images with what stood around them. Source: of ONNX Runtime's domain com.microsoft
FusedConv-1, NhwcConv-1, NhwcFusedConv-1, GroupNorm-1, SkipGroupNorm-1, ConvTransposeWithDynamicPads-1.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import helper

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.attributes import NodeAttributes
from byoc.relay.frontend.onnx.converters.convolution import channels_first
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter, find_converter

_OPSET = 6  # of ONNX, whose Clip has its bounds as attributes
_PARAMETERS = {  # of the functions whose numbers a list gives, in its order
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
}


def as_onnx(node: OnnxNode, op_type: str, opset: int, data: RelayExpr, attrs: Mapping[str, float | int]) -> RelayExpr:
    """What ONNX's operator of one tensor makes of *data*. Raises ImportModelError where it has none of that name."""
    convert = find_converter("", op_type, opset)
    if convert is None:
        raise node.error(f"the function {op_type!r} is not supported")
    given = NodeAttributes([helper.make_attribute(k, v) for k, v in attrs.items()], node.name)
    made = convert(OnnxNode(node.name, op_type, opset, [data], node.outputs[:1], given, node.services))
    if not isinstance(made, RelayExpr):
        raise node.error(f"the function {op_type!r} is not supported")
    return made


def activated(node: OnnxNode, data: RelayExpr, name: str, numbers: Mapping[str, float]) -> RelayExpr:
    """*data* through the function *name* of ONNX with these attributes; as it is for no name."""
    return as_onnx(node, name, _OPSET, data, numbers) if name else data


@converter("FusedConv", domain=MICROSOFT)
def _fused_conv(node: OnnxNode) -> RelayExpr:
    """A convolution of data, weights and bias, plus input 3, through ``activation``."""
    convert = find_converter("", "Conv", 11)
    assert convert is not None
    made = convert(node.over(node.inputs[:3]))
    assert isinstance(made, RelayExpr)
    if node.optional(3) is not None:
        made = relay.add(made, node[3])
    name, numbers = node.attrs.string("activation", ""), node.attrs.floats("activation_params", [])
    return activated(node, made, name, dict(zip(_PARAMETERS.get(name, ()), numbers, strict=False)))


@converter("NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def _channels_last_conv(node: OnnxNode) -> RelayExpr:
    """FusedConv of data with channels innermost; the weights are as Conv's, what is added is as the result."""
    added = node.optional(3)
    if added is not None:
        added = relay.transpose(added, axes=[0, node.rank(added) - 1, *range(1, node.rank(added) - 1)])
        node = node.over([*node.inputs[:3], added])
    return channels_first(node, _fused_conv, True)


@converter("GroupNorm", domain=MICROSOFT)
def _group_norm(node: OnnxNode) -> RelayExpr:
    """Data f[N, H, W, C], or channels first; ``activation`` 1 is SiLU."""
    return channels_first(node, _group_normalised, node.attrs.flag("channels_last", True))


def _group_normalised(node: OnnxNode) -> RelayExpr:
    data, scale, shift = (relay.cast(node[k], "float32") for k in range(3))
    groups, epsilon = node.attrs.int("groups"), node.attrs.float("epsilon", 1e-5)
    made = relay.nn.group_norm(data, scale, shift, num_groups=groups, axis=1, epsilon=epsilon)
    how = node.attrs.int("activation")
    if how not in (0, 1):
        raise node.error(f"activation is 0 (none) or 1 (SiLU), got {how}")
    made = relay.multiply(made, relay.sigmoid(made)) if how else made
    return relay.cast(made, node.dtype(node[0]))


@converter("SkipGroupNorm", domain=MICROSOFT)
def _skip_group_norm(node: OnnxNode) -> list[RelayExpr]:
    """Of the sum of data, what skipped f[N, H, W, C] or f[N, C], and a bias f[C]; and the sum itself."""
    last, skip, bias = node.attrs.flag("channels_last", True), node[3], node.optional(4)
    if node.rank(skip) == 2:
        skip = relay.expand_dims(skip, 1 if last else 2, 2)
    total = relay.add(node[0], skip)
    if bias is not None:
        total = relay.add(total, bias if last else relay.expand_dims(bias, 1, 2))
    made = channels_first(node.over([total, node[1], node[2]]), _group_normalised, last)
    return [made, total][: len(node.outputs)]
