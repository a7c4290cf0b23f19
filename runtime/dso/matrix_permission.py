"""Leave to use matrix registers (Intel's AMX): Linux gives it to a process that asks, for all its threads.

Their state is large, so a process that uses them without asking is ended. Libraries that use them ask when they are
loaded; here is asked whether they may be loaded at all. Source: Linux, Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import functools
import os
import platform
import sys

import cffi

from byoc.runtime.core.processor import Processor

FEATURE = "amx_tile"  # as in /proc/cpuinfo
SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA = 158, 0x1023, 18  # of x86-64
_FFI = cffi.FFI()
_FFI.cdef("long syscall(long number, ...);")


def matrix_refusal(needed: Processor) -> str | None:
    """Why code built for *needed* cannot have its matrix registers here, in one sentence; None where it needs none."""
    reason = _refusal() if FEATURE in (needed.features or ()) else None
    if reason is None:
        return None
    return (
        f"its code was compiled for a processor with {FEATURE}, which the system does not let this process use "
        f"({reason}); compile the model on this machine"
    )


@functools.cache
def _refusal() -> str | None:
    """What the system answers when it does not give leave; a child process inherits it."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None  # other systems do not ask to be asked
    numbers = [_FFI.cast("long", n) for n in (SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)]
    status = _FFI.dlopen(None).syscall(*numbers)
    return None if status == 0 else os.strerror(_FFI.errno)
