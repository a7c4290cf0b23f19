"""The OpenCL backend: any operator with a tensor expression, as OpenCL C for the device of this machine.

Compiling needs no device: the result is source and launch plans, which the runtime builds where it runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import (
    constant_arrays,
    fuse_body,
    generated_dtype,
    has_expression,
    known_shape,
    no_recurrence,
    tensors_of,
)
from byoc.codegen.opencl.cpu.machine import grouped, prepared_for
from byoc.codegen.opencl.emit import emit_programs, takes_blocks
from byoc.codegen.opencl.options import HALVES, NAMES, OpenCLOptions
from byoc.codegen.opencl.patterns import pattern_table
from byoc.codegen.opencl.profile import profile_for
from byoc.contract.backend import Backend, PatternEntry
from byoc.contract.verdict import EVERY, constraint
from byoc.errors import CompileError, DeviceError
from byoc.relay.expr import Call, Function
from byoc.runtime.core.small_types import SMALL
from byoc.runtime.opencl.build import why_unavailable
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.module import OpenCLModule

MIN_ELEMENTS = 64


@constraint("float64", of=EVERY, machine=True)
def device_has_float64(call: Call) -> object | None:
    """float64 only where the device computes with it"""
    if all(t.dtype != "float64" for t in tensors_of(call)):
        return None
    try:
        info = open_device().info
    except DeviceError:
        return "float64 and no device to ask"
    return None if info.has_float64 else f"float64 on {info.name}"


@constraint("empty", of=EVERY)
def not_empty(call: Call) -> object | None:
    """tensors with at least one element"""
    return next((t for t in tensors_of(call) if 0 in t.shape), None)


@constraint("size")
def worth_a_launch(call: Call) -> object | None:
    """worth a launch: integers of fewer than 64 elements alone, as in arithmetic on shapes, stay on the host"""
    tensors = tensors_of(call)
    if any(t.dtype.startswith("float") or not t.is_static for t in tensors):
        return None
    largest = max((math.prod(t.concrete_shape) for t in tensors), default=0)
    return f"{largest} elements" if largest < MIN_ELEMENTS else None


CONSTRAINTS = (
    has_expression,
    generated_dtype,
    known_shape,
    no_recurrence,
    device_has_float64,
    not_empty,
    worth_a_launch,
)


class OpenCLBackend(Backend):
    """Generated OpenCL C, with the options of :class:`OpenCLOptions`, and ``schedules`` (``profile.py``)."""

    name = "opencl"
    constraints = CONSTRAINTS
    devices = ("opencl",)
    small_dtypes = tuple(SMALL)
    options = NAMES

    def patterns(self) -> Sequence[PatternEntry]:
        return pattern_table()

    def unavailable(self) -> str | None:
        return why_unavailable()

    def device_kind(self) -> str | None:
        try:
            return open_device().info.kind
        except DeviceError:
            return None

    def check_options(self, options: Mapping[str, object]) -> None:
        OpenCLOptions.of(options)

    def why_not_in(self, precision: str, options: Mapping[str, object]) -> str | None:
        chosen = OpenCLOptions.of(options)
        if precision != "fp16" or chosen.half != HALVES[0]:
            return super().why_not_in(precision, options) if precision != "fp16" else None
        try:
            info = open_device().info
        except DeviceError:
            return "there is no OpenCL device to ask for cl_khr_fp16; half=memory stores halves on any"
        if info.has_float16:
            return None
        return f"the device {info.name} has no cl_khr_fp16; half=memory stores halves there and computes in float32"

    def compile(self, function: Function, options: Mapping[str, object]) -> OpenCLModule:
        symbol = function.attrs.get("global_symbol")
        if not isinstance(symbol, str):
            raise CompileError("a region needs the attribute global_symbol: the name under which it is called")
        fused = grouped(function) if profile_for(options).is_cpu else fuse_body(function)
        return compile_functions({symbol: fused}, options)


def _has_float16() -> bool:
    """Whether the device here computes with halves; False without one."""
    try:
        return open_device().info.has_float16
    except DeviceError:
        return False


def check_options(options: Mapping[str, object]) -> None:
    """Raises CompileError for an option that the backend does not take."""
    unknown = [str(name) for name in options if name not in NAMES]
    if unknown:
        known = ", ".join(NAMES)
        raise CompileError(f"the backend opencl takes the options {known}, got {', '.join(unknown)}")


def compile_functions(functions: Mapping[str, Function], options: Mapping[str, object] | None = None) -> OpenCLModule:
    """Many functions, by their symbols, in one source; each ``Primitive`` function inside is one group of kernels.

    The module's ``constant_arrays`` are its constants by the names in its signatures. Raises CompileError for a
    function for which no code can be generated, and for an option that there is not.
    """
    check_options(options or {})
    chosen, profile = OpenCLOptions.of(options or {}), profile_for(options or {})
    programs = [lower_function(function, symbol) for symbol, function in functions.items()]
    halves, machine = chosen.writes_halves(_has_float16), profile.machine
    if machine is not None:
        programs = [prepared_for(p, machine) if takes_blocks(p, profile, halves) else p for p in programs]
    source, plans = emit_programs(programs, profile, halves)
    return OpenCLModule(source, plans, constant_arrays(programs))
