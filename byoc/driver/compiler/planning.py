"""From a simplified module to its plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from byoc.contract.registration import get_backend
from byoc.driver.costs import MachineCosts, threads_for
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.options.declaration import part_of
from byoc.partition.boundaries import PlacementRule
from byoc.partition.options import BY_MODEL, PlacingOptions, PlannerOptions, PlannerRequest
from byoc.partition.plan.plan import Plan
from byoc.partition.plan.planner import plan_of
from byoc.relay.frontend.onnx.load import ModelSource
from byoc.runtime.files.regular_file import read_text

if TYPE_CHECKING:
    from byoc.driver.onnx_placement import Placement

Model = ModelSource | IRModule | None  # an ONNX file, its bytes, a ModelProto, or a module of the graph language
Tell = Callable[[str], object]
HOST_TARGETS = frozenset(["c", "host"])


def silent(stage: str) -> None:
    """Progress that nobody watches."""


def plan_module(
    mod: IRModule, targets: Sequence[str], placing: PlacingOptions, model: Model = None, tell: Tell = silent
) -> Plan:
    """The plan of the simplified module *mod*; *model* is what it was read from, whose tensors a file may name.

    *tell* hears of what takes seconds.
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
    machine = MachineCosts(lambda: threads_for(mod), tell=tell)
    told = {**part_of(placing, PlannerOptions), "policy": policy, "costs": machine.costs(placing.costs, names)}
    made = plan_of(PlannerRequest(mod, names, **told, boundary_lines=lines))
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


__all__ = ["accelerators", "named_targets", "plan_module", "read_plan", "silent"]
