"""What schedules ask of an OpenCL device: its kind and a few numbers, read from the device or assumed.

Compiling needs no device. Where one is here its numbers decide; where there is none, those of :data:`ANY_GPU`, which
every GPU of the last ten years exceeds. The backend's option ``schedules`` says for which kind of device code is made,
whatever is here: ``"gpu"`` code is right on every device, ``"cpu"`` code runs on devices whose memory is one, as a
processor's is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.opencl.device.processor import machine_of
from byoc.codegen.opencl.device.rates import DeviceRates
from byoc.codegen.opencl.device.thresholds import ON_GPUS, ON_PROCESSORS, Thresholds
from byoc.errors import CompileError, DeviceError
from byoc.runtime.devices.peak import Peak
from byoc.runtime.opencl.devices import DeviceInfo, open_device
from byoc.runtime.opencl.peaks import known_peak

SCHEDULES = ("auto", "cpu", "gpu")


@dataclass(frozen=True)
class DeviceProfile:
    """``units`` that run work-groups at once, bytes of ``local_memory`` and most work-items of a group.

    ``float_lanes``: the float32 of one vector register, 1 where work-items are the lanes. ``thresholds``: where the
    schedules of reductions change over. ``image_width`` and ``image_height``: the most texels of a two-dimensional
    image, 0 where there are none. ``matrix_units``: how kernels reach units that multiply matrices
    (``products/matrix_format.py``), empty where there are none; ``warpgroups``: they multiply for four warps at once,
    too; ``products``: the format in which they may multiply float32, empty for none. ``rates`` are by peaks that were
    measured of the device, None where nobody has; ``registers`` those of a work-group, 0 where the driver does not say;
    ``multiple``: the work-items that its units take together.
    """

    kind: str
    units: int
    local_memory: int
    max_group: int
    float_lanes: int = 1
    thresholds: Thresholds = ON_GPUS
    image_width: int = 0
    image_height: int = 0
    matrix_units: str = ""
    products: str = ""
    warpgroups: bool = False
    rates: DeviceRates | None = None
    registers: int = 0
    multiple: int = 1

    @property
    def is_cpu(self) -> bool:
        """Whether a work-item is best a whole thread with vectors of its own."""
        return self.kind == "cpu"

    @property
    def machine(self) -> Machine | None:
        """The machine that a processor's schedules are made for; None for other devices.

        >>> ANY_CPU.machine, ANY_GPU.machine
        (Machine(vector_bytes=32, accumulators=12, registers=16, dots={}, matrices={}), None)
        """
        return machine_of(self.float_lanes) if self.is_cpu else None


LEAST_IMAGE = 8192  # texels along each side, which OpenCL 1.2 has every device with images take
ANY_GPU = DeviceProfile("gpu", 16, 32 << 10, 256, 1, ON_GPUS, LEAST_IMAGE, LEAST_IMAGE)
ANY_CPU = DeviceProfile("cpu", 4, 256 << 10, 4096, 8, ON_PROCESSORS, LEAST_IMAGE, LEAST_IMAGE)


def profile_of(info: DeviceInfo) -> DeviceProfile:
    """The profile of a device."""
    lanes = info.float_lanes if info.kind == "cpu" else 1
    kind = "cpu" if info.kind == "cpu" else "gpu"
    return DeviceProfile(
        kind,
        info.units,
        info.local_memory,
        info.max_work_group_size,
        lanes,
        ON_PROCESSORS if kind == "cpu" else ON_GPUS,
        info.image_width,
        info.image_height,
        info.matrix_units,
        warpgroups=info.warpgroups,
        registers=info.registers,
        multiple=info.group_multiple if kind == "gpu" else 1,
    )


def with_rates(profile: DeviceProfile, peak: Peak | None) -> DeviceProfile:
    """*profile* with the rates that *peak* means; a processor's schedules are C's, whose model has its own."""
    if peak is None or profile.is_cpu:
        return profile
    return replace(profile, rates=DeviceRates.of(peak, profile.units))


def profile_for(options: Mapping[str, object]) -> DeviceProfile:
    """The profile to compile for, by the options ``schedules`` and ``thresholds``.

    Raises CompileError for another value of the first, UserError for one of the second.
    """
    found = _profile_for(options)
    return replace(found, thresholds=Thresholds.of(options.get("thresholds", ""), found.thresholds))


def check_schedules(options: Mapping[str, object]) -> str:
    """The option ``schedules``. Raises CompileError for a value that it does not have."""
    wanted = options.get("schedules", SCHEDULES[0])
    if not isinstance(wanted, str) or wanted not in SCHEDULES:
        raise CompileError(f"option 'schedules' of backend opencl is one of {', '.join(SCHEDULES)}, got {wanted!r}")
    return wanted


def _profile_for(options: Mapping[str, object]) -> DeviceProfile:
    wanted = check_schedules(options)
    try:
        opened = open_device(str(options.get("device", "")))
        found = profile_of(opened.info)
        if not found.is_cpu:
            found = with_rates(found, known_peak(opened))
    except DeviceError:
        found = ANY_GPU
    if wanted in ("auto", found.kind):
        return found
    if wanted == "cpu":
        return replace(ANY_CPU, image_width=found.image_width, image_height=found.image_height)
    least = min(ANY_GPU.local_memory, found.local_memory)
    return replace(ANY_GPU, local_memory=least, image_width=found.image_width, image_height=found.image_height)
