"""What the schedules ask of a processor: how wide a vector is, and how many accumulators stay in registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """``vector_bytes`` of one register, and how many registers a tile may hold as accumulators."""

    vector_bytes: int = 16
    accumulators: int = 8

    def lanes(self, itemsize: int) -> int:
        """The elements of one vector."""
        return max(self.vector_bytes // itemsize, 1)


def machine_of(macros: Mapping[str, str]) -> Machine:
    """The machine for which a compiler that predefines *macros* generates code."""
    if "__AVX512F__" in macros:
        return Machine(64, 24)
    if "__AVX__" in macros:
        return Machine(32, 12)
    if "__aarch64__" in macros:
        return Machine(16, 24)
    return Machine()
