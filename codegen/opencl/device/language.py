"""OpenCL C's spellings: types, literals and functions, and the helpers that stand above the kernels that use them.

OpenCL C 1.2 without extensions (``cl_khr_fp64`` where a float64 occurs, ``cl_khr_fp16`` where halves are a type: then
they are converted, moved and chosen as such, and arithmetic on them is float32's). Elsewhere a float16 is a ``ushort``,
which the core functions ``vload_half`` and ``vstore_half_rte`` convert, an instruction on most devices. A bool is
stored as a ``uchar`` of 0 or 1.
Functions are overloaded by type, so that one entry serves float and double. The helpers mean what C's mean: a NaN
wins a minimum, integer division rounds down and gives 0 for a divisor of 0, shifts of the whole width or more give
what an endless shift would.

Contraction is off: ``x * w - b`` rounds its product as ONNX's two operators do, so that what is equal stays equal.
Only a step of a sum of products is contracted (``fma`` would be a call of many instructions where PoCL is the device).
"""

from __future__ import annotations

import math
import re

from byoc.codegen.kernel.small_floats import Words, conversions, spellings
from byoc.codegen.kernel.spelling import WIDE_UNSIGNED, Language, float_text, float_to_unsigned, short_name, wrapped

TYPES = {
    "bool": "uchar",
    "float16": "half",
    "float32": "float",
    "float64": "double",
    **{
        f"{u}int{bits}": f"{u[:1]}{name}"
        for u in ("", "u")
        for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
    },
}


def literal(value: float | int | bool, dtype: str) -> str:
    """A constant of *dtype* as OpenCL C writes it."""
    if dtype == "bool":
        return "1" if value else "0"
    if dtype == "float16":
        return f"(half){_float_literal(float(value), 'float32')}"
    if dtype.startswith("float"):
        return _float_literal(float(value), dtype)
    number = wrapped(int(value), dtype)
    if dtype == "uint64" and number >= 2**63:
        return f"{number}UL"
    if number == -(2**63):
        return "LONG_MIN"
    return str(number) if abs(number) < 2**31 else f"{number}L"


def _float_literal(number: float, dtype: str) -> str:
    """NAN and INFINITY are floats: converted in float64, for a call with a double and a float is ambiguous."""
    double = "(double)" if dtype == "float64" else ""
    if math.isnan(number):
        return f"{double}NAN"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    text = "inf" if math.isinf(number) else float_text(abs(number), dtype)
    if text == "inf":  # or beyond float32
        return f"{double}{sign}INFINITY"
    return f"{sign}{text}f" if dtype == "float32" else f"{sign}{text}"


_ONE = {"f32": "1.0f", "f64": "1.0"}
_UNARY_FLOAT = (
    "exp exp2 log log2 log10 log1p expm1 sqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh erf floor "
    "ceil trunc"
).split()
FUNCTIONS: dict[tuple[str, str], str] = {
    **{(n, k): f"{n}({{0}})" for n in _UNARY_FLOAT for k in _ONE},
    **{("round", k): "rint({0})" for k in _ONE},
    **{("abs", k): "fabs({0})" for k in _ONE},
    ("abs", "int"): "abs_{T}({0})",
    ("abs", "uint"): "{0}",
    ("abs", "bool"): "{0}",
    **{("rsqrt", k): f"({one} / sqrt({{0}}))" for k, one in _ONE.items()},
    **{("sigmoid", k): f"({one} / ({one} + exp(-({{0}}))))" for k, one in _ONE.items()},
    **{(n, k): f"{n}({{0}}, {{1}})" for n in ("pow", "fmod", "atan2") for k in _ONE},
    **{("pow", k): "pow_{T}({0}, {1})" for k in ("int", "uint")},
    **{("fmod", k): "rem_{T}({0}, {1})" for k in ("int", "uint")},
    **{("tanh", k): "tanh_{T}({0})" for k in _ONE},
    **{("sign", k): "sign_{T}({0})" for k in ("f32", "f64", "int", "uint")},
    **{(n, k): f"{n}({{0}})" for n in ("isnan", "isinf", "isfinite") for k in _ONE},
    **{
        (n, k): t
        for k in ("int", "uint", "bool")
        for n, t in (
            ("isnan", "0"),
            ("isinf", "0"),
            ("isfinite", "1"),
            ("floor", "{0}"),
            ("ceil", "{0}"),
            ("round", "{0}"),
            ("trunc", "{0}"),
        )
    },
    ("not", "bool"): "!({0})",
    ("bit_not", "int"): "~({0})",
    ("bit_not", "uint"): "~({0})",
    ("bit_not", "bool"): "!({0})",
    **{(n, k): f"{n}_{{T}}({{0}}, {{1}})" for n in ("min", "max") for k in ("f32", "f64", "int", "uint", "bool")},
    **{
        (n, k): f"{n}_{{T}}({{0}}, {{1}})"
        for n in ("floordiv", "floormod", "shift_left", "shift_right")
        for k in ("int", "uint")
    },
    **{("floormod", k): "floormod_{T}({0}, {1})" for k in _ONE},
    **{(f"to_{d}", k): f"to_{d}_{{T}}({{0}})" for d in WIDE_UNSIGNED for k in _ONE},
    **{("step", k): "step_{T}({0}, {1}, {2})" for k in _ONE},
    ("texel_component", "f32"): "texel_component_{T}({0}, {1})",
    ("check_index", "int"): "check_index_{T}({0}, {1}, &{2})",
    **spellings(),
    ("bits", "f16"): "as_ushort({0})",
    ("float16_of_bits", "uint"): "as_half({0})",
}


def _define(dtype: str, name: str, parameters: str, *body: str) -> str:
    t = TYPES[dtype]
    named = ", ".join(f"{t} {p}" for p in parameters)
    return "\n".join([f"static inline {t} {name}_{short_name(dtype)}({named}) {{", *(f"  {b}" for b in body), "}"])


def _bits(dtype: str) -> int:
    return int("".join(c for c in dtype if c.isdigit()))


def _extremum(name: str, sign: str, dtype: str) -> str:
    nan = " || a != a" if dtype.startswith("float") else ""
    return _define(dtype, name, "ab", f"return a {sign} b{nan} ? a : b;")


def _sign(dtype: str) -> str:
    nan = "a != a ? a : " if dtype.startswith("float") else ""
    below = "" if dtype.startswith("u") else " - (a < 0)"
    return _define(dtype, "sign", "a", f"return {nan}({TYPES[dtype]})((a > 0){below});")


def _floordiv(dtype: str) -> str:
    if dtype.startswith("u"):
        return _define(dtype, "floordiv", "ab", "return b == 0 ? 0 : a / b;")
    t, u = TYPES[dtype], TYPES[f"u{dtype}"]
    return _define(
        dtype,
        "floordiv",
        "ab",
        "if (b == 0) return 0;",
        f"if (b == -1) return ({t})(({u})0 - ({u})a);",
        f"return ({t})(a / b - (a % b != 0 && (a < 0) != (b < 0)));",
    )


def _floormod(dtype: str) -> str:
    t = TYPES[dtype]
    if dtype.startswith("float"):
        zero = "0.0f" if dtype == "float32" else "0.0"
        return _define(
            dtype,
            "floormod",
            "ab",
            f"const {t} r = fmod(a, b);",
            f"return r == {zero} ? copysign({zero}, b) : (r < {zero}) != (b < {zero}) ? r + b : r;",
        )
    if dtype.startswith("u"):
        return _define(dtype, "floormod", "ab", "return b == 0 ? 0 : a % b;")
    return _define(
        dtype,
        "floormod",
        "ab",
        "if (b == 0 || b == -1) return 0;",
        f"const {t} r = ({t})(a % b);",
        f"return ({t})(r != 0 && (r < 0) != (b < 0) ? r + b : r);",
    )


def _rem(dtype: str) -> str:
    guard = "b == 0" if dtype.startswith("u") else "b == 0 || b == -1"
    return _define(dtype, "rem", "ab", f"return {guard} ? 0 : ({TYPES[dtype]})(a % b);")


def _pow(dtype: str) -> str:
    """By squaring, in unsigned numbers of 32 bits or more, where overflow wraps: smaller ones become ints."""
    t, u = TYPES[dtype], TYPES[f"uint{max(_bits(dtype), 32)}"]
    negative = () if dtype.startswith("u") else ("if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;",)
    return _define(
        dtype,
        "pow",
        "ab",
        *negative,
        f"{u} r = 1, x = ({u})a;",
        f"for (; b > 0; b = ({t})(b / 2), x = ({u})(x * x)) if (b % 2) r = ({u})(r * x);",
        f"return ({t})r;",
    )


def _shift_left(dtype: str) -> str:
    low = "" if dtype.startswith("u") else "b < 0 || "
    return _define(
        dtype, "shift_left", "ab", f"return {low}b >= {_bits(dtype)} ? 0 : ({TYPES[dtype]})((ulong)a << (ulong)b);"
    )


def _shift_right(dtype: str) -> str:
    t, bits = TYPES[dtype], _bits(dtype)
    if dtype.startswith("u"):
        return _define(dtype, "shift_right", "ab", f"return b >= {bits} ? 0 : ({t})(a >> b);")
    return _define(dtype, "shift_right", "ab", f"return ({t})(a >> (b < 0 || b >= {bits} ? {bits - 1} : b));")


def _abs(dtype: str) -> str:
    t, u = TYPES[dtype], TYPES[f"u{dtype}"]
    return _define(dtype, "abs", "a", f"return a < 0 ? ({t})(({u})0 - ({u})a) : a;")


def _tanh(dtype: str) -> str:
    """1 from where it rounds to 1: PoCL stops one rounding below, also at infinity, and (1 + tanh(-inf)) is no 0."""
    one, end = ("1.0f", "9.1f") if dtype == "float32" else ("1.0", "19.1")
    return _define(dtype, "tanh", "a", f"return fabs(a) > {end} ? copysign({one}, a) : tanh(a);")


def _step(dtype: str) -> str:
    """The next value of a sum of products, which is rounded once."""
    t = TYPES[dtype]
    return "\n".join(
        [
            f"static inline {t} step_{short_name(dtype)}({t} sum, {t} a, {t} b) {{",
            "#pragma OPENCL FP_CONTRACT ON",
            "  return sum + a * b;",
            "}",
        ]
    )


def _check_index(dtype: str) -> str:
    """As in C; ``report_outside`` keeps what the first work-item found that found something."""
    return "\n".join(
        [
            f"static inline long check_index_{short_name(dtype)}(long index, long extent, ulong *outside) {{",
            "  const ulong place = (ulong)(index < 0 ? index + extent : index);",
            "  const ulong seen = place == 0 && extent == 0 ? (ulong)1 << 63 : place;",
            "  *outside = seen > *outside ? seen : *outside;",
            "  return place < (ulong)extent ? (long)place : extent > 0 ? extent - 1 : 0;",
            "}",
            "",
            "static inline void report_outside(__global long *found, int check, ulong place, long extent) {",
            "  if (place < (ulong)extent || place == 0) return;",
            "  if (atomic_cmpxchg((volatile __global int *)found, 0, check + 1) != 0) return;",
            "  found[1] = (long)place;",
            "  found[2] = extent;",
            "}",
        ]
    )


def _texel_component(dtype: str) -> str:
    head = f"static inline float texel_component_{short_name(dtype)}(float4 texel, int number) {{"
    return f"{head}\n  return number < 2 ? (number ? texel.s1 : texel.s0) : number == 2 ? texel.s2 : texel.s3;\n}}"


_CONVERSIONS = conversions(
    Words(TYPES, "const {uint} bits = as_{uint}(x);", "const {float} number = as_{float}(bits);", "rint")
)


def _from_half(source: str) -> str:
    head = f"static inline float from_float16_u16({TYPES[source]} code) {{"
    return f"{head}\n  return vload_half(0, (const half *)&code);\n}}"


def _to_half(source: str) -> str:
    """A NaN has numpy's code, of whatever payload; what devices store differs."""
    if source == "float64":  # numpy rounds it once
        return _CONVERSIONS["to_float16"](source)
    return "\n".join(
        [
            "static inline ushort to_float16_f32(float x) {",
            "  ushort code;",
            "  vstore_half_rte(x, 0, (half *)&code);",
            "  return x != x ? (ushort)(0x7e00u | (as_uint(x) >> 16 & 0x8000u)) : code;",
            "}",
        ]
    )


SUPPORT = {
    "check_index": _check_index,
    "step": _step,
    "texel_component": _texel_component,
    "min": lambda d: _extremum("min", "<", d),
    "max": lambda d: _extremum("max", ">", d),
    "abs": _abs,
    "sign": _sign,
    "floordiv": _floordiv,
    "floormod": _floormod,
    "rem": _rem,
    "pow": _pow,
    "tanh": _tanh,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    **{f"to_{d}": float_to_unsigned(d, TYPES) for d in WIDE_UNSIGNED},
    **_CONVERSIONS,
    "from_float16": _from_half,
    "to_float16": _to_half,
}
OPENCL_C = Language(TYPES, FUNCTIONS, SUPPORT, literal, wraps=False, steps=True)

_SCALARS = "char uchar short ushort int uint long ulong float double half".split()
RESERVED = (
    frozenset(
        "auto bool break case const continue default do else enum extern false for goto if inline register restrict "
        "return signed sizeof static struct switch true typedef union unsigned void volatile while kernel global "
        "local constant private generic pipe uniform read_only write_only read_write size_t ptrdiff_t intptr_t "
        "uintptr_t event_t sampler_t image1d_t image1d_array_t image1d_buffer_t image2d_t image2d_array_t image3d_t "
        "vec_step asm NAN INFINITY HUGE_VAL HUGE_VALF MAXFLOAT M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 "
        "M_1_PI M_2_PI M_2_SQRTPI M_SQRT2 M_SQRT1_2 CHAR_BIT CHAR_MAX CHAR_MIN INT_MAX INT_MIN LONG_MAX LONG_MIN "
        "SCHAR_MAX SCHAR_MIN SHRT_MAX SHRT_MIN UCHAR_MAX UINT_MAX ULONG_MAX USHRT_MAX FLT_MAX FLT_MIN FLT_EPSILON "
        "DBL_MAX DBL_MIN DBL_EPSILON CLK_LOCAL_MEM_FENCE CLK_GLOBAL_MEM_FENCE get_global_id get_local_id "
        "get_local_size get_group_id barrier copysign tanh clamp read_imagef write_imagef "
        "found report_outside atomic_cmpxchg linux unix i386".split()
    )
    | frozenset(_SCALARS)
    | frozenset(f"{s}{n}" for s in _SCALARS for n in (2, 3, 4, 8, 16))
    | frozenset(word for text in FUNCTIONS.values() for word in re.findall(r"[A-Za-z_]\w*", text))
)
