"""What cost models say against what is measured: ``python -m benchmarks.plan.costs --zoo FOLDER``.

For each model of the folder, each fused group of the host's code is estimated and timed, as ``cpu.py --groups`` does,
on one thread; the estimate includes what a call from Python takes, measured on a group of next to no work. The whole
model is estimated by the sum over its units, as a solver would add them, and timed as one native function. With
``--backends opencl`` so is each region that the plan gives to it, transfers and launch in both. Printed are the median
error of each model and of all; the status is 1 where that of C is not below ``--bar``. Groups that occur several times
count as often.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.cpu.groups import by_group, moved_bytes, operations
from benchmarks.engines import random_inputs
from benchmarks.rounds import Schedule, interleave
from byoc.driver.compiler.compile import assemble
from byoc.driver.costs import CostStore, MachineCosts
from byoc.driver.costs.alone import build_alone
from byoc.driver.costs.probes import nothing
from byoc.driver.costs.timing import ready
from byoc.driver.host import lower_host
from byoc.driver.pipeline import optimize, prepare_host
from byoc.ir.module import IRModule
from byoc.ir.types import tensor_types
from byoc.partition.costs import CostModel
from byoc.partition.costs.work import size
from byoc.partition.plan.planner import make_plan
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Function
from byoc.relay.frontend.onnx import import_onnx
from byoc.runtime.executors.graph_executor import RESHAPE, Graph, GraphExecutor

BAR = 0.30
ROUNDS = 11
HEADER = f"{'model':<16} {'backend':<8} {'parts':>5} {'median':>8} {'worst':>8} {'estimate ms':>12} {'measured ms':>12}"
SHORT = Schedule(rounds=5, turn_seconds=0.1)


@dataclass(frozen=True)
class Row:
    """A group, a region or a whole model: seconds estimated and measured, operations and bytes."""

    model: str
    backend: str
    name: str
    estimate: float
    measured: float
    operations: int = 0
    bytes: int = 0

    @property
    def error(self) -> float:
        """How far the estimate is off, as a share of what was measured; negative is below."""
        return self.estimate / self.measured - 1

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "error": self.error}


def host_groups(path: Path, costs: CostModel, empty: float, rounds: int) -> list[Row]:
    """A row for each fused group of the host's code, in their order."""
    host, library = by_group(str(path))
    graph = Graph(library.graph_json)
    executor = GraphExecutor(graph, library.module)
    executor(random_inputs(path))
    least = [float("inf")] * len(executor.steps)
    for _ in range(rounds):
        for k, step in enumerate(executor.steps):
            least[k] = min(least[k], _seconds(step))
    functions = {**host.functions.compiled, **host.functions.interpreted}
    rows = []
    for node, seconds in zip(graph.calls, least, strict=True):
        if node.function == RESHAPE:
            continue
        function = functions[node.function].with_attr("Primitive", 1)
        estimate = costs.region(function, "host").seconds + empty
        name = node.function.removeprefix("tvmgen_default_fused_")
        rows.append(Row(path.stem, "c", name, estimate, seconds, operations(function), moved_bytes(function)))
    return rows


def call_seconds() -> float:
    """What one call of a group from Python takes beside its work: that of a group that does next to nothing."""
    main = prepare_host()(infer_module(IRModule({"main": nothing()})))["main"]
    host = lower_host(main, {})  # type: ignore[arg-type]
    executor = GraphExecutor(Graph(host.graph), assemble(host.functions.modules({})))
    executor({"x": np.zeros(16, "float32")})
    return min(_seconds(executor.steps[0]) for _ in range(1000))


def _seconds(step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def whole(path: Path, costs: CostModel, threads: int) -> Row:
    """The model on the host: the sum over its units, and its native function."""
    mod = optimize(import_onnx(str(path)))
    library = build_alone(mod)
    executor = library.executor(threads)
    for name, value in random_inputs(path).items():
        executor.set_input(name, value)
    executor.run()
    seconds = interleave({"whole": executor.run}, SHORT)["whole"]
    return Row(path.stem, "c", "(whole)", costs.region(mod["main"], "host").seconds, min(seconds.turns))  # type: ignore


def regions(path: Path, backend: str, costs: CostModel, threads: int) -> list[Row]:
    """A row for each region of *backend* in the plan that gives it whatever it takes."""
    mod = optimize(import_onnx(str(path)))
    cut = make_plan(mod, [backend]).apply(mod)
    rows, runs = [], {}
    for var, function in cut.functions.items():
        if not isinstance(function, Function) or "Compiler" not in function.attrs:
            continue
        estimate = costs.region(function, backend).seconds + costs.launch(backend).seconds
        estimate += sum(costs.transfer(size(p.checked_type), "host", backend).seconds for p in function.params)
        results = tensor_types(function.body.checked_type)
        estimate += sum(costs.transfer(size(t), backend, "host").seconds for t in results)
        plain = Function(function.params, function.body)
        runs[var.name_hint] = ready(plain, backend, build_alone, threads)
        rows.append((var.name_hint, estimate, operations(plain), moved_bytes(plain)))
    seconds = interleave(runs, SHORT)
    return [
        Row(path.stem, backend, name, estimate, min(seconds[name].turns), work, moved)
        for name, estimate, work, moved in rows
    ]


def lines(rows: Sequence[Row], verbose: bool) -> list[str]:
    """The rows as text, slowest first."""
    if not verbose:
        return []
    shown = sorted(rows, key=lambda r: -r.measured)
    return [
        f"  {r.estimate * 1e6:10.1f} {r.measured * 1e6:10.1f} {r.error:+7.0%} {r.operations / 1e6:9.2f} "
        f"{r.bytes / 1e6:8.3f}  {r.name}"
        for r in shown
    ]


def summary(model: str, backend: str, parts: Sequence[Row], total: Row | None) -> str:
    """One line: the median and the worst error of the parts, and the whole."""
    errors = [abs(r.error) for r in parts]
    text = f"{model:<16} {backend:<8} {len(parts):>5}"
    text += f" {statistics.median(errors):>8.1%} {max(errors):>8.0%}" if errors else f" {'-':>8} {'-':>8}"
    if total is not None:
        text += f" {total.estimate * 1e3:>12.3f} {total.measured * 1e3:>12.3f} {total.error:>+8.1%}"
    return text


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--zoo", type=Path, default=Path("zoo"), help="a folder of ONNX files (export_zoo.py makes one)")
    made.add_argument("--models", help="names of files without .onnx, by commas (default: all)")
    made.add_argument("--backends", default="c", help="c, opencl, by commas")
    made.add_argument("--costs", default="analytic", choices=("analytic", "typical", "measured"))
    made.add_argument("--threads", type=int, default=1, help="threads of the host's code")
    made.add_argument("--rounds", type=int, default=ROUNDS)
    made.add_argument("--bar", type=float, default=BAR, help="the median error of C must be below")
    made.add_argument("--cache", type=Path, help="where the calibration is kept (default: the cache folder)")
    made.add_argument("--groups", action="store_true", help="a line for each group and region")
    made.add_argument("--json", type=Path, help="write all that was found here")
    return made


def main() -> int:
    """Run what the options ask for; 1 where the bar does not hold."""
    options = parser().parse_args()
    names = options.models.split(",") if options.models else [p.stem for p in sorted(options.zoo.glob("*.onnx"))]
    backends = options.backends.split(",")
    machine = MachineCosts(options.threads, CostStore(options.cache) if options.cache else None, print)
    costs = machine.costs(options.costs, [b for b in backends if b != "c"])
    empty = call_seconds()
    print(HEADER)
    found: list[Row] = []
    for name in names:
        path = options.zoo / f"{name}.onnx"
        for backend in backends:
            if backend == "c":
                parts, total = host_groups(path, costs, empty, options.rounds), whole(path, costs, options.threads)
            else:
                parts, total = regions(path, backend, costs, options.threads), None
            print("\n".join([summary(name, backend, parts, total), *lines(parts, options.groups)]), flush=True)
            found += [*parts, *([total] if total else [])]
    failed = False
    for backend in backends:
        parts = [r for r in found if r.backend == backend and r.name != "(whole)"]
        print(summary("all", backend, parts, None))
        failed |= backend == "c" and not statistics.median(abs(r.error) for r in parts) < options.bar
    for problem in machine.problems:
        print(problem)
    if options.json:
        data = {"costs": options.costs, "threads": options.threads, "rows": [r.to_json() for r in found]}
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
