"""The variables of ``tvm.te`` that shapes are written with; its tensors and schedules are below the graph.

``relay.var("x", shape=(te.size_var("n"), 3))`` gives a dimension with a name: one size wherever the name occurs.
Source: ``tvm.te``.
"""

from __future__ import annotations

from byoc.compat.tvm.below import Missing
from byoc.compat.tvm_modules.tir import SizeVar, Var, const, indexdiv, indexmod, round


def var(name: str = "tindex", dtype: str = "int32", span: object | None = None) -> Var:
    """A variable for a size, which is the size of every dimension of that name. Source: ``te.var``."""
    return Var(name, dtype, span)


def size_var(name: str = "size", dtype: str = "int32", span: object | None = None) -> SizeVar:
    """A variable for a size that is not negative. Source: ``te.size_var``."""
    return SizeVar(name, dtype, span)


def __getattr__(name: str) -> Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(f"tvm.te.{name}")


__all__ = ["const", "indexdiv", "indexmod", "round", "size_var", "var"]
