"""Numbers out of shapes and attributes, as frontends and integrations ask for them. Source: ``tvm.topi.utils``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsFloat

from byoc.compat.tvm.below import Missing
from byoc.errors import UserError
from byoc.ir.attrs import as_int
from byoc.ir.dims import Any


def get_const_int(expr: object) -> int:
    """*expr* as a Python int. Raises UserError for a size that is not known."""
    if isinstance(expr, Any):
        raise UserError(f"the size {expr} is not known when compiling, where an int is needed")
    return as_int(expr)


def get_const_float(expr: SupportsFloat | Any) -> float:
    """*expr* as a Python float. Raises UserError for a size that is not known."""
    if isinstance(expr, Any):
        raise UserError(f"the size {expr} is not known when compiling, where a number is needed")
    return float(expr)


def get_const_tuple(in_tuple: Iterable[object]) -> tuple[object, ...]:
    """*in_tuple* as Python ints; sizes that are not known stay as they are."""
    return tuple(dim if isinstance(dim, Any) else as_int(dim) for dim in in_tuple)


def __getattr__(name: str) -> Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(f"tvm.topi.utils.{name}")
