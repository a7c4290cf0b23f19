"""SimplifyFCTranspose: ``nn.dense(x, transpose(w, [1, 0]))`` reads a parameter ``w.T`` that is transposed already.

The parameter's value is to be transposed by who runs the function, as ``data_dep_optimization.simplify_fc_transpose``
does. Source: ``relay.transform.SimplifyFCTranspose``.
"""

from __future__ import annotations

from collections.abc import Collection

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import TensorType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.expr import Call, Function, Var
from byoc.relay.narrowing import as_call
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import post_order, rewrite


def transposed_weight(expr: RelayExpr) -> Var | None:
    """The variable *w* of ``nn.dense(x, transpose(w, [1, 0]))``; None for any other expression."""
    if op_name(expr) != "nn.dense" or op_name(as_call(expr).args[1]) != "transpose":
        return None
    turned = as_call(as_call(expr).args[1])
    axes = turned.attrs["axes"]
    is_turned = not axes or tuple(a % 2 for a in axes) == (1, 0)
    return turned.args[0] if is_turned and isinstance(turned.args[0], Var) else None


def simplify_fc_transpose(func: Function, names: Collection[str]) -> Function:
    """The typed *func* with the transposed weights called *names* as parameters ``name.T`` of their own."""
    turned: dict[Var, Var] = {}

    def read_turned(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        weight = transposed_weight(before)
        if weight is None or weight.name_hint not in names:
            return after
        if weight not in turned:
            ty = weight.checked_type
            assert isinstance(ty, TensorType)
            turned[weight] = Var(f"{weight.name_hint}.T", TensorType(ty.shape[::-1], ty.dtype), weight.span)
        call = as_call(after)
        args = [call.args[0], turned[weight], *call.args[2:]]
        return Call(call.op, args, call.attrs, call.type_args, call.span)

    body = rewrite(func.body, read_turned, fusion_children)
    read = set(post_order(body))
    params: list[Var] = []
    for param in func.params:
        if param not in turned or param in read:
            params.append(param)
        if param in turned:
            params.append(turned[param])
    return Function(params, body, func.ret_type, func.type_params, func.attrs, func.span)


def SimplifyFCTranspose(target_weight_name: Collection[str]) -> FunctionPass:
    """The pass that reads the weights called *target_weight_name* transposed, as parameters ``name.T``."""
    names = frozenset(map(str, target_weight_name))

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return simplify_fc_transpose(infer_function(func, mod), names)

    return FunctionPass(
        run,
        PassInfo(
            "SimplifyFCTranspose",
            4,
            ("InferType", "DeadCodeElimination"),
            ends=REWRITES,
            law=Law("a weight that is transposed is another weight"),
        ),
    )
