"""Integer overflow wraps, as numpy's does; which flags that takes, and why they are not given to every unit.

GCC 12's vectoriser is wrong about conditional loads in a short unrolled loop when ``-fwrapv`` or
``-fno-trapping-math`` is given (an average pool of 2x2 over padded data reads a neighbour's elements; seen with GCC
12.2 at ``-O3 -march=native``). So units are built without them; one that computes on integers, where overflow
may happen, is built with ``-fwrapv``, and then without the conversion of conditions that is at fault.
"""

from __future__ import annotations

from byoc.te import PrimExpr
from byoc.te.expr import Binary, Intrinsic, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import operands

WRAPPING_FLAGS = ("-fwrapv",)
GCC_FLAGS = ("-fno-tree-loop-if-convert",)
OVERFLOWING = frozenset(["add", "sub", "mul", "shift_left"])


def overflow_flags(wraps: bool, is_gcc: bool) -> tuple[str, ...]:
    """The flags for a unit whose integers wrap; none for one that computes on floats alone."""
    if not wraps:
        return ()
    return (*WRAPPING_FLAGS, *GCC_FLAGS) if is_gcc else WRAPPING_FLAGS


def computes_on_integers(body: PrimExpr) -> bool:
    """True when a value, not a place to load from nor a condition, is integer arithmetic that may overflow.

    Each node is looked at once: a chain of ``x = x * x`` would else take twice as long with every product.
    """
    pending: list[PrimExpr] = [body]
    seen: set[PrimExpr] = set()
    while pending:
        expr = pending.pop()
        if isinstance(expr, Load) or expr in seen:
            continue
        seen.add(expr)
        if "int" in expr.dtype and _may_overflow(expr):
            return True
        pending.extend((expr.then, expr.otherwise) if isinstance(expr, Select) else operands(expr))
    return False


def _may_overflow(expr: PrimExpr) -> bool:
    if isinstance(expr, Binary):
        return expr.op in OVERFLOWING
    return isinstance(expr, (Reduce, Intrinsic))
