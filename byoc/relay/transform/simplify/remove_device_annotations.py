"""RemoveDeviceAnnotations: what runs on one device needs neither ``on_device`` nor ``device_copy``.

Ensures: neither is left; every value is what it was. byoc's host and its regions share the host's memory.
"""

from __future__ import annotations

from typing import TypeGuard

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.op.device_placement import is_device_copy, is_on_device
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import post_order, typed_rewrite


def RemoveDeviceAnnotations() -> FunctionPass:
    """The pass that puts the annotated value in place of its annotation."""

    def remove(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if not any(map(_is_annotation, post_order(func))):
            return func
        return as_function(typed_rewrite(func, _annotated_value))

    return FunctionPass(
        remove,
        PassInfo(
            "RemoveDeviceAnnotations",
            gives=("no_device_marks",),
            ends=REWRITES,
            law=Law("where a value lies is no part of it"),
        ),
    )


def _is_annotation(expr: RelayExpr) -> TypeGuard[Call]:
    return is_on_device(expr) or is_device_copy(expr)


def _annotated_value(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    return after.args[0] if _is_annotation(after) else after
