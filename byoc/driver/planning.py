"""From a model to a plan, and to the module that the plan is for.

:func:`plan` is ``byoc.plan``. A plan that it makes, changed or not, saved or not, is what ``byoc.compile(plan=...)``
takes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from byoc.contract.limits import Limits
from byoc.contract.registration import get_backend
from byoc.driver.costs import Machine
from byoc.driver.model import module_of
from byoc.driver.onnx_placement import proto_of, read_placement
from byoc.driver.pass_list import Pipeline
from byoc.driver.pipeline import check_pass_names, optimize
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.boundaries import Names, Rule
from byoc.partition.boundary_file import read_boundaries
from byoc.partition.places import Place
from byoc.partition.plan.plan import Plan
from byoc.partition.plan.request import OBJECTIVES, TIME_LIMIT
from byoc.partition.policy.planner import POLICIES as MADE
from byoc.partition.policy.planner import check_policy, make_plan
from byoc.relay.frontend.onnx.named_nodes import named_nodes
from byoc.runtime.files.regular_file import read_text

Model = object  # an ONNX file, its bytes, a ModelProto, or a module of the graph language
HOST_TARGETS = frozenset(["c", "host"])
BY_MODEL = "model"  # the policy that follows the device configuration of an ONNX model
POLICIES = (*MADE, BY_MODEL)


@dataclass(frozen=True)
class Placing:
    """Everything about where operators go, as ``byoc.plan`` takes it beside the model and the targets."""

    exclude: Names = ()
    force: Mapping[str, Sequence[str]] | None = None
    stop_at: Names = ()
    boundaries: str | os.PathLike[str] | None = None
    policy: str = "order"
    costs: object = "analytic"
    objective: str = OBJECTIVES[0]
    limits: Mapping[str, Limits] | None = None
    time_limit: float = TIME_LIMIT
    valid_places: Sequence[Place | str] = ()
    formula: str = "code"
    prefer: Mapping[str, Sequence[str]] | None = None
    configuration: str | None = None


def plan(
    model: Model,
    targets: Sequence[str] | str = ("c",),
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    exclude: Names = (),
    force: Mapping[str, Sequence[str]] | None = None,
    stop_at: Names = (),
    boundaries: str | os.PathLike[str] | None = None,
    policy: str = "order",
    costs: object = "analytic",
    objective: str = OBJECTIVES[0],
    limits: Mapping[str, Limits] | None = None,
    time_limit: float = TIME_LIMIT,
    valid_places: Sequence[Place | str] = (),
    formula: str = "code",
    prefer: Mapping[str, Sequence[str]] | None = None,
    configuration: str | None = None,
    pipeline: Pipeline | None = None,
) -> Plan:
    """Where each operator of *model* goes, and why: nothing is compiled.

    *targets*, *shapes* and *exclude* are those of :func:`byoc.compile`. *force* puts operators on a target or the
    ``host`` (names by target); *stop_at* keeps the named and all that depends on them at home; *boundaries* is a file
    of such rules (``byoc.partition.boundary_file``). *policy*: ``order`` gives each operator to the first target that
    takes it, of its own list in *prefer* where it has one (``{"nn.conv2d": ["acme2", "acme1"]}``), ``score`` to the
    place that scores most (Paddle Lite's grade by *formula* over the ordered wish *valid_places*), ``cost`` finds the
    cut that costs least by *costs* (``"analytic"``, ``"measured"``, a table's file, a function, or one of these by
    backend) for *objective*, ``latency`` or ``makespan``, within *time_limit* seconds a function, and ``model`` follows
    the device configuration that the model carries (targets default to its devices), of several the one that
    *configuration* names. *limits* stand for a backend's own. *pipeline* is what the plan will be compiled with, where
    that is not byoc's own. Raises UserError with one sentence.
    """
    names = [targets] if isinstance(targets, str) else list(targets)
    placing = Placing(
        exclude,
        force,
        stop_at,
        boundaries,
        policy,
        costs,
        objective,
        limits,
        time_limit,
        valid_places,
        formula,
        prefer,
        configuration,
    )
    check_pass_names(pipeline)
    mod = module_of(model, shapes)
    return plan_module(optimize(mod, pipeline), names, placing, model)


def plan_module(mod: IRModule, targets: Sequence[str], placing: Placing, model: Model = None) -> Plan:
    """The plan of the simplified module *mod*; *model* is what it was read from, whose tensors a file may name."""
    check_policy(placing.policy, POLICIES)
    lines: tuple[Rule, ...] = ()
    notes: tuple[str, ...] = ()
    policy = placing.policy
    if policy == BY_MODEL:
        if model is None or isinstance(model, IRModule):
            raise PartitionError('policy "model" follows what an ONNX model says of its nodes; give the model itself')
        placement = read_placement(proto_of(model), placing.configuration)  # type: ignore[arg-type]
        lines, notes, policy = tuple(placement.rules()), placement.notes, "order"
        targets = placement.targets if list(targets) == ["c"] else targets
    elif placing.configuration is not None:
        raise PartitionError(f'the configuration {placing.configuration!r} is followed by policy "model" alone')
    if placing.boundaries is not None:
        nodes = () if model is None or isinstance(model, IRModule) else named_nodes(model)  # type: ignore[arg-type]
        lines += read_boundaries(placing.boundaries, nodes)
    names = accelerators(targets)
    machine = Machine()
    costs = machine.costs(placing.costs, names)
    made = make_plan(
        mod,
        names,
        placing.exclude,
        policy,
        force=placing.force,
        stop_at=placing.stop_at,
        boundary_lines=lines,
        limits=placing.limits,
        costs=costs,
        objective=placing.objective,
        time_limit=placing.time_limit,
        valid_places=placing.valid_places,
        formula=placing.formula,
        prefer=placing.prefer,
    )
    return replace(made, notes=(*notes, *made.notes, *machine.problems))


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


__all__ = ["OBJECTIVES", "POLICIES", "Placing", "accelerators", "plan", "plan_module", "read_plan"]
