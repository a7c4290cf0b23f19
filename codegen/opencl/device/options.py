"""The options of the OpenCL backend: its modes, and what float16 is for where half precision is asked for.

A mode is a :class:`Mode` or its text, ``tuning=normal,memory=image``; the number of threads is no part of it. Source:
``MNNGpuMode`` of MNN (``include/MNN/MNNForwardType.h``), whose numbers these are where it has them; two levels at once,
which MNN warns of, are an error here, and so are both memories.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from byoc.errors import UserError
from byoc.runtime.opencl.commands.options import RunOptions

HALVES = ("auto", "memory", "compute")
PRODUCTS = ("float32", "tf32", "3xtf32", "bfloat16")


class Mode(enum.IntFlag):
    """How the OpenCL backend tunes, where tensors lie, when queues are flushed, whether kernels are recorded: one of
    each kind at most.

    >>> Mode.TUNING_NORMAL | Mode.MEMORY_IMAGE == Mode.of("tuning=normal,memory=image")
    True
    """

    AUTOMATIC = 0
    TUNING_NONE = 1
    TUNING_HEAVY = 2
    TUNING_WIDE = 4
    TUNING_NORMAL = 8
    TUNING_FAST = 16
    MEMORY_BUFFER = 64
    MEMORY_IMAGE = 128
    RECORD_BATCH = 512
    MEMORY_TRIAL = 1024  # beyond MNN's numbers: both are tried, and the faster stays
    FLUSH_1 = 2048  # each kernel is handed to the device as it comes
    FLUSH_NONE = 4096  # all at the end of a call
    FLUSH_2 = 8192
    FLUSH_10 = 16384
    FLUSH_AUTO = 32768  # what is best on the device is measured there, once
    RECORD_NONE = 65536  # kernels go into the queue one by one

    @classmethod
    def of(cls, given: object) -> Mode:
        """The mode that *given* means. Raises UserError for words and numbers that mean none, and for contradictions.

        >>> Mode.of("tuning=none,tuning=heavy")
        Traceback (most recent call last):
        byoc.runtime.errors.UserError: opencl.mode: tuning is none or heavy, not both; give one
        """
        if isinstance(given, str):
            mode = cls.AUTOMATIC
            for word in filter(None, (w.strip() for w in given.split(","))):
                mode |= _word(word)
        elif isinstance(given, bool) or not isinstance(given, int):
            raise UserError(f"opencl.mode: expected a Mode or a text like {EXAMPLE!r}, got {given!r}")
        else:
            known = 0
            for bits in _WORDS.values():
                known |= int(bits)  # the complement of a Mode has no bits beyond those of modes
            if int(given) & ~known:
                raise UserError(f"opencl.mode: {int(given)} has bits that are no mode; write it as {EXAMPLE!r}")
            mode = cls(given)
        for kind in dict.fromkeys(name for name, _ in _WORDS):
            found = mode._of_kind(kind)
            if len(found) > 1:
                raise UserError(f"opencl.mode: {kind} is {' or '.join(found)}, not both; give one")
        return mode

    def _of_kind(self, kind: str) -> list[str]:
        return [word for (name, word), bit in _WORDS.items() if name == kind and bit and self & bit]

    @property
    def tuning(self) -> str:
        """``none``, ``fast``, ``normal``, ``wide`` or ``heavy``; empty where nothing is said."""
        return next(iter(self._of_kind("tuning")), "")

    @property
    def memory(self) -> str:
        """``buffer``, ``image`` or ``trial``; ``auto`` where nothing is said."""
        return next(iter(self._of_kind("memory")), "auto")

    @property
    def flush(self) -> str:
        """After how many kernels a queue is flushed: ``none``, ``1``, ``2``, ``10``, or ``auto``, where the device is
        asked by a trial; empty where nothing is said: as it was measured before, else ``none``.
        """
        return next(iter(self._of_kind("flush")), "")

    @property
    def record(self) -> str:
        """``batch``: kernels are recorded where the device offers it; ``none``; empty where nothing is said."""
        return next(iter(self._of_kind("record")), "")

    def text(self) -> str:
        """The words that mean it, of which ``Mode.of`` makes it again.

        >>> Mode.of("memory=trial, flush=2").text()
        'memory=trial,flush=2'
        """
        return ",".join(f"{kind}={word}" for (kind, word), bit in _WORDS.items() if bit and self & bit)


EXAMPLE = "tuning=normal,memory=image"
_WORDS: Mapping[tuple[str, str], Mode] = {
    ("tuning", "none"): Mode.TUNING_NONE,
    ("tuning", "fast"): Mode.TUNING_FAST,
    ("tuning", "normal"): Mode.TUNING_NORMAL,
    ("tuning", "wide"): Mode.TUNING_WIDE,
    ("tuning", "heavy"): Mode.TUNING_HEAVY,
    ("memory", "auto"): Mode.AUTOMATIC,
    ("memory", "buffer"): Mode.MEMORY_BUFFER,
    ("memory", "image"): Mode.MEMORY_IMAGE,
    ("memory", "trial"): Mode.MEMORY_TRIAL,
    ("flush", "none"): Mode.FLUSH_NONE,
    ("flush", "1"): Mode.FLUSH_1,
    ("flush", "2"): Mode.FLUSH_2,
    ("flush", "10"): Mode.FLUSH_10,
    ("flush", "auto"): Mode.FLUSH_AUTO,
    ("record", "batch"): Mode.RECORD_BATCH,
    ("record", "none"): Mode.RECORD_NONE,
}
_OTHER_WORDS = {("memory", "auto-trial"): Mode.MEMORY_TRIAL}  # for the same, which texts are not written with


def _word(text: str) -> Mode:
    kind, equals, word = (part.strip() for part in text.partition("="))
    found = _WORDS.get((kind, word), _OTHER_WORDS.get((kind, word)))
    if found is None:
        kinds = dict.fromkeys(name for name, _ in _WORDS)
        words = [w for name, w in _WORDS if name == kind]
        if not words or not equals:
            raise UserError(
                f"opencl.mode: expected words like {EXAMPLE!r}, of {', '.join(kinds)}, each with a value; got {text!r}"
            )
        raise UserError(f"opencl.mode: {kind} is one of {', '.join(words)}, got {word!r}")
    return found


@dataclass(frozen=True)
class OpenCLOptions:
    """What ``backend_options={"opencl": {...}}`` may say.

    *half* is what float16 is for under ``precision="fp16"``: ``memory`` stores halves and computes in float32, on any
    device; ``compute`` writes kernels with the type ``half``, for a device with ``cl_khr_fp16``; ``auto`` is
    ``compute`` on such a device, ``memory`` on another whose matrix units take halves, else float32. *device* is which
    of the machine's devices code is made for and runs on, as ``$BYOC_OPENCL_DEVICE`` says it; empty for the one that
    this variable names when the code runs. *products* is what matrix units may make of float32 operands, with sums in
    float32: ``tf32`` keeps 11 bits of a number, ``bfloat16`` 8, ``3xtf32`` nearly all, by three products (which
    are NaN where an operand is infinite). float16 operands are theirs without being asked.
    """

    mode: Mode = Mode.AUTOMATIC
    half: str = HALVES[0]
    device: str = ""
    products: str = PRODUCTS[0]

    @property
    def run(self) -> RunOptions:
        """What the runtime is given."""
        return RunOptions(self.mode.flush, self.mode.record, self.device)

    @staticmethod
    def of(given: Mapping[str, object]) -> OpenCLOptions:
        """Raises UserError for a value that an option does not have."""
        half, mode = given.get("half", HALVES[0]), given.get("mode", Mode.AUTOMATIC)
        if not isinstance(half, str) or half not in HALVES:
            raise UserError(f"opencl.half is one of {', '.join(HALVES)}, got {half!r}")
        device = given.get("device", "")
        if isinstance(device, int) and not isinstance(device, bool):
            device = str(device)
        if not isinstance(device, str):
            raise UserError(f"opencl.device is an index, a type or a name, as in device=gpu, got {device!r}")
        products = given.get("products", PRODUCTS[0])
        if not isinstance(products, str) or products not in PRODUCTS:
            raise UserError(f"opencl.products is one of {', '.join(PRODUCTS)}, got {products!r}")
        return OpenCLOptions(Mode.of(mode), half, device, products)

    def writes_halves(self, device_has_them: Callable[[], bool]) -> bool:
        """Whether a float16 is written as the type ``half``."""
        return self.half == "compute" or (self.half == HALVES[0] and device_has_them())


TUNE = "tune"  # whoever tunes, as the driver hands it on
NAMES = (
    "device",
    "half",
    "max_error",
    "mode",
    "products",
    "schedules",
    "thresholds",
    "winograd",
    TUNE,
)
