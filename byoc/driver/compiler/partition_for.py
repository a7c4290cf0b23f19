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
    """*mod*, or a module of that function, cut for *backend*: each region a function with ``Compiler``.

    With *params* bound in main, it is what ``Plan.apply`` makes of it, of the plan for the targets *backend* and
    ``host``: composites of the backend's patterns, annotations by its verdicts, regions that are merged, and a function
    of each, in whose name *mod_name* is. *options* are those of ``byoc.plan`` but the targets.

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
