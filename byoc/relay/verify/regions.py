"""Regions between the cut and their compilers: convex while they are annotated, and closed once they are functions."""

from __future__ import annotations

from byoc.errors import InternalError, PartitionError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.analysis.regions.region_checks import check_regions
from byoc.relay.expr import Function
from byoc.relay.traverse import post_order
from byoc.relay.verify.problem import ProblemError


def check_annotated(func: Function, name: str) -> None:
    """Raises ProblemError where regions of *func* are not convex, wait for each other, or lack an annotation."""
    try:
        check_regions(func, f"@{name}")
    except (InternalError, PartitionError) as error:
        raise ProblemError(str(error)) from error


def check_region_functions(mod: IRModule) -> None:
    """Raises ProblemError for two regions of one symbol, and for one that calls back what calls it.

    A region is run as a whole, after everything that it reads: one that waits for its caller never starts.
    """
    symbols: dict[object, str] = {}
    for var, func in mod.functions.items():
        if not isinstance(func, Function) or "Compiler" not in func.attrs:
            continue
        symbol = func.attrs.get("global_symbol", var.name_hint)
        if symbol in symbols:
            raise ProblemError(f"the regions @{symbols[symbol]} and @{var.name_hint} have the same symbol {symbol}")
        symbols[symbol] = var.name_hint
        _check_calls_nothing_back(var, func, mod)


def _check_calls_nothing_back(region: GlobalVar, func: Function, mod: IRModule) -> None:
    seen: dict[GlobalVar, None] = {}
    waiting: list[RelayExpr] = [func]
    while waiting:
        for node in post_order(waiting.pop()):
            if not isinstance(node, GlobalVar) or node in seen or node not in mod:
                continue
            if node is region:
                through = f"@{next(iter(seen)).name_hint}" if seen else "itself"
                raise ProblemError(
                    f"the region @{region.name_hint} reads what is computed after it: it calls {through}, which needs "
                    "its result"
                )
            seen[node] = None
            waiting.append(mod[node])
