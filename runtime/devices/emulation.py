"""What an emulated device is like: its memory, its latency, the faults that are injected, read from one text.

``seconds=0.001,seconds_per_byte=1e-9,memory=65536,fail=launch@3,hang=copy_out@1,seed=7`` is a device of 64 KB on which
everything takes a millisecond and a nanosecond for each byte, the third launch fails and the first copy to the host
never ends. A fault is ``operation@n``, for the n-th of these from 1 on, or ``operation%p``, for each with probability
p by a random number of ``seed``; ``any`` stands for every operation.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from dataclasses import dataclass

from byoc.runtime.core.errors import DeviceError

ALLOCATE, COPY_IN, COPY_OUT, COPY, LAUNCH, RECORD = "allocate", "copy_in", "copy_out", "copy", "launch", "record"
OPERATIONS = (ALLOCATE, COPY_IN, COPY_OUT, COPY, LAUNCH, RECORD)
ANY = "any"
FAIL, HANG, LOSE, CORRUPT = "fail", "hang", "lose", "corrupt"
KINDS = {
    FAIL: "it is an error",
    HANG: "it never ends, until the device is closed",
    LOSE: "it is an error, and so is all that comes after, on the whole device",
    CORRUPT: "it is done, and one bit of what it wrote is wrong",
}
NAMELESS = "emulated"
MEMORY = 256 << 20  # bytes
_FAULT = re.compile(rf"({'|'.join((*OPERATIONS, ANY))})(?:@([0-9]+)|%([0-9.eE+-]+))")


@dataclass(frozen=True)
class PlannedFault:
    """A fault of *kind* at the *nth* operation of that name, or at each with *probability*.

    >>> str(PlannedFault.read("hang", "launch@2"))
    'hang=launch@2'
    """

    kind: str
    operation: str
    nth: int | None = None
    probability: float = 0.0

    @staticmethod
    def read(kind: str, text: str) -> PlannedFault:
        """The fault that *text* means. Raises DeviceError for another text."""
        found = _FAULT.fullmatch(text)
        nth = int(found[2]) if found and found[2] else None
        probability = _number(found[3]) if found and found[3] else 0.0
        if found is None or nth == 0 or (nth is None and not 0 < probability <= 1):
            raise DeviceError(
                f"emulated device: {kind}={text}: expected an operation with its number from 1 on, or with its "
                f"probability, as in {kind}=launch@3 or {kind}=any%0.01; operations are {', '.join(OPERATIONS)}"
            )
        return PlannedFault(kind, found[1], nth, probability)

    def __str__(self) -> str:
        return f"{self.kind}={self.operation}{f'%{self.probability:g}' if self.nth is None else f'@{self.nth}'}"


@dataclass(frozen=True)
class Emulation:
    """An emulated device.

    Attributes:
        name: by which it is called in messages; all who open one of the same name and settings share it.
        seconds: what each copy and launch takes.
        seconds_per_byte: what a copy takes beside that, for each byte.
        memory: bytes.
        faults: what is injected.
        seed: of the faults that have a probability.
    """

    name: str = NAMELESS
    seconds: float = 0.0
    seconds_per_byte: float = 0.0
    memory: int = MEMORY
    faults: tuple[PlannedFault, ...] = ()
    seed: int = 0

    @staticmethod
    def read(text: str) -> Emulation:
        """The emulation that *text* means, settings with commas between them.

        Raises DeviceError for a setting that there is not, or a value that is none.
        """
        given: dict[str, str] = {}
        faults = []
        for setting in filter(None, (part.strip() for part in text.split(","))):
            key, _, value = setting.partition("=")
            if key in KINDS:
                faults.append(PlannedFault.read(key, value))
            elif key not in _SETTINGS or not value or key in given:
                known = ", ".join((*_SETTINGS, *KINDS))
                raise DeviceError(f"emulated device: {setting!r}: expected one of {known}, each with =VALUE and once")
            else:
                given[key] = value
        numbers = {key: _setting(key, given[key]) for key in _SETTINGS[1:] if key in given}
        usual = Emulation()
        return Emulation(
            given.get("name", usual.name),
            numbers.get("seconds", usual.seconds),
            numbers.get("seconds_per_byte", usual.seconds_per_byte),
            int(numbers.get("memory", usual.memory)),
            tuple(faults),
            int(numbers.get("seed", usual.seed)),
        )


_SETTINGS = ("name", "seconds", "seconds_per_byte", "memory", "seed")
_WHOLE = ("memory", "seed")


def _setting(key: str, text: str) -> float:
    value = _number(text)
    if not 0 <= value < math.inf or (key in _WHOLE and value != int(value)):
        kind = "a whole number" if key in _WHOLE else "a number"
        raise DeviceError(f"emulated device: {key}={text}: expected {kind} of at least 0")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


class FaultPlan:
    """Which operation of a device gets which fault: operations are counted in the order in which they are asked for."""

    def __init__(self, faults: tuple[PlannedFault, ...], seed: int):
        self._faults = faults
        self._random = random.Random(seed)
        self._counts: Counter[str] = Counter()

    def next(self, operation: str) -> tuple[str, int] | None:
        """The kind of the fault of the next *operation*, and its number; None where it has none."""
        self._counts.update((operation, ANY))
        hit = None
        for fault in self._faults:
            if fault.operation not in (operation, ANY):
                continue
            number = self._counts[fault.operation]
            drawn = fault.nth is None and self._random.random() < fault.probability
            if (drawn or fault.nth == number) and hit is None:
                hit = fault.kind, number
        return hit
