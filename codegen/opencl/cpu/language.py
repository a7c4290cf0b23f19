"""C's text in OpenCL C: the names that C's headers give, and how scalars and vectors are spelled.

Vectors are GCC's, which clang has in OpenCL C too, and with it every driver of a processor that we know (PoCL's and
Intel's): their widths are free, and operators on them mean what they mean in C, so that one text serves both. What lies
in memory has two address spaces, for which functions that take a place are overloaded.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping

from byoc.codegen.c.language.spellings import FUNCTIONS as C_FUNCTIONS
from byoc.codegen.c.language.spellings import RESERVED as C_RESERVED
from byoc.codegen.c.toolchain.unit_flags import rounded
from byoc.codegen.c.vectors.vectors import VectorPart, vector_support
from byoc.codegen.kernel.spelling import Language, short_name
from byoc.te.expr import INDEX

SPACES = ("__global", "__private")
PART, PARTS = "part", "parts"  # the number of a kernel's work-group, and how many there are
ONLY_CLANG = "these kernels need the vectors of clang: compile the model with schedules=gpu for the backend opencl"
CONTRACT = "#pragma OPENCL FP_CONTRACT ON"
DO_NOT_CONTRACT = "#pragma OPENCL FP_CONTRACT OFF"
ZEROS = "{}"  # of a vector: OpenCL C wants all of its elements or none
# macros of instructions for which C's text includes a header that kernels do not have
_NO_HEADERS = (
    "__AVX512BF16__ __AVX512VNNI__ __AVXVNNI__ __ARM_FEATURE_BF16_VECTOR_ARITHMETIC __ARM_FEATURE_DOTPROD "
    "__ARM_FEATURE_MATMUL_INT8"
).split()
_WIDTHS = {8: ("char", "CHAR"), 16: ("short", "SHRT"), 32: ("int", "INT"), 64: ("long", "LONG")}


def prelude() -> str:
    """What stands before vectors: C's integer types, their limits, and its functions by OpenCL's names."""
    lines = ["#ifndef __clang__", f"#error {ONLY_CLANG}", "#endif"]
    lines += [f"#undef {macro}" for macro in _NO_HEADERS]
    for bits, (name, limit) in _WIDTHS.items():
        lines += [f"typedef {name} int{bits}_t;", f"typedef u{name} uint{bits}_t;"]
        lines += [f"#define INT{bits}_MAX {limit}_MAX"]
    lines += ["#define memcpy __builtin_memcpy"]
    called = {name for text in C_FUNCTIONS.values() for name in re.findall(r"([a-z]\w*)\(", text)}
    lines += [f"#define {name}f {name}" for name in sorted(called) if f"{name}f" in called]
    return "\n".join(lines) + "\n"


_LOAD = """static inline @V __attribute__((overloadable)) load_@V(@A const @S *place) {
  @V v;
  memcpy(&v, place, sizeof v);
  return v;
}"""
_STORE = """static inline void __attribute__((overloadable)) store_@V(@A @S *place, @V v) {
  memcpy(place, &v, sizeof v);
}"""
_LOAD_FIRST = """/* The first count elements, and 0 in the lanes beyond them, which are not read. */
static inline @V __attribute__((overloadable)) load_first_@V(@A const @S *place, int count) {
  @V v = {0};
  memcpy(&v, place, (size_t)count * sizeof *place);
  return v;
}"""
_STORE_FIRST = """static inline void __attribute__((overloadable)) store_first_@V(@A @S *place, @V v, int count) {
  memcpy(place, &v, (size_t)count * sizeof *place);
}"""


def _in_spaces(template: str) -> str:
    return "\n".join(template.replace("@A", space) for space in SPACES)


_TANH = """static inline @V tanh_@V(@V x) { /* 1 from where it rounds to 1: PoCL stops one rounding below */
  for (int k = 0; k < @N; ++k) x[k] = fabs(x[k]) > 19.1 ? copysign(1.0, x[k]) : tanh(x[k]);
  return x;
}"""
_OWN: Mapping[tuple[str, str], str] = {
    **{
        (name, kind): _in_spaces(template)
        for kind in ("f32", "f64", "int", "uint")
        for name, template in (
            ("load", _LOAD),
            ("store", _STORE),
            ("load_first", _LOAD_FIRST),
            ("store_first", _STORE_FIRST),
        )
    },
    ("tanh", "f64"): _TANH,
}


def vector_definitions(parts: Mapping[VectorPart, None]) -> str:
    """The vector types and functions in use, whose products and sums are contracted as C's are."""
    definitions = [text.replace("{0}", ZEROS) for text in vector_support(tuple(parts), _OWN)]
    return "\n".join([prelude(), CONTRACT, *definitions, DO_NOT_CONTRACT, ""])


PAIR_START = "\n".join(
    [
        f"static inline long pair_start_{short_name(INDEX)}(long place, long row) {{",
        "  return place % row == row - 1 ? place + 1 : place;",
        "}",
    ]
)
# the sum of four products of unsigned and signed bytes, and sum, which wraps
DOT_U8S8 = """static inline int dot_u8s8_u32(uint a, uint b, int sum) {
  uint total = (uint)sum;
  for (int k = 0; k < 32; k += 8) total += (uint)((int)(a >> k & 0xff) * (char)(b >> k & 0xff));
  return (int)total;
}"""
WORD = """static inline uint __attribute__((overloadable)) word_@T(@A const @S *place) {
  uint word;
  __builtin_memcpy(&word, place, sizeof word);
  return word;
}"""


def block_language(opencl: Language) -> Language:
    """*opencl* with what C's schedules call, its sums of products contracted by the compiler as in C."""
    types = opencl.types

    def word(dtype: str) -> str:
        return _in_spaces(WORD.replace("@T", short_name(dtype)).replace("@S", types[dtype]))

    more: Mapping[str, Callable[[str], str]] = {
        "rounded": lambda dtype: rounded(types[dtype], short_name(dtype)),
        "pair_start": lambda dtype: PAIR_START,
        "word": word,
        "dot_u8s8": lambda dtype: DOT_U8S8,
    }
    functions = {
        **opencl.functions,
        **{("rounded", k): "rounded_{T}({0})" for k in ("f32", "f64")},
        **{("word", k): "word_{T}(&{0})" for k in ("int", "uint")},
        ("dot_u8s8", "uint"): "dot_u8s8_{T}({0}, {1}, {2})",
    }
    support = {**opencl.support, **more}
    return dataclasses.replace(opencl, functions=functions, support=support, steps=False, contracts=True)


# beyond what OpenCL's kernels may not use
BLOCK_RESERVED = C_RESERVED | {PART, PARTS, "memcpy", "get_num_groups"}
