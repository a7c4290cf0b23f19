"""Layers with parameters that are named after them: ``conv2d(data, name="conv1")`` has the weight ``conv1_weight``.

The parameters have no shape; type inference finds it from the data and the attributes. Source:
``relay.testing.layers``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.relay.analysis import free_vars
from byoc.relay.expr import Call, Function, Var, var
from byoc.relay.op import nn
from byoc.relay.op.core.arguments import Arguments, takes_fields_of


def parameter(name: object, what: str) -> Var:
    """The variable ``<name>_<what>``, of a type to be inferred. Raises UserError without a name."""
    if not isinstance(name, str) or not name:
        raise UserError(f"a layer without a given {what} needs a name, by which the {what} is called")
    return var(f"{name}_{what}")


@dataclass(eq=False, repr=False)
class BatchNormLayer(Arguments):
    """Arguments of ``batch_norm_infer``: what is left out of the inputs is a parameter that is called after *name*."""

    data: RelayExpr
    gamma: RelayExpr | None = None
    beta: RelayExpr | None = None
    moving_mean: RelayExpr | None = None
    moving_var: RelayExpr | None = None
    name: str = field(default="", kw_only=True)
    axis: int = field(default=1, kw_only=True)
    epsilon: float = field(default=1e-5, kw_only=True)
    center: bool = field(default=True, kw_only=True)
    scale: bool = field(default=True, kw_only=True)


@takes_fields_of(BatchNormLayer)
def batch_norm_infer(given: BatchNormLayer) -> RelayExpr:
    """``nn.batch_norm`` by running statistics: its first output. Source: ``layers.batch_norm_infer``."""
    return nn.batch_norm(
        given.data,
        given.gamma if given.gamma is not None else parameter(given.name, "gamma"),
        given.beta if given.beta is not None else parameter(given.name, "beta"),
        given.moving_mean if given.moving_mean is not None else parameter(given.name, "moving_mean"),
        given.moving_var if given.moving_var is not None else parameter(given.name, "moving_var"),
        axis=given.axis,
        epsilon=given.epsilon,
        center=given.center,
        scale=given.scale,
    )[0]


def _convolution(make: Callable[..., Call], doc: str) -> Callable[..., Call]:
    def layer(data: RelayExpr, weight: RelayExpr | None = None, *, name: str = "", **kwargs: object) -> Call:
        return make(data, weight if weight is not None else parameter(name, "weight"), **kwargs)

    layer.__name__ = layer.__qualname__ = make.__name__
    layer.__doc__ = doc
    return layer


conv1d = _convolution(nn.conv1d, "``nn.conv1d`` with its weight. Source: ``layers.conv1d``.")
conv2d = _convolution(nn.conv2d, "``nn.conv2d`` with its weight. Source: ``layers.conv2d``.")
conv3d = _convolution(nn.conv3d, "``nn.conv3d`` with its weight. Source: ``layers.conv3d``.")
conv2d_transpose = _convolution(nn.conv2d_transpose, "``nn.conv2d_transpose`` with its weight.")


def dense_add_bias(
    data: RelayExpr,
    weight: RelayExpr | None = None,
    bias: RelayExpr | None = None,
    units: int | None = None,
    *,
    name: str = "",
    out_dtype: str = "",
) -> Call:
    """``nn.dense`` and its bias. Source: ``layers.dense_add_bias``."""
    product = nn.dense(data, weight if weight is not None else parameter(name, "weight"), units, out_dtype)
    return nn.bias_add(product, bias if bias is not None else parameter(name, "bias"), axis=-1)


_KERNEL_LAYOUTS = {"NCHW": "OIHW", "NHWC": "HWIO", "NCDHW": "OIDHW", "NDHWC": "DHWIO", "NCW": "OIW", "NWC": "WIO"}
_DEPTHWISE_LAYOUTS = {**_KERNEL_LAYOUTS, "NHWC": "HWOI"}


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """The kernel layout that goes with *data_layout*. Raises UserError for a layout that none is known for.

    Source: ``layers.conv_kernel_layout``.
    """
    layouts = _DEPTHWISE_LAYOUTS if is_depthwise else _KERNEL_LAYOUTS
    if data_layout not in layouts:
        raise UserError(f"no kernel layout is known for data of layout {data_layout!r}; known: {', '.join(layouts)}")
    return layouts[data_layout]


def network(body: RelayExpr) -> Function:
    """The function of *body* over its data and parameters, in the order of their first use."""
    return Function(free_vars(body), body)
