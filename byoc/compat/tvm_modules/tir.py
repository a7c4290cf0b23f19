"""The few names of TIR that graph-level code mentions. Source: ``tvm.tir``.

Dimensions and attributes are Python's own numbers here; :class:`IntImm` is one of them, and ``isinstance(3, IntImm)``
holds, so that predicates which distinguish known dimensions from ``Any`` work. A variable is a dimension with a name.
"""

from __future__ import annotations

import builtins
import importlib

from byoc.compat.tvm.below import Missing
from byoc.ir.dims import Any, IntImm
from byoc.ir.layout import BijectiveLayout, Layout, bijective_layout, layout
from byoc.ir.op import Op
from byoc.ir.size_var import SizeVar, Var, size_of


class _NumberLike(type):
    """A class whose instances are all Python numbers of its base."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls in _PLAIN and isinstance(instance, _PLAIN[cls]) and not isinstance(instance, bool)


class FloatImm(float, metaclass=_NumberLike):
    """A floating-point number with a dtype. Source: ``tvm.tir.FloatImm``."""

    dtype: str

    def __new__(cls, dtype: str, value: float, span: object | None = None) -> FloatImm:
        made = super().__new__(cls, value)
        made.dtype = str(dtype)
        return made

    @property
    def value(self) -> float:
        return float(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (FloatImm, (self.dtype, float(self)))


class StringImm(str):
    """A string. Source: ``tvm.tir.StringImm``."""

    @property
    def value(self) -> str:
        return str(self)


_PLAIN: dict[type, type] = {FloatImm: float}


class _Numbers(type):
    """A class that every number and every size counts as."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (int, float, Any))


class PrimExpr(metaclass=_Numbers):
    """The root of what is one number: a Python number, or a size. Source: ``tvm.ir.PrimExpr``."""


def const(value: float | bool, dtype: str | None = None, span: object | None = None) -> IntImm | FloatImm:
    """A number with a dtype: bool, int32 or float32 where none is given. Source: ``tvm.tir.const``."""
    if dtype is None:
        dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
    return FloatImm(dtype, float(value)) if "float" in dtype else IntImm(dtype, int(value))


def indexdiv(a: Any | int, b: Any | int, span: object | None = None) -> Any | int:
    """The quotient of two sizes, rounded down. Source: ``tvm.tir.indexdiv``."""
    return size_of("floordiv", a, b) if isinstance(a, Any) or isinstance(b, Any) else a // b


def indexmod(a: Any | int, b: Any | int, span: object | None = None) -> Any | int:
    """The remainder of two sizes. Source: ``tvm.tir.indexmod``."""
    return size_of("floormod", a, b) if isinstance(a, Any) or isinstance(b, Any) else a % b


def round(x: Any | float, span: object | None = None) -> Any | float:
    """The nearest whole number, of a size or a number. Source: ``tvm.tir.round``."""
    return size_of("round", x) if isinstance(x, Any) else FloatImm("float64", builtins.round(x))


def Cast(dtype: str, value: Any | float, span: object | None = None) -> Any | IntImm | FloatImm:
    """A size or a number as *dtype*. Source: ``tvm.tir.Cast``."""
    return size_of("cast", dtype, value) if isinstance(value, Any) else const(value, dtype)


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("expr", "op"):
        return importlib.import_module(f"tvm.tir.{name}")
    return Missing(f"tvm.tir.{name}")


__all__ = [
    "Any",
    "BijectiveLayout",
    "Cast",
    "FloatImm",
    "IntImm",
    "Layout",
    "Op",
    "PrimExpr",
    "SizeVar",
    "StringImm",
    "Var",
    "bijective_layout",
    "const",
    "indexdiv",
    "indexmod",
    "layout",
    "round",
]
