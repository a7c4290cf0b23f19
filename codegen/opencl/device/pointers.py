"""The parameters of a kernel for tensors in memory: a piece that several share, and where in it the tensor begins."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.codegen.kernel.writer import Names
from byoc.runtime.core.ndarray import ALIGNMENT


@dataclass(frozen=True)
class Pointer:
    """A tensor called *name* in a kernel.

    Attributes:
        name: what the body of the kernel says.
        parameter: the declaration of the piece, or of the tensor that has memory of its own.
        begins: the declaration of where the tensor begins, in units of the arena's alignment; none without a piece.
        lines: what stands at the beginning of the body.
    """

    name: str
    parameter: str
    begins: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @staticmethod
    def of(names: Names, name: str, ctype: str, itemsize: int, is_target: bool, is_whole: bool) -> Pointer:
        """Of elements of *ctype*, which the kernel fills or only reads; *is_whole*: it has memory of its own."""
        kind = f"__global {'' if is_target else 'const '}{ctype} *restrict"
        if is_whole:
            return Pointer(name, f"{kind} {name}")
        piece, begin = names.fresh(f"{name}_piece"), names.fresh(f"{name}_begin")
        line = f"{kind} {name} = {piece} + {ALIGNMENT // itemsize} * {begin};"
        return Pointer(name, f"{kind} {piece}", (f"const long {begin}",), (line,))
