"""The options of a plan: where operators go, by which policy, and at what costs. Nothing of the planner is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from byoc.errors import PartitionError
from byoc.options.declaration import Flag, Keyed, Options, described, like, option
from byoc.options.texts import LIMITS, parse_costs, parse_forced, parse_limits, parse_preferred

if TYPE_CHECKING:
    from byoc.contract.backend import Backend
    from byoc.contract.limits import Limits
    from byoc.ir.module import IRModule
    from byoc.partition.boundaries import PlacementRule
    from byoc.partition.place import Place

PLANNING = ("compile", "plan", "explain", "partition")  # the commands that say how a plan is made
POLICIES = ("order", "score", "cost")  # of the planner
BY_MODEL = "model"  # the policy that follows the device configuration of an ONNX model
OBJECTIVES = ("latency", "makespan")
FORMULAS = ("document", "code")  # Paddle Lite's, of byoc.partition.places
TIME_LIMIT = 10.0  # seconds to look for the cheapest plan of one function
MEASURE_TIME = 120.0  # seconds in which kernels are built and timed


@dataclass(frozen=True, kw_only=True)
class CutOptions(Options):
    """How the cut is chosen, as ``byoc.compile`` and ``byoc.plan`` are given it."""

    exclude: Sequence[str] | Mapping[str, Sequence[str]] = option(
        (),
        "ONNX nodes or operators that stay on the host, or by target those that it does not get",
        flag=Flag("--exclude", metavar="NAME", many=True),
    )
    policy: str = option(
        "order",
        "how the cut is chosen: order: the first target that takes an operator; score: Paddle Lite's grade; cost: the "
        "cut that costs least; model: what the model's device configuration says",
        choices=(*POLICIES, BY_MODEL),
        flag=Flag("--policy", commands=PLANNING),
        error=PartitionError,
    )
    costs: object = option(
        "auto",
        'policy cost: what things cost: "auto" by what `byoc calibrate` found of this machine, else as "typical", by '
        'numbers of usual devices; "analytic", which calibrates first what is not; "measured", which builds and times; '
        "a table's .json file, a function, or one of these by target",
        flag=Flag(
            "--costs",
            metavar="[NAME=]COSTS",
            many=True,
            read=parse_costs,
            note="for one target acme=acme.json",
            commands=PLANNING,
        ),
        key=Keyed.DEFAULT,
    )
    prefer: Mapping[str, Sequence[str]] | None = option(
        None,
        "policy order: the targets of an operator or ONNX node in an order of its own",
        flag=Flag("--prefer", metavar="NAME=TARGET,...", many=True, read=parse_preferred, commands=PLANNING),
    )


@dataclass(frozen=True, kw_only=True)
class PlannerOptions(CutOptions):
    """What the planner is given beside a module and targets."""

    force: Mapping[str, Sequence[str]] | None = option(
        None,
        'ONNX nodes or operators by the target, or the "host", that they are put on',
        flag=Flag("--force", metavar="TARGET=NAME", many=True, read=parse_forced),
    )
    stop_at: Sequence[str] | Mapping[str, Sequence[str]] = option(
        (),
        "ONNX nodes or operators that stay on the host with all that depends on them, or by target",
        flag=Flag("--stop-at", metavar="NAME", many=True),
    )
    limits: Mapping[str, Limits] | None = option(
        None,
        "limits of a target's regions in place of the backend's own, by target",
        flag=Flag(
            "--limit",
            metavar="TARGET.LIMIT=NUMBER",
            many=True,
            read=parse_limits,
            note=f"the limit is one of {', '.join(LIMITS)} (microseconds)",
        ),
    )
    objective: str = option(
        OBJECTIVES[0],
        "policy cost: what is made least: latency adds everything up; makespan lets devices work at the same time",
        choices=OBJECTIVES,
        flag=Flag("--objective"),
        error=PartitionError,
    )
    time_limit: float = option(
        TIME_LIMIT,
        "policy cost: for how many seconds the cheapest cut of a function is sought",
        least=0,
        flag=Flag("--time-limit", metavar="SECONDS"),
        error=PartitionError,
    )
    valid_places: Sequence[Place | str] = option(
        (),
        "policy score: the places that are wanted, the first the most; without any each target's own, then the host",
        flag=Flag("--place", metavar="TARGET/PRECISION/LAYOUT", many=True),
    )
    formula: str = option(
        "code",
        "policy score: the grade of Paddle Lite's code or document",
        choices=FORMULAS,
        flag=Flag("--formula"),
        error=PartitionError,
    )


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(Options):
    """Which of a model's own placements is followed."""

    configuration: str | None = option(
        None,
        "policy model: which of the model's device configurations to follow, where it has several",
        flag=Flag("--configuration", metavar="NAME", commands=PLANNING),
    )


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions(Options):
    """What a plan by measured costs may take."""

    measure_time: float = option(
        MEASURE_TIME,
        "costs measured: for how many seconds kernels are built and timed; the others count by estimates, and the next "
        "plan measures on from there",
        least=0,
        flag=Flag("--measure-time", metavar="SECONDS"),
        error=PartitionError,
    )


@dataclass(frozen=True, kw_only=True)
class PlacingOptions(PlannerOptions, DeviceOptions, MeasuringOptions):
    """Everything about where operators go, as ``byoc.plan`` takes it beside the model and the targets."""

    boundaries: str | os.PathLike[str] | None = option(
        None,
        "a file of rules: exclude, force, stop_at (byoc.partition.boundary_file)",
        flag=Flag("--boundaries", metavar="FILE"),
    )


@dataclass(frozen=True)
class _ModuleAndTargets(Options):
    mod: IRModule = field(metadata=described("the module to plan"))
    targets: Sequence[str | Backend] = field(
        metadata=described(
            "backends, in order of preference; the host is whatever none of them takes: name c only for regions of "
            "generated C beside it"
        )
    )


@dataclass(frozen=True)
class PlannerRequest(PlannerOptions, _ModuleAndTargets):
    """What ``byoc.partition.make_plan`` takes; some of it may be given by position."""

    exclude: Sequence[str] | Mapping[str, Sequence[str]] = like(CutOptions, "exclude", ())
    policy: str = like(CutOptions, "policy", "order", choices=POLICIES)
    mod_name: str = option("default", "with what the names of regions begin")
    boundary_lines: Sequence[PlacementRule] = field(
        default=(),
        kw_only=True,
        metadata=described("rules of a file, of which those that cannot be honoured become notes"),
    )
