"""Operands whose rounding an elementwise operator may turn into more than a rounding of its result.

Declared by the operator, and asked for before a value is stored in fewer bits for readers beside the products that
want it so (``driver/precision.py``, ``quantize/static.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.expr import Call

KEY = "TSensitiveOperands"


class Sensitivity(Enum):
    """How a result depends on an operand.

    STEP: it jumps, as that of ``floor`` does. EDGE: it has no bound, or is no number, where a number that is rounded
    by a part of the largest one may come to lie, as a quotient by 0.
    """

    STEP = "step"
    EDGE = "edge"


STEP, EDGE = Sensitivity


def sensitivities(call: RelayExpr, operand: RelayExpr) -> frozenset[Sensitivity]:
    """How *call*, of whatever kind, depends on *operand*, at whichever places it takes it."""
    if not isinstance(call, Call) or not isinstance(call.op, Op) or not call.op.has_attr(KEY):
        return frozenset()
    declared: Mapping[int, Sensitivity] = call.op.get_attr(KEY)
    return frozenset(how for place, how in declared.items() if call.args[place] is operand)
