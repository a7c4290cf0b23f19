"""ToBasicBlockNormalForm: what several branches share is bound by a let above them; all else stays a graph.

Afterwards every branch, clause and body can be run on its own, in order, without evaluating anything twice. Source:
``relay.transform.ToBasicBlockNormalForm``.
"""

from __future__ import annotations

from byoc.annex.functional.to_a_normal_form import Fill
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import ModulePass, PassInfo
from byoc.relay.analysis.scopes import Scopes
from byoc.relay.transform.base.infer_type import is_optimizable


def ToBasicBlockNormalForm() -> ModulePass:
    """The pass that binds what branches share, in every function."""

    def transform(mod: IRModule, ctx: object) -> IRModule:
        result = mod.shallow_copy()
        for var, func in mod.functions.items():
            if is_optimizable(func):
                result[var] = to_basic_block_normal_form(func)
        return result

    return ModulePass(transform, PassInfo("ToBasicBlockNormalForm", 1, ends=("typed", "graph_normal_form")))


def to_basic_block_normal_form(root: RelayExpr) -> RelayExpr:
    """*root* with what several of its scopes share bound in the scope that holds them all."""
    scopes = Scopes(root)
    return Fill(scopes, scopes.lifted).run(root) if scopes.lifted else root
