"""Buffers or images where the user does not say: a table by the names of device and platform, and the device's kind.

MNN takes buffers on Mali and Intel and images elsewhere (``OpenCLRuntime::setGpuMode``). Here images are for devices
that are known to gain: those whose textures have a cache of their own beside that of buffers. Elsewhere a buffer is
what was measured to be faster, or what costs nothing to try first; ``memory=trial`` finds out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from byoc.codegen.opencl.images.choice import BUFFER, IMAGE
from byoc.runtime.opencl.devices import DeviceInfo


@dataclass(frozen=True)
class MemoryRule:
    """Devices whose name or platform has the *word*, a regular expression, and that are of *kind* (empty: any)."""

    word: str
    kind: str
    memory: str
    why: str

    def fits(self, info: DeviceInfo) -> bool:
        """Whether *info* is one of these."""
        names = f"{info.name} {info.platform}".lower()
        return self.kind in ("", info.kind) and re.search(self.word, names) is not None


RULES = (
    MemoryRule(r"adreno|qualcomm", "gpu", IMAGE, "its textures have a cache of their own"),
    MemoryRule(r"\bmali\b|\barm platform\b|\bimmortalis\b", "gpu", BUFFER, "its textures and buffers share a cache"),
    MemoryRule(r"\bintel\b", "gpu", BUFFER, "block reads of buffers are its fastest"),
    MemoryRule(r"\bnvidia\b", "gpu", BUFFER, "products by tiles in local memory are for buffers"),
    MemoryRule(r"", "cpu", BUFFER, "measured on PoCL: a processor reads an image by a function call, ten times slower"),
    MemoryRule(r"", "", BUFFER, "nothing was measured there"),
)


def rule_for(info: DeviceInfo) -> MemoryRule:
    """The first rule for a device; the last is for all."""
    return next(rule for rule in RULES if rule.fits(info))
