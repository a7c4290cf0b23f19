"""How good plans are: ``python -m benchmarks.plan --zoo FOLDER``.

Each ONNX file of the folder is planned over the host and OpenCL, and over these and a stand-in for an NPU
(``npu.py``), in every way there is: by ``cost``, by ``order``, by ``score``, on the host alone, on each
accelerator as far as that goes. Printed for each: seconds to plan with the costs known, regions, the estimate by these
costs (``price.py``), and of policy ``cost`` the bound and the gap. Then every different cut is compiled, its
outputs are held against ONNX Runtime's, and all are timed in turns of one run (``rounds.py``), the cheapest twice,
which shows the noise. The bars: gap 0 in under ten seconds; ``cost`` never above another by more than noise; 100,000
operators (``large.py``) by cost in under 30 s. The status is 1 when a cut fails or gives other numbers.

**There is no NPU here.** Where a cut uses it, the time of the NPU's regions is what its table says, waited for;
the rest runs; these figures say which cut is best if the table is true. The groups without it are measured throughout.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import byoc
from benchmarks.cpu.run import MESSAGE, TOLERANCE, find_models, machine
from benchmarks.engines import Inputs, Model, prepare, random_inputs, relative_difference
from benchmarks.plan import npu
from benchmarks.plan.large import plan_large
from benchmarks.plan.partition import FAMILIES
from benchmarks.plan.price import price
from benchmarks.plan.results import AGAIN, Bar, Found, Group, Way, group_lines, large_bar, noise_of, zoo_bars
from benchmarks.rounds import Schedule, interleave
from byoc.contract import get_backend, register_backend
from byoc.driver.compiler.module_plan import plan_module
from byoc.driver.costs import MachineCosts
from byoc.driver.pipeline import optimize
from byoc.errors import ByocError
from byoc.ir.module import IRModule
from byoc.partition.costs import CostModel
from byoc.partition.options import POLICIES, PlacingOptions
from byoc.partition.plan.plan import Plan

REAL = ("opencl",)
ALL = (npu.NAME, *REAL)
SIZES = (10_000, 100_000)
REFERENCE = "onnxruntime"
Run = Callable[[], Sequence[np.ndarray]]
Costs = Callable[[argparse.Namespace, Sequence[str]], CostModel]


def ways_over(targets: Sequence[str]) -> list[Way]:
    """Every way to choose a cut over *targets*, policy ``cost`` first."""
    names = tuple(targets)
    policies = [Way(policy, policy, names) for policy in ("cost", "order", "score") if policy in POLICIES]
    alone = [Way(f"{name} alone", "order", (name,)) for name in names]
    return [*policies, Way("host alone", "order", ()), *(alone if len(names) > 1 else ())]


def cut_of(plan: Plan) -> str:
    """What distinguishes cuts: the regions, each with its target, its nodes and its composites."""
    return json.dumps([(r.target, r.operators, r.nodes, r.composites) for r in plan.regions])


@dataclass
class Planned:
    """One model, read: its simplified module, its inputs, and its plans by the names of their cuts."""

    name: str
    mod: IRModule
    inputs: Inputs
    plans: dict[str, Plan] = field(default_factory=dict)


class Benchmark:
    """One run over a folder of models."""

    def __init__(self, options: argparse.Namespace, costs: Costs):
        self.options, self._costs = options, costs
        self.groups: list[Group] = []
        self.failed = False
        self.schedule = Schedule(rounds=options.rounds, turn_seconds=options.turn_seconds)

    def run(self, paths: Sequence[Path]) -> None:
        """Plan each model in every way, and measure the cuts unless that is not asked for."""
        for path in paths:
            model = Planned(path.stem, optimize(byoc.import_onnx(path)), random_inputs(path))
            groups = [self.planned(model, targets) for targets in self.options.over]
            if self.options.measure:
                self.measure(model, path, groups)
            for group in groups:
                print("\n".join(group_lines(group)), end="\n\n", flush=True)
            self.groups += groups

    def planned(self, model: Planned, targets: Sequence[str]) -> Group:
        """The plans of *model* in every way over *targets*, with their prices."""
        costs = self._costs(self.options, targets)
        group = Group(model.name, tuple(targets))
        for way in ways_over(targets):
            placing = PlacingOptions(policy=way.policy, costs=costs, time_limit=self.options.time_limit)
            if way.policy == "cost":
                plan_module(model.mod, [*way.targets, "host"], placing)  # what is measured is measured, and kept
            start = time.perf_counter()
            plan = plan_module(model.mod, [*way.targets, "host"], placing)
            found = self.found(way, plan, time.perf_counter() - start, price(plan, model.mod, costs))
            model.plans.setdefault(found.cut, plan)
            group.found.append(found)
        return group

    @staticmethod
    def found(way: Way, plan: Plan, planning: float, estimate: float) -> Found:
        """What there is to say of *plan* before it is measured."""
        offloaded = sum(d.target is not None for d in plan.decisions)
        found = Found(way, planning, len(plan.regions), offloaded, len(plan.decisions), estimate, cut_of(plan))
        if plan.total is not None:
            found.total, found.bound = plan.total.seconds, plan.total.bound
            found.gap, found.method = plan.total.gap, plan.total.method
        return found

    def measure(self, model: Planned, path: Path, groups: Sequence[Group]) -> None:
        """Time every different cut of *groups* in one run, after their outputs were found to agree."""
        reference = prepare(REFERENCE, Model(model.name, path, path, model.inputs), 1, "f32")
        expected = reference.run()
        runs: dict[str, Run] = {}
        for cut, plan in model.plans.items():
            mine = [f for g in groups for f in g.found if f.cut == cut]
            try:
                runs[cut] = self.ready(model, plan)
                difference = relative_difference(runs[cut](), expected)
            except ByocError as error:
                self.failure(mine, str(error)[:MESSAGE])
                runs.pop(cut, None)
                continue
            for found in mine:
                found.difference = difference
            if not difference <= TOLERANCE["f32"]:
                self.failure(mine, f"its outputs differ from {REFERENCE}'s by {difference:.2g} of their range")
                del runs[cut]
        twice = {f"{g.found[0].cut}{AGAIN}": runs[g.found[0].cut] for g in groups if g.found[0].cut in runs}
        timings = interleave({**runs, **twice}, self.schedule)
        for group in groups:
            for found in group.found:
                found.measured = timings.get(found.cut)
            first = group.found[0]
            if first.measured is not None:
                group.noise = noise_of(first.measured, timings[f"{first.cut}{AGAIN}"])

    def failure(self, found: Sequence[Found], text: str) -> None:
        """Keep why a cut has no time."""
        self.failed = True
        for one in found:
            one.failure = text

    def ready(self, model: Planned, plan: Plan) -> Run:
        """A call that runs *model* as *plan* cuts it, compiled and run once, so that the NPU's results are known."""
        library = byoc.compile(model.mod, [*plan.targets, "c"], plan=plan)
        executor = library.executor(self.options.threads)
        values = [model.inputs[spec.name] for spec in library.inputs]
        executor.compute(values)
        return lambda: executor.compute(values)

    def to_json(self) -> dict[str, object]:
        """All that was found, with what it was found on."""
        return {
            "machine": machine(),
            "costs": self.options.costs,
            "threads": self.options.threads,
            "npu": "simulated: its regions take as long as its table says",
            "groups": [g.to_json() for g in self.groups],
        }


def costs_for(options: argparse.Namespace, targets: Sequence[str]) -> CostModel:
    """The costs that *options* ask for on real backends, with the NPU's table where it is one of *targets*."""
    spec = {name: options.costs for name in (*targets, "c")}
    if npu.NAME in spec:
        spec[npu.NAME] = npu.TABLE_FILE
    return MachineCosts(threads=options.threads).costs(spec, targets)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--zoo", type=Path, help="a folder of ONNX files (export_zoo.py makes one); none: no models")
    made.add_argument("--models", type=_names, help="names of files without .onnx, by commas (default: all)")
    made.add_argument(
        "--over",
        type=lambda text: [g.split("+") for g in text.split(",")],
        default=[ALL, REAL],
        help=f"accelerators joined by +, groups by commas (default {'+'.join(ALL)},{'+'.join(REAL)})",
    )
    made.add_argument("--costs", default="measured", help="costs of real backends (default measured)")
    made.add_argument("--time-limit", type=float, default=10.0, help="seconds to look for the cheapest plan")
    made.add_argument("--threads", type=int, help="of a run (default: the processors that this process may use)")
    made.add_argument("--rounds", type=int, default=11, help="turns of each cut (default 11)")
    made.add_argument("--turn-seconds", type=float, default=0.25, help="of each turn (default 0.25)")
    made.add_argument("--measure", action=argparse.BooleanOptionalAction, default=True, help="compile and time cuts")
    made.add_argument(
        "--sizes",
        type=lambda text: [int(n) for n in _names(text)],
        default=list(SIZES),
        help="operators of large graphs, by commas; empty: none",
    )
    made.add_argument("--families", type=_names, default=list(FAMILIES), help=f"of {', '.join(FAMILIES)}")
    made.add_argument("--json", type=Path, help="write all that was found here")
    return made


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def main() -> int:
    """Run what the options ask for; 1 when a cut failed."""
    options = parser().parse_args()
    unknown = [name for name in options.families if name not in FAMILIES]
    if unknown:
        raise SystemExit(f"no such family: {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    register_backend(npu.NpuBackend)
    for name in dict.fromkeys(n for group in options.over for n in group):
        problem = get_backend(name).unavailable()
        if problem:
            raise SystemExit(f"{name}: {problem}; leave it out with --over")
    benchmark = Benchmark(options, costs_for)
    bars: list[Bar] = []
    if options.zoo is not None:
        benchmark.run(find_models(options.zoo, options.models))
        bars += zoo_bars(benchmark.groups)
    large = plan_large(options.families, options.sizes)
    bars.append(large_bar(large))
    print("\n".join(["", *map(str, bars)]))
    if options.json is not None:
        data = {**benchmark.to_json(), "large": [f.to_json() for f in large], "bars": [vars(b) for b in bars]}
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 1 if benchmark.failed else 0


if __name__ == "__main__":
    sys.exit(main())
