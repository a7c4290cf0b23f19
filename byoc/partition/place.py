"""Where a kernel runs and in what form: ``Place(target, precision, layout, device)``.

Targets are open: the names below, those of every registered backend, and what :func:`register_target` adds.
Precisions and layouts are closed sets. The names are those of Paddle Lite (``lite/api/paddle_place.h``) without its
``k``, which may be written too: ``Place("kARM", "kFP32") == Place("arm")``; its ``kUnk`` has no counterpart, since a
place that is not known is not written down.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from byoc.contract.registration import BACKENDS, backend_names
from byoc.errors import PartitionError
from byoc.ir.registry import Registry, caller_location
from byoc.partition.boundaries import HOST as HOST

ANY = "any"


class _Name(str, Enum):
    """A name that is its own text: equal to it, and with its hash."""

    __hash__ = str.__hash__

    def __str__(self) -> str:
        return str(self.value)


N = TypeVar("N", bound=_Name)


class Precision(_Name):
    """What numbers are held in; ``any`` takes them as they come."""

    FLOAT = "float"
    FP16 = "fp16"
    BF16 = "bf16"
    FP64 = "fp64"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    STRING = "string"
    ANY = "any"


class DataLayout(_Name):
    """How the axes of a tensor lie in memory; images are two-dimensional objects of a GPU. ``any`` is as it comes."""

    NCHW = "NCHW"
    NHWC = "NHWC"
    NCHW4C = "NCHW4c"
    NCHW8C = "NCHW8c"
    NCHW16C = "NCHW16c"
    IMAGE_DEFAULT = "ImageDefault"
    IMAGE_FOLDER = "ImageFolder"
    IMAGE_NW = "ImageNW"
    ANY = "any"


IMAGES = frozenset([DataLayout.IMAGE_DEFAULT, DataLayout.IMAGE_FOLDER, DataLayout.IMAGE_NW])
BUFFERS = tuple(y for y in DataLayout if y not in IMAGES and y != DataLayout.ANY)
FLOATS: Mapping[Precision, int] = {Precision.FLOAT: 4, Precision.FP16: 2, Precision.BF16: 2, Precision.FP64: 8}
ITEM_BYTES: Mapping[Precision, int] = {
    **FLOATS,
    Precision.INT8: 1,
    Precision.UINT8: 1,
    Precision.BOOL: 1,
    Precision.INT16: 2,
    Precision.UINT16: 2,
    Precision.INT32: 4,
    Precision.UINT32: 4,
    Precision.INT64: 8,
    Precision.UINT64: 8,
    Precision.STRING: 0,
    Precision.ANY: 0,
}
_DTYPES = {"float32": "float", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
_SPELLINGS = {**_DTYPES, "fp32": "float"}

# target -> whether its kernels read and write the memory of the host
TARGETS: Registry[bool] = Registry("target")
for _name in (HOST, "x86", "arm", "c", ANY):
    TARGETS.register(_name, True, where=__name__)
for _name in ("cuda", "opencl", "fpga", "npu", "xpu", "metal", "apu", "nnadapter"):
    TARGETS.register(_name, False, where=__name__)


def register_target(name: str, host_memory: bool = False) -> None:
    """Make *name* a legal target; *host_memory*: its kernels read and write the host's memory, so nothing is copied.

    Raises RegistryError when the name is taken.
    """
    TARGETS.register(name, host_memory, where=caller_location())


def in_host_memory(target: str) -> bool:
    """Whether kernels of *target* read and write the host's memory: those of a backend whose devices are ``cpu`` do."""
    known = TARGETS.get(target)
    if known is not None:
        return known
    backend = BACKENDS.get(target)
    return backend is not None and set(backend.devices) <= {"cpu"}


def precision_of(dtype: str) -> Precision:
    """The precision of a tensor's dtype: ``float32`` is ``float``. Raises PartitionError for another word."""
    return _precision(dtype)


def dtype_of(precision: Precision) -> str:
    """The dtype of a precision: the inverse of :func:`precision_of`."""
    return next((dtype for dtype, name in _DTYPES.items() if name == precision), str(precision))


def _bare(word: str) -> str:
    """A word without Paddle Lite's ``k``."""
    return word[1:] if len(word) > 2 and word[0] == "k" and word[1].isupper() else word


def _member(kind: type[N], what: str, word: str) -> N:
    folded = _bare(word).casefold()
    folded = _SPELLINGS.get(folded, folded)
    for member in kind:
        if member.value.casefold() == folded:
            return member
    raise PartitionError(f"no {what} is called {word!r}; legal: {', '.join(m.value for m in kind)}")


@functools.lru_cache(maxsize=256)
def _precision(word: str) -> Precision:
    return _member(Precision, "precision", word)


@functools.lru_cache(maxsize=256)
def _layout(word: str) -> DataLayout:
    return _member(DataLayout, "layout", word)


def _target(word: str) -> str:
    for name in (word, _bare(word), _bare(word).casefold()):
        if name in TARGETS or name in BACKENDS:
            return name
    installed = backend_names()
    if word in installed:
        return word
    legal = sorted({*TARGETS, *BACKENDS, *installed})
    raise PartitionError(
        f"no target is called {word!r}; legal: {', '.join(legal)}; for one of your own, register its backend before (a "
        "KernelBackend of that name)"
    )


def _device(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**15:
        raise PartitionError(f"a device is a number from 0 to 32767, got {value!r}")
    return value


@dataclass(frozen=True, order=True)
class Place:
    """A target, what it computes in, how its tensors lie, and which of its devices it is.

    >>> str(Place("opencl")), Place("opencl") == Place("opencl", "float", "NCHW", 0)
    ('opencl/float/NCHW', True)
    >>> Place.parse("opencl/fp16/ImageDefault/1").device
    1

    Raises PartitionError for a name that is none, with those that are.
    """

    target: str
    precision: Precision = Precision.FLOAT
    layout: DataLayout = DataLayout.NCHW
    device: int = 0

    if TYPE_CHECKING:  # the constructor takes texts too, of which __post_init__ makes members

        def __init__(
            self,
            target: str,
            precision: Precision | str = Precision.FLOAT,
            layout: DataLayout | str = DataLayout.NCHW,
            device: int = 0,
        ): ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", _target(str(self.target)))
        object.__setattr__(self, "precision", _precision(str(self.precision)))
        object.__setattr__(self, "layout", _layout(str(self.layout)))
        object.__setattr__(self, "device", _device(self.device))

    def __str__(self) -> str:
        device = f"/{self.device}" if self.device else ""
        return f"{self.target}/{self.precision}/{self.layout}{device}"

    @staticmethod
    def parse(text: str) -> Place:
        """The place of its text: one to four parts, those left out as :class:`Place` has them.

        Raises PartitionError for anything else.
        """
        parts = [p.strip() for p in text.split("/")]
        if not 1 <= len(parts) <= 4 or not all(parts):
            raise PartitionError(f"a place is written target/precision/layout/device, got {text!r}")
        if len(parts) == 4 and not parts[3].isdecimal():
            raise PartitionError(f"the device of a place is a number, got {parts[3]!r} in {text!r}")
        target, precision, layout, device = parts + ["", "float", "NCHW", "0"][len(parts) :]
        return Place(target, precision, layout, int(device))

    @staticmethod
    def of(value: Place | str) -> Place:
        """A place as it is, or of its text."""
        return value if isinstance(value, Place) else Place.parse(str(value))
