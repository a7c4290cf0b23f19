"""The machine, as C's schedules ask for it, of a processor that is an OpenCL device.

The device reports how many floats one of its vectors has; how many such registers there are follows from that and from
the kind of processor. Products of narrow numbers are plain arithmetic: OpenCL C has no instructions for them.
"""

from __future__ import annotations

from platform import machine as system_machine

from byoc.codegen.c.toolchain.machine import Machine

ARM = ("aarch64", "arm64")


def machine_of(float_lanes: int) -> Machine:
    """The machine, for C's schedules, of a processor with vectors of so many float32.

    >>> machine_of(8)
    Machine(vector_bytes=32, accumulators=12, registers=16, dots={}, matrices={})
    """
    if float_lanes >= 16:
        return Machine(64, 24, 32)
    if float_lanes >= 8:
        return Machine(32, 12, 16)
    return Machine(16, 24, 32) if system_machine() in ARM else Machine()
