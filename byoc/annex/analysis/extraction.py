"""Parts of a program, taken out of it: fused functions, the expression behind a number of the text, weights.

Source: ``relay.analysis``: ``ExtractFusedFunctions``, ``ExtractIntermediateExpr``, ``search_fc_transpose``.
"""

from __future__ import annotations

from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import Function, Var
from byoc.relay.narrowing import as_function
from byoc.relay.structure.structural import structural_hash
from byoc.relay.text.metadata import MetaTable
from byoc.relay.text.printer import FunctionPrinter
from byoc.relay.traverse import post_order


def extract_fused_functions(mod: IRModule) -> dict[GlobalVar, Function]:
    """The functions in ``main`` that FuseOps made, each once, called by their hash.

    Source: ``relay.analysis.extract_fused_functions``.
    """
    found: dict[str, Function] = {}
    for node in post_order(mod["main"]):
        if isinstance(node, Function) and node.attrs.get("Primitive"):
            bare = Function(node.params, node.body, node.declared_ret_type, node.type_params, node.attrs)
            found.setdefault(str(structural_hash(bare)), bare)
    return {GlobalVar(name): func for name, func in found.items()}


def extract_intermediate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """A module whose ``main`` computes what the text of *mod* calls ``%expr_id``, from the parameters that it needs.

    Raises UserError for a number that the text does not have. Source: ``relay.analysis.extract_intermdeiate_expr``.
    """
    main = as_function(mod["main"])
    numbered = FunctionPrinter(main, MetaTable(), False, None).numbered(main)
    if not 0 <= expr_id < len(numbered):
        raise UserError(f"main has the numbers %0 to %{len(numbered) - 1}, got {expr_id}")
    expr = numbered[expr_id]
    return IRModule.from_expr(Function(free_vars(expr), expr), None, dict(mod.type_definitions))


extract_intermdeiate_expr = extract_intermediate_expr  # Relay's spelling


def search_fc_transpose(expr: RelayExpr) -> list[str]:
    """The names of the variables that are transposed to be the weights of ``nn.dense``, in order.

    Source: ``relay.analysis.search_fc_transpose``.
    """
    found: dict[str, None] = {}
    for node in post_order(expr):
        if calls(node, "nn.dense") and calls(node.args[1], "transpose"):
            weight = node.args[1].args[0]
            if isinstance(weight, Var):
                found[weight.name_hint] = None
    return list(found)


def search_dense_op_weight(expr: RelayExpr) -> list[str]:
    """The names of the variables that are the weights of ``nn.dense``. Source: ``search_dense_op_weight``."""
    weights = [node.args[1] for node in post_order(expr) if calls(node, "nn.dense")]
    return list(dict.fromkeys(weight.name_hint for weight in weights if isinstance(weight, Var)))
