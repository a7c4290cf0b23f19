"""The few names of TIR that graph-level code mentions. Source: ``tvm.tir``.

Dimensions and attributes are Python's own numbers here; :class:`IntImm` is one of them, and ``isinstance(3, IntImm)``
holds, so that predicates which tell known dimensions from ``Any`` work.
"""

from __future__ import annotations

import importlib

from byoc.compat.tvm.below import Missing
from byoc.ir.op import Op
from byoc.ir.types import Any


class _NumberLike(type):
    """A class whose instances are all Python numbers of its base."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls in _PLAIN and isinstance(instance, _PLAIN[cls]) and not isinstance(instance, bool)


class IntImm(int, metaclass=_NumberLike):
    """An integer with a dtype; equal to the Python number. Source: ``tvm.tir.IntImm``."""

    dtype: str

    def __new__(cls, dtype: str, value: int) -> IntImm:
        made = super().__new__(cls, value)
        made.dtype = dtype
        return made

    @property
    def value(self) -> int:
        return int(self)


class FloatImm(float, metaclass=_NumberLike):
    """A floating-point number with a dtype. Source: ``tvm.tir.FloatImm``."""

    dtype: str

    def __new__(cls, dtype: str, value: float) -> FloatImm:
        made = super().__new__(cls, value)
        made.dtype = dtype
        return made

    @property
    def value(self) -> float:
        return float(self)


class StringImm(str):
    """A string. Source: ``tvm.tir.StringImm``."""

    @property
    def value(self) -> str:
        return str(self)


_PLAIN: dict[type, type] = {IntImm: int, FloatImm: float}


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("expr", "op"):
        return importlib.import_module(f"tvm.tir.{name}")
    return Missing(f"tvm.tir.{name}")


__all__ = ["Any", "FloatImm", "IntImm", "Op", "StringImm"]
