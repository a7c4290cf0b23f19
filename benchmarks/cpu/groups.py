"""Where the time of one model goes: a line for each fused group of the host's code, slowest first.

Every group is called by the graph executor, one after the other on one thread, so that each finds the caches as its
forerunners left them; the time of a call from Python, some microseconds, is in each. Operations are the operators' own
counts (a multiply-add is two); bytes are those of a group's inputs, constants and outputs, each once.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.driver.compiler.compile import CompileOptions, assemble, build
from byoc.driver.host import HostProgram, lower_host
from byoc.driver.pipeline import optimize, prepare_host
from byoc.driver.precision import ProductPrecision, host_products
from byoc.ir.types import tensor_types
from byoc.partition.costs.work import boundary, call_operations, constant_bytes
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.traverse import post_order
from byoc.runtime.executors.graph_executor import RESHAPE, Graph, GraphExecutor
from byoc.runtime.library import Library

Clock = Callable[[], float]
HEADER = f"{'ms':>9} {'share':>6} {'Mop':>9} {'MB':>8} {'GFLOP/s':>8} {'GB/s':>7}  group"


@dataclass(frozen=True)
class GroupTime:
    """One group: its symbol, shapes, ONNX nodes, median seconds of a call, operations, and bytes."""

    symbol: str
    shapes: str
    origin: tuple[str, ...]
    seconds: float
    operations: int
    bytes: int

    def to_json(self) -> dict[str, object]:
        return {
            "symbol": self.symbol,
            "shapes": self.shapes,
            "origin": list(self.origin),
            "seconds": self.seconds,
            "operations": self.operations,
            "bytes": self.bytes,
        }


def by_group(
    path: str, precision: str = "f32", calibration: Sequence[Mapping[str, np.ndarray]] | None = None
) -> tuple[HostProgram, Library]:
    """The model of *path* for the host alone, as ``byoc.compile`` makes it, with the functions that it calls."""
    mod = optimize(import_onnx(path))
    plan = CompileOptions().plan(mod)
    narrow = host_products(ProductPrecision.of(precision, (), calibration))
    cut = narrow.quantized(plan.apply(mod), lambda probe: build(probe, plan, CompileOptions()))
    main = prepare_host(precision=narrow.passes())(cut)["main"]
    host = lower_host(main, {})
    names = [f"output{k}" for k in range(len(host.graph["heads"]))]
    return host, Library(host.graph, assemble(host.functions.modules({})), names)


def operations(function: Function) -> int:
    """The operations of all calls in *function*, inline functions included."""
    total = 0
    for node in post_order(function.body):
        if isinstance(node, Call):
            total += operations(node.op) if isinstance(node.op, Function) else call_operations(node)
    return total


def moved_bytes(function: Function) -> int:
    """The bytes of the parameters, the constants and the result of *function*, each once."""
    types = [t for p in function.params for t in tensor_types(p.checked_type)]
    types += tensor_types(function.body.checked_type)
    constants = [n for n in post_order(function.body) if isinstance(n, Constant)]
    return sum(boundary("", t).bytes for t in types) + sum(constant_bytes(c) for c in dict.fromkeys(constants))


def shapes_text(function: Function) -> str:
    """``1x64x56x56 (64x64x3x3, 64) -> 1x64x56x56``: parameters, constants in brackets, results."""

    def text(types: Sequence[object]) -> str:
        return ", ".join("x".join(map(str, t.shape)) or "scalar" for t in types)  # type: ignore[attr-defined]

    constants = dict.fromkeys(n for n in post_order(function.body) if isinstance(n, Constant))
    bound = [t for c in constants for t in tensor_types(c.checked_type) if t.shape]
    taken = text([t for p in function.params for t in tensor_types(p.checked_type)])
    return f"{taken} ({text(bound)}) -> {text(tensor_types(function.body.checked_type))}"


def time_groups(
    host: HostProgram, library: Library, inputs: Mapping[str, np.ndarray], rounds: int, clock: Clock = time.perf_counter
) -> list[GroupTime]:
    """The median of *rounds* runs for each group, slowest first; reshapes that move nothing are left out."""
    graph = Graph(library.graph_json)
    executor = GraphExecutor(graph, library.module)
    executor(inputs)
    origins = {raw["name"]: raw.get("attrs", {}).get("origin", ()) for raw in library.graph_json["nodes"]}
    times: list[list[float]] = [[] for _ in executor.steps]
    for _ in range(rounds):
        for k, step in enumerate(executor.steps):
            start = clock()
            step()
            times[k].append(clock() - start)
    functions = {**host.functions.compiled, **host.functions.interpreted}
    found = []
    for node, seconds in zip(graph.calls, times, strict=True):
        if node.function != RESHAPE:
            function = functions[node.function]
            found.append(
                GroupTime(
                    node.function,
                    shapes_text(function),
                    tuple(origins[node.name]),
                    statistics.median(seconds),
                    operations(function),
                    moved_bytes(function),
                )
            )
    return sorted(found, key=lambda g: -g.seconds)


def table(groups: Sequence[GroupTime], peak: float | None = None) -> str:
    """The groups as lines of text; *peak* in operations a second adds the share of it that the whole reached."""
    total = sum(g.seconds for g in groups)
    work = sum(g.operations for g in groups)
    lines = [HEADER]
    for g in groups:
        name = g.symbol.removeprefix("tvmgen_default_fused_")
        lines.append(
            f"{g.seconds * 1e3:9.4f} {g.seconds / total:6.1%} {g.operations / 1e6:9.2f} {g.bytes / 1e6:8.3f} "
            f"{g.operations / g.seconds / 1e9:8.1f} {g.bytes / g.seconds / 1e9:7.2f}  {name}  {g.shapes}"
        )
    share = f", {work / total / peak:.1%} of the peak" if peak else ""
    lines.append(f"{total * 1e3:9.4f} ms in {len(groups)} groups, {work / total / 1e9:.1f} GFLOP/s{share}")
    return "\n".join(lines)
