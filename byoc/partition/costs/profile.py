"""What a device can do: its measured peaks by kind of work, its memories, and what starting work costs.

All rates are steps, elements or bytes a second, all times seconds. The numbers come from a calibration, which is not
done here, from a vendor, or are the defaults below, which are those of one core of a current server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from byoc.errors import PartitionError
from byoc.ir.registry import Registry, caller_location


@dataclass(frozen=True)
class Memory:
    """A level of memory: data of up to *bytes* lie in it and pass at *rate* bytes a second; infinite is the last."""

    bytes: float
    rate: float


@dataclass(frozen=True)
class Profile:
    """A device under one code generator.

    *multiply_adds*: of a large product, by dtype; ``*`` stands for dtypes that are not there. *fuses*: neighbours that
    can be one kernel are one. *winograd*: 3x3 convolutions may have fewer products, whose tiles have *transform*
    elements brought in or out a second. *lanes*: float32 numbers that a step of a product computes side by side, to
    whose multiple columns are padded. *overhead*: steps of a sum that writing its result costs; *window_overhead* the
    same of a depthwise convolution. *convolution*: the share of a product's rate that a convolution reaches. *kernel*:
    seconds to call a kernel; *launch*: to start a region. *latency*, *upload* and *download* are those of transfers
    from and to the host; an infinite rate without latency is the host's own memory.
    """

    device: str
    multiply_adds: Mapping[str, float]
    depthwise: float
    window: float
    pointwise: float
    costly: float
    reduction: float
    rows: float
    move: float
    library: float
    memories: tuple[Memory, ...]
    kernel: float
    launch: float
    latency: float = 0.0
    upload: float = math.inf
    download: float = math.inf
    fuses: bool = True
    winograd: bool = False
    transform: float = 2.5e10
    lanes: int = 16
    overhead: float = 2.0
    convolution: float = 1.0
    window_overhead: float = 10.0
    source: str = field(default="defaults", compare=False)

    def to_json(self) -> dict[str, object]:
        """Values that ``json.dumps`` takes; an infinite rate is null."""
        return {name: _finite(value) for name, value in asdict(self).items()}

    @staticmethod
    def from_json(data: Mapping[str, object]) -> Profile:
        """What :meth:`to_json` gave. Raises PartitionError for anything else."""
        known = {f.name for f in fields(Profile)}
        try:
            kept = {name: value for name, value in data.items() if name in known}
            given: dict[str, Any] = {name: math.inf if value is None else value for name, value in kept.items()}
            given["memories"] = tuple(
                Memory(*(math.inf if m[key] is None else float(m[key]) for key in ("bytes", "rate")))
                for m in given["memories"]
            )
            made = Profile(**given)
            _check(made)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PartitionError(f"this is no profile of a device: {error}") from error
        return made

    def rate_of(self, dtype: str) -> float:
        """Multiply-adds a second of a large product in *dtype*."""
        return self.multiply_adds.get(dtype) or self.multiply_adds["*"]

    def bandwidth(self, size: float) -> float:
        """Bytes a second of a kernel that touches *size* bytes."""
        return next((m.rate for m in self.memories if size <= m.bytes), self.memories[-1].rate)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value


def _check(profile: Profile) -> None:
    rates = [
        getattr(profile, f)
        for f in (
            "depthwise",
            "window",
            "pointwise",
            "costly",
            "reduction",
            "rows",
            "move",
            "library",
            "upload",
            "download",
            "lanes",
            "transform",
            "convolution",
        )
    ]
    rates += [*profile.multiply_adds.values(), *(m.rate for m in profile.memories)]
    times = [profile.kernel, profile.launch, profile.latency, profile.overhead, profile.window_overhead]
    if not all(float(r) > 0 for r in rates) or not all(0 <= float(t) < math.inf for t in times):
        raise ValueError("rates must be positive, times finite and not negative")
    if not profile.memories or "*" not in profile.multiply_adds:
        raise ValueError('it needs a memory, and multiply-adds of "*"')


HOST_DEFAULTS = Profile(
    device="one core of a server with 512-bit vectors",
    multiply_adds={"float32": 1.27e11, "bfloat16": 2.5e11, "int8": 4.0e11, "uint8": 4.0e11, "*": 1.5e10},
    depthwise=1.3e11,
    window=3.0e10,
    pointwise=1.0e11,
    costly=1.0e10,
    reduction=1.0e11,
    rows=5.0e10,
    move=5.0e9,
    library=2.0e8,
    memories=(Memory(1 << 20, 1.8e11), Memory(1 << 25, 1.15e11), Memory(math.inf, 4.0e10)),
    kernel=2.0e-7,
    launch=0.0,
    winograd=True,
)
OPENCL_ON_CPU_DEFAULTS = Profile(
    device="a processor under an OpenCL driver",
    multiply_adds={"float32": 1.2e10, "int8": 4.0e10, "uint8": 4.0e10, "*": 1.2e10},
    depthwise=5.0e9,
    window=1.0e9,
    pointwise=5.0e10,
    costly=5.0e9,
    reduction=1.0e9,
    rows=5.0e8,
    move=2.0e9,
    library=2.0e8,
    memories=(Memory(1 << 21, 1.0e11), Memory(1 << 25, 3.0e10), Memory(math.inf, 1.5e10)),
    kernel=4.0e-5,
    launch=5.0e-5,
    latency=1.0e-5,
    upload=2.0e9,
    download=4.0e9,
)
GPU_DEFAULTS = Profile(
    device="a large graphics processor",
    multiply_adds={"float32": 5.0e12, "float16": 1.0e13, "*": 1.0e12},
    depthwise=5.0e11,
    window=5.0e11,
    pointwise=1.0e12,
    costly=3.0e11,
    reduction=2.0e11,
    rows=2.0e11,
    move=2.0e11,
    library=2.0e8,
    memories=(Memory(math.inf, 1.0e12),),
    kernel=8.0e-6,
    launch=5.0e-5,
    latency=2.0e-5,
    upload=1.0e10,
    download=1.0e10,
)
NUMPY_DEFAULTS = Profile(
    device="numpy's kernels",
    multiply_adds={"float32": 4.0e10, "*": 2.0e9},
    depthwise=1.0e9,
    window=5.0e8,
    pointwise=1.0e9,
    costly=3.0e8,
    reduction=1.0e9,
    rows=1.0e9,
    move=1.0e9,
    library=2.0e8,
    memories=(Memory(math.inf, 1.0e10),),
    kernel=1.0e-5,
    launch=1.0e-5,
    fuses=False,
    lanes=1,
)

PROFILES: Registry[Profile] = Registry("profile of a device")
for _name, _profile in (
    ("c", HOST_DEFAULTS),
    ("opencl", GPU_DEFAULTS),
    ("opencl/cpu", OPENCL_ON_CPU_DEFAULTS),
    ("json", NUMPY_DEFAULTS),
):
    PROFILES.register(_name, _profile, where=__name__)


def register_profile(backend: str, profile: Profile) -> None:
    """Say what the device of *backend* can do, for the models ``auto``, ``analytic`` and ``typical``.

    ``acme/cpu`` is where ``Backend.device_kind`` says ``cpu``, ``acme`` any other device. Raises RegistryError for a
    second one.
    """
    PROFILES.register(backend, profile, where=caller_location())
