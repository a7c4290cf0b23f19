"""Which operators are computed in a lower precision: always, as their inputs are, or never.

``always`` is for operators that gain much and lose little; ``never`` for those whose results leave the range of half
precision, or that sum much. A rule is the attribute ``FTVMMixedPrecisionConversionType``: from a call and the
lower dtype to the category, the dtype of sums, and the dtype of the result. Operators declare theirs
(``Traits.precision``); an integration may set its own. Source: ``tvm.relay.transform.mixed_precision``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import byoc.relay.op
import byoc.relay.qnn.op  # noqa: F401 - both register their operators
from byoc.ir.attrs import as_int
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, Op
from byoc.ir.traits import Conversion
from byoc.relay.expr import Call

KEY = "FTVMMixedPrecisionConversionType"
ConversionRule = Callable[[Call, str], Sequence[object]]
MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER = map(int, Conversion)


def _of_category(category: Conversion) -> tuple[str, ...]:
    return tuple(name for name in OPS if OPS[name].traits.precision is category)


DEFAULT_ALWAYS_LIST = _of_category(Conversion.ALWAYS)
DEFAULT_FOLLOW_LIST = _of_category(Conversion.FOLLOW)
DEFAULT_NEVER_LIST = _of_category(Conversion.NEVER)


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


for _category in Conversion:  # so that they are found as attributes, too
    register_func_to_op_list(_of_category(_category), rule_of(_category))
