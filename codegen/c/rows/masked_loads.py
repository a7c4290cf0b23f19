"""Loads that only one branch of a condition makes, which GCC must not put under a mask, and the flag that prevents it.

GCC's conversion of conditions turns such loads into masked ones, and its vectoriser gives several of them that lie
side by side the mask of the first: ``y[3 * i + j] = x[3 * i + j] < 0 ? x[3 * i + j] * s[3 * i + j] : x[3 * i + j]``, j
from 0 to 2, gets zeros for what the others should load (GCC 12.2 and 13.3 with AVX-512 at ``-O3``). Vectors that we
write ourselves stay: their conditions choose between numbers that are there.
"""

from __future__ import annotations

from byoc.te import PrimExpr
from byoc.te.expr import Select
from byoc.te.tensor import Load
from byoc.te.walk import unique_nodes

GCC_FLAGS = ("-fno-tree-loop-if-convert",)


def masked_load_flags(masks: bool, is_gcc: bool) -> tuple[str, ...]:
    """The flags for a unit that has loads under a condition."""
    return GCC_FLAGS if masks and is_gcc else ()


def loads_under_a_condition(body: PrimExpr) -> bool:
    """True when *body* chooses between values of which one has a load that its condition and the other have not."""
    return any(_chooses_loads(node) for node in unique_nodes(body) if isinstance(node, Select))


def _chooses_loads(node: Select) -> bool:
    asked, one, other = (_loads(part) for part in (node.cond, node.then, node.otherwise))
    return not one | other <= asked | (one & other)


def _loads(expr: PrimExpr) -> frozenset[tuple[object, ...]]:
    return frozenset((node.tensor, *node.indices) for node in unique_nodes(expr) if isinstance(node, Load))
