"""Operands whose rounding an operator may turn into more than a rounding of its result, by calls.

The operator declares them (``Traits.sensitive``); asked before a value is stored in fewer bits for readers beside the
products that want it so (``driver/precision.py``, ``quantize/static.py``).
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.traits import EDGE, STEP, Sensitivity
from byoc.relay.expr import Call

__all__ = ["EDGE", "STEP", "Sensitivity", "sensitivities"]


def sensitivities(call: RelayExpr, operand: RelayExpr) -> frozenset[Sensitivity]:
    """How *call*, of whatever kind, depends on *operand*, at whichever places it takes it."""
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return frozenset()
    declared = call.op.traits.sensitive
    return frozenset(how for place, how in declared.items() if call.args[place] is operand)
