"""What the host keeps of calls that were cast to float16 for a vendor (``vendor_halves.py``), in float32 again.

The casts stand in the model before it is planned, so that a plan made before fits it. Calls that the plan then leaves
to the host (``exclude``, a limit, a cost) have no need of them: they read what was cast, and constants as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import TensorType
from byoc.relay import op
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.expr import Call, Constant, Function, Tuple
from byoc.relay.narrowing import as_function
from byoc.relay.transform import InferType
from byoc.relay.transform.half_operands import WIDE, Key, key_of
from byoc.relay.traverse import dataflow_children, post_order, rewrite

HALF = "float16"
WideConstants = Mapping[int, tuple[Constant, Constant]]  # by the identity of the narrow array: it, and the one before


def wide_constants(origin: Mapping[Call, Call]) -> WideConstants:
    """The float32 constants of the calls before, *origin*, by those of the calls that were made of them."""
    pairs = [
        (made, before)
        for call, source in origin.items()
        for made, before in zip(call.args, source.args, strict=True)
        if isinstance(made, Constant) and isinstance(before, Constant) and made.data is not before.data
    ]
    return {id(made.data): (made, before) for made, before in pairs}


def has_halves(main: Function) -> bool:
    """Whether a value of *main* is in float16 by itself."""
    return any(_is_half(node) for node in post_order(main.body))


def widened(mod: IRModule, cast: Collection[Key], constants: WideConstants) -> IRModule:
    """The partitioned *mod* whose ``main`` computes the calls of the keys *cast* in float32."""
    mod = InferType()(mod)
    main = as_function(mod["main"])
    wide: dict[RelayExpr, RelayExpr] = {}  # a value in float16, and the float32 of which it was made

    def over(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not isinstance(after, Call) or not isinstance(before, Call):
            return after
        if op_name(before) == "cast":
            read = after.args[0]
            if _is_half(before) and _is_of(before.args[0], WIDE):
                wide[after] = read
            return wide.get(read, after) if _is_of(before, WIDE) else after
        if not isinstance(before.op, Op) or key_of(before) not in cast or not _is_half(before):
            return after
        args = [_wide(a, b, wide, constants) for a, b in zip(after.args, before.args, strict=True)]
        made = Call(before.op, args, before.attrs, (), before.span)
        narrow = op.cast(made, HALF)  # for a region that reads it too
        wide[narrow] = made
        return narrow

    body = rewrite(main.body, over, dataflow_children)
    result = mod.shallow_copy()
    result["main"] = Function(main.params, body, main.declared_ret_type, main.type_params, main.attrs, main.span)
    return InferType()(result)


def _wide(
    value: RelayExpr, before: RelayExpr, wide: Mapping[RelayExpr, RelayExpr], constants: WideConstants
) -> RelayExpr:
    """The argument *value* in float32, which was *before*; others than float16 as they are."""
    if isinstance(value, Tuple) and isinstance(before, Tuple):
        return Tuple([_wide(a, b, wide, constants) for a, b in zip(value.fields, before.fields, strict=True)])
    if not _is_half(before):
        return value
    if value in wide:
        return wide[value]
    if isinstance(value, Constant) and id(value.data) in constants:
        return constants[id(value.data)][1]
    return op.cast(value, WIDE)


def _is_half(expr: RelayExpr) -> bool:
    return _is_of(expr, HALF)


def _is_of(expr: RelayExpr, dtype: str) -> bool:
    """Whether *expr*, which is typed, is one tensor of *dtype*."""
    ty = expr.checked_type
    return isinstance(ty, TensorType) and ty.dtype == dtype
