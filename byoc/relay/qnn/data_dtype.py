"""ChangeDataDtype: quantized data of 8 bits with another sign, for whoever computes on the other kind.

``s (q - z)`` is the same number where q and z both move by 128, so that a model quantized to uint8 runs on int8 and the
other way round, bit for bit. What is quantized or requantized by a constant zero point, and carried by operators that
only move numbers or choose among them, is changed for the quantized operators that read it; other readers get what they
had. Requires types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.operator_calls import traits_of
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, constant
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import rebuild, rewrite

OTHER = {"uint8": "int8", "int8": "uint8"}
HALF = 128


class _Changed:
    """Data in *dtype*, made once for each expression that has it in the other."""

    def __init__(self, dtype: str):
        self.dtype, self.step = dtype, HALF if dtype == "uint8" else -HALF
        self.known: dict[RelayExpr, RelayExpr | None] = {}

    def of(self, expr: RelayExpr) -> RelayExpr | None:
        """*expr* in the wanted dtype, typed; None for what is not made here or has it already."""
        if expr not in self.known:
            made = self._made(expr)
            if made is not None:
                infer_expr(made)
            self.known[expr] = made
        return self.known[expr]

    def _made(self, expr: RelayExpr) -> RelayExpr | None:
        if any(ty.dtype != OTHER[self.dtype] for ty in tensor_types(infer_expr(expr))):
            return None
        if isinstance(expr, Constant):
            return constant((expr.data.numpy().astype("int32") + self.step).astype(self.dtype))
        if isinstance(expr, Tuple):
            fields = self._all(expr.fields)
            return None if fields is None else rebuild(expr, fields)
        if isinstance(expr, TupleGetItem):
            below = self.of(expr.tuple_value)
            return None if below is None else rebuild(expr, [below])
        return self._called(expr) if isinstance(expr, Call) else None

    def _called(self, call: Call) -> RelayExpr | None:
        traits = traits_of(call)
        if traits is not None and traits.carries:
            carried = self._all([call.args[k] for k in traits.carries])
            if carried is None:
                return None
            changed = dict(zip(traits.carries, carried, strict=True))
            return rebuild(call, [changed.get(k, arg) for k, arg in enumerate(call.args)])
        place = None if traits is None else traits.zero_of_result
        zero = None if place is None else self.moved(call.args[place])
        if place is None or zero is None:
            return None
        args = [*call.args[:place], zero, *call.args[place + 1 :]]
        attrs = dataclasses.replace(call.attrs, out_dtype=self.dtype)
        return Call(call.op, args, attrs, call.type_args, call.span)

    def _all(self, values: Sequence[RelayExpr]) -> list[RelayExpr] | None:
        """All of *values* in the wanted dtype; None where one cannot be."""
        found = [self.of(value) for value in values]
        made = [value for value in found if value is not None]
        return made if len(made) == len(found) else None

    def moved(self, zero: RelayExpr) -> RelayExpr | None:
        """The zero point beside changed data."""
        return constant(zero.data.numpy() + np.int32(self.step)) if isinstance(zero, Constant) else None


def ChangeDataDtype(dtype: str) -> FunctionPass:
    """The pass that brings quantized data of 8 bits to *dtype*, ``int8`` or ``uint8``, where its zero points are known.

    Ensures: all numbers that quantized data stand for are as they were.
    """

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        changed = _Changed(dtype)

        def replaced(before: RelayExpr, after: RelayExpr) -> RelayExpr:
            traits = traits_of(after)
            place = None if traits is None else traits.zero_of_data
            if place is None or not isinstance(after, Call):
                return after
            data, zero = changed.of(after.args[0]), changed.moved(after.args[place])
            if data is None or zero is None:
                return after
            args = [data, *after.args[1:place], zero, *after.args[place + 1 :]]
            return Call(after.op, args, after.attrs, after.type_args, after.span)

        return as_function(rewrite(infer_function(func, mod), replaced, fusion_children))

    return FunctionPass(
        run,
        PassInfo(
            "ChangeDataDtype",
            0,
            ("InferType",),
            ends=REWRITES,
            law=Law("integers in another type, with the zero points moved along", Numbers.NEAR),
        ),
    )
