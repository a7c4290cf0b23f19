"""What the schedules ask of a processor, and what the compiled code will ask of it.

Both are read from the macros that the compiler predefines under the flags in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from platform import machine as system_machine

from byoc.runtime.core.processor import Processor

MACHINES = {"__x86_64__": "x86_64", "__aarch64__": "aarch64", "__riscv": "riscv64"}
# macro -> the feature in /proc/cpuinfo; both sides are fixed by the compilers and by Linux
FEATURES = {
    "__SSE3__": "pni",
    "__SSSE3__": "ssse3",
    "__SSE4_1__": "sse4_1",
    "__SSE4_2__": "sse4_2",
    "__POPCNT__": "popcnt",
    "__AVX__": "avx",
    "__AVX2__": "avx2",
    "__FMA__": "fma",
    "__F16C__": "f16c",
    "__MOVBE__": "movbe",
    "__BMI__": "bmi1",
    "__BMI2__": "bmi2",
    "__LZCNT__": "abm",
    "__GFNI__": "gfni",
    "__VAES__": "vaes",
    "__VPCLMULQDQ__": "vpclmulqdq",
    "__AVX512F__": "avx512f",
    "__AVX512BW__": "avx512bw",
    "__AVX512CD__": "avx512cd",
    "__AVX512DQ__": "avx512dq",
    "__AVX512VL__": "avx512vl",
    "__AVX512IFMA__": "avx512ifma",
    "__AVX512VBMI__": "avx512vbmi",
    "__AVX512VBMI2__": "avx512_vbmi2",
    "__AVX512VNNI__": "avx512_vnni",
    "__AVX512BITALG__": "avx512_bitalg",
    "__AVX512VPOPCNTDQ__": "avx512_vpopcntdq",
    "__AVX512BF16__": "avx512_bf16",
    "__AVX512FP16__": "avx512_fp16",
    "__AVXVNNI__": "avx_vnni",
    "__AMX_TILE__": "amx_tile",
    "__AMX_BF16__": "amx_bf16",
    "__AMX_INT8__": "amx_int8",
    "__AMXTILE__": "amx_tile",
    "__AMXBF16__": "amx_bf16",
    "__AMXINT8__": "amx_int8",
    "__ARM_FEATURE_DOTPROD": "asimddp",
    "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC": "asimdhp",
    "__ARM_FEATURE_ATOMICS": "atomics",
    "__ARM_FEATURE_SVE": "sve",
    "__ARM_FEATURE_SVE2": "sve2",
    "__ARM_FEATURE_MATMUL_INT8": "i8mm",
    "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC": "bf16",
}


DOT_MACROS = {
    "dot_bf16": ("__AVX512BF16__", "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC"),
    "dot_u8s8": ("__AVX512VNNI__", "__AVXVNNI__", "__ARM_FEATURE_MATMUL_INT8", "__ARM_FEATURE_DOTPROD"),
}
MATRIX_FEATURES = {"dot_bf16": ("amx_tile", "amx_bf16"), "dot_u8s8": ("amx_tile", "amx_int8")}
NO_MATRICES = ("-mno-amx-tile", "-mno-amx-bf16", "-mno-amx-int8")  # where the system does not let them be used


@dataclass(frozen=True)
class Machine:
    """``vector_bytes`` of one register, how many a tile may hold as accumulators, and how many there are.

    ``dots`` are those of ``te.expr.DOTS`` that instructions compute for a whole vector, ``matrices`` those that one
    computes for every row and column of two matrix registers (Intel's AMX).
    """

    vector_bytes: int = 16
    accumulators: int = 8
    registers: int = 16
    dots: frozenset[str] = frozenset()
    matrices: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        """The same text under any hash seed.

        >>> Machine(32, 12, 16, frozenset(["dot_u8s8", "dot_bf16"]))
        Machine(vector_bytes=32, accumulators=12, registers=16, dots={'dot_bf16', 'dot_u8s8'}, matrices={})
        """
        return f"Machine({', '.join(f'{f.name}={_shown(getattr(self, f.name))}' for f in fields(self))})"

    def lanes(self, itemsize: int) -> int:
        """The elements of one vector."""
        return max(self.vector_bytes // itemsize, 1)


def _shown(fact: object) -> str:
    return f"{{{', '.join(map(repr, sorted(fact)))}}}" if isinstance(fact, frozenset) else repr(fact)


def machine_of(macros: Mapping[str, str]) -> Machine:
    """The machine for which a compiler that predefines *macros* generates code."""
    dots = frozenset(dot for dot, names in DOT_MACROS.items() if any(n in macros for n in names))
    if "__AVX512F__" in macros:
        has = processor_of(macros).features or ()
        matrices = frozenset(dot for dot, names in MATRIX_FEATURES.items() if all(n in has for n in names))
        return Machine(64, 24, 32, dots, matrices)
    if "__AVX__" in macros:
        return Machine(32, 12, 16, dots)
    if "__aarch64__" in macros:
        return Machine(16, 24, 32, dots)
    return Machine()


def processor_of(macros: Mapping[str, str]) -> Processor:
    """The processor that code needs when its compiler predefines *macros*."""
    machine = next((name for macro, name in MACHINES.items() if macro in macros), system_machine())
    return Processor(machine, tuple(dict.fromkeys(f for macro, f in FEATURES.items() if macro in macros)))
