"""The processor that a shared library was built for, and whether this one can run it.

Code built with ``-march=native`` stops with an illegal instruction on a processor that lacks a feature that it uses, so
a saved library names its machine and its features, and they are looked up before anything runs. Features have
the names that Linux gives them in ``/proc/cpuinfo``.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from byoc.runtime.core.strict_json import object_of, text_of, texts_of

CPUINFO = Path("/proc/cpuinfo")
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of control groups, version 2
_SAME_MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}
_FEATURE_LINES = frozenset(["flags", "Features"])  # as x86 and as Arm spell them


@dataclass(frozen=True)
class Processor:
    """A machine (``x86_64``) and features (``avx2``); ``features`` is None where the system does not report them."""

    machine: str
    features: tuple[str, ...] | None = ()

    def to_json(self) -> dict[str, object]:
        return {"machine": self.machine, "features": list(self.features or ())}

    @staticmethod
    def from_json(data: object) -> Processor:
        """Raises ArtifactError for anything but what :meth:`to_json` gives."""
        fields = object_of(data, "processor.json", ("machine", "features"))
        machine = text_of(fields["machine"], "processor.json.machine")
        return Processor(machine, texts_of(fields["features"], "processor.json.features"))

    def lacks(self, needed: Processor) -> str | None:
        """Why code built for *needed* cannot run on this processor, in one sentence, or None when it can."""
        if needed.machine != self.machine:
            return f"its code was compiled for {needed.machine}, and this is {self.machine}; compile the model here"
        missing = [f for f in needed.features or () if self.features is not None and f not in self.features]
        if missing:
            return (
                f"its code was compiled for a processor with {', '.join(missing)}, which this one lacks; "
                "compile the model on this machine"
            )
        return None


def usable_processors() -> int:
    """The processors that this process may use: those it may run on, but no more than its group has time for."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min(count, _time_share()), 1)


def _time_share() -> int:
    """How many processors' time the control group of this process gets, rounded up; many where nothing says so."""
    try:
        quota, period = CPU_QUOTA.read_text(encoding="ascii").split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max": no limit
        return sys.maxsize


@functools.cache
def this_processor() -> Processor:
    """The processor that this process runs on."""
    machine = platform.machine()
    return Processor(_SAME_MACHINE.get(machine.lower(), machine), _features())


def _features() -> tuple[str, ...] | None:
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in _FEATURE_LINES:
            return tuple(value.split())
    return None
