"""Loads whose place is itself loaded, which GCC must not vectorise, and the flag that keeps it from doing so.

GCC 12 is wrong about such loads with AVX-512 when it vectorises the outer of two loops whose inner one runs over a
range known only at run time, as every loop that a team shares does: ``t[i * n + j] = p[q[i * n + j]]`` gets zeros (seen
with GCC 12.2 at ``-O3 -march=native``; the mask of the gather is spent after the first iteration). It crashes on a
place that is checked against a size (an internal compiler error, the same version). Vectors that we write ourselves
stay: they have no gather.
"""

from __future__ import annotations

from byoc.te import PrimExpr
from byoc.te.expr import Checked
from byoc.te.tensor import Load
from byoc.te.walk import unique_nodes

GCC_FLAGS = ("-fno-tree-loop-vectorize",)


def gather_flags(gathers: bool, is_gcc: bool) -> tuple[str, ...]:
    """The flags for a unit that gathers."""
    return GCC_FLAGS if gathers and is_gcc else ()


def gathers(body: PrimExpr) -> bool:
    """True when the place of a load in *body* depends on what another load gives, or is checked."""
    loads = [node for node in unique_nodes(body) if isinstance(node, Load)]
    return any(
        isinstance(inner, (Load, Checked)) for load in loads for index in load.indices for inner in unique_nodes(index)
    )
