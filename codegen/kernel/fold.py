"""Reductions by their kind: what one gives over nothing, and one step of it."""

from __future__ import annotations

from byoc.codegen.kernel.spelling import greatest, least
from byoc.te import PrimExpr, binary, const

_STEPS = {"sum": "add", "prod": "mul", "min": "min", "max": "max", "any": "or", "all": "and"}


def neutral(kind: str, dtype: str) -> PrimExpr:
    """What a reduction gives over nothing."""
    start = {"sum": 0, "prod": 1, "any": 0, "all": 1}.get(kind)
    if start is None:
        start = greatest(dtype) if kind == "min" else least(dtype)
    return const(start, dtype)


def combine(kind: str, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """One step of a reduction."""
    return binary(_STEPS[kind], a, b)
