"""What a lane axis changes in an expression, and what of it has a vector form: the analysis behind ``expr.py``.

A lazy side (of a Select, an and, an or) is evaluated for all lanes only where every load in it is known to be inside
its tensor; else the whole node goes lane by lane, or stays a branch where no lane changes its condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from byoc.codegen.c.vectors.vectors import has_vector_function
from byoc.codegen.kernel.simplify import Simplifier
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr
from byoc.te.expr import COMPARISONS, DOTS, INDEX, LOGIC, Binary, Cast, Checked, Const, Intrinsic, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import operands, reachable, unique_nodes

LARGEST_VECTOR = 64  # bytes: a wider type has no register anywhere
TESTS = frozenset(["isnan", "isinf", "isfinite"])
POWERS = {1.0: "", 2.0: "square", 3.0: "cube"}  # by which function
ROUNDINGS = frozenset(["floor", "ceil", "round", "trunc"])
MASK_LOGIC = {
    "and": "&",
    "or": "|",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
    "mul": "&",
    "add": "|",
    "min": "&",
    "max": "|",
    "ne": "^",
}
_HOLDS: dict[str, Callable[[int], bool]] = {  # of a difference
    "lt": lambda d: d < 0,
    "le": lambda d: d <= 0,
    "gt": lambda d: d > 0,
    "ge": lambda d: d >= 0,
    "eq": lambda d: d == 0,
    "ne": lambda d: d != 0,
}
_DIRECT_BINARY = frozenset("add sub mul min max bit_and bit_or bit_xor".split()) | COMPARISONS


class LaneAnalysis:
    """What a lane changes in an expression, and what of it has a vector form."""

    def __init__(self, lane: Index, lanes: int, simplify: Simplifier):
        self.lane, self.lanes, self.simplify = lane, lanes, simplify
        self._varies: dict[int, tuple[PrimExpr, bool]] = {}
        self._certain: set[tuple[object, ...]] = set()

    def varies(self, expr: PrimExpr) -> bool:
        """Whether *expr* may differ between lanes."""
        known = self._varies.get(id(expr))
        if known is None:
            result = expr is self.lane or any(self.varies(e) for e in operands(expr))
            known = self._varies[id(expr)] = (expr, result)
        return known[1]

    def step(self, load: Load) -> int | None:
        """By how many elements the place of *load* moves from lane to lane; None where that is not constant."""
        return self.simplify.flat_index(load.tensor, load.indices).coefficient(self.lane)

    def begin(self, root: PrimExpr) -> None:
        """Learn which loads of *root* are evaluated whatever its conditions say."""
        self._certain.update(self._place(n) for n in reachable([root], _always_evaluated) if isinstance(n, Load))

    def _place(self, load: Load) -> tuple[object, ...]:
        return (load.tensor, *self.simplify.flat_index(load.tensor, load.indices).key())

    def safe(self, expr: PrimExpr) -> bool:
        """Whether *expr* can be evaluated where its guard does not hold: no load of it leaves its tensor, and no index
        is checked, which may be wrong there.
        """
        return all(self._inside(n) if isinstance(n, Load) else not isinstance(n, Checked) for n in values(expr))

    def _inside(self, load: Load) -> bool:
        if self._place(load) in self._certain:
            return True
        if any(isinstance(n, Load | Checked) for i in load.indices for n in values(i)):
            return False
        if all(isinstance(d, int) for d in load.tensor.shape):
            size = 1
            for d in load.tensor.shape:
                size *= int(d)
            low, high = self.simplify.poly_bounds(self.simplify.flat_index(load.tensor, load.indices))
            return low >= 0 and high < size
        return all(self._inside_axis(i, d) for i, d in zip(load.indices, load.tensor.shape, strict=True))

    def _inside_axis(self, index: PrimExpr, extent: object) -> bool:
        low, high = self.simplify.bounds(index)
        if isinstance(extent, int):
            return low >= 0 and high < extent
        return isinstance(index, Index) and index.extent == extent

    def direct(self, expr: PrimExpr) -> bool:
        """Whether the node *expr*, which lanes change, is one vector operation on the vectors of its operands."""
        if isinstance(expr, Index) or self.fixed_mask(expr) is not None or self.affine(expr) is not None:
            return True
        if any(dtype_bytes(e.dtype) * self.lanes > LARGEST_VECTOR for e in (expr, *inputs(expr))):
            return False
        rule = _DIRECT.get(type(expr))
        return rule is not None and rule(self, expr)

    def fixed_mask(self, expr: PrimExpr) -> list[bool] | None:
        """The value of *expr* in each lane where it compares the lane with a number, else None."""
        if not (isinstance(expr, Binary) and expr.op in COMPARISONS and expr.left.dtype == INDEX):
            return None
        difference = self.simplify.polynomial(expr.left).add(self.simplify.polynomial(expr.right), -1)
        factor = difference.terms.get((id(self.lane),))
        if factor is None or len(difference.terms) != 1:
            return None
        return [_HOLDS[expr.op](factor * k + difference.constant) for k in range(self.lanes)]

    def affine(self, expr: PrimExpr) -> tuple[int, PrimExpr] | None:
        """``(f, rest)`` where *expr* compares ``f * lane + rest``, which 32 bits hold, with 0; else None."""
        if not is_index_comparison(expr) or 4 * self.lanes > LARGEST_VECTOR:
            return None
        left, right = operands(expr)
        difference = self.simplify.polynomial(left).add(self.simplify.polynomial(right), -1)
        factor = difference.coefficient(self.lane)
        low, high = self.simplify.poly_bounds(difference.without(self.lane))
        if not factor or abs(factor) > 2**20 or low < -(2**30) or high > 2**30:
            return None
        return factor, self.simplify.rebuild(difference.without(self.lane))

    def keeps_branch(self, expr: PrimExpr) -> bool:
        """Whether *expr* is a Select between two vectors that stays a branch: no lane changes its condition."""
        return isinstance(expr, Select) and not self.varies(expr.cond)

    def entirely_direct(self, expr: PrimExpr) -> bool:
        """Whether *expr* needs nothing lane by lane."""
        return all(self.direct(n) for n in values(expr) if self.varies(n))

    def _binary(self, expr: Binary) -> bool:
        if expr.op in LOGIC:
            return self.safe(expr.right)
        if expr.left.dtype == "bool":
            return expr.op in MASK_LOGIC or expr.op == "eq"
        floats = expr.left.dtype.startswith("float")
        return expr.op in _DIRECT_BINARY or (expr.op == "div" and floats)

    def _intrinsic(self, expr: Intrinsic) -> bool:
        dtype = expr.args[0].dtype
        floats = dtype.startswith("float")
        if expr.name in DOTS:
            return has_vector_function(expr.name, expr.dtype)
        if expr.name == "pow":
            return floats and isinstance(expr.args[1], Const) and expr.args[1].value in POWERS
        if expr.name in TESTS:
            return floats
        if expr.name in ("not", "bit_not") or (expr.name in ROUNDINGS and not floats):
            return True
        return dtype != "bool" and (
            has_vector_function(expr.name, dtype) or (expr.name == "abs" and dtype.startswith("uint"))
        )

    def _select(self, expr: Select) -> bool:
        sides = (expr.then, expr.otherwise)
        if all(self.safe(e) for e in sides):
            return True
        return not self.varies(expr.cond) and all(self.entirely_direct(e) for e in sides)

    def _cast(self, expr: Cast) -> bool:
        """Unsigned numbers of 32 bits and more are converted from floats as C's scalars are: lane by lane."""
        if "bfloat16" in (expr.dtype, expr.value.dtype):
            return "float32" in (expr.dtype, expr.value.dtype)
        from_float = expr.value.dtype.startswith("float")
        return not (from_float and expr.dtype in ("uint32", "uint64"))

    def _load(self, expr: Load) -> bool:
        return self.step(expr) is not None and not expr.is_word


_DIRECT: dict[type, Callable[..., bool]] = {
    Binary: LaneAnalysis._binary,
    Intrinsic: LaneAnalysis._intrinsic,
    Select: LaneAnalysis._select,
    Cast: LaneAnalysis._cast,
    Load: LaneAnalysis._load,
}


def can_be_vector(expr: PrimExpr, lane: Index, lanes: int, simplify: Simplifier) -> bool:
    """Whether *expr*, with *lanes* values of *lane* at once, needs vector operations alone, and no gather.

    Loads are of neighbours, of one element for all lanes, or at a constant distance.
    """
    if any(isinstance(n, Reduce) for n in values(expr)):
        return False
    analysis = LaneAnalysis(lane, lanes, simplify)
    analysis.begin(expr)
    return analysis.entirely_direct(expr)


def _always_evaluated(expr: PrimExpr) -> tuple[PrimExpr, ...]:
    """The operands of *expr* that are evaluated with it, whatever its condition says."""
    if isinstance(expr, Load):
        return ()
    if isinstance(expr, Select):
        return (expr.cond,)
    return (expr.left,) if isinstance(expr, Binary) and expr.op in LOGIC else operands(expr)


def inputs(expr: PrimExpr) -> tuple[PrimExpr, ...]:
    """The operands that are values of lanes: not the places of loads."""
    return () if isinstance(expr, Load) else operands(expr)


def is_index_comparison(expr: PrimExpr) -> bool:
    """Whether *expr* compares positions, not elements."""
    if not (isinstance(expr, Binary) and expr.op in COMPARISONS and expr.left.dtype == INDEX):
        return False
    return not any(isinstance(n, Load) for side in (expr.left, expr.right) for n in unique_nodes(side))


def values(expr: PrimExpr) -> Iterator[PrimExpr]:
    """Each node that is a value, once: what stands in the places of loads and in comparisons of places is left out."""
    return reachable([expr], lambda node: () if is_index_comparison(node) else inputs(node))
