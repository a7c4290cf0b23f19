"""The most that an OpenCL device can do, measured once by small kernels and its own clock, and kept for the device.

Three things are measured: multiply-adds by dtype, by independent chains of them in registers; bytes, by copies of more
memory than caches hold, and of less; and the launch of a kernel that does nothing. Of several forms of a kernel
the fastest counts. What a vendor has beside OpenCL C, as matrix units, is not in these rates: a share of the peak above
1 says so. Source: clpeak (Krishnaraj Bhat), whose kernels have the
same form.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.errors import DeviceError
from byoc.runtime.devices.peak import ANY, Peak, PeakSource
from byoc.runtime.opencl.build import build_program
from byoc.runtime.opencl.devices import DeviceInfo, OpenDevice, import_pyopencl
from byoc.runtime.opencl.process import driver_use, in_driver
from byoc.runtime.opencl.settings import settings_of

if TYPE_CHECKING:
    import pyopencl

SETTING = "device.peaks"
EDITION = 2  # of what is measured and how: another one is measured anew
NANO = 1e-9
TYPES = {"float32": "float", "float64": "double", "float16": "half", "int32": "int"}
CHAINS = 8  # multiply-adds of a work-item that do not wait for each other
SECONDS = 2e-3  # that a kernel is timed for at least
REPEAT = 4
MOST_STEPS = 1 << 16
COPY_BYTES = 64 << 20
LEAST_COPY = 1 << 20
NEAR_COPIES = (1 << 15, 1 << 19, 1 << 23)  # bytes that are copied within nearer memories
NEAR_REPEAT = 16
LAUNCHES = 64

_ARITHMETIC = """
__kernel void chains_{dtype}_{width}(__global {base} *out, const int steps, const float x0, const float y0) {{
  const {type} x = ({type})(({base})x0), y = ({type})(({base})y0);
  {type} {names};
  for (int i = 0; i < steps; i++) {{
    {body}
  }}
  {store}
}}
"""
_COPY = """
__kernel void copy_{width}(__global const {type} *restrict from, __global {type} *restrict to) {{
  to[get_global_id(0)] = from[get_global_id(0)];
}}
"""
_NOTHING = "__kernel void nothing(__global int *out) { if (out[0] == 12345) out[0] = 0; }\n"


def peak_from(opened: OpenDevice, source: PeakSource) -> Peak | None:
    """The device's peak from *source*; None where nothing is kept. Raises DeviceError as :func:`device_peak`."""
    if source is PeakSource.KEPT:
        return known_peak(opened)
    return measure_peak(opened) if source is PeakSource.MEASURED else device_peak(opened)


def device_peak(opened: OpenDevice) -> Peak:
    """What the device can do at most, as it is kept, else measured now, which takes about a second, and kept.

    Raises DeviceError where its driver reports no times, or refuses the kernels.
    """
    return known_peak(opened) or measure_peak(opened)


def known_peak(opened: OpenDevice) -> Peak | None:
    """What was measured of the device before, by any process; None where nobody has. Nothing is measured."""
    found = settings_of(opened).get(SETTING)
    if not isinstance(found, dict) or found.get("edition") != EDITION:
        return None
    rates = found.get("operations")
    bandwidth, launch = _rate(found.get("bandwidth")), _rate(found.get("launch"))
    near = found.get("near")
    known = {str(dtype): _rate(rate) for dtype, rate in rates.items()} if isinstance(rates, dict) else {}
    if not isinstance(near, list) or len(near) != len(NEAR_COPIES):
        return None
    nearer = tuple((2 * size, _rate(rate)) for size, rate in zip(NEAR_COPIES, near, strict=True))
    if ANY not in known or min(*known.values(), bandwidth, launch, *(rate for _, rate in nearer)) <= 0:
        return None
    return Peak(known, bandwidth, _source(opened.info), launch, nearer)


def measure_peak(opened: OpenDevice) -> Peak:
    """Measure the device now, whatever is kept, and keep what is found. Raises DeviceError as :func:`device_peak`."""
    found = _measured(opened)
    kept = {
        "edition": EDITION,
        "operations": dict(found.operations),
        "bandwidth": found.bandwidth,
        "launch": found.launch,
        "near": [rate for _, rate in found.near],
    }
    settings_of(opened).put(SETTING, kept)
    return found


def _rate(value: object) -> float:
    """*value* where it is a rate, else 0."""
    return value if isinstance(value, float) and 0 < value < math.inf else 0.0


def _source(info: DeviceInfo) -> str:
    return f"measured on {info.name}"


@in_driver
def _measured(opened: OpenDevice) -> Peak:
    cl = import_pyopencl()
    try:
        bench = _Bench(opened)
        rates = {dtype: bench.rate(dtype) for dtype in _dtypes(opened.info)}
        bandwidth = bench.bandwidth()
        near = tuple((2 * size, bench.near_bandwidth(size, bandwidth)) for size in NEAR_COPIES)
        return Peak({**rates, ANY: rates["float32"]}, bandwidth, _source(opened.info), bench.launch(), near)
    except (cl.Error, ValueError) as error:
        raise DeviceError(f"the peaks of the OpenCL device {opened.info.name!r} cannot be measured: {error}") from error


def _dtypes(info: DeviceInfo) -> list[str]:
    lacking = {"float64": not info.has_float64, "float16": not info.has_float16}
    return [dtype for dtype in TYPES if not lacking.get(dtype, False)]


def _widths(info: DeviceInfo) -> tuple[int, ...]:
    """The elements of a vector of a work-item: of a processor its registers', of others few."""
    if info.kind != "cpu":
        return (1, 2)
    return tuple(sorted({min(info.float_lanes, 16), min(2 * info.float_lanes, 16)}))


def peak_source(info: DeviceInfo) -> str:
    """The kernels that the device is measured by, the same text for the same device."""
    extensions = [f"#pragma OPENCL EXTENSION {e} : enable" for e in _extensions(info)]
    kernels = [_arithmetic(dtype, width) for dtype in _dtypes(info) for width in _widths(info)]
    kernels += [_COPY.format(type=_vector("float", width), width=width) for width in (1, 4)]
    return "\n".join([*extensions, "#pragma OPENCL FP_CONTRACT ON", *kernels, _NOTHING])


def _extensions(info: DeviceInfo) -> Iterator[str]:
    if info.has_float64:
        yield "cl_khr_fp64"
    if info.has_float16:
        yield "cl_khr_fp16"


def _vector(base: str, width: int) -> str:
    return base if width == 1 else f"{base}{width}"


def _arithmetic(dtype: str, width: int) -> str:
    base, names = TYPES[dtype], [f"a{k}" for k in range(CHAINS)]
    total = " + ".join(names)
    # no vstore16, over which the compiler of PoCL 3.0 ends the process on processors with AVX-512
    store = f"((__global {_vector(base, width)} *)out)[get_global_id(0)] = {total};"
    return _ARITHMETIC.format(
        dtype=dtype,
        width=width,
        base=base,
        type=_vector(base, width),
        names=", ".join(f"{a} = x + ({base})(get_global_id(0) % 7 + {k})" for k, a in enumerate(names)),
        body=" ".join(f"{a} = {a} * x + y;" for a in names),
        store=store,
    )


@dataclass(eq=False)
class _Bench:
    """Kernels on a queue of their own that keeps times. Raises ValueError where these say nothing."""

    opened: OpenDevice
    queue: pyopencl.CommandQueue = field(init=False)

    def __post_init__(self) -> None:
        cl, info = import_pyopencl(), self.opened.info
        self.cl, self.info = cl, info
        self.queue = cl.CommandQueue(
            self.opened.context, self.opened.device, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        driver_use().keep(self)
        self.program = build_program(peak_source(info), self.opened)
        is_cpu = info.kind == "cpu"
        self.local = min(16 if is_cpu else 256, info.max_work_group_size)
        self.items = info.units * (16 * self.local if is_cpu else 2048 * 4)
        self.items -= self.items % self.local

    def rate(self, dtype: str) -> float:
        """Operations a second of multiply-adds."""
        item = np.dtype(dtype).itemsize
        out = self._buffer(self.items * 16 * item)
        return max(self._rate(dtype, width, out) for width in _widths(self.info))

    def _rate(self, dtype: str, width: int, out: pyopencl.Buffer) -> float:
        kernel = self.cl.Kernel(self.program, f"chains_{dtype}_{width}")

        def run(steps: int) -> float:
            kernel.set_args(out, np.int32(steps), np.float32(1.0), np.float32(0.0))
            return self._seconds(lambda: self._launched(kernel, self.items))

        steps, seconds = 16, run(16)
        while seconds < SECONDS and steps < MOST_STEPS:
            steps *= 4
            seconds = run(steps)
        seconds = min(seconds, *(run(steps) for _ in range(REPEAT)))
        return 2.0 * CHAINS * width * steps * self.items / seconds

    def bandwidth(self) -> float:
        """Bytes a second that are read and written by copies, of which a byte counts twice."""
        size = COPY_BYTES
        while size > max(self.info.global_memory // 16, LEAST_COPY):
            size //= 2
        return self._bandwidth(size, REPEAT)

    def near_bandwidth(self, size: int, far: float) -> float:
        """The same of copies of *size* bytes that were copied before; no less than that of *far* memory."""
        return max(self._bandwidth(size, NEAR_REPEAT), far)

    def _bandwidth(self, size: int, repeat: int) -> float:
        one, other = self._buffer(size), self._buffer(size)
        seconds = [self._best(lambda: self.cl.enqueue_copy(self.queue, other, one), repeat)]
        for width in (1, 4):
            kernel = self.cl.Kernel(self.program, f"copy_{width}")
            kernel.set_args(one, other)
            launched = functools.partial(self._launched, kernel, size // (4 * width))
            seconds.append(self._best(launched, repeat))
        return 2.0 * size / min(seconds)

    def launch(self) -> float:
        """Seconds from the start of an empty kernel to that of the next."""
        kernel = self.cl.Kernel(self.program, "nothing")
        out = self._buffer(LEAST_COPY)  # which the kernel does not hold
        kernel.set_args(out)
        apart = []
        for _ in range(REPEAT):
            events = [self._launched(kernel, self.local) for _ in range(LAUNCHES + 1)]
            events[-1].wait()
            begun = [event.profile.start for event in events]
            apart.append(statistics.median(b - a for a, b in itertools.pairwise(begun)))
        return self._positive(NANO * min(apart))

    def _buffer(self, size: int) -> pyopencl.Buffer:
        buffer: pyopencl.Buffer = self.cl.Buffer(self.opened.context, self.cl.mem_flags.READ_WRITE, size)
        self.cl.enqueue_fill_buffer(self.queue, buffer, np.zeros(1, "uint8"), 0, size).wait()
        return buffer

    def _launched(self, kernel: pyopencl.Kernel, items: int) -> pyopencl.Event:
        event: pyopencl.Event = self.cl.enqueue_nd_range_kernel(self.queue, kernel, (items,), (self.local,))
        return event

    def _best(self, enqueue: Callable[[], pyopencl.Event], repeat: int) -> float:
        return min(self._seconds(enqueue) for _ in range(repeat))

    def _seconds(self, enqueue: Callable[[], pyopencl.Event]) -> float:
        event = enqueue()
        event.wait()
        return self._positive(NANO * (event.profile.end - event.profile.start))

    def _positive(self, seconds: float) -> float:
        if seconds <= 0:
            raise ValueError("its clock says that work took no time")
        return seconds
