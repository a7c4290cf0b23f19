"""Expressions in C99 alone: signed integers wrap without a compiler's flag, and indices are known to fit their type.

Arithmetic whose result may leave its type is a call of a helper that computes on the unsigned type of that width; C99
leaves the conversion back to the implementation, and every compiler that we know keeps the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from byoc.codegen.c.language.spellings import FUNCTIONS, SUPPORT, TYPES, literal
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.kernel.spelling import Language, short_name
from byoc.codegen.kernel.writer import Names
from byoc.errors import ByocError
from byoc.te import PrimExpr
from byoc.te.expr import INDEX, Binary

WRAPPED = {"add": "+", "sub": "-", "mul": "*"}
# C computes narrower integers in int, which holds every result of theirs but a product of two uint16_t
_MAY_WRAP = {"int32": WRAPPED, "int64": WRAPPED, "uint16": {"mul": "*"}}


class IndexTooWideError(ByocError):
    """An index does not fit 32 bits: the function is written anew with indices of 64."""


class PlainExprWriter(ExprWriter):
    """As ExprWriter; raises IndexTooWideError, unless *wide*, for an index that may leave 32 bits."""

    def __init__(self, language: Language, names: Names, simplify: Simplifier, wide: bool):
        super().__init__(language, names, simplify)
        self.wide = wide

    def text(self, expr: PrimExpr, least: int = 0) -> str:
        if id(expr) in self.bound:
            return super().text(expr, least)
        if expr.dtype == INDEX and not self.wide and not _fits(self.simplify.bounds(expr), 31):
            raise IndexTooWideError("an index needs 64 bits")
        if isinstance(expr, Binary) and expr.op in _MAY_WRAP.get(expr.dtype, ()) and self._may_wrap(expr):
            return self.call(f"wrapped_{expr.op}", expr.dtype, self.text(expr.left), self.text(expr.right))
        return super().text(expr, least)

    def _may_wrap(self, expr: Binary) -> bool:
        return expr.dtype != INDEX or not _fits(self.simplify.bounds(expr), 63)


def _fits(bounds: tuple[float, float], bits: int) -> bool:
    return -(2.0**bits) <= bounds[0] and bounds[1] < 2.0**bits


def _function(dtype: str, signature: str, *body: str) -> str:
    return "\n".join([f"static inline {TYPES[dtype]} {signature} {{", *(f"  {line}" for line in body), "}"])


def _wrapped(op: str) -> Callable[[str], str]:
    def define(dtype: str) -> str:
        t, bits = TYPES[dtype], 64 if dtype.endswith("64") else 32
        value = f"({t})((uint{bits}_t)a {WRAPPED[op]} (uint{bits}_t)b)"
        return _function(dtype, f"wrapped_{op}_{short_name(dtype)}({t} a, {t} b)", f"return {value};")

    return define


def _unsigned(dtype: str) -> str:
    return "uint64_t" if dtype.endswith("64") else "uint32_t"


def _abs(dtype: str) -> str:
    t, u = TYPES[dtype], _unsigned(dtype)
    return _function(dtype, f"abs_{short_name(dtype)}({t} a)", f"return a < 0 ? ({t})(0 - ({u})a) : a;")


def _floordiv(dtype: str) -> str:
    if dtype.startswith("u"):
        return SUPPORT["floordiv"](dtype)
    t, u = TYPES[dtype], _unsigned(dtype)
    return _function(
        dtype,
        f"floordiv_{short_name(dtype)}({t} a, {t} b)",
        "if (b == 0) return 0;",
        f"if (b == -1) return ({t})(0 - ({u})a);",
        f"return ({t})(a / b - (a % b != 0 && (a < 0) != (b < 0)));",
    )


def _pow(dtype: str) -> str:
    t, u = TYPES[dtype], _unsigned(dtype)
    negative = () if dtype.startswith("u") else ("if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;",)
    return _function(
        dtype,
        f"pow_{short_name(dtype)}({t} a, {t} b)",
        *negative,
        f"{u} r = 1, x = ({u})a;",
        f"for (; b > 0; b = ({t})(b / 2), x *= x) if (b % 2) r *= x;",
        f"return ({t})r;",
    )


_SUPPORT: Mapping[str, Callable[[str], str]] = {
    **SUPPORT,
    **{f"wrapped_{op}": _wrapped(op) for op in WRAPPED},
    "abs": _abs,
    "floordiv": _floordiv,
    "pow": _pow,
}
_FUNCTIONS = {
    **FUNCTIONS,
    **{(f"wrapped_{op}", k): f"wrapped_{op}_{{T}}({{0}}, {{1}})" for op in WRAPPED for k in ("int", "uint")},
}
PLAIN_C = Language(TYPES, _FUNCTIONS, _SUPPORT, literal)
