"""Softmax's division behind the product that reads it: a multiplication for each sum instead of one for each term.

``sum(powers[k] * inverse * v[k], k)`` becomes ``sum(powers[k] * v[k], k) * inverse``, and the stage between them goes.
The powers are at most 1, so that nothing overflows that did not before. A choice of zeros for a whole row stays around
the sum; one for NaNs is such a choice, since a NaN among the powers makes the whole row NaNs. Where the weights are
rounded to a narrower dtype, the powers are rounded in their place.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.te import Index, PrimExpr, Tensor, cast, const
from byoc.te.expr import Binary, Cast, Const, Intrinsic, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, mentions, unique_nodes

POWERS, INVERSE = "softmax_exp", "softmax_inverse"  # the tags of the exponentials, and of one over a row's sum
FLOATS = frozenset(["bfloat16", "float32", "float64"])
Behind = Callable[[PrimExpr], PrimExpr]  # what is done with a sum


def defer_normalization(program: Program) -> Program:
    """*program* with each softmax's division behind the sum of products that alone reads it; else itself."""
    if not any(s.tag == INVERSE for g in program.groups for s in g.stages):
        return program
    return _DeferredNormalization(program).run()


class _DeferredNormalization:
    def __init__(self, program: Program):
        self.program = program
        self.uses = Counter(t for g in program.groups for s in g.stages for t in loaded_tensors(s.element))
        self.weights: set[Tensor] = set()  # stages that one other reads, as they are now

    def run(self) -> Program:
        """The program, without the stages that nothing reads any more."""
        program = with_stages(self.program, self._changed)
        read = {t for g in program.groups for s in g.stages for t in loaded_tensors(s.element)}
        groups = [
            dataclasses.replace(g, stages=tuple(s for s in g.stages if s in read or s in program.outputs))
            for g in program.groups
        ]
        return dataclasses.replace(program, groups=tuple(groups))

    def _changed(self, stage: Tensor, renamed: Tensor) -> list[Tensor]:
        if self.uses[stage] == 1 and stage not in self.program.outputs:
            self.weights.add(renamed)
        found = [n for n in unique_nodes(renamed.element) if isinstance(n, Reduce)]
        if len(found) != 1 or found[0].kind != "sum" or len(found[0].axes) != 1:
            return [renamed]
        return self._over_inlined(renamed, found[0]) or self._over_stage(renamed, found[0]) or [renamed]

    def _over_inlined(self, stage: Tensor, reduce: Reduce) -> list[Tensor]:
        """*stage*, whose terms have the division in them."""
        term, behind = split_factors(reduce.body, reduce.axes[0])
        return [_with_sum(stage, reduce, term, behind)] if _divides(behind, reduce.dtype) else []

    def _over_stage(self, stage: Tensor, reduce: Reduce) -> list[Tensor]:
        """*stage*, whose terms load weights that a stage of their own divides."""
        load = _weight(reduce)
        if load is None or load.tensor not in self.weights:
            return []
        weights, key = load.tensor, load.tensor.axes[-1]
        power, behind = split_factors(weights.element, key)
        if not _is_at(load, reduce.axes[0]) or not _divides(behind, reduce.dtype):
            return []
        made = [] if isinstance(power, Load) else [with_body(weights, power)]
        new = Load(made[0], load.indices) if made else substitute_axes(power, weights.axes, load.indices)
        term = map_expr(reduce.body, lambda e: new if e is load else None)

        def moved(total: PrimExpr) -> PrimExpr:
            mark = const(0, total.dtype)
            value = substitute_axes(behind(mark), weights.axes, load.indices)
            return map_expr(value, lambda e: total if e is mark else None)

        return [*made, _with_sum(stage, reduce, term, moved)]


def _with_sum(stage: Tensor, reduce: Reduce, term: PrimExpr, behind: Behind) -> Tensor:
    """*stage* with *term* summed instead, and *behind* done with the sum."""
    value = behind(Reduce(reduce.kind, term, reduce.axes))
    return with_body(stage, map_expr(stage.element, lambda e: value if e is reduce else None))


def _weight(reduce: Reduce) -> Load | None:
    """The first factor of what *reduce* sums, where both are loads, converted or not."""
    term = reduce.body
    if not isinstance(term, Binary) or term.op != "mul":
        return None
    left, right = (e.value if isinstance(e, Cast) else e for e in (term.left, term.right))
    if not isinstance(left, Load) or not isinstance(right, Load) or left.tensor is right.tensor:
        return None
    return left if left.tensor.axes and not left.is_word else None


def _is_at(load: Load, key: Index) -> bool:
    """Whether *load* takes the element of *key* along its last axis, and nothing else of it depends on *key*."""
    *others, last = load.indices
    return last is key and not any(mentions(i, key) for i in others)


def _divides(behind: Behind, dtype: str) -> bool:
    return any(t.tag == INVERSE for t in loaded_tensors(behind(const(0, dtype))))


def split_factors(expr: PrimExpr, axis: Index) -> tuple[PrimExpr, Behind]:
    """*expr* without the factors and the choices of zero that are the same all along *axis*, and what they do."""
    if not isinstance(expr, Cast | Binary | Select) or expr.dtype not in FLOATS:
        return expr, lambda total: total
    if isinstance(expr, Cast) and expr.value.dtype in FLOATS:
        inner, behind = split_factors(expr.value, axis)
        return cast(expr.dtype, inner), behind
    if isinstance(expr, Binary) and expr.op == "mul":
        return _split_product(expr, axis)
    if isinstance(expr, Select) and _is_zero(expr.then):
        return _split_choice(expr, axis)
    return expr, lambda total: total


def _split_choice(expr: Select, axis: Index) -> tuple[PrimExpr, Behind]:
    """:func:`split_factors` of the choice between zero and a value."""
    inner, behind = split_factors(expr.otherwise, axis)
    cond = expr.cond
    row = _row_of(expr.otherwise)
    if isinstance(cond, Intrinsic) and cond.name == "isnan" and row and row == _row_of(cond.args[0]):
        factor = behind(const(1, expr.dtype))
        cond = Binary("ne", factor, factor)  # a NaN as every weight of its row, or none is
    if mentions(cond, axis):
        return expr, lambda total: total
    return inner, lambda total: Select(cond, const(0, total.dtype), behind(total))


def _row_of(expr: PrimExpr) -> tuple[object, ...]:
    """The row of a softmax that *expr* is an element of; nothing where it is another value."""
    if isinstance(expr, Cast):
        return _row_of(expr.value)
    factors = (expr.left, expr.right) if isinstance(expr, Binary) and expr.op == "mul" else ()
    by_tag = {f.tensor.tag: f for f in factors if isinstance(f, Load)}
    return (by_tag[POWERS].tensor, *by_tag[POWERS].indices[:-1]) if {*by_tag} == {POWERS, INVERSE} else ()


def _then_times(behind: Behind, factor: PrimExpr) -> Behind:
    return lambda total: behind(total) * cast(total.dtype, factor)


def _split_product(expr: Binary, axis: Index) -> tuple[PrimExpr, Behind]:
    for part, factor in ((expr.left, expr.right), (expr.right, expr.left)):
        if not mentions(factor, axis):
            inner, behind = split_factors(part, axis)
            return inner, _then_times(behind, factor)
    left, left_behind = split_factors(expr.left, axis)
    right, right_behind = split_factors(expr.right, axis)
    same = left is expr.left and right is expr.right
    return expr if same else left * right, lambda total: left_behind(right_behind(total))


def _is_zero(expr: PrimExpr) -> bool:
    return isinstance(expr, Const) and expr.value == 0
