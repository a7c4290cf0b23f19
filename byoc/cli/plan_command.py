"""``byoc plan``: where each operator would go, as a table, a picture or JSON; nothing is compiled."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from byoc.cli.report.progress import StageProgress
from byoc.driver.compiler.compile import cut_and_build
from byoc.driver.compiler.plan import plan_options, simplify_and_plan
from byoc.driver.measure_plan import measure
from byoc.driver.options import PlanRequest
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.options.flags import add_flags, given_options
from byoc.partition.plan.plan import Plan
from byoc.partition.show.draw import to_dot, to_svg
from byoc.partition.show.report_page import to_html
from byoc.runtime.artefact.artifact import replace_file

HELP = "show where each operator of a model would go, and why"
DRAWN: Mapping[str, Callable[[IRModule, Plan, str], str]] = {
    ".svg": lambda mod, plan, _: to_svg(mod, plan),
    ".dot": lambda mod, plan, _: to_dot(mod, plan),
    ".html": to_html,
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc plan``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help="write the plan: .json (byoc compile --plan takes it), or drawn as .html, .svg or .dot",
    )
    command.add_argument(
        "--measure", action="store_true", help="compile the plan and show what it takes beside what was estimated"
    )
    add_flags(command, "plan", PlanRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Plan, write what is asked for, and print the table."""
    outputs = [Path(text) for text in arguments.output]
    for path in outputs:
        if path.suffix not in (".json", *DRAWN):
            raise UserError(f"--output {path}: a plan is written as .json, {', '.join(DRAWN)}")
    mod, plan = plan_from_arguments(arguments)
    if arguments.measure:
        with StageProgress(quiet=arguments.json) as progress:
            plan = measure(cut_and_build(mod, plan, plan_options(request_of(arguments)), progress), plan)
    for path in outputs:
        drawn = DRAWN.get(path.suffix)
        name = Path(arguments.model).stem
        write(path, json.dumps(plan.to_json(), indent=1) if drawn is None else drawn(mod, plan, name))
    wrote = "".join(f"\nwrote {path}" for path in outputs)
    return plan.to_json(), f"{plan}{wrote}", 0


def plan_from_arguments(arguments: argparse.Namespace) -> tuple[IRModule, Plan]:
    """The simplified model of a command line and its plan."""
    with StageProgress(quiet=arguments.json) as progress:
        return simplify_and_plan(replace(request_of(arguments), progress=progress))


def request_of(arguments: argparse.Namespace) -> PlanRequest:
    """What a command line asks of a plan."""
    return PlanRequest(arguments.model, **given_options(arguments, PlanRequest))


def write(path: Path, text: str) -> None:
    """Write *text* whole or not at all. Raises UserError where the place cannot be written."""
    replace_file(path, lambda file: file.write(text.encode()))
