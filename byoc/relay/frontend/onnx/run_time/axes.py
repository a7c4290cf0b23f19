"""Computing along axes that an input of the run holds: along the last axis of a matrix, and back."""

from __future__ import annotations

from collections.abc import Callable

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.node import OnnxNode


def is_of_run(node: OnnxNode, index: int) -> bool:
    """Whether input *index* is there, and known only when the model runs."""
    return node.optional(index) is not None and node.value(index) is None


def axes_shape(node: OnnxNode, data: RelayExpr, axes: RelayExpr, form: str, every: bool = False) -> RelayExpr:
    """The shape of *data* without *axes*, or with them, by its *form* as ``relay.axes_shape`` has it."""
    return relay.axes_shape(data, axes, form, every, node.place)


def along_last(
    node: OnnxNode, data: RelayExpr, axis: RelayExpr, compute: Callable[[RelayExpr], RelayExpr]
) -> RelayExpr:
    """What *compute* makes, row by row, of a matrix whose rows lie along *axis*, in the shape of *data*."""
    rows = compute(relay.group_axes(data, axis, check=node.place))
    return relay.ungroup_axes(rows, data, axis, check=node.place)
