"""From a simplified module to its plan, and a plan by measured costs held against the simple cuts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from byoc.base.progress import Progress, silent
from byoc.contract.registration import get_backend
from byoc.contract.verdict import Reason
from byoc.driver.costs import MachineCosts, threads_for
from byoc.errors import PartitionError, UserError
from byoc.ir.module import IRModule
from byoc.options.declaration import part_of
from byoc.partition.boundaries import PlacementRule
from byoc.partition.options import BY_MODEL, PlacingOptions, PlannerOptions, PlannerRequest
from byoc.partition.plan.plan import Plan
from byoc.partition.plan.planner import make_requested_plan
from byoc.relay.frontend.onnx.load import ModelSource
from byoc.runtime.files.whole_file import read_text
from byoc.runtime.library import Library

if TYPE_CHECKING:
    from byoc.driver.onnx_placement import Placement


Model = ModelSource | IRModule | None  # an ONNX file, its bytes, a ModelProto, or a module of the graph language
HOST_TARGETS = frozenset(["c", "host"])


def plan_module(
    mod: IRModule, targets: Sequence[str], placing: PlacingOptions, model: Model = None, progress: Progress = silent
) -> Plan:
    """The plan of the simplified module *mod*; *model* is what it was read from, whose tensors a file may name.

    *progress* is called with each step that takes seconds.
    """
    lines: tuple[PlacementRule, ...] = ()
    notes: tuple[str, ...] = ()
    policy = placing.policy
    if policy == BY_MODEL:
        placement = _placement(placing, model)
        lines, notes, policy = tuple(placement.rules()), placement.notes, "order"
        targets = _of_model(targets, placement)
    elif placing.configuration is not None:
        raise PartitionError(f'the configuration {placing.configuration!r} is followed by policy "model" alone')
    if placing.boundaries is not None:
        from byoc.partition.boundary_file import read_boundaries
        from byoc.relay.frontend.onnx.named_nodes import named_nodes

        nodes = () if model is None or isinstance(model, IRModule) else named_nodes(model)
        lines += read_boundaries(placing.boundaries, nodes)
    names = accelerators(targets)
    machine = MachineCosts(lambda: threads_for(mod), progress=progress, measure_time=placing.measure_time)
    settings = {**part_of(placing, PlannerOptions), "policy": policy, "costs": machine.costs(placing.costs, names)}
    made = make_requested_plan(PlannerRequest(mod, names, **settings, boundary_lines=lines))
    return replace(made, notes=(*notes, *made.notes, *machine.problems))


def named_targets(targets: Sequence[str], placing: PlacingOptions, model: Model) -> list[str]:
    """*targets*, or under policy ``model``, where there is the host alone, the devices that *model* names."""
    return list(targets if placing.policy != BY_MODEL else _of_model(targets, _placement(placing, model)))


def _of_model(targets: Sequence[str], placement: Placement) -> Sequence[str]:
    return placement.targets if list(targets) == ["c"] else targets


def _placement(placing: PlacingOptions, model: Model) -> Placement:
    from byoc.driver.onnx_placement import proto_of, read_placement

    if model is None or isinstance(model, IRModule):
        raise PartitionError('policy "model" follows what an ONNX model says of its nodes; give the model itself')
    return read_placement(proto_of(model), placing.configuration)


def target_alone(mod: IRModule, placing: PlacingOptions, model: Model = None) -> Callable[[str], Plan]:
    """A function from a target to the plan of *mod* that gives it all that it takes, under the rules of *placing*."""

    def alone(target: str) -> Plan:
        return plan_module(mod, [target, "host"], replace(placing, policy="order", costs="typical"), model)

    return alone


def read_plan(plan: Plan | str | os.PathLike[str]) -> Plan:
    """*plan*, or the plan in the JSON file that it names. Raises PartitionError for a file that is none."""
    if isinstance(plan, Plan):
        return plan
    try:
        return Plan.from_json(read_text(plan))
    except (OSError, UnicodeDecodeError) as error:
        raise PartitionError(f"the plan {os.fspath(plan)} cannot be read: {error}") from error


def accelerators(targets: Sequence[str]) -> list[str]:
    """The targets without the host: a trailing ``c`` or ``host`` is the host, elsewhere ``c`` is a region target.

    Raises PartitionError for a repeated target, an unknown one, or ``host`` anywhere but last.
    """
    if not targets:
        raise PartitionError('targets is empty; name at least the host: targets=["c"]')
    kept = list(targets[:-1]) if targets[-1] in HOST_TARGETS else list(targets)
    if len(set(kept)) != len(kept):
        raise PartitionError(f"a target is named twice in {', '.join(targets)}; name each once, in order of preference")
    if "host" in kept:
        raise PartitionError(f'"host" must be the last target, got {", ".join(targets)}')
    for name in kept:
        get_backend(name)
    return kept


# A plan by measured costs against the simple cuts, the host alone and each target alone. Costs are added up kernel by
# kernel, and a library that gets a whole model may fuse across a cut: so the plan and the simple cuts are built and
# timed, and the best simple cut is returned unless the plan is faster than all of them.

MEASURED = "measured"
PLAN, HOST = "the plan", "the host alone"
ROUNDS, TURN_SECONDS = 9, 0.02
Build = Callable[[Plan], Library]


def not_slower(plan: Plan, costs: object, build: Build, progress: Progress, alone: Callable[[str], Plan]) -> Plan:
    """*plan*, with the seconds of all where its costs are measured; the host alone or a target alone where that is
    faster.

    Args:
        plan: what the policy chose.
        costs: as the user gave them; where none of them is measured, nothing is built.
        build: compiles a plan. What it raises for *plan* or the host is recorded in a note, a target for which it
            raises is left out.
        progress: called with each step that takes seconds.
        alone: the plan that gives a target all that it takes, and the host the rest.
    """
    words = costs.values() if isinstance(costs, Mapping) else [costs]
    targets = plan.targets
    if plan.policy != "cost" or not targets or not any(word == MEASURED for word in words if isinstance(word, str)):
        return plan
    cuts = _cuts(plan, alone)
    if len(cuts) == 1:
        return plan
    from byoc.partition.content.explanation import seconds

    progress(f"measuring the plan beside {' and '.join(name for name in cuts if name != PLAN)}")
    try:
        found = _seconds(_built(cuts, build))
    except UserError as error:
        return plan.with_note(f"the plan was not measured beside the host alone: {error}")
    best = min(found, key=lambda name: found[name])
    if best == PLAN:
        others = "".join(f", {name} {seconds(found[name])}" for name in found if name != PLAN)
        return plan.with_note(f"measured: {seconds(found[PLAN])}{others}")
    return cuts[best].with_note(
        f"this is {best}, which takes {seconds(found[best])}: the cheapest cut by measured kernels takes "
        f"{seconds(found[PLAN])}, for an estimate of {seconds(plan.total.seconds if plan.total else 0.0)}"
    )


def _cuts(plan: Plan, alone: Callable[[str], Plan]) -> dict[str, Plan]:
    """*plan*, the host alone, and each of its targets alone, by names; those that are one cut once."""
    host = plan.without({t: Reason("slower", "the host alone is faster, as measured") for t in plan.targets})
    cuts = {PLAN: plan, HOST: host, **{f"{target} alone": alone(target) for target in plan.targets}}
    kept: dict[str, Plan] = {}
    for name, cut in cuts.items():
        if all(_regions(cut) != _regions(other) for other in kept.values()):
            kept[name] = cut
    return kept


def _regions(plan: Plan) -> list[object]:
    return [(r.target, r.operators, r.nodes, r.composites) for r in plan.regions]


def _built(cuts: Mapping[str, Plan], build: Build) -> dict[str, Library]:
    """The libraries of *cuts*, without those of targets that cannot be built alone."""
    found: dict[str, Library] = {}
    for name, cut in cuts.items():
        try:
            found[name] = build(cut)
        except UserError:
            if name in (PLAN, HOST):
                raise
    return found


def _seconds(libraries: Mapping[str, Library]) -> dict[str, float]:
    """The least seconds of a call of each, in turns. Raises UserError for inputs of free sizes."""
    from byoc.driver.costs.timing import Turns, interleaved  # where a plan is by measured costs alone
    from byoc.driver.measure_plan import random_inputs

    values = random_inputs(next(iter(libraries.values())))
    runs = {}
    for name, library in libraries.items():
        executor = library.executor()
        for key, value in values.items():
            executor.set_input(key, value)
        executor.run()
        runs[name] = executor.run
    return interleaved(runs, Turns(rounds=ROUNDS, seconds=TURN_SECONDS))
