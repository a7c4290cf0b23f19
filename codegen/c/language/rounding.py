"""Which products are contracted with the sum that reads them into one rounding, and how the others are kept from it.

Contracted are the steps of sums of products and what stands in our own functions and transforms, for their speed and
because no order of rounding is promised there. Everything else rounds as ONNX's operators do one by one: ``x * w - b``
is 0 where b is the product, and what is compared, rounded down or divided by such a difference depends on it.

GCC contracts across statements. ``rounded`` stands between a product and the sum; but GCC's vectoriser looks through
it, so that a unit without any sum of products is built with contraction off, and one that has both without the
vectoriser (what is worth a vector is one in our text).
"""

from __future__ import annotations

from collections.abc import Iterable

from byoc.te import Tensor
from byoc.te.expr import Binary, Reduce
from byoc.te.walk import unique_nodes

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
