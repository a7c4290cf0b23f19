"""The ``int8_npu`` backend: an example of an accelerator of integers, with a generator that tiles and an emulator.

The chip (``npu_emulator.py``) computes convolutions, dense layers, sums and pools on int8 with channels innermost, in
64 KB of memory of its own, and requantizes by 32-bit multipliers, halves up. The backend says so in three places: its
one place is ``int8_npu/int8/NHWC``, for which byoc inserts layout transforms; :class:`Quantized` says on which
integers it computes; the constraints say what of it fits. ``npu_generator.py`` makes a program of a region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.contract import Backend, PatternEntry, Quantized, callee_name, constraint, register_backend
from byoc.contrib.npu_emulator import DEVICE, MEMORY, NpuModule, checked_device, chosen_device
from byoc.contrib.npu_generator import ADD, CONV, DENSE, GENERATORS, compiled, images, inner, number, numbers, window_of
from byoc.ir.types import tensor_types
from byoc.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.narrowing import operator_of, tensor_type
from byoc.runtime import HardwareLevel, device_api


@constraint("operator")
def instructions(call: Call) -> str | None:
    """convolutions and dense layers with their requantization, sums, and max pools"""
    return None if callee_name(call) in GENERATORS else callee_name(call)


@constraint("shape")
def static_images(call: Call) -> str | None:
    """tensors of four axes or matrices, of sizes known when compiling"""
    types = [t for value in (call, *call.args) for t in tensor_types(value.checked_type) if t.ndim]
    data = [t for value, t in zip((call, *call.args), types, strict=False) if not isinstance(value, Constant)]
    wrong = next((t for t in data if not t.is_static or t.ndim not in (2, 4)), None)
    return None if wrong is None else str(wrong)


@constraint("dtype")
def bytes_with_a_sign(call: Call) -> str | None:
    """int8 data and results"""
    values = [call, *(a for a in call.args if not isinstance(a, Constant))]
    types = [t.dtype for v in values for t in tensor_types(v.checked_type)]
    return next((dtype for dtype in types if dtype != "int8"), None)


@constraint("weights", of=("qnn.conv2d", "qnn.dense"))
def constant_weights(call: Call) -> str | None:
    """constant int8 weights without zero points"""
    weight, zero = call.args[1], call.args[3]
    if not isinstance(weight, Constant) or not isinstance(zero, Constant):
        return "computed ones"
    if numbers(weight).dtype != np.int8:
        return str(numbers(weight).dtype)
    return "zero points" if numbers(zero).any() else None


@constraint("layout", of=("qnn.conv2d", "nn.max_pool2d"))
def channels_innermost(call: Call) -> str | None:
    """layout NHWC"""
    layout = call.attrs.data_layout if hasattr(call.attrs, "data_layout") else call.attrs.layout
    return next((str(name) for name in (layout, call.attrs.out_layout) if name not in ("", "NHWC")), None)


@constraint("groups", of="qnn.conv2d")
def one_group_or_depthwise(call: Call) -> int | None:
    """one group, or depthwise with one result for each channel"""
    if not has_images(call):
        return None
    groups, channels = int(call.attrs.groups), images(call.args[0])[3]
    return None if groups == 1 or groups == channels == images(call)[3] else groups


@constraint("rounding", of="qnn.requantize")
def one_result_scale(call: Call) -> str | None:
    """constant scales, and a zero point of 0 before requantization"""
    if not all(isinstance(a, Constant) for a in call.args[1:]):
        return "computed ones"
    return "a zero point" if numbers(call.args[2]).any() else None


@constraint("sides", of="qnn.add")
def equal_sides(call: Call) -> str | None:
    """two tensors of one shape, with constant scales of one number"""
    shapes = {str(tensor_type(a).shape) for a in call.args[:2]}
    if len(shapes) > 1 or any(isinstance(a, Constant) for a in call.args[:2]):
        return ", ".join(sorted(shapes))
    simple = all(isinstance(a, Constant) and numbers(a).size == 1 for a in call.args[2:])
    return None if simple else "several scales"


@constraint("padding")
def padded_with_zero_point(call: Call) -> str | None:
    """padding of rows and columns by the zero point of the data"""
    calls = inner(call)
    if "nn.pad" not in calls or "qnn.conv2d" not in calls or not has_images(calls["qnn.conv2d"]):
        return None
    pad = calls["nn.pad"]
    widths = [sum(int(k) for k in pair) for pair in pad.attrs.pad_width]
    if pad.attrs.pad_mode != "constant" or widths[0] or widths[3]:
        return "another padding"
    value = number(pad.args[1])
    return None if value == number(calls["qnn.conv2d"].args[2]) else f"{value:g}"


@constraint("pool", of="nn.max_pool2d")
def floored(call: Call) -> str | None:
    """pools whose last window lies inside of the padded image"""
    return "ceil_mode" if call.attrs.ceil_mode else None


@constraint("memory")
def fits(call: Call) -> str | None:
    """one result with its window and weights in 64 KB"""
    name = callee_name(call)
    if not (name == DENSE or (name in (CONV, "nn.max_pool2d") and has_images(call))) or static_images(call) is not None:
        return None
    needed = window_of(call).sizes((1, 1, 1))
    total = sum(needed.values())
    return None if total <= MEMORY else f"{total} bytes"


def has_images(call: Call) -> bool:
    """Whether what *call* reads and gives are images of known sizes, channels innermost: what other constraints ask."""
    calls = [c for c in inner(call).values() if operator_of(c).traits.any_layout]
    types = [tensor_type(value) for c in calls for value in (c, c.args[0])]
    return all(t.is_static and t.ndim == 4 for t in types) and all(channels_innermost(c) is None for c in calls)


def bounded(value: DFPattern) -> DFPattern:
    """*value* between bounds, as ``nn.relu`` and ``clip`` become on integers."""
    return is_op("maximum")(value, is_constant()) | is_op("clip")(value)


@constraint("bound", of="maximum")
def one_bound(call: Call) -> str | None:
    """bounds of one number"""
    values = numbers(call.args[1]) if isinstance(call.args[1], Constant) else None
    return None if values is not None and len(set(values.reshape(-1).tolist())) == 1 else "several"


@register_backend
class Npu(Backend):
    """An NPU for int8 with channels innermost and 64 KB of memory, emulated."""

    name = "int8_npu"
    options = ("device",)
    quantized = Quantized(
        operators=("nn.conv2d", "nn.dense", "nn.bias_add", "nn.relu", "clip", "add", "nn.max_pool2d", "nn.pad"),
        rounding="UPWARD",
        compute_dtype="int64",
    )
    constraints = (
        instructions,
        static_images,
        bytes_with_a_sign,
        constant_weights,
        channels_innermost,
        one_group_or_depthwise,
        one_result_scale,
        equal_sides,
        padded_with_zero_point,
        one_bound,
        floored,
        fits,
    )

    def level(self) -> HardwareLevel:
        """That of the device on which its programs run here."""
        return device_api(chosen_device(DEVICE)).properties.level

    def places(self) -> Sequence[str]:
        """On int8, channels innermost."""
        return ("int8_npu/int8/NHWC",)

    def patterns(self) -> Sequence[PatternEntry]:
        """Products with padding, bias, bounds and requantization."""
        rows = []
        for name, product in ((CONV, "qnn.conv2d"), (DENSE, "qnn.dense")):
            data: DFPattern = wildcard()
            if name == CONV:
                data = is_op("nn.pad")(wildcard(), is_constant()) | wildcard()
            parameters = [is_constant() for _ in range(5)]
            total: DFPattern = is_op(product)(data, *parameters)
            total = total.optional(lambda x: is_op("nn.bias_add")(x, is_constant()))
            total = total.optional(lambda x: is_op("maximum")(x, is_constant())).optional(lambda x: is_op("clip")(x))
            result = is_op("qnn.requantize")(total, *(is_constant() for _ in range(4)))
            rows += [PatternEntry(name, bounded(result)), PatternEntry(name, result)]
        total = is_op("qnn.add")(wildcard(), wildcard(), *(is_constant() for _ in range(6)))
        return [*rows, PatternEntry(ADD, bounded(total))]

    def check_options(self, options: Mapping[str, object]) -> None:
        """Raises DeviceError for a device that it cannot run on."""
        checked_device(options.get("device", DEVICE))

    def compile(self, function: Function, options: Mapping[str, object]) -> NpuModule:
        """The program of *function*, for the device that the option ``device`` names, as ``byoc.runtime.device_api``.

        Raises DeviceError for one that it cannot run on.
        """
        device = checked_device(options.get("device", DEVICE))
        device_api(device)
        return compiled(function, device)
