"""Which operators are computed in a lower precision: always, as their inputs are, or never.

``always`` is for operators that gain much and lose little; ``never`` for those whose results leave the range of half
precision, or that sum much. A rule is the attribute ``FTVMMixedPrecisionConversionType``: from a call and the
lower dtype to the category, the dtype of sums, and the dtype of the result. Operators declare theirs
(``Traits.precision``); an integration may set its own. Source: ``tvm.relay.transform.mixed_precision``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.ir.attrs import as_int
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, Op, for_each_operator
from byoc.ir.traits import Conversion
from byoc.relay.expr import Call

KEY = "FTVMMixedPrecisionConversionType"
ConversionRule = Callable[[Call, str], Sequence[object]]
MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER = map(int, Conversion)


_LISTS = {f"DEFAULT_{category.name}_LIST": category for category in Conversion}


def __getattr__(name: str) -> tuple[str, ...]:
    """``DEFAULT_ALWAYS_LIST`` and its like: the operators of a category, all of which are imported for it."""
    if name not in _LISTS:
        raise AttributeError(f"{__name__} has no name {name!r}")
    return tuple(op for op in OPS if OPS[op].traits.precision is _LISTS[name])


def get_generic_out_dtypes(call_node: Call, mixed_precision_type: str) -> list[str]:
    """The dtypes in which a converted operator sums and answers: the lower one for both."""
    return [mixed_precision_type, mixed_precision_type]


def rule_of(category: Conversion) -> ConversionRule:
    """The rule that puts an operator into *category*."""
    return lambda call, dtype: [int(category), *get_generic_out_dtypes(call, dtype)]


def register_func_to_op_list(list_ops: Sequence[str], func: ConversionRule) -> None:
    """Give *func* to those of *list_ops* that are here and have no rule yet. Source: ``register_func_to_op_list``."""
    for name in list_ops:
        if name in OPS and not OPS[name].has_attr(KEY):
            OPS[name].set_attr(KEY, func)


def conversion_of(op: Op) -> ConversionRule | None:
    """The rule of *op*: as an integration set it, else by what the operator declares; None where nobody decided."""
    rule: ConversionRule | None = op.get_attr(KEY)
    if rule is None and op.traits.precision is not None:
        return rule_of(op.traits.precision)
    return rule


def category_of(call: Call, dtype: str) -> int | None:
    """The :class:`Conversion` of a *call* of an operator to *dtype*; None where nobody decided."""
    assert isinstance(call.op, Op)
    rule = conversion_of(call.op)
    return None if rule is None else as_int(rule(call, dtype)[0])


def is_always_converted(expr: RelayExpr, dtype: str = "bfloat16") -> bool:
    """True for a call of an operator that gains by lower precision and loses little."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and category_of(expr, dtype) == Conversion.ALWAYS


def _declare(op: Op) -> None:
    if op.traits.precision is not None and not op.has_attr(KEY):
        op.set_attr(KEY, rule_of(op.traits.precision))


for_each_operator(_declare)  # so that they are found as attributes, too
