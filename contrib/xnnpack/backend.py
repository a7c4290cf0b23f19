"""The ``xnnpack`` backend: float32 through XNNPACK's kernels, which LiteRT brings.

An integration of a library of kernels behind a graph format: constraints say what the format and the kernels have,
the one place says that images lie with channels innermost, and a region becomes one model, in which XNNPACK joins
padding and bounds to the operators before and behind them. Last, LiteRT is asked whether XNNPACK runs the operator:
what it would compute by its own kernels is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from byoc.contract import EVERY, NAN_LOST, Backend, PatternEntry, callee_name, constraint, judge, register_backend
from byoc.contract.constraints import constant_weights, dtypes, layouts, operators, static_sizes
from byoc.contrib.call_alone import call_alone
from byoc.contrib.xnnpack.module import XnnpackModule, left_to_litert
from byoc.contrib.xnnpack.network import (
    CONV,
    DENSE,
    RELU_POOL,
    XnnpackGenerator,
    bias_of,
    is_depthwise,
    is_zero,
    slices_of,
    window_of,
)
from byoc.errors import in_one_line
from byoc.ir.types import tensor_types
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.narrowing import tensor_type

LAYOUT_AXES = frozenset("NCHW")


@constraint("empty", of=EVERY)
def not_empty(call: Call) -> str | None:
    """tensors with at least one dimension and one element, of six dimensions at most"""
    types = [t for value in (call, *call.args) for t in tensor_types(value.checked_type) if t.is_static]
    own = tensor_types(call.checked_type)
    wrong = next((t for t in types if t.ndim > 6 or 0 in t.shape), None)
    return str(wrong or next((t for t in own if not t.shape), None) or "") or None


@constraint("groups", of="nn.conv2d")
def one_group_or_depthwise(call: Call) -> int | None:
    """one group, or depthwise with one result for each channel"""
    if int(call.attrs.groups) == 1 or (_has_images(call) and is_depthwise(call)):
        return None
    return int(call.attrs.groups)


@constraint("window", of=("nn.max_pool2d", "nn.avg_pool2d"))
def padded_as_litert_has_it(call: Call) -> str | None:
    """pools without dilation, padded not at all, as SAME has it, or by zeros that count or stand behind a relu"""
    if not _has_images(call):
        return None
    window = window_of(call)
    if window.dilation != (1, 1):
        return f"dilation {list(window.dilation)}"
    if window.is_valid or (window.is_same and not _counts_padding(call)):
        return None
    if window.is_within and (_counts_padding(call) or _is_behind_relu(call)):
        return None
    return f"padding {[list(pair) for pair in window.padding]}" if window.is_within else "a last window partly outside"


@constraint("axis", of="nn.softmax")
def last_axis(call: Call) -> int | None:
    """the last axis"""
    return None if int(call.attrs.axis) in (-1, tensor_type(call).ndim - 1) else int(call.attrs.axis)


@constraint("pad", of="nn.pad")
def padded_by_zeros(call: Call) -> str | None:
    """zeros around, none taken away"""
    if call.attrs.pad_mode != "constant" or not is_zero(call.args[1]):
        return "other padding"
    return "negative widths" if any(int(n) < 0 for pair in call.attrs.pad_width for n in pair) else None


@constraint("layout", of="layout_transform")
def plain_layouts(call: Call) -> str | None:
    """layouts of the axes N, C, H and W, each once"""
    names = [str(call.attrs.src_layout), str(call.attrs.dst_layout)]
    return next((name for name in names if set(name) != LAYOUT_AXES or len(name) != len(LAYOUT_AXES)), None)


@constraint("slice", of="strided_slice")
def forwards(call: Call) -> str | None:
    """a constant begin and end, and every element between"""
    if len(call.args) > 1:
        return "a computed begin"
    if not tensor_type(call).is_static or not tensor_type(call.args[0]).is_static:
        return None
    strides = slices_of(call)[2]
    return None if set(strides) <= {1} else f"strides {strides}"


@constraint("bias", of="nn.bias_add")
def of_the_last_axis(call: Call) -> int | None:
    """the last axis"""
    return None if int(call.attrs.axis) in (-1, tensor_type(call).ndim - 1) else int(call.attrs.axis)


@constraint("shape", of="reshape")
def known_shape(call: Call) -> str | None:
    """a shape that is known when it is compiled"""
    return None if len(call.args) == 1 else "a computed shape"


@constraint("bias")
def one_for_each_channel(call: Call) -> str | None:
    """a bias of one number for each channel"""
    assert isinstance(call.op, Function)
    constants = [a.data.numpy() for a in getattr(call.op.body, "args", ()) if isinstance(a, Constant)]
    shape = tensor_type(call.op.body).shape
    inner = tensor_type(call.op.body.args[0]).shape if isinstance(call.op.body, Call) else ()
    fits = constants and tuple(shape) == tuple(inner) and bias_of(constants[-1], int(shape[-1])) is not None
    return None if fits else str(list(constants[-1].shape) if constants else "no constant")


def _has_images(call: Call) -> bool:
    """Whether a convolution or pool has images of known sizes in a plain layout, of which its window speaks."""
    layout = str(getattr(call.attrs, "data_layout", None) or getattr(call.attrs, "layout", ""))
    return set(layout) == LAYOUT_AXES and all(tensor_type(e).is_static for e in (call, call.args[0]))


def _counts_padding(call: Call) -> bool:
    return bool(getattr(call.attrs, "count_include_pad", False))


def _is_behind_relu(call: Call) -> bool:
    data = call.args[0]
    return isinstance(data, Call) and callee_name(data) == "nn.relu"


TAKEN = (
    operators(*XnnpackGenerator.operators()),
    dtypes("float32"),
    static_sizes(),
    not_empty,
    layouts(data="NHWC", kernel=("HWIO", "HWOI", "OHWI", "OIHW")),
    constant_weights(),
    one_group_or_depthwise,
    padded_as_litert_has_it,
    last_axis,
    padded_by_zeros,
    plain_layouts,
    forwards,
    of_the_last_axis,
    known_shape,
)


@constraint("kernel", machine=True)
def run_by_xnnpack(call: Call) -> str | None:
    """what XNNPACK runs in LiteRT"""
    if XnnpackModule({}, []).unavailable() is not None or not judge(call, TAKEN):
        return None  # one may plan for another machine; and what is refused cannot be written
    function = call_alone(call)
    module = XnnpackGenerator(function).generate()
    assert isinstance(module, XnnpackModule)
    return _known(module.models["alone"])


KNOWN: dict[bytes, str | None] = {}  # by the hashes of models, whose constants are zeros


def _known(model: bytes) -> str | None:
    key = hashlib.sha256(model).digest()
    if key not in KNOWN:
        try:
            left = left_to_litert(model)
            KNOWN[key] = None if left is None else f"{left} by LiteRT's own kernel"
        except (ValueError, RuntimeError) as error:
            KNOWN[key] = in_one_line(error)
    return KNOWN[key]


@register_backend
class XnnpackBackend(Backend):
    """Regions as models of LiteRT that XNNPACK runs."""

    name = "xnnpack"
    options = ()
    deviations = (NAN_LOST,)  # its kernels bound as the processor's minima and maxima do
    constraints = (*TAKEN, run_by_xnnpack)

    def places(self) -> Sequence[str]:
        """In float32, channels innermost."""
        return ("xnnpack/float/NHWC",)

    def unavailable(self) -> str | None:
        return XnnpackModule({}, []).unavailable()

    def patterns(self) -> Sequence[PatternEntry]:
        """Products with their bias, and pools behind a relu."""
        rows = []
        for name, product in ((CONV, "nn.conv2d"), (DENSE, "nn.dense")):
            result = is_op(product)(wildcard(), is_constant())
            biased = is_op("nn.bias_add")(result, is_constant()) | is_op("add")(result, is_constant())
            rows.append(PatternEntry(name, biased, [one_for_each_channel]))
        return [*rows, PatternEntry(RELU_POOL, is_op("nn.max_pool2d")(is_op("nn.relu")(wildcard())))]

    def compile(self, function: Function, options: Mapping[str, object]) -> XnnpackModule:
        """The model of *function*."""
        module = XnnpackGenerator(function, options).generate()
        assert isinstance(module, XnnpackModule)
        return module
