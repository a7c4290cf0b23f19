"""ConvertLayout: operators are brought to the layouts asked for, and what stands between them follows.

Asked are ``{"nn.conv2d": ["NCHW", "OIHW"]}``: for each operator one layout an input, ``default`` leaving the choice of
the others to the first. The hook ``FTVMConvertOpLayout`` of an operator, ``f(attrs, inputs, tinfos, desired_layouts)``,
is asked; ``convert_layout_rules`` has those of our operators. Requires CanonicalizeOps, as in Relay: in a Sequential,
biases become additions before it. Source: ``relay.transform.ConvertLayout``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import byoc.relay.transform.layout.convert_layout_rules  # noqa: F401 - declares the hooks of our operators
from byoc.errors import UserError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function, operator_of
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.layout.rewrite import LayoutRewriter, Replace
from byoc.relay.tuple_wrapper import TupleWrapper


def _by_desire(desired: Mapping[str, Sequence[str]]) -> Replace:
    def replace(call: Call, attrs: Attrs | None, args: Sequence[RelayExpr]) -> RelayExpr:
        name = operator_of(call).name
        hook = operator_of(call).get_attr("FTVMConvertOpLayout")
        made = None
        if hook is not None and name in desired:
            infos: list[TensorType] = [t for arg in call.args for t in tensor_types(arg.checked_type)]
            made = hook(attrs, list(args), infos, list(desired[name]))
        if made is None:
            return Call(call.op, args, attrs, call.type_args, call.span)
        if isinstance(made, TupleWrapper):
            made = made.tuple_value
        if isinstance(made, Call):
            made.span = call.span
        return made

    return replace


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> FunctionPass:
    """The pass that brings operators to *desired_layouts*. Raises UserError for a layout that a rule cannot take."""
    for name, layouts in desired_layouts.items():
        if isinstance(layouts, str):
            raise UserError(f"ConvertLayout: the layouts of {name} are a list, such as ['NCHW', 'default']")
    wanted = {str(name): [str(x) for x in layouts] for name, layouts in desired_layouts.items()}

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(LayoutRewriter(_by_desire(wanted), mod).run(infer_function(func, mod)))

    return FunctionPass(
        run,
        PassInfo(
            "ConvertLayout",
            3,
            ("InferType", "CanonicalizeOps"),
            ends=REWRITES,
            law=Law(
                "an operator between two layout transforms computes the same in the other layout", Numbers.ROUNDING
            ),
        ),
    )
