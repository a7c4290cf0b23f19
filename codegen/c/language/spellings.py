"""C's spellings: the table of types, literals and functions, and the helpers that stand above the code that uses them.

Every helper gives numpy's result for every input: a NaN wins a minimum, integer division rounds down and gives 0 for
a divisor of 0, shifts of the whole width or more give what an endless shift would. Signed overflow wraps (the code is
compiled with the flags of ``toolchain/unit_flags.py``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from byoc.codegen.c.language import narrow
from byoc.codegen.c.toolchain.unit_flags import rounded
from byoc.codegen.kernel.small_floats import Words, conversions, spellings
from byoc.codegen.kernel.spelling import WIDE_UNSIGNED, Language, float_text, float_to_unsigned, short_name, wrapped
from byoc.ir.types import STORED

TYPES = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    "bfloat16": "uint16_t",
    **{f"{u}int{b}": f"{u}int{b}_t" for u in ("", "u") for b in (8, 16, 32, 64)},
}
TYPES |= {dtype: TYPES[stored] for dtype, stored in STORED.items()}  # of what lies in memory as bits


def literal(value: float | int | bool, dtype: str) -> str:
    """A constant of *dtype* as C writes it."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype == "bfloat16":
        return narrow.bf16_literal(float(value))
    if dtype.startswith("float"):
        number = float(value)
        if math.isnan(number):
            return "NAN"
        suffix = "f" if dtype == "float32" else ""
        text = "INFINITY" if math.isinf(number) else float_text(abs(number), dtype)
        text = text if text == "inf" or text == "INFINITY" else text + suffix
        text = "INFINITY" if text.startswith("inf") else text
        return f"-{text}" if math.copysign(1.0, number) < 0 else text
    number = wrapped(int(value), dtype)
    if dtype == "uint64" and number >= 2**63:
        return f"UINT64_C({number})"
    if number == -(2**63):
        return "INT64_MIN"
    return str(number) if abs(number) < 2**31 else f"INT64_C({number})"


_UNARY_FLOAT = (
    "exp exp2 log log2 log10 log1p expm1 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf floor "
    "ceil trunc"
).split()
FUNCTIONS: dict[tuple[str, str], str] = {
    **{(n, "f32"): f"{n}f({{0}})" for n in _UNARY_FLOAT},
    **{(n, "f64"): f"{n}({{0}})" for n in _UNARY_FLOAT},
    ("round", "f32"): "rintf({0})",
    ("round", "f64"): "rint({0})",
    ("abs", "f32"): "fabsf({0})",
    ("abs", "f64"): "fabs({0})",
    ("abs", "int"): "abs_{T}({0})",
    ("abs", "uint"): "{0}",
    ("abs", "bool"): "{0}",
    ("rsqrt", "f32"): "(1.0f / sqrtf({0}))",
    ("rsqrt", "f64"): "(1.0 / sqrt({0}))",
    ("sigmoid", "f32"): "(1.0f / (1.0f + expf(-({0}))))",
    ("sigmoid", "f64"): "(1.0 / (1.0 + exp(-({0}))))",
    ("pow", "f32"): "powf({0}, {1})",
    ("pow", "f64"): "pow({0}, {1})",
    ("pow", "int"): "pow_{T}({0}, {1})",
    ("pow", "uint"): "pow_{T}({0}, {1})",
    ("fmod", "f32"): "fmodf({0}, {1})",
    ("fmod", "f64"): "fmod({0}, {1})",
    ("fmod", "int"): "rem_{T}({0}, {1})",
    ("fmod", "uint"): "rem_{T}({0}, {1})",
    ("atan2", "f32"): "atan2f({0}, {1})",
    ("atan2", "f64"): "atan2({0}, {1})",
    **{("sign", k): "sign_{T}({0})" for k in ("f32", "f64", "int", "uint")},
    **{
        (n, k): t
        for k in ("f32", "f64")
        for n, t in (("isnan", "isnan({0})"), ("isinf", "isinf({0})"), ("isfinite", "isfinite({0})"))
    },
    **{
        (n, k): t
        for k in ("int", "uint", "bool")
        for n, t in (
            ("isnan", "false"),
            ("isinf", "false"),
            ("isfinite", "true"),
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
    **{("floormod", k): "floormod_{T}({0}, {1})" for k in ("f32", "f64")},
    **{(f"to_{d}", k): f"to_{d}_{{T}}({{0}})" for d in WIDE_UNSIGNED for k in ("f32", "f64")},
    ("check_index", "int"): "check_index_{T}({0}, {1}, &{2})",
    **{("rounded", k): "rounded_{T}({0})" for k in ("f32", "f64")},
    **narrow.FUNCTIONS,
    **spellings(),
    ("bits", "bf16"): "{0}",
}


def _define(signature: str, *body: str) -> str:
    return "\n".join([f"static inline {signature} {{", *(f"  {line}" for line in body), "}"])


def _two(dtype: str, name: str, *body: str) -> str:
    t = TYPES[dtype]
    return _define(f"{t} {name}_{short_name(dtype)}({t} a, {t} b)", *body)


def _one(dtype: str, name: str, *body: str) -> str:
    t = TYPES[dtype]
    return _define(f"{t} {name}_{short_name(dtype)}({t} a)", *body)


def _extremum(name: str, sign: str, dtype: str) -> str:
    nan = " || a != a" if dtype.startswith("float") else ""
    return _two(dtype, name, f"return a {sign} b{nan} ? a : b;")


def _sign(dtype: str) -> str:
    t = TYPES[dtype]
    nan = "a != a ? a : " if dtype.startswith("float") else ""
    below = "" if dtype.startswith("u") else " - (a < 0)"
    return _one(dtype, "sign", f"return {nan}({t})((a > 0){below});")


def _floordiv(dtype: str) -> str:
    if dtype.startswith("u"):
        return _two(dtype, "floordiv", "return b == 0 ? 0 : a / b;")
    t = TYPES[dtype]
    return _two(
        dtype,
        "floordiv",
        "if (b == 0) return 0;",
        f"if (b == -1) return ({t})-a;",
        f"return ({t})(a / b - (a % b != 0 && (a < 0) != (b < 0)));",
    )


def _floormod(dtype: str) -> str:
    if dtype.startswith("float"):
        f = "f" if dtype == "float32" else ""
        t = TYPES[dtype]
        return _two(
            dtype,
            "floormod",
            f"{t} r = fmod{f}(a, b);",
            f"return r == 0 ? copysign{f}(0, b) : (r < 0) != (b < 0) ? r + b : r;",
        )
    if dtype.startswith("u"):
        return _two(dtype, "floormod", "return b == 0 ? 0 : a % b;")
    t = TYPES[dtype]
    return _two(
        dtype,
        "floormod",
        "if (b == 0 || b == -1) return 0;",
        f"{t} r = ({t})(a % b);",
        f"return ({t})(r != 0 && (r < 0) != (b < 0) ? r + b : r);",
    )


def _rem(dtype: str) -> str:
    guard = "b == 0" if dtype.startswith("u") else "b == 0 || b == -1"
    return _two(dtype, "rem", f"return {guard} ? 0 : ({TYPES[dtype]})(a % b);")


def _pow(dtype: str) -> str:
    t = TYPES[dtype]
    negative = () if dtype.startswith("u") else ("if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;",)
    return _two(
        dtype,
        "pow",
        *negative,
        f"{t} r = 1;",
        f"for (; b > 0; b = ({t})(b / 2), a = ({t})(a * a)) if (b % 2) r = ({t})(r * a);",
        "return r;",
    )


def _shift_left(dtype: str) -> str:
    t, bits = TYPES[dtype], int("".join(c for c in dtype if c.isdigit()))
    low = "" if dtype.startswith("u") else "b < 0 || "
    return _two(dtype, "shift_left", f"return {low}b >= {bits} ? 0 : ({t})((uint64_t)a << b);")


def _shift_right(dtype: str) -> str:
    t, bits = TYPES[dtype], int("".join(c for c in dtype if c.isdigit()))
    if dtype.startswith("u"):
        return _two(dtype, "shift_right", f"return b >= {bits} ? 0 : ({t})(a >> b);")
    return _two(dtype, "shift_right", f"return ({t})(a >> (b < 0 || b >= {bits} ? {bits - 1} : b));")


def _check_index(dtype: str) -> str:
    """The largest place that was seen is kept, as an unsigned number; 1 << 63 is index 0 where there is no element."""
    return _define(
        f"int64_t check_index_{short_name(dtype)}(int64_t index, int64_t extent, uint64_t *outside)",
        "const uint64_t place = (uint64_t)(index < 0 ? index + extent : index);",
        "const uint64_t seen = place == 0 && extent == 0 ? (uint64_t)1 << 63 : place;",
        "*outside = seen > *outside ? seen : *outside;",
        "return place < (uint64_t)extent ? (int64_t)place : extent > 0 ? extent - 1 : 0;",
    )


def _pair_start(dtype: str) -> str:
    """The first place from *place* on that is not the second of a pair at the end of a row."""
    return _define(
        f"int64_t pair_start_{short_name(dtype)}(int64_t place, int64_t row)",
        "return place % row == row - 1 ? place + 1 : place;",
    )


def _rounded(dtype: str) -> str:
    return rounded(TYPES[dtype], short_name(dtype))


_WORDS = Words(
    TYPES,
    "{uint} bits;\nmemcpy(&bits, &x, sizeof bits);",
    "{float} number;\nmemcpy(&number, &bits, sizeof number);",
    "rintf",
)
SUPPORT: dict[str, Callable[[str], str]] = {
    "rounded": _rounded,
    "check_index": _check_index,
    "pair_start": _pair_start,
    "min": lambda d: _extremum("min", "<", d),
    "max": lambda d: _extremum("max", ">", d),
    "abs": lambda d: _one(d, "abs", f"return ({TYPES[d]})(a < 0 ? -a : a);"),
    "sign": _sign,
    "floordiv": _floordiv,
    "floormod": _floormod,
    "rem": _rem,
    "pow": _pow,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    **{f"to_{d}": float_to_unsigned(d, TYPES) for d in WIDE_UNSIGNED},
    **narrow.SUPPORT,
    **conversions(_WORDS),
}
C = Language(TYPES, FUNCTIONS, SUPPORT, literal, contracts=True)
RESERVED = frozenset(
    "auto bool break case char const continue default do double else enum extern false float for goto if inline int "
    "long register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile "
    "while asm typeof main args sizes workspace team team_wait team_pause Team Run run_stop run_status run_look "
    "run_outside outside guard_buffer NAN INFINITY errno stdin stdout stderr y0 y1 yn j0 j1 jn gamma".split()
) | frozenset(word for text in FUNCTIONS.values() for word in re.findall(r"(?<!\w)[A-Za-z_]\w*", text))
