"""Sizes as variables, as shapes are written with in TVM: a dimension with a name and a dtype.

Source: ``tvm.tir.Var``, ``tvm.tir.SizeVar``.
"""

from __future__ import annotations

from byoc.ir.dims import Any


class _Computed(Any):
    """What arithmetic gives: a size of which nothing is known, with which arithmetic goes on."""

    __slots__ = ()

    def _unknown(self, other: object = None) -> Any:
        return _Computed()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unknown
    __floordiv__ = __rfloordiv__ = __truediv__ = __mod__ = __rmod__ = __neg__ = _unknown


class Var(_Computed):
    """A size with a name: one size wherever the name occurs. Source: ``tvm.tir.Var``.

    Sizes are not computed with when compiling: what arithmetic gives is a size of which nothing is known, as the type
    relations of operators give it.
    """

    __slots__ = ("dtype", "span")

    def __init__(self, name: str, dtype: str = "int32", span: object | None = None):
        super().__init__(str(name))
        self.dtype, self.span = str(dtype), span


class SizeVar(Var):
    """A size that is not negative. Source: ``tvm.tir.SizeVar``."""

    __slots__ = ()
