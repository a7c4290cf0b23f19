"""Plans of graphs of many operators, of the families of ``partition.py``, over two accelerators with cost tables.

Runs of ten operators belong to one accelerator or the other in turn, as there; each computes an operator in half of the
host's time, a launch is worth a few operators, a transfer half of one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence

from benchmarks.plan.partition import FAMILIES, TARGETS, is_mine, pattern_table
from benchmarks.plan.results import Large
from byoc.contract import Backend, PatternEntry, Verdict, accept, refuse, register_backend
from byoc.driver.compiler.module_plan import plan_module
from byoc.driver.pipeline import optimize
from byoc.errors import CompileError
from byoc.partition.costs import MixedModel, Table, TableModel
from byoc.partition.options import PlacingOptions
from byoc.relay.expr import Call, Function
from byoc.relay.frontend.onnx import import_onnx
from byoc.runtime.modules.module import Module

POLICIES = ("order", "cost")
OPERATOR, LAUNCH, LATENCY = 1e-6, 3e-6, 5e-7  # seconds


class RunsBackend(Backend):
    """An accelerator that takes every other run of ten operators; it only plans."""

    def __init__(self, name: str):
        self.name, self.devices = name, (name,)

    def patterns(self) -> Sequence[PatternEntry]:
        return [PatternEntry(*row) for row in pattern_table() if row[0].startswith(f"{self.name}.")]

    def supports(self, call: Call) -> Verdict:
        return accept(call) if is_mine(self.name, call) else refuse(call, "run", "operators of its own runs")

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        raise CompileError(f"{self.name} is planned for alone")


def costs() -> MixedModel:
    """An operator takes 2 us on the host and 1 us on an accelerator, a composite 1.5."""
    composites = {row[0]: 1.5 * OPERATOR for row in pattern_table()}
    tables = {
        name: TableModel(
            name,
            Table.from_json(
                {
                    "format": "byoc.costs/1",
                    "launch": LAUNCH,
                    "transfer": {"latency": LATENCY},
                    "operators": composites,
                    "default": {"seconds": OPERATOR},
                }
            ),
        )
        for name in TARGETS
    }
    host = Table.from_json({"format": "byoc.costs/1", "operators": {}, "default": {"seconds": 2 * OPERATOR}})
    return MixedModel({**tables, "c": TableModel("c", host)}, TableModel("c", host))


def plan_large(families: Sequence[str], sizes: Sequence[int], policies: Sequence[str] = POLICIES) -> list[Large]:
    """Plan every family at every size by each policy, with a line for each."""
    for name in TARGETS:
        register_backend(RunsBackend(name))
    found = []
    for family in families:
        for size in sizes:
            found.append(_planned(family, size, policies))
            print(found[-1], flush=True)
    return found


def _planned(family: str, size: int, policies: Sequence[str]) -> Large:
    model = FAMILIES[family](size)
    start = time.perf_counter()
    mod = optimize(import_onnx(model))
    reading = time.perf_counter() - start
    planning: dict[str, float] = {}
    processor: dict[str, float] = {}
    regions: dict[str, int] = {}
    method, gap = "", None
    for policy in policies:
        gc.collect()
        start, busy = time.perf_counter(), time.process_time()
        plan = plan_module(mod, [*TARGETS, "host"], PlacingOptions(policy=policy, costs=costs()))
        planning[policy], processor[policy] = time.perf_counter() - start, time.process_time() - busy
        regions[policy] = len(plan.regions)
        if plan.total is not None:
            method, gap = plan.total.method, plan.total.gap
    return Large(family, size, reading, planning, processor, regions, method, gap)
