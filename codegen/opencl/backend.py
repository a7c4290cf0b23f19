"""The OpenCL backend: any operator with a tensor expression, as OpenCL C for the device of this machine.

Compiling needs no device: the result is source and launch plans, which the runtime builds where it runs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.codegen.kernel.choice import Choices
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.region import (
    constant_arrays,
    fuse_body,
    generated_dtype,
    has_expression,
    known_shape,
    tensors_of,
)
from byoc.codegen.opencl.cpu.machine import grouped, prepared_for
from byoc.codegen.opencl.device.choosing import Chooser
from byoc.codegen.opencl.device.options import HALVES, NAMES, PRODUCTS, TUNE, OpenCLOptions
from byoc.codegen.opencl.device.profile import DeviceProfile, check_schedules, profile_for
from byoc.codegen.opencl.device.thresholds import Thresholds
from byoc.codegen.opencl.emit import emit_prepared, prepare, takes_blocks
from byoc.codegen.opencl.images.choice import AUTO, BUFFER
from byoc.codegen.opencl.images.decide import in_memory
from byoc.codegen.opencl.images.places import opencl_places, options_at, why_not_at
from byoc.codegen.opencl.images.trial import Form
from byoc.codegen.opencl.patterns import pattern_table
from byoc.codegen.opencl.tuned import TunedFor, measured_rates, tuned
from byoc.codegen.tune.tuner import Tuner
from byoc.contract.backend import Backend, PatternEntry
from byoc.contract.verdict import EVERY, constraint
from byoc.errors import CompileError, DeviceError, UserError
from byoc.ir.attrs import as_int
from byoc.ir.passes.pass_context import PassContext, register_config_option
from byoc.relay.expr import Call, Function
from byoc.runtime.core.small_types import SMALL
from byoc.runtime.opencl.build import why_unavailable
from byoc.runtime.opencl.devices import has_devices, open_device, why_not_here
from byoc.runtime.opencl.launches import FunctionPlan
from byoc.runtime.opencl.module import OpenCLModule

MIN_ELEMENTS = 64
LEAST_ELEMENTS = "opencl.least_elements"  # of a PassContext: another number; 1 launches kernels for any integers
register_config_option(LEAST_ELEMENTS, int)


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
    """worth a launch: integers of fewer than 64 elements alone, as in arithmetic on shapes, stay on the host

    The number is another one where a PassContext says so (``LEAST_ELEMENTS``).
    """
    tensors = tensors_of(call)
    if any(t.dtype.startswith("float") or not t.is_static for t in tensors):
        return None
    largest = max((math.prod(t.concrete_shape) for t in tensors), default=0)
    least = as_int(PassContext.current().config.get(LEAST_ELEMENTS, MIN_ELEMENTS))
    return f"{largest} elements" if largest < least else None


CONSTRAINTS = (
    has_expression,
    generated_dtype,
    known_shape,
    device_has_float64,
    not_empty,
    worth_a_launch,
)


class OpenCLBackend(Backend):
    """Generated OpenCL C. Options: ``device``, ``half``, ``max_error``, ``mode``, ``products``, ``schedules``,
    ``thresholds``, ``winograd``.
    """

    name = "opencl"
    constraints = CONSTRAINTS
    devices = ("opencl",)
    small_dtypes = tuple(SMALL)
    precisions_inside = ("fp16",)
    needs_sizes = True
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

    def device_name(self, options: Mapping[str, object]) -> str | None:
        info = open_device(OpenCLOptions.of(options).device).info
        return f"{info.name}, {info.platform}, driver {info.driver_version}"

    def check_options(self, options: Mapping[str, object]) -> None:
        OpenCLOptions.of(options)
        Thresholds.of(options.get("thresholds", ""), Thresholds())
        check_schedules(options)
        WinogradOptions.of(options, self.name)
        if not isinstance(options.get(TUNE), Tuner | None):
            raise UserError(
                f"opencl.tune: a level is given as byoc.compile's tune, or as opencl.mode=tuning={options[TUNE]}"
            )

    def tuning_level(self, options: Mapping[str, object]) -> str | None:
        return OpenCLOptions.of(options).mode.tuning or None

    def places(self) -> Sequence[str]:
        return opencl_places()

    def why_not_at(self, place: str) -> str | None:
        return why_not_at(place)

    def options_at(self, places: Sequence[str], options: Mapping[str, object]) -> Mapping[str, object]:
        return options_at(places, options)

    def why_not_in(self, precision: str, options: Mapping[str, object]) -> str | None:
        chosen = OpenCLOptions.of(options)
        if precision != "fp16" or chosen.half != HALVES[0]:
            return super().why_not_in(precision, options) if precision != "fp16" else None
        try:
            info = open_device(chosen.device).info
        except DeviceError:
            return "there is no OpenCL device to ask for cl_khr_fp16; half=memory stores halves on any"
        if info.has_float16 or info.matrix_units:  # which take halves from memory as they are
            return None
        return f"the device {info.name} has no cl_khr_fp16; half=memory stores halves there and computes in float32"

    def compile(self, function: Function, options: Mapping[str, object]) -> OpenCLModule:
        symbol = function.attrs.get("global_symbol")
        if not isinstance(symbol, str):
            raise CompileError("a region needs the attribute global_symbol: the name under which it is called")
        in_blocks = profile_for(options).is_cpu and OpenCLOptions.of(options).mode.memory in (AUTO, BUFFER)
        return compile_functions({symbol: grouped(function) if in_blocks else fuse_body(function)}, options)


def _has_float16(device: str) -> bool:
    """Whether the device here computes with halves; False without one."""
    try:
        return open_device(device).info.has_float16
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
    given = options or {}
    chosen = OpenCLOptions.of(given)
    profile = replace(profile_for(given), products=chosen.products)
    halves = chosen.writes_halves(lambda: _has_float16(chosen.device))
    winograd = WinogradOptions.of(given, "opencl")
    programs = [lower_function(function, symbol) for symbol, function in functions.items()]
    machine, tuner = profile.machine, given.get(TUNE)
    tunes = isinstance(tuner, Tuner) and tuner.tunes
    if isinstance(tuner, Tuner) and tunes:  # which needs the device, and says so
        profile = measured_rates(profile, tuner, chosen.device)
    else:
        _warn_of_absence(chosen.device)

    def prepared(memory: str, choices: Choices | None = None) -> list[Program]:
        """The programs as kernels over such memory want them."""
        blocks = machine if memory == BUFFER else None
        return [
            prepare(p, profile, halves, memory, winograd)
            if blocks is None or not takes_blocks(p, profile, halves)
            else prepared_for(p, blocks, choices, winograd)
            for p in programs
        ]

    over: dict[str, list[Program]] = {}

    def form(memory: str) -> Form:
        if isinstance(tuner, Tuner) and tunes:
            wanted = TunedFor(profile, halves, chosen.device, given.get("thresholds", ""), memory)
            over[memory], made = tuned(lambda choices: prepared(memory, choices), wanted, tuner)
            return made
        over[memory] = prepared(memory)
        return emit_prepared(over[memory], Chooser(profile), halves, memory)

    memory, (source, plans) = in_memory(
        chosen.mode.memory, form, lambda memory: constant_arrays(over[memory]), chosen.device
    )
    notes = _notes(source, chosen, profile)
    if chosen.products != PRODUCTS[0]:
        plans = tuple(replace(p, notes=(*p.notes, _product_note(p, chosen.products, profile))) for p in plans)
    plans = tuple(replace(p, notes=(*p.notes, *notes)) for p in plans)
    return OpenCLModule(source, plans, constant_arrays(over[memory]), chosen.run)


def _notes(source: str, chosen: OpenCLOptions, profile: DeviceProfile) -> list[str]:
    """What there is to say of every function in *source*."""
    notes = []
    if _nothing_is_here(chosen.device):
        notes.append("no OpenCL device is here: kernels are written for any GPU, and none was tried")
    if chosen.half == "compute" and "cl_khr_fp16" in source and not _has_float16(chosen.device):
        notes.append("half=compute: kernels need a device with cl_khr_fp16, and that which is here, if any, has none")
    if profile.rates is not None:
        notes.append(f"cost model: {profile.rates.text()}; {profile.rates.source}")
    return notes


def _nothing_is_here(device: str) -> bool:
    """Whether there is neither *device*, empty for the first, nor another one."""
    try:
        open_device(device)
    except DeviceError:
        return not has_devices()
    return False


def _warn_of_absence(device: str) -> None:
    """Warn where the user says which *device*, and there are others here: what is compiled will not run here."""
    why = why_not_here(device) if device else None
    if why is not None:
        warnings.warn(
            f"{why}; kernels are written for any GPU, and run where there is such a device: give one of these for "
            "kernels of its own",
            stacklevel=2,
        )


def _product_note(plan: FunctionPlan, products: str, profile: DeviceProfile) -> str:
    """What became of the request for products in another format."""
    if not profile.matrix_units:
        return f"products={products}: stay in float32, since OpenCL reaches no matrix units of the device"
    schedules = [launch.variants[0].schedule for launch in plan.launches]
    matrix, vector = (sum(s.startswith(kind) for s in schedules) for kind in ("matrix", "product"))
    return f"products={products}: {matrix} of {matrix + vector} tiled products are by matrix units"
