"""A region as a model of LiteRT: a hook for each operator that the backend takes, and for its composites.

Images lie as LiteRT has them, channels innermost, which byoc has arranged; weights are turned here, once. Windows with
padding that LiteRT cannot say (it knows none, and that of ``SAME``) get it from an operator of its own before them,
which XNNPACK makes part of a convolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.contract import RegionGenerator, RegionNode, makes
from byoc.contrib.xnnpack.flatbuffer import Number, Table, Vector
from byoc.contrib.xnnpack.module import XnnpackModule
from byoc.contrib.xnnpack.tflite import Code, Model, Options, Padding, int8, int32
from byoc.errors import CompileError
from byoc.ir.types import tensor_types
from byoc.relay.expr import Call, Constant
from byoc.relay.narrowing import tensor_type
from byoc.runtime.core.signature import Signature, TensorSpec

CONV, DENSE, RELU_POOL = "xnnpack.conv2d_bias", "xnnpack.dense_bias", "xnnpack.relu_max_pool2d"
ROWS, COLUMNS, CHANNELS = 1, 2, 3  # axes of an image
Pair = tuple[int, int]
Extras = tuple[Options, Table] | None

# operators of LiteRT that take tensors alone
UNARY: Mapping[str, tuple[Code, Extras]] = {
    "abs": (Code.ABS, (Options.ABS, {})),
    "ceil": (Code.CEIL, None),
    "cos": (Code.COS, (Options.COS, {})),
    "exp": (Code.EXP, (Options.EXP, {})),
    "floor": (Code.FLOOR, None),
    "log": (Code.LOG, None),
    "negative": (Code.NEG, (Options.NEG, {})),
    "nn.relu": (Code.RELU, None),
    "rsqrt": (Code.RSQRT, None),
    "sigmoid": (Code.LOGISTIC, None),
    "sin": (Code.SIN, None),
    "sqrt": (Code.SQRT, None),
    "tanh": (Code.TANH, None),
}
BINARY: Mapping[str, tuple[Code, Options]] = {
    "add": (Code.ADD, Options.ADD),
    "divide": (Code.DIV, Options.DIV),
    "maximum": (Code.MAXIMUM, Options.MAXIMUM_MINIMUM),
    "minimum": (Code.MINIMUM, Options.MAXIMUM_MINIMUM),
    "multiply": (Code.MUL, Options.MUL),
    "subtract": (Code.SUB, Options.SUB),
}
REDUCTIONS: Mapping[str, Code] = {"mean": Code.MEAN, "sum": Code.SUM}


@dataclass
class Value:
    """A tensor of the model, by its number; a constant of the region has none until an operator reads it as it is."""

    number: int | None = None
    array: np.ndarray | None = None


@dataclass(frozen=True)
class Window:
    """How a convolution or a pool goes over its image: for rows, and for columns."""

    image: Pair
    out: Pair
    kernel: Pair
    strides: Pair
    dilation: Pair
    padding: tuple[Pair, Pair]  # before and behind

    @property
    def is_valid(self) -> bool:
        """Whether there is no padding, and nothing of a window lies outside."""
        return all(self.padding[k] == (0, 0) and self._steps(k) == self.out[k] for k in (0, 1))

    @property
    def is_same(self) -> bool:
        """Whether the padding is that of ``SAME``: a result for each step in the image, the odd one behind."""
        found = []
        for k in (0, 1):
            steps = -(-self.image[k] // self.strides[k])
            missing = max((steps - 1) * self.strides[k] + self._span(k) - self.image[k], 0)
            found.append(self.padding[k] == (missing // 2, missing - missing // 2) and self.out[k] == steps)
        return all(found)

    @property
    def is_within(self) -> bool:
        """Whether the last window lies inside of the padded image."""
        return all(self._steps(k) == self.out[k] for k in (0, 1))

    def _span(self, k: int) -> int:
        return (self.kernel[k] - 1) * self.dilation[k] + 1

    def _steps(self, k: int) -> int:
        return (self.image[k] + sum(self.padding[k]) - self._span(k)) // self.strides[k] + 1


def window_of(call: Call) -> Window:
    """The window of a convolution or a pool over static images, in any plain layout of N, C, H and W."""
    attrs = call.attrs
    layout = str(attrs.data_layout if hasattr(attrs, "data_layout") else attrs.layout)
    image, out = (
        _pair([int(tensor_types(e.checked_type)[0].shape[layout.index(axis)]) for axis in "HW"])
        for e in (call.args[0], call)
    )
    if hasattr(attrs, "pool_size"):
        kernel = tuple(attrs.pool_size)
    else:
        kernel_shape = tensor_type(call.args[1]).shape
        kernel = tuple(int(kernel_shape[attrs.kernel_layout.index(axis)]) for axis in "HW")
    given = tuple(int(p) for p in attrs.padding)
    top, left, bottom, right = given if len(given) == 4 else (*given, *given) if len(given) == 2 else given * 4
    return Window(
        image,
        out,
        _pair(kernel),
        _pair(attrs.strides),
        _pair(attrs.dilation),
        ((top, bottom), (left, right)),
    )


def _pair(numbers: Sequence[int]) -> Pair:
    values = [int(n) for n in numbers]
    return (values[0], values[-1])


def is_depthwise(call: Call) -> bool:
    """Whether a convolution has a group for each channel, and one result of each."""
    axis = str(call.attrs.data_layout).index("C")
    channels = (int(tensor_types(e.checked_type)[0].shape[axis]) for e in (call.args[0], call))
    return int(call.attrs.groups) > 1 and all(c == int(call.attrs.groups) for c in channels)


def bias_of(constant: np.ndarray, channels: int) -> np.ndarray | None:
    """What is added to the last axis as one number for each of *channels*; None where it is something else."""
    if constant.size == 1:
        return np.full(channels, constant.reshape(-1)[0], "float32")
    ends = constant.ndim and constant.shape[-1] == channels == constant.size
    return np.asarray(constant.reshape(-1), order="C") if ends else None


class XnnpackGenerator(RegionGenerator[Value]):
    """Writes the model of one region."""

    def construct(self) -> None:
        self.model = Model()
        self.given: list[int] = []

    def input(self, spec: TensorSpec) -> Value:
        self.given.append(self.model.tensor(spec.concrete_shape({})))
        return Value(self.given[-1])

    def constant(self, spec: TensorSpec, array: np.ndarray) -> Value:
        return Value(array=array)

    def compile(self, results: Sequence[Value]) -> XnnpackModule:
        outputs = [self.number(value) for value in results]
        model = self.model.encoded(self.given, outputs)
        return XnnpackModule({self.symbol: model}, [Signature(self.symbol, self.inputs, self.outputs)])

    def number(self, value: Value) -> int:
        """The tensor of *value*; a constant becomes one when it is first asked for."""
        if value.number is None:
            assert value.array is not None
            value.number = self.model.constant(value.array)
        return value.number

    def emit(self, node: RegionNode, code: Code, inputs: Sequence[Value | int], extras: Extras = None) -> Value:
        """An operator whose output is the node's."""
        numbers = [self.number(v) if isinstance(v, Value) else v for v in inputs]
        return Value(self.model.add(code, numbers, node.outputs[0].concrete_shape({}), extras))

    # element by element -------------------------------------------------------------------------------------------

    @makes(*UNARY)
    def unary(self, node: RegionNode, data: Value) -> Value:
        code, extras = UNARY[node.name]
        return self.emit(node, code, [data], extras)

    @makes(*BINARY)
    def binary(self, node: RegionNode, lhs: Value, rhs: Value) -> Value:
        code, options = BINARY[node.name]
        return self.emit(node, code, [lhs, rhs], (options, {}))

    @makes("nn.bias_add")
    def bias_add(self, node: RegionNode, data: Value, bias: Value) -> Value:
        return self.emit(node, Code.ADD, [data, bias], (Options.ADD, {}))

    @makes("clip")
    def clip(self, node: RegionNode, data: Value) -> Value:
        assert node.attrs is not None
        low, high = (np.array(float(getattr(node.attrs, name)), "float32") for name in ("a_min", "a_max"))
        extras: Extras = (Options.MAXIMUM_MINIMUM, {})
        above = self.emit(node, Code.MAXIMUM, [data, self.model.constant(low)], extras)
        return self.emit(node, Code.MINIMUM, [above, self.model.constant(high)], extras)

    @makes("nn.leaky_relu")
    def leaky_relu(self, node: RegionNode, data: Value) -> Value:
        alpha = float(getattr(node.attrs, "alpha"))  # noqa: B009 - of attributes of another class
        return self.emit(node, Code.LEAKY_RELU, [data], (Options.LEAKY_RELU, {0: Number("f", alpha)}))

    # products -------------------------------------------------------------------------------------------------------

    @makes("nn.conv2d", CONV)
    def conv2d(self, node: RegionNode, data: Value, weights: Value, bias: Value | None = None) -> Value:
        call = node.operator("nn.conv2d")
        window, layout = window_of(call), str(call.attrs.kernel_layout)
        assert weights.array is not None
        turned = weights.array.transpose([layout.index(axis) for axis in "OHWI"])
        channels = int(tensor_type(call).shape[CHANNELS])
        source, padding = self.padded(node, window, self.number(data), tensor_type(call.args[0]).shape)
        strides = {0: int8(padding), 1: int32(window.strides[1]), 2: int32(window.strides[0])}
        code, extras = Code.CONV_2D, (Options.CONV_2D, {**strides, **_dilated(4, window)})
        if is_depthwise(call):
            turned = turned.reshape(channels, *window.kernel, 1).transpose(3, 1, 2, 0)
            code = Code.DEPTHWISE_CONV_2D
            extras = (Options.DEPTHWISE_CONV_2D, {**strides, 3: int32(1), **_dilated(5, window)})
        added = self.bias(bias, channels)
        return self.emit(node, code, [source, self.model.constant(turned), added], extras)

    @makes("nn.dense", DENSE)
    def dense(self, node: RegionNode, data: Value, weights: Value, bias: Value | None = None) -> Value:
        channels = int(tensor_type(node.operator("nn.dense")).shape[-1])
        extras: Extras = (Options.FULLY_CONNECTED, {2: Number("?", True)})
        return self.emit(node, Code.FULLY_CONNECTED, [data, weights, self.bias(bias, channels)], extras)

    def bias(self, bias: Value | None, channels: int) -> int:
        """The tensor of a bias: zeros where there is none, since XNNPACK wants one."""
        array = np.zeros(channels, "float32") if bias is None else bias.array
        assert array is not None
        found = bias_of(array, channels)
        if found is None:
            raise CompileError(f"{self.symbol}: a bias of shape {list(array.shape)} for {channels} channels")
        return self.model.constant(found)

    def padded(self, node: RegionNode, window: Window, data: int, shape: Sequence[object]) -> tuple[int, Padding]:
        """*data*, padded by zeros where LiteRT has no word for the window's padding, and the word that is left."""
        if window.is_valid or window.is_same:
            return data, Padding.VALID if window.is_valid else Padding.SAME
        widths = np.array([(0, 0), *window.padding, (0, 0)], "int32")
        larger = [int(str(size)) + int(sum(pair)) for size, pair in zip(shape, widths, strict=True)]
        inputs = [data, self.model.constant(widths)]
        return self.model.add(Code.PAD, inputs, larger, (Options.PAD, {})), Padding.VALID

    # windows --------------------------------------------------------------------------------------------------------

    @makes("nn.max_pool2d", "nn.avg_pool2d", RELU_POOL)
    def pool(self, node: RegionNode, data: Value) -> Value:
        averages = node.name == "nn.avg_pool2d"
        call = node.operator("nn.avg_pool2d" if averages else "nn.max_pool2d")
        window, source, shape = window_of(call), self.number(data), tensor_type(call.args[0]).shape
        if node.name == RELU_POOL:  # behind which zeros are as good as nothing
            source = self.model.add(Code.RELU, [source], [int(d) for d in shape])
        source, padding = self.padded(node, window, source, shape)
        sizes = {1: window.strides[1], 2: window.strides[0], 3: window.kernel[1], 4: window.kernel[0]}
        options: Table = {0: int8(padding), **{slot: int32(size) for slot, size in sizes.items()}}
        code = Code.AVERAGE_POOL_2D if averages else Code.MAX_POOL_2D
        return self.emit(node, code, [source], (Options.POOL_2D, options))

    @makes("nn.global_avg_pool2d")
    def global_average(self, node: RegionNode, data: Value) -> Value:
        return self.reduced(node, Code.MEAN, data, (ROWS, COLUMNS), keep=True)

    @makes(*REDUCTIONS)
    def reduce(self, node: RegionNode, data: Value) -> Value:
        ndim = len(node.inputs[0].shape)
        axes = reduced_axes(node.call, ndim)
        return self.reduced(node, REDUCTIONS[node.name], data, axes, bool(getattr(node.attrs, "keepdims", False)))

    def reduced(self, node: RegionNode, code: Code, data: Value, axes: Sequence[int], keep: bool) -> Value:
        """The reduction *code* over *axes*."""
        inputs: list[Value | int] = [data, self.model.constant(np.array(axes, "int32"))]
        return self.emit(node, code, inputs, (Options.REDUCER, {0: Number("?", keep)}))

    @makes("nn.softmax")
    def softmax(self, node: RegionNode, data: Value) -> Value:
        return self.emit(node, Code.SOFTMAX, [data], (Options.SOFTMAX, {0: Number("f", 1.0)}))

    # what only moves ------------------------------------------------------------------------------------------------

    @makes("reshape", "nn.batch_flatten", "squeeze", "expand_dims")
    def reshape(self, node: RegionNode, data: Value, *sizes: Value) -> Value:
        shape = np.array(node.outputs[0].concrete_shape({}), "int32")
        extras: Extras = (Options.RESHAPE, {0: Vector("i", shape.tolist())})
        return self.emit(node, Code.RESHAPE, [data, self.model.constant(shape)], extras)

    @makes("transpose", "layout_transform")
    def transpose(self, node: RegionNode, data: Value) -> Value:
        axes = self.model.constant(np.array(permutation_of(node.call), "int32"))
        return self.emit(node, Code.TRANSPOSE, [data, axes], (Options.TRANSPOSE, {}))

    @makes("concatenate")
    def concatenate(self, node: RegionNode, *parts: Value) -> Value:
        axis = int(getattr(node.attrs, "axis", 0)) % len(node.outputs[0].shape)
        return self.emit(node, Code.CONCATENATION, parts, (Options.CONCATENATION, {0: int32(axis)}))

    @makes("nn.pad")
    def pad(self, node: RegionNode, data: Value, value: Value) -> Value:
        widths = np.array(getattr(node.attrs, "pad_width", ()), "int32")
        return self.emit(node, Code.PAD, [data, self.model.constant(widths)], (Options.PAD, {}))

    @makes("strided_slice")
    def strided_slice(self, node: RegionNode, data: Value) -> Value:
        begins, ends, strides = (np.array(part, "int32") for part in slices_of(node.call))
        inputs: list[Value | int] = [data, *(self.model.constant(part) for part in (begins, ends, strides))]
        return self.emit(node, Code.STRIDED_SLICE, inputs, (Options.STRIDED_SLICE, {}))


def _dilated(slot: int, window: Window) -> Table:
    """The options of dilation: columns, then rows."""
    return {slot: int32(window.dilation[1]), slot + 1: int32(window.dilation[0])}


def permutation_of(call: Call) -> list[int]:
    """The axes that a ``transpose`` or a ``layout_transform`` between plain layouts takes, in their order."""
    ndim = tensor_type(call.args[0]).ndim
    if hasattr(call.attrs, "src_layout"):
        source = str(call.attrs.src_layout)
        return [source.index(axis) for axis in str(call.attrs.dst_layout)]
    axes = call.attrs.axes
    return [int(a) % ndim for a in axes] if axes else list(reversed(range(ndim)))


def reduced_axes(call: Call, ndim: int) -> tuple[int, ...]:
    """The axes that a reduction goes over, none of them below 0."""
    named = call.attrs.axis
    axes = {int(a) % ndim for a in named} if named is not None else set(range(ndim))
    return tuple(sorted(set(range(ndim)) - axes if call.attrs.exclude else axes))


def slices_of(call: Call) -> tuple[list[int], list[int], list[int]]:
    """Begins, ends and strides of a ``strided_slice`` for each axis, begins and ends inside of the data."""
    sizes = [int(d) for d in tensor_type(call.args[0]).shape]
    outs = [int(d) for d in tensor_type(call).shape]
    attrs = call.attrs
    axes = [int(a) % len(sizes) for a in attrs.axes] if attrs.axes is not None else list(range(len(attrs.begin)))
    begins, strides = [0] * len(sizes), [1] * len(sizes)
    for k, axis in enumerate(axes):
        begin = int(attrs.begin[k])
        begins[axis] = min(max(begin + sizes[axis] if begin < 0 else begin, 0), sizes[axis])
        if attrs.slice_mode == "end" and attrs.strides:
            strides[axis] = int(attrs.strides[k] if len(attrs.strides) > k else attrs.strides[-1])
    ends = [b + (n - 1) * s + 1 for b, n, s in zip(begins, outs, strides, strict=True)]
    return begins, ends, strides


def is_zero(value: object) -> bool:
    """Whether an expression is the constant 0."""
    return isinstance(value, Constant) and not value.data.numpy().any()
