"""A model compiled operator by operator, so that every value in it can be looked at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from byoc.contract.checks import pattern_entries
from byoc.contract.limits import Limits
from byoc.contract.options import HOST_BACKEND
from byoc.contract.registration import get_backend
from byoc.debug.options import as_asked
from byoc.driver.compiler.entry import compile as compile_model
from byoc.driver.compiler.plan import plan
from byoc.driver.pass_list import Pipeline
from byoc.driver.pipeline import pipeline
from byoc.options.declaration import Options
from byoc.relay import transform
from byoc.relay.dataflow_pattern.pattern_graph import pattern_post_order
from byoc.relay.dataflow_pattern.patterns import CallPattern
from byoc.runtime.library import Library

if TYPE_CHECKING:
    from onnx import ModelProto

    from byoc.ir.module import IRModule
FUSION, JOINING = "FuseOps", "JoinGroups"


def compile_unfused(
    model: str | os.PathLike[str] | bytes | ModelProto | IRModule,
    targets: Sequence[str],
    asked: Options,
) -> Library:
    """*model* for *targets*, each operator (or pattern) in a region or a group of its own, as *asked*.

    The host's values are in the model's layout. Raises as ``byoc.compile``.
    """
    given = as_asked(asked)
    singly = None
    vendors = [t for t in targets if t not in (HOST_BACKEND, "host")]
    if vendors:
        limits = {name: Limits(max_operators=_largest_pattern(name)) for name in vendors}
        singly = plan(model, targets, limits=limits, **given)
    passes = _unfused(given.pop("pipeline") or pipeline())
    layout = {HOST_BACKEND: {"layout": "default"}}
    return compile_model(model, targets, pipeline=passes, plan=singly, backend_options=layout, **given)


def _unfused(passes: Pipeline) -> Pipeline:
    """*passes* of which none puts operators into one group."""
    singly = passes.replace(FUSION, transform.FuseOps(0))
    return singly.remove(JOINING) if JOINING in singly.names else singly


def _largest_pattern(target: str) -> int:
    """The operators of the largest pattern of *target*; 1 without any."""
    counts = [
        sum(isinstance(part, CallPattern) for part in pattern_post_order(entry.pattern))
        for entry in pattern_entries(get_backend(target))
    ]
    return max([1, *counts])
