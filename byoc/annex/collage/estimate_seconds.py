"""Measuring candidates of Collage on this machine: build the module, run it on random inputs, take the median time.

Importing this module registers :func:`estimate_seconds` as the global function that ``relay.collage.CostEstimator``
asks. Source: ``tvm.relay.collage.estimate_seconds``.
"""

from __future__ import annotations

import math
import statistics
import time

import numpy as np

from byoc.annex.collage.cost_estimator import ESTIMATE_SECONDS
from byoc.driver.compiler.compile import CompileOptions, build
from byoc.driver.pipeline import optimize
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.registry import GLOBAL_FUNCTIONS, register_func
from byoc.ir.target import Target
from byoc.ir.types import TensorType, Type
from byoc.partition.plan.plan import Plan
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Function
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.graph.executor_base import Executor

_REPEATS = 5
_REPEAT_SECONDS = 0.01


def argument_for(ty: Type, seed: int = 0) -> NDArray:
    """Random numbers of type *ty*: in [-1, 1) for floats, small ones for integers.

    Raises UserError for what is not a tensor of static shape.
    """
    if not isinstance(ty, TensorType):
        raise UserError(f"an argument that is measured is a tensor, got {ty!r}")
    rng = np.random.default_rng(seed)
    dtype = numpy_dtype(ty.dtype)
    low, high = (-1, 1) if np.issubdtype(dtype, np.floating) else (0, 2)
    return NDArray(np.asarray(rng.uniform(low, high, ty.concrete_shape)).astype(dtype))


def estimate_seconds(mod: IRModule, target: Target) -> float:
    """The median seconds of a run of ``main`` of *mod*; infinity where *target* or the host cannot build it."""
    typed = infer_module(mod.shallow_copy())
    main = typed["main"]
    assert isinstance(main, Function)
    try:
        library = build(optimize(typed), Plan("order", (), "default", ()), CompileOptions())
    except UserError:
        return math.inf  # the partition is not supported
    executor = library.executor()
    for seed, param in enumerate(main.params):
        executor.set_input(param.name_hint, argument_for(param.checked_type, seed))
    return _median_seconds(executor)


def _median_seconds(executor: Executor) -> float:
    executor.run()
    start = time.perf_counter()
    executor.run()
    number = max(1, math.ceil(_REPEAT_SECONDS / max(time.perf_counter() - start, 1e-9)))
    return statistics.median(_seconds(executor, number) for _ in range(_REPEATS))


def _seconds(executor: Executor, number: int) -> float:
    """The mean seconds of *number* runs."""
    start = time.perf_counter()
    for _ in range(number):
        executor.run()
    return (time.perf_counter() - start) / number


if ESTIMATE_SECONDS not in GLOBAL_FUNCTIONS:
    register_func(ESTIMATE_SECONDS, estimate_seconds)
