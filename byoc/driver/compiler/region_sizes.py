"""Inputs of the model for regions whose code is over a size that neither their inputs nor their outputs tell.

Such a size stands in the middle of a region: a tensor is filled or expanded to a shape that is data, and summed again.
Ensures: the same values; regions of backends that do not say ``needs_sizes`` stay as they are.
"""

from __future__ import annotations

from byoc.contract.registration import get_backend
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Function, Var
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import rewrite


def with_told_sizes(mod: IRModule) -> IRModule:
    """The typed, partitioned *mod*, the calls of whose regions hand over what tells all sizes inside."""
    main = as_function(mod["main"])
    given: dict[GlobalVar, list[Var]] = {}
    result = mod.shallow_copy()
    for var, region in mod.functions.items():
        if not isinstance(region, Function) or not _needs_sizes(region):
            continue
        from byoc.relay.analysis.size_params import size_params

        known = [*(p.checked_type for p in region.params), region.body.checked_type]
        found = size_params(region.body, known, main.params)
        if found:
            given[var] = found
            sizes = [Var(f"{var.name_hint}_size{k}", p.checked_type) for k, p in enumerate(found)]
            params = [*region.params, *sizes]
            result[var] = Function(params, region.body, region.ret_type, region.type_params, region.attrs, region.span)
    if not given:
        return mod

    def handed(old: RelayExpr, new: RelayExpr) -> RelayExpr:
        if not isinstance(new, Call) or not isinstance(new.op, GlobalVar) or new.op not in given:
            return new
        return Call(new.op, [*new.args, *given[new.op]], new.attrs, new.type_args, new.span)

    body = rewrite(main.body, handed)
    result["main"] = Function(main.params, body, main.ret_type, main.type_params, main.attrs, main.span)
    return infer_module(result)


def _needs_sizes(region: Function) -> bool:
    return "Compiler" in region.attrs and get_backend(str(region.attrs["Compiler"])).needs_sizes
