"""``byoc.partition_for``: a module cut for one backend in one call, as TVM's ``partition_for_*`` cut for theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from byoc.contract.registration import get_backend
from byoc.driver.compiler.plan import plan
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.bind import module_with_params


def partition_for(
    backend: str,
    mod: IRModule | RelayExpr,
    params: Mapping[str, object] | None = None,
    mod_name: str = "default",
    **options: Any,
) -> IRModule:
    """Cut *mod* for one backend: what the plan for the targets *backend* and ``host`` makes of it (``Plan.apply``).

    Args:
        backend: the name under which it is registered.
        mod: a module, or a function, which becomes the main one of a module.
        params: arrays by the names of main's parameters, which become constants.
        mod_name: a part of the regions' names.
        options: those of ``byoc.plan``, but the targets.

    Returns:
        The module with composites of the backend's patterns, and a function with ``Compiler`` for each region.

    Raises:
        UserError: the name is no backend's, an option is none of ``byoc.plan``, or the module cannot be planned.

    Source: ``partition_for_*`` of ``relay.op.contrib``.
    """
    get_backend(backend)
    for name in ("model", "target", "targets"):
        if name in options:
            raise UserError(f"partition_for({backend!r}) cuts for that backend alone, got {name}=: byoc.plan takes it")
    bound = module_with_params(mod, params)
    return replace(plan(bound, targets=[backend, "host"], **options), mod_name=mod_name).apply(bound)
