"""The ``xnnpack`` backend: float32 through XNNPACK's kernels, which LiteRT brings.

An integration of a library of kernels behind a graph format, to be read top to bottom: the tables and constraints say
what the format and the kernels have, the generator has a hook for each operator, and the backend says that images lie
with channels innermost. A region becomes one model, in which XNNPACK joins padding and bounds to the operators before
and behind them. Last, LiteRT is asked whether XNNPACK runs the operator: what it would compute by its own kernels is
refused. ``module.py`` runs the models, without the compiler; ``byoc.contrib.tflite`` writes the format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.contract import (
    EVERY,
    NAN_LOST,
    Backend,
    PaddingKind,
    PatternEntry,
    RegionGenerator,
    RegionNode,
    axis_of,
    callee_name,
    constraint,
    constraints,
    makes,
    padding_kind,
    permutation_of,
    reduced_axes,
    register_backend,
    slices_of,
    window_of,
)
from byoc.contrib.call_alone import asked_of_library
from byoc.contrib.endings import biased
from byoc.contrib.flatbuffer import Number, Table, Vector
from byoc.contrib.tflite import BuiltinOptions, Code, Model, Padding, int8, int32
from byoc.contrib.xnnpack.module import XnnpackModule, left_to_litert
from byoc.errors import in_one_line
from byoc.ir.types import tensor_types
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.narrowing import tensor_type
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.kernels.movement.transform import VIEWS

CONV, DENSE, RELU_POOL = "xnnpack.conv2d_bias", "xnnpack.dense_bias", "xnnpack.relu_max_pool2d"
ROWS, COLUMNS, CHANNELS = 1, 2, 3  # axes of an image
PLAIN = frozenset("NCHW")
Extras = tuple[BuiltinOptions, Table] | None

# operators of LiteRT that take tensors alone
UNARY: Mapping[str, tuple[Code, Extras]] = {
    "abs": (Code.ABS, (BuiltinOptions.ABS, {})),
    "ceil": (Code.CEIL, None),
    "cos": (Code.COS, (BuiltinOptions.COS, {})),
    "exp": (Code.EXP, (BuiltinOptions.EXP, {})),
    "floor": (Code.FLOOR, None),
    "log": (Code.LOG, None),
    "negative": (Code.NEG, (BuiltinOptions.NEG, {})),
    "nn.relu": (Code.RELU, None),
    "nn.softmax": (Code.SOFTMAX, (BuiltinOptions.SOFTMAX, {0: Number("f", 1.0)})),
    "rsqrt": (Code.RSQRT, None),
    "sigmoid": (Code.LOGISTIC, None),
    "sin": (Code.SIN, None),
    "sqrt": (Code.SQRT, None),
    "tanh": (Code.TANH, None),
}
BINARY: Mapping[str, tuple[Code, BuiltinOptions]] = {
    "add": (Code.ADD, BuiltinOptions.ADD),
    "divide": (Code.DIV, BuiltinOptions.DIV),
    "maximum": (Code.MAXIMUM, BuiltinOptions.MAXIMUM_MINIMUM),
    "minimum": (Code.MINIMUM, BuiltinOptions.MAXIMUM_MINIMUM),
    "multiply": (Code.MUL, BuiltinOptions.MUL),
    "nn.bias_add": (Code.ADD, BuiltinOptions.ADD),
    "subtract": (Code.SUB, BuiltinOptions.SUB),
}
REDUCTIONS: Mapping[str, Code] = {"mean": Code.MEAN, "sum": Code.SUM}

# what is taken --------------------------------------------------------------------------------------------------------


@constraint("empty", of=EVERY)
def not_empty(call: Call) -> str | None:
    """tensors with at least one dimension and one element, of six dimensions at most"""
    own = tensor_types(call.checked_type)
    types = [*own, *(t for arg in call.args for t in tensor_types(arg.checked_type))]
    return next((str(t) for t in types if 0 in t.shape or t.ndim > 6 or (t in own and not t.shape)), None)


@constraint("groups", of="nn.conv2d")
def one_group_or_depthwise(call: Call) -> int | None:
    """one group, or depthwise with one result for each channel"""
    found = int(call.attrs.groups)
    return None if found == 1 or (_has_images(call) and is_depthwise(call)) else found


@constraint("window", of=("nn.max_pool2d", "nn.avg_pool2d"))
def padded_as_litert_has_it(call: Call) -> str | None:
    """pools without dilation, padded not at all, as SAME has it, or by zeros that a mean counts or a maximum has behind
    a relu, where each window has a number of the image"""
    if not _has_images(call):
        return None
    window, kind = window_of(call), padding_kind(call)
    if window.dilation != (1, 1):
        return f"dilation {list(window.dilation)}"
    if kind is PaddingKind.OVERHANGING:
        return "a last window partly outside"
    zeros = callee_name(call) == "nn.max_pool2d" and isinstance(d := call.args[0], Call) and callee_name(d) == "nn.relu"
    if zeros and any(pad >= int(size) for pad, size in zip(window.padding, 2 * window.kernel, strict=True)):
        return f"windows of padding alone, by padding {list(window.padding)}"
    has_word = kind is PaddingKind.VALID or (kind is PaddingKind.SAME and not counts_zeros(call))
    return None if has_word or zeros or counts_zeros(call) else f"padding {list(window.padding)}"


@constraint("axis", of=("nn.softmax", "nn.bias_add"))
def last_axis(call: Call) -> int | None:
    """the last axis"""
    return None if axis_of(call) == tensor_type(call).ndim - 1 else int(call.attrs.axis)


@constraint("layout", of="layout_transform")
def plain_layouts(call: Call) -> str | None:
    """layouts of the axes N, C, H and W, each once"""
    names = [str(call.attrs.src_layout), str(call.attrs.dst_layout)]
    return next((name for name in names if set(name) != PLAIN or len(name) != len(PLAIN)), None)


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
    return set(layout) == PLAIN and all(tensor_type(e).is_static for e in (call, call.args[0]))


def counts_zeros(call: Call) -> bool:
    """Whether a pool is a mean that counts its padding, which LiteRT's never does."""
    return bool(getattr(call.attrs, "count_include_pad", False))


def is_depthwise(call: Call) -> bool:
    """Whether a convolution has a group for each channel, and one result of each."""
    axis = str(call.attrs.data_layout).index("C")
    channels = (int(tensor_types(e.checked_type)[0].shape[axis]) for e in (call.args[0], call))
    return int(call.attrs.groups) > 1 and all(c == int(call.attrs.groups) for c in channels)


def bias_of(constant: np.ndarray, channels: int) -> np.ndarray | None:
    """What is added to the last axis as one number for each of *channels*; None where it is something else."""
    fits = constant.size == 1 or (constant.ndim and constant.shape[-1] == channels == constant.size)
    return np.full(channels, constant.reshape(-1), "float32") if fits else None


# how it is written ----------------------------------------------------------------------------------------------------


@dataclass
class XnnValue:
    """A tensor of the model, by its number; a constant has none until an operator reads it as it is."""

    number: int | None = None
    array: np.ndarray | None = None


class XnnpackGenerator(RegionGenerator[XnnValue]):
    """Writes the model of one region: a hook for each operator; weights are turned as LiteRT has them, here, once."""

    def construct(self) -> None:
        self.model = Model()
        self.given: list[int] = []

    def input(self, spec: TensorSpec) -> XnnValue:
        self.given.append(self.model.tensor(spec.concrete_shape({})))
        return XnnValue(self.given[-1])

    def constant(self, spec: TensorSpec, array: np.ndarray) -> XnnValue:
        return XnnValue(array=array)

    def compile(self, results: Sequence[XnnValue]) -> XnnpackModule:
        outputs = [self.number(value) for value in results]
        model = self.model.encoded(self.given, outputs)
        return XnnpackModule({self.symbol: model}, [Signature(self.symbol, self.inputs, self.outputs)])

    def number(self, value: XnnValue) -> int:
        """The tensor of *value*; a constant becomes one when it is first asked for."""
        if value.number is None:
            assert value.array is not None
            value.number = self.model.constant(value.array)
        return value.number

    def emit(
        self, node: RegionNode, code: Code, inputs: Sequence[XnnValue | int | np.ndarray], extras: Extras = None
    ) -> XnnValue:
        """An operator whose output is the node's; its inputs are values, numbers of tensors, or new constants."""
        numbers = [
            self.number(v) if isinstance(v, XnnValue) else v if isinstance(v, int) else self.model.constant(v)
            for v in inputs
        ]
        return XnnValue(self.model.add(code, numbers, node.outputs[0].concrete_shape({}), extras))

    @makes(*UNARY)
    def unary(self, node: RegionNode, data: XnnValue) -> XnnValue:
        code, extras = UNARY[node.name]
        return self.emit(node, code, [data], extras)

    @makes(*BINARY)
    def binary(self, node: RegionNode, lhs: XnnValue, rhs: XnnValue) -> XnnValue:
        code, options = BINARY[node.name]
        return self.emit(node, code, [lhs, rhs], (options, {}))

    @makes("clip")
    def clip(self, node: RegionNode, data: XnnValue) -> XnnValue:
        low, high = (np.array(float(getattr(node.attrs, name)), "float32") for name in ("a_min", "a_max"))
        extras: Extras = (BuiltinOptions.MAXIMUM_MINIMUM, {})
        return self.emit(node, Code.MINIMUM, [self.emit(node, Code.MAXIMUM, [data, low], extras), high], extras)

    @makes("nn.leaky_relu")
    def leaky_relu(self, node: RegionNode, data: XnnValue) -> XnnValue:
        slope = Number("f", float(node.call.attrs.alpha))
        return self.emit(node, Code.LEAKY_RELU, [data], (BuiltinOptions.LEAKY_RELU, {0: slope}))

    # products

    @makes("nn.conv2d", CONV)
    def conv2d(self, node: RegionNode, data: XnnValue, weights: XnnValue, bias: XnnValue | None = None) -> XnnValue:
        call = node.operator("nn.conv2d")
        window, layout = window_of(call), str(call.attrs.kernel_layout)
        assert weights.array is not None
        turned = weights.array.transpose([layout.index(axis) for axis in "OHWI"])
        channels = int(tensor_type(call).shape[CHANNELS])
        source, padding = self.padded(call, self.number(data))
        strides = {0: int8(padding), 1: int32(window.strides[1]), 2: int32(window.strides[0])}
        dilation = [int32(n) for n in reversed(window.dilation)]
        code, extras = Code.CONV_2D, (BuiltinOptions.CONV_2D, {**strides, 4: dilation[0], 5: dilation[1]})
        if is_depthwise(call):
            turned = turned.reshape(channels, *turned.shape[1:3], 1).transpose(3, 1, 2, 0)
            code = Code.DEPTHWISE_CONV_2D
            extras = (BuiltinOptions.DEPTHWISE_CONV_2D, {**strides, 3: int32(1), 5: dilation[0], 6: dilation[1]})
        return self.emit(node, code, [source, turned, self.bias(bias, channels)], extras)

    @makes("nn.dense", DENSE)
    def dense(self, node: RegionNode, data: XnnValue, weights: XnnValue, bias: XnnValue | None = None) -> XnnValue:
        channels = int(tensor_type(node.operator("nn.dense")).shape[-1])
        extras: Extras = (BuiltinOptions.FULLY_CONNECTED, {2: Number("?", True)})
        return self.emit(node, Code.FULLY_CONNECTED, [data, weights, self.bias(bias, channels)], extras)

    def bias(self, bias: XnnValue | None, channels: int) -> np.ndarray:
        """One number for each channel: zeros where there is no bias, since XNNPACK wants one."""
        if bias is None:
            return np.zeros(channels, "float32")
        assert bias.array is not None
        found = bias_of(bias.array, channels)
        assert found is not None, bias.array.shape  # the pattern's constraint
        return found

    def padded(self, call: Call, data: int) -> tuple[int, Padding]:
        """*data*, padded by zeros where LiteRT has no word for the window's padding, and the word that is left."""
        kind = padding_kind(call)
        if kind is PaddingKind.VALID or (kind is PaddingKind.SAME and not counts_zeros(call)):
            return data, Padding.VALID if kind is PaddingKind.VALID else Padding.SAME
        top, left, bottom, right = window_of(call).padding
        widths = np.array([(0, 0), (top, bottom), (left, right), (0, 0)], "int32")
        larger = [
            int(size) + int(sum(pair)) for size, pair in zip(tensor_type(call.args[0]).shape, widths, strict=True)
        ]
        inputs = [data, self.model.constant(widths)]
        return self.model.add(Code.PAD, inputs, larger, (BuiltinOptions.PAD, {})), Padding.VALID

    # windows and reductions

    @makes("nn.max_pool2d", "nn.avg_pool2d", RELU_POOL)
    def pool(self, node: RegionNode, data: XnnValue) -> XnnValue:
        averages = node.name == "nn.avg_pool2d"
        call = node.operator("nn.avg_pool2d" if averages else "nn.max_pool2d")
        window, source = window_of(call), self.number(data)
        if node.name == RELU_POOL:  # behind which zeros are as good as nothing
            source = self.model.add(Code.RELU, [source], [int(d) for d in tensor_type(call.args[0]).shape])
        source, padding = self.padded(call, source)
        sizes = [*reversed(window.strides), *(int(n) for n in reversed(window.kernel))]
        options: Table = {0: int8(padding), **{slot: int32(size) for slot, size in enumerate(sizes, 1)}}
        code = Code.AVERAGE_POOL_2D if averages else Code.MAX_POOL_2D
        return self.emit(node, code, [source], (BuiltinOptions.POOL_2D, options))

    @makes("nn.global_avg_pool2d", *REDUCTIONS)
    def reduce(self, node: RegionNode, data: XnnValue) -> XnnValue:
        image = node.name not in REDUCTIONS
        axes = (ROWS, COLUMNS) if image else reduced_axes(node.call)
        keep, code = image or bool(node.call.attrs.keepdims), REDUCTIONS.get(node.name, Code.MEAN)
        return self.emit(node, code, [data, np.array(axes, "int32")], (BuiltinOptions.REDUCER, {0: Number("?", keep)}))

    # what only moves

    @makes(*VIEWS)
    def reshape(self, node: RegionNode, data: XnnValue) -> XnnValue:
        shape = node.outputs[0].concrete_shape({})
        return self.emit(
            node, Code.RESHAPE, [data, np.array(shape, "int32")], (BuiltinOptions.RESHAPE, {0: Vector("i", shape)})
        )

    @makes("transpose", "layout_transform")
    def transpose(self, node: RegionNode, data: XnnValue) -> XnnValue:
        axes = np.array(permutation_of(node.call), "int32")
        return self.emit(node, Code.TRANSPOSE, [data, axes], (BuiltinOptions.TRANSPOSE, {}))

    @makes("concatenate")
    def concatenate(self, node: RegionNode, *parts: XnnValue) -> XnnValue:
        axis = axis_of(node.call)
        return self.emit(node, Code.CONCATENATION, parts, (BuiltinOptions.CONCATENATION, {0: int32(axis)}))

    @makes("nn.pad")
    def pad(self, node: RegionNode, data: XnnValue, value: XnnValue) -> XnnValue:
        return self.emit(node, Code.PAD, [data, np.array(node.call.attrs.pad_width, "int32")], (BuiltinOptions.PAD, {}))

    @makes("strided_slice")
    def strided_slice(self, node: RegionNode, data: XnnValue) -> XnnValue:
        cuts = slices_of(node.call)
        places = [np.array([getattr(cut, part) for cut in cuts], "int32") for part in ("start", "stop", "step")]
        return self.emit(node, Code.STRIDED_SLICE, [data, *places], (BuiltinOptions.STRIDED_SLICE, {}))


# the backend ----------------------------------------------------------------------------------------------------------


def _written(function: Function) -> bytes:
    """The model of *function*."""
    (model,) = XnnpackBackend().compile(function, {}).models.values()
    return model


def _refusal(model: bytes) -> str | None:
    """What XNNPACK does not run of *model*, or what LiteRT says against it."""
    try:
        left = left_to_litert(model)
    except (ValueError, RuntimeError) as error:
        return in_one_line(error)
    return None if left is None else f"{left} by LiteRT's own kernel"


NO_MODEL = XnnpackModule({}, [])  # which knows whether LiteRT is here
TAKEN = (
    constraints.operators(*XnnpackGenerator.operators()),
    constraints.dtypes("float32"),
    constraints.static_sizes(),
    not_empty,
    constraints.layouts(data="NHWC", kernel=("HWIO", "HWOI", "OHWI", "OIHW")),
    constraints.constant_weights(),
    one_group_or_depthwise,
    padded_as_litert_has_it,
    last_axis,
    constraints.zero_padding(),
    plain_layouts,
    constraints.forward_slices(),
)


@register_backend
class XnnpackBackend(Backend):
    """Regions as models of LiteRT that XNNPACK runs."""

    name = "xnnpack"
    options = ()
    deviations = (NAN_LOST,)  # its kernels bound as the processor's minima and maxima do
    constraints = (
        *TAKEN,
        asked_of_library("what XNNPACK runs in LiteRT", TAKEN, NO_MODEL.unavailable, _written, _refusal),
    )

    def places(self) -> Sequence[str]:
        """In float32, channels innermost."""
        return ("xnnpack/float/NHWC",)

    def unavailable(self) -> str | None:
        return NO_MODEL.unavailable()

    def patterns(self) -> Sequence[PatternEntry]:
        """Products with their bias, and pools behind a relu."""
        rows = []
        for name, product in ((CONV, "nn.conv2d"), (DENSE, "nn.dense")):
            result = is_op(product)(wildcard(), is_constant())
            rows.append(PatternEntry(name, biased(result, is_constant()), [one_for_each_channel]))
        return [*rows, PatternEntry(RELU_POOL, is_op("nn.max_pool2d")(is_op("nn.relu")(wildcard())))]

    def compile(self, function: Function, options: Mapping[str, object]) -> XnnpackModule:
        """The model of *function*."""
        module = XnnpackGenerator(function, options).generate()
        assert isinstance(module, XnnpackModule)
        return module
