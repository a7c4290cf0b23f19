"""Flags that a unit of generated code needs, and why: what GCC gets wrong, and how overflow and rounding go."""

from __future__ import annotations

from collections.abc import Iterable

from byoc.te import PrimExpr, Tensor
from byoc.te.expr import Binary, Checked, Intrinsic, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import operands, unique_nodes

# Loads whose index is itself loaded must not be vectorised. With AVX-512, GCC 12 miscompiles them when it vectorises
# the outer of two loops whose inner range is known only at run time: ``t[i * n + j] = p[q[i * n + j]]`` gets zeros
# (12.2 at ``-O3 -march=native``; the mask of the gather is spent after the first iteration). On an index that is
# checked against a size it crashes. Vectors that we write ourselves have no gather.
NO_LOOP_VECTORS = ("-fno-tree-loop-vectorize",)


def gather_flags(gathers: bool, is_gcc: bool) -> tuple[str, ...]:
    """The flags for a unit that gathers."""
    return NO_LOOP_VECTORS if gathers and is_gcc else ()


def gathers(body: PrimExpr) -> bool:
    """True when the place of a load in *body* depends on what another load gives, or is checked."""
    loads = [node for node in unique_nodes(body) if isinstance(node, Load)]
    return any(
        isinstance(inner, (Load, Checked)) for load in loads for index in load.indices for inner in unique_nodes(index)
    )


# Loads that only one branch of a condition makes must not become masked loads: GCC's vectoriser gives several that lie
# side by side the mask of the first, so that ``y[3 * i + j] = x[3 * i + j] < 0 ? x[3 * i + j] * s[3 * i + j] : x[3 * i
# + j]``, j from 0 to 2, gets zeros for what the others should load (12.2 and 13.3 with AVX-512 at ``-O3``). Conditions
# in vectors that we write ourselves choose between loaded numbers.
NO_IF_CONVERSION = ("-fno-tree-loop-if-convert",)


def masked_load_flags(masks: bool, is_gcc: bool) -> tuple[str, ...]:
    """The flags for a unit that has loads under a condition."""
    return NO_IF_CONVERSION if masks and is_gcc else ()


def loads_under_a_condition(body: PrimExpr) -> bool:
    """True when *body* chooses between values of which one has a load that its condition and the other have not."""
    return any(_chooses_loads(node) for node in unique_nodes(body) if isinstance(node, Select))


def _chooses_loads(node: Select) -> bool:
    asked, one, other = (_loads(part) for part in (node.cond, node.then, node.otherwise))
    return not one | other <= asked | (one & other)


def _loads(expr: PrimExpr) -> frozenset[tuple[object, ...]]:
    return frozenset((node.tensor, *node.indices) for node in unique_nodes(expr) if isinstance(node, Load))


# Integer overflow wraps, as numpy's does, but only units that compute on integers are built so: with ``-fwrapv`` or
# ``-fno-trapping-math``, GCC 12's vectoriser is wrong about conditional loads in a short unrolled loop (an average pool
# of 2x2 over padded data reads a neighbour's elements; 12.2 at ``-O3 -march=native``), so that those units go without
# the conversion of conditions.
WRAPPING_FLAGS = ("-fwrapv",)
OVERFLOWING = frozenset(["add", "sub", "mul", "shift_left"])


def overflow_flags(wraps: bool, is_gcc: bool) -> tuple[str, ...]:
    """The flags for a unit whose integers wrap; none for one that computes on floats alone."""
    if not wraps:
        return ()
    return (*WRAPPING_FLAGS, *NO_IF_CONVERSION) if is_gcc else WRAPPING_FLAGS


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


# Contracted into one rounding are the steps of sums of products and what stands in our own functions and transforms,
# where no order of rounding is promised. All else rounds as ONNX's operators do one by one: ``x * w - b`` is 0 where b
# is the product. GCC contracts across statements, and its vectoriser looks through ``rounded``: a unit without sums of
# products is built with contraction off, one that has both without the vectoriser.
NO_CONTRACTION = ("-ffp-contract=off",)
# GCC leaves steps apart that wait for each other, for some processors: a sum alone in its loop would round otherwise
EVERY_STEP = ("--param=avoid-fma-max-bits=0",)
NO_VECTORISER = ("-fno-tree-loop-vectorize", "-fno-tree-slp-vectorize")
_ROUNDED = """static inline @T rounded_@N(@T x) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
  return __builtin_assoc_barrier(x);
#elif defined(__GNUC__) && !defined(__clang__)
  __asm__("" : "+m"(x));
  return x;
#else
  return x;
#endif
}"""


def rounding_flags(contracts: bool, separates: bool, is_gcc: bool) -> tuple[str, ...]:
    """The flags of a unit that *contracts* some products, and *separates* scalar ones from their sums."""
    if not contracts:
        return NO_CONTRACTION
    if not is_gcc:
        return ()
    return (*EVERY_STEP, *NO_VECTORISER) if separates else EVERY_STEP


def rounded(ctype: str, name: str) -> str:
    """The definition of ``rounded_<name>``, which gives a *ctype* as it is."""
    return _ROUNDED.replace("@T", ctype).replace("@N", name)


def sums_products(stages: Iterable[Tensor]) -> bool:
    """Whether a sum of products is among what *stages* compute."""
    return any(
        isinstance(node, Reduce) and any(isinstance(n, Binary) and n.op == "mul" for n in unique_nodes(node.body))
        for stage in stages
        if stage.body is not None
        for node in unique_nodes(stage.body)
    )
