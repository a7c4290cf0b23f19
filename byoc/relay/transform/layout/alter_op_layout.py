"""AlterOpLayout: operators replace themselves, by the attribute ``FTVMAlterOpLayout``, and layouts follow.

The hook ``f(attrs, inputs, tinfos, out_type)`` returns another call, or None to stay; *tinfos* has a type with shape
and dtype for each input tensor, tuples flattened. Source: ``relay.transform.AlterOpLayout``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function, operator_of
from byoc.relay.transform.base.call_rules import calls_with_attr
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.tuple_wrapper import TupleWrapper


def _altered(call: Call, attrs: Attrs | None, args: Sequence[RelayExpr]) -> RelayExpr:
    """What the operator's hook makes of a call; the call over its new arguments where there is none, or it says so."""
    hook = operator_of(call).get_attr("FTVMAlterOpLayout")
    made = None
    if hook is not None:
        infos: list[TensorType] = [t for arg in call.args for t in tensor_types(arg.checked_type)]
        made = hook(attrs, list(args), infos, call.checked_type)
    if made is None:
        return Call(call.op, args, attrs, call.type_args, call.span)
    return made.tuple_value if isinstance(made, TupleWrapper) else made


def AlterOpLayout() -> FunctionPass:
    """The pass that lets operators choose their layouts. Requires: bias_add as additions (CanonicalizeOps)."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if not calls_with_attr(func, "FTVMAlterOpLayout"):
            return func
        from byoc.relay.transform.layout.rewrite import LayoutRewriter

        return as_function(LayoutRewriter(_altered, mod).run(infer_function(func, mod)))

    return FunctionPass(
        run,
        PassInfo(
            "AlterOpLayout",
            3,
            ("InferType",),
            ends=REWRITES,
            law=Law("what is registered for an operator computes the same in another layout", Numbers.ROUNDING),
        ),
    )
