"""One function as a library: a region of one backend, compiled as ``byoc.compile`` compiles regions.

There is no plan and no pass before it, so that the backend is given the function as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping

from byoc.driver.assembly import assemble, described, origins
from byoc.driver.half_regions import HalfRegions
from byoc.driver.host import lower_host
from byoc.driver.precision import FP16, HALVES
from byoc.driver.region_build import BuildRequest, compile_region
from byoc.errors import UserError
from byoc.ir.expr import GlobalVar
from byoc.ir.types import tensor_types
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function, Var
from byoc.relay.transform.half_operands import Beyond
from byoc.runtime.library import Library
from byoc.runtime.modules.module import Module
from byoc.runtime.region.checks import CallChecks


def region_symbol(target: str) -> str:
    """The symbol of the only region."""
    return f"tvmgen_default_{''.join(c if c.isalnum() else '_' for c in target)}_main_0"


def region_library(
    function: Function,
    target: str,
    options: Mapping[str, object] | None = None,
    fallback: bool = False,
    precision: str = "f32",
) -> Library:
    """*function* compiled by the backend *target*, as a library of one region.

    Args:
        function: typed, its constants in its body.
        target: the backend's name.
        options: the backend's.
        fallback: put the host's version in as well.
        precision: ``fp16`` for a backend whose regions take halves; any other leaves a region as it is.

    Raises:
        UserError: the backend refuses, in its words.
    """
    symbol = region_symbol(target)
    region = Function(
        function.params, function.body, None, (), {"Compiler": target, "global_symbol": symbol, "Primitive": 1}
    )
    infer_expr(region)
    var = GlobalVar(symbol)
    params = [Var(p.name_hint, p.checked_type) for p in function.params]
    main = Function(params, Call(var, params))
    var._checked_type, main.body._checked_type = region.checked_type, region.body.checked_type
    for param in params:
        param._checked_type = param.type_annotation
    given = {target: dict(options or {})}
    halves = HalfRegions(Beyond()) if precision == FP16 else None
    modules: list[Module] = [compile_region(var, region, BuildRequest(given, halves=halves))]
    host = lower_host(main, {var: region}, {s for m in modules if m.can_start for s in m.symbols})
    report: dict[str, object] = {} if halves is None else {HALVES: halves.to_report()}
    if fallback:
        stand_ins, report["fallback"] = origins({var: region}, {})
        if not stand_ins:
            raise UserError(f"the host has no version of this region: {report['fallback']}")
        modules.extend(stand_ins)
    root = assemble([*modules, *host.functions.modules({})], described({var: region}))
    names = [f"output{k}" for k in range(len(tensor_types(region.body.checked_type)))]
    return Library(host.graph, root, names, report)


def watched(library: Library) -> Library:
    """*library*, whose regions raise ContractError where they write to an input; guards that are asked for stay."""
    module = library.module
    for symbol in module.regions:
        guard = module.guard(symbol)
        guard.checks = guard.checks or CallChecks(
            outputs=False, nan=False, edges=False
        )  # certify fences outputs itself
    return library
