"""Products of narrow numbers, two or four in a word of 32 bits: bfloat16 and 8-bit integers, as C.

A bfloat16 is the upper half of a float32 and lies in memory as a ``uint16_t``; it is rounded to nearest, ties to even.
Where the compiler's target has the instructions (AVX-512 BF16; AVX-512 VNNI, AVX-VNNI; Arm's BF16, I8MM) a vector of
words takes one, two of Arm's DotProd, which multiplies signed bytes alone; else plain arithmetic on GCC's vectors: for
integers the same numbers, for bfloat16 but for the order of the two terms, denormals, which the instructions take as 0,
and Arm's rounding of intermediate sums to odd. Sources: Intel's Architecture Instruction Set Extensions reference,
VDPBF16PS, VCVTNEPS2BF16 and VPDPBUSD; Arm's Architecture Reference Manual, BFDOT, USDOT and SDOT.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from byoc.codegen.c.language import matrix_registers
from byoc.codegen.kernel.spelling import short_name

INTRINSICS_HEADER = """#if defined(__AVX512BF16__) || defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC) || defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif
"""

TO_BF16 = """static inline uint16_t to_bf16_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return (uint16_t)((x != x ? bits | 0x400000 : rounded) >> 16);
}"""
FROM_BF16 = """static inline float from_bf16_b16(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}"""
WORD = """static inline uint32_t word_@T(const @S *place) {
  uint32_t word;
  memcpy(&word, place, sizeof word);
  return word;
}"""
DOT_BF16 = """static inline float dot_bf16_u32(uint32_t a, uint32_t b, float sum) {
  const uint32_t bits[4] = {a << 16, b << 16, a & 0xffff0000, b & 0xffff0000};
  float x[4];
  memcpy(x, bits, sizeof x);
  return sum + x[0] * x[1] + x[2] * x[3];
}"""
DOT_U8S8 = """static inline int32_t dot_u8s8_u32(uint32_t a, uint32_t b, int32_t sum) {
  for (int k = 0; k < 32; k += 8) sum += (int32_t)(a >> k & 0xff) * (int8_t)(b >> k & 0xff);
  return sum;
}"""


def word_of(dtype: str) -> str:
    """The function that takes the word at an element of *dtype*."""
    storage = {"bfloat16": "uint16_t", "uint8": "uint8_t", "int8": "int8_t"}[dtype]
    return WORD.replace("@T", short_name(dtype)).replace("@S", storage)


VECTOR_TO_BF16 = f"""{INTRINSICS_HEADER}static inline b16x@N to_bf16_@V(@V x) {{
#if defined(__AVX512BF16__) && @N == 16
  return (b16x@N)_mm512_cvtneps_pbh((__m512)x);
#else
  const u32x@N bits = (u32x@N)x, rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const u32x@N number = (u32x@N)(x == x);
  return __builtin_convertvector(((rounded & number) | ((bits | 0x400000) & ~number)) >> 16, b16x@N);
#endif
}}"""
VECTOR_FROM_BF16 = """static inline f32x@N from_bf16_@V(@V half) {
  return (f32x@N)(__builtin_convertvector(half, u32x@N) << 16);
}"""
VECTOR_DOT_BF16 = f"""{INTRINSICS_HEADER}static inline @V dot_bf16_@V(u32x@N a, u32x@N b, @V sum) {{
#if defined(__AVX512BF16__) && @N == 16
  return (@V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#elif defined(__AVX512BF16__) && defined(__AVX512VL__) && @N == 8
  return (@V)_mm256_dpbf16_ps((__m256)sum, (__m256bh)a, (__m256bh)b);
#elif defined(__AVX512BF16__) && defined(__AVX512VL__) && @N == 4
  return (@V)_mm_dpbf16_ps((__m128)sum, (__m128bh)a, (__m128bh)b);
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC) && @N == 4
  return (@V)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
#else
  sum += (@V)(a << 16) * (@V)(b << 16);
  return sum + (@V)(a & 0xffff0000) * (@V)(b & 0xffff0000);
#endif
}}"""
VECTOR_DOT_U8S8 = f"""{INTRINSICS_HEADER}static inline @V dot_u8s8_@V(u32x@N a, u32x@N b, @V sum) {{
#if defined(__AVX512VNNI__) && @N == 16
  return (@V)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__) && @N == 8
  return (@V)_mm256_dpbusd_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__) && @N == 4
  return (@V)_mm_dpbusd_epi32((__m128i)sum, (__m128i)a, (__m128i)b);
#elif defined(__AVXVNNI__) && @N == 8
  return (@V)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
#elif defined(__AVXVNNI__) && @N == 4
  return (@V)_mm_dpbusd_avx_epi32((__m128i)sum, (__m128i)a, (__m128i)b);
#elif defined(__ARM_FEATURE_MATMUL_INT8) && @N == 4
  return (@V)vusdotq_s32((int32x4_t)sum, (uint8x16_t)a, (int8x16_t)b);
#elif defined(__ARM_FEATURE_DOTPROD) && @N == 4
  /* a * b is (a - 128) * b and 128 * b, whose sum is the same for all that b meets */
  const int8x16_t signed_a = (int8x16_t)(a ^ 0x80808080), ones = vdupq_n_s8(1);
  const @V rest = (@V)vdotq_s32(vdupq_n_s32(0), (int8x16_t)b, ones);
  return (@V)vdotq_s32((int32x4_t)sum, signed_a, (int8x16_t)b) + rest * 128;
#else
  for (int k = 0; k < 32; k += 8) sum += (@V)(a >> k & 0xff) * ((@V)(b << (24 - k)) >> 24);
  return sum;
#endif
}}"""

# by name and kind of dtype, as in the tables of ``spellings.py`` and ``vectors.py``
FUNCTIONS: Mapping[tuple[str, str], str] = {
    ("to_bf16", "f32"): "to_bf16_{T}({0})",
    ("from_bf16", "bf16"): "from_bf16_{T}({0})",
    **{("word", kind): "word_{T}(&{0})" for kind in ("bf16", "int", "uint")},
    **{(name, "uint"): f"{name}_{{T}}({{0}}, {{1}}, {{2}})" for name in ("dot_bf16", "dot_u8s8")},
}
SUPPORT: dict[str, Callable[[str], str]] = {
    "to_bf16": lambda dtype: TO_BF16,
    "from_bf16": lambda dtype: FROM_BF16,
    "word": word_of,
    "dot_bf16": lambda dtype: DOT_BF16,
    "dot_u8s8": lambda dtype: DOT_U8S8,
    matrix_registers.HELPER[0]: lambda dtype: matrix_registers.SUPPORT,
    matrix_registers.ROWS_HELPER[0]: lambda dtype: matrix_registers.ROWS_SUPPORT,
}
VECTORS: Mapping[tuple[str, str], str] = {
    ("to_bf16", "f32"): VECTOR_TO_BF16,
    ("from_bf16", "bf16"): VECTOR_FROM_BF16,
    ("dot_bf16", "f32"): VECTOR_DOT_BF16,
    ("dot_u8s8", "int"): VECTOR_DOT_U8S8,
}


def bf16_literal(value: float) -> str:
    """The bits of *value*, which is finite or infinite, rounded to bfloat16."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    rounded = (bits | 0x400000) if value != value else bits + 0x7FFF + ((bits >> 16) & 1)
    return f"0x{rounded >> 16 & 0xFFFF:04x}"
