"""Regions as they are made: at the places of a plan, and with inputs for sizes that nothing else gives them.

Such a size stands in the middle of a region: a tensor is filled or expanded to a shape that is data, and summed again.
Ensures: the same values; regions of backends that do not say ``needs_sizes`` stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from byoc.contract.registration import get_backend
from byoc.driver.precision import FP16
from byoc.driver.region_build import BuildRequest
from byoc.errors import PartitionError, defined_at
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.partition.place import Place
from byoc.partition.plan.plan import Plan
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Function, Var
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import rewrite

if TYPE_CHECKING:
    from byoc.driver.half_regions import GivenHalves
    from byoc.relay.transform.half_operands import Beyond


def with_given_sizes(mod: IRModule) -> IRModule:
    """The typed, partitioned *mod*, the calls of whose regions hand over what determines all sizes inside."""
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


def in_halves(
    request: BuildRequest,
    beyond: Beyond | None,
    targets: Collection[str] | None = None,
    given: GivenHalves | None = None,
) -> BuildRequest:
    """*request* for regions of *targets*, or of all, in half precision but for what is *beyond* it; *given* are calls
    on float16 that the model itself has for some.
    """
    from byoc.driver.half_regions import HalfRegions  # which few ask for

    return replace(request, halves=HalfRegions.of(beyond, targets, given))


def at_places(plan: Plan, request: BuildRequest, beyond: Beyond | None) -> BuildRequest:
    """*request* with what the places in *plan* ask of each target; *beyond* is what stays in float32 at ``fp16``.

    Raises UserError where options contradict them.
    """
    places: dict[str, dict[str, None]] = {}
    for decision in plan.decisions:
        if decision.target is not None and decision.chosen:
            places.setdefault(decision.target, {})[decision.chosen] = None
    options = dict(request.backend_options)
    halves = set()
    for name, own in places.items():
        backend = get_backend(name)
        made: object = backend.options_at(tuple(own), options.get(name, {}))
        if not isinstance(made, Mapping):
            raise PartitionError(
                f"backend {name!r}: its options_at(places, options) gave {made!r}{defined_at(backend.options_at)}, "
                "expected the options as a mapping, changed or not"
            )
        if made or name in options:
            options[name] = made
        if FP16 in backend.precisions_inside and any(str(Place.parse(p).precision) == FP16 for p in own):
            halves.add(name)
    request = replace(request, backend_options=options)
    if not halves or request.halves is not None:
        return request
    return in_halves(request, beyond, halves)
