"""The numbers that a device's matrix units multiply, and what kernels say to have them multiplied.

An instruction of a warp of 32 work-items multiplies 16 rows by 8 columns, both in lines of 32 bytes of terms, and adds
in float32. On NVIDIA's devices it is inline PTX, of compute capability 8.0 or above. *Emulated* are the same numbers in
the same places by plain OpenCL C, for tests on devices without such units. Source: PTX ISA 7.0, ``mma.sync``,
``ldmatrix`` and ``cvt``.
"""

from __future__ import annotations

from dataclasses import dataclass

PTX, EMULATED = "ptx", "emulated"
CHUNK = 4  # words of 32 bits that a work-item moves at once
WARP = 32
ROWS, COLUMNS = 16, 8  # of an instruction


@dataclass(frozen=True)
class MatrixFormat:
    """*bits* of a number as it lies in local memory; *split*: it is two numbers of the unit, whose products are added.

    ``3xtf32``: float32 as a sum of two numbers of tf32, three of whose products are added. Source: Ootomo & Yokota
    2022, Recovering single precision accuracy from Tensor Cores.
    """

    name: str
    bits: int
    split: bool = False

    @property
    def chunk(self) -> int:
        """The terms that a work-item moves at once."""
        return CHUNK * 32 // self.bits

    def word(self, numbers: list[str]) -> str:
        """The text of the next word of *numbers*, texts of float32, which it takes away."""
        own = [numbers.pop(0) for _ in range(32 // self.bits)]
        return f"word_{self.short}({', '.join(own)})"

    @property
    def short(self) -> str:
        """A part of a name in a kernel."""
        return "tf32x3" if self.split else self.name


FLOAT16, BFLOAT16, TF32 = MatrixFormat("float16", 16), MatrixFormat("bfloat16", 16), MatrixFormat("tf32", 32)
TF32X3 = MatrixFormat("3xtf32", 32, split=True)
FORMATS = {f.name: f for f in (TF32, BFLOAT16, TF32X3)}  # of float32, where a user allows them

_LOAD = """\
static inline uint4 load_matrices(__local const uint *line) {
  uint a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((uint)(size_t)line));
  return (uint4)(a, b, c, d);
}
"""
_INSTRUCTIONS = {
    "tf32": "m16n8k8.row.col.f32.tf32.tf32.f32",
    "float16": "m16n8k16.row.col.f32.f16.f16.f32",
    "bfloat16": "m16n8k16.row.col.f32.bf16.bf16.f32",
}
_PTX_WORDS = {
    "tf32": """\
static inline uint word_tf32(float x) {
  uint word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
}
""",
    "float16": """\
static inline uint word_float16(float low, float high) {
  uint word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
""",
    "bfloat16": """\
static inline uint word_bfloat16(float low, float high) {
  uint word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
""",
}
_PLAIN_WORDS = {
    "tf32": """\
static inline uint word_tf32(float x) {
  return x != x ? 0x7fffffffu : as_uint(x) + 0x1000u & 0xffffe000u;
}
""",
    "float16": """\
static inline uint word_float16(float low, float high) {
  ushort2 codes;
  vstore_half_rte(low, 0, (half *)&codes);
  vstore_half_rte(high, 1, (half *)&codes);
  return as_uint(codes);
}
""",
    "bfloat16": """\
static inline uint code_bfloat16(float x) {
  const uint bits = as_uint(x);
  return x != x ? 0x7fffu : bits + 0x7fffu + (bits >> 16 & 1u) >> 16;
}

static inline uint word_bfloat16(float low, float high) {
  return code_bfloat16(high) << 16 | code_bfloat16(low);
}
""",
}
_SPLIT = """\
static inline uint word_tf32x3(float x) {
  return as_uint(x);
}

static inline uint high_tf32(uint x) {
  return word_tf32(as_float(x));
}

static inline uint low_tf32(uint x) {
  const float rest = as_float(x) - as_float(word_tf32(as_float(x)));
  return rest == rest ? word_tf32(rest) : 0;
}
"""
_PLAIN_PRODUCTS = {
    "tf32": "as_float(word_tf32(as_float(a))) * as_float(word_tf32(as_float(b)))",
    "tf32x3": "as_float(low_tf32(a)) * as_float(high_tf32(b)) + as_float(high_tf32(a)) * as_float(low_tf32(b)) "
    "+ as_float(high_tf32(a)) * as_float(high_tf32(b))",
    "float16": "vload_half(0, (const half *)&a) * vload_half(0, (const half *)&b) "
    "+ vload_half(1, (const half *)&a) * vload_half(1, (const half *)&b)",
    "bfloat16": "as_float(a << 16) * as_float(b << 16) + as_float(a & 0xffff0000u) * as_float(b & 0xffff0000u)",
}


def plain_product(short: str) -> str:
    """The text of the sum of the products of the numbers in the words ``a`` and ``b``."""
    return _PLAIN_PRODUCTS[short]


def ptx_functions(short: str) -> str:
    """What kernels call where products are inline PTX; *short* is that of the format."""
    base = "tf32" if short == "tf32x3" else short
    multiply = f"""\
static inline void multiply_{base}(float *sums, uint4 a, uint b, uint c) {{
  asm volatile("mma.sync.aligned.{_INSTRUCTIONS[base]} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, "
               "{{%0, %1, %2, %3}};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a.s0), "r"(a.s1), "r"(a.s2), "r"(a.s3), "r"(b), "r"(c));
}}
"""
    split = [_SPLIT] if short == "tf32x3" else []
    return "\n".join([_PTX_WORDS[base], *split, _LOAD, multiply])


def plain_functions(short: str) -> str:
    """What kernels call where products are emulated."""
    base = "tf32" if short == "tf32x3" else short
    dot = f"""\
static inline float dot_{short}(float sum, __local const uint *left, __local const uint *right, int words,
                               int left_turn, int right_turn) {{
  for (int k = 0; k < words; ++k) {{
    const uint a = left[k ^ left_turn], b = right[k ^ right_turn];
    sum += {_PLAIN_PRODUCTS[short]};
  }}
  return sum;
}}
"""
    split = [_SPLIT] if short == "tf32x3" else []
    return "\n".join([_PLAIN_WORDS[base], *split, dot])


_COPIES = {
    PTX: """\
static inline void copy_chunk(__local uint *to, __global const uint *from, int inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((uint)(size_t)to), "l"((ulong)from), "r"(inside ? 16 : 0) : "memory");
}
""",
    EMULATED: """\
static inline void copy_chunk(__local uint *to, __global const uint *from, int inside) {
  *(__local uint4 *)to = inside ? *(__global const uint4 *)from : (uint4)(0);
}
""",
}


_ROUNDED = """\
static inline uint4 rounded_tf32(uint4 x) {
  const float4 f = as_float4(x);
  return (uint4)(word_tf32(f.s0), word_tf32(f.s1), word_tf32(f.s2), word_tf32(f.s3));
}
"""


def rounding_function(short: str) -> str:
    """What kernels call where units read words of tf32 that were copied as float32."""
    return _ROUNDED


def copy_functions(units: str) -> str:
    """What kernels call where operands are copied, by how units are reached."""
    return _COPIES[units]


MATRIX_SUPPORT = {  # helpers of kernels, by their names
    "matrix_ptx": ptx_functions,
    "matrix_plain": plain_functions,
    "matrix_copies": copy_functions,
    "matrix_rounded": rounding_function,
}
