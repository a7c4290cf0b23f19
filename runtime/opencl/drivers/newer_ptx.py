"""Instructions that a device has, and that its driver's compiler of OpenCL C does not take.

NVIDIA's driver compiles OpenCL C for the target ``sm_90``, whose assembler refuses instructions of ``sm_90a``.
Generated code has these as comments of inline assembly. They come through to the PTX that the driver gives as the
program's binary; there they become instructions and the target is named, and the driver builds that text. Such code
stands under :data:`MACRO`, with other code for where this does not succeed. Source: PTX ISA 8.0, ``.target``.
"""

from __future__ import annotations

import re

MACRO = "WITH_SM_90A"
DEFINED = f"-D {MACRO}"
MARK = "//sm_90a "  # before an instruction of inline assembly
CAPABILITY = (9, 0)  # NVIDIA's, of the devices that have them: later ones do not
_TARGET = re.compile(rb"^(\.target\s+sm_90)(?=[\s,])", re.MULTILINE)


def with_instructions(binary: bytes) -> bytes | None:
    """The PTX *binary* with its marked comments as instructions; None where it has none, or another target.

    >>> with_instructions(b".version 9.0\\n.target sm_90, texmode_independent\\n//sm_90a wgmma.fence.sync.aligned;\\n")
    b'.version 9.0\\n.target sm_90a, texmode_independent\\nwgmma.fence.sync.aligned;\\n'
    """
    mark = MARK.encode()
    if mark not in binary:
        return None
    named, targets = _TARGET.subn(rb"\1a", binary)
    return named.replace(mark, b"") if targets == 1 else None
