"""``byoc partition``: a model with its plan in it, for viewers and for those who read ONNX."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from byoc.cli.compile_command import output_path
from byoc.cli.plan_command import plan_from_arguments
from byoc.driver.onnx_placement import proto_of, with_placement
from byoc.driver.onnx_regions import with_regions
from byoc.driver.options import PlanRequest
from byoc.errors import UserError
from byoc.options.flags import add_flags
from byoc.runtime.artefact.artifact import replace_file

HELP = "write an ONNX model that carries its plan"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc partition``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="the ONNX file to write")
    command.add_argument(
        "--placement",
        action="store_true",
        help="write each node's device into the model (IR version 11) instead of making regions functions",
    )
    add_flags(command, "partition", PlanRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Plan, and write the model with regions as functions, or with each node's device."""
    output = output_path(arguments.model, arguments.output)
    _, plan = plan_from_arguments(arguments)
    model = proto_of(arguments.model)
    made, notes = (with_placement if arguments.placement else with_regions)(model, plan)
    try:
        data = made.SerializeToString()
    except ValueError as error:
        raise UserError(f"{output}: the model cannot be written in one file: {error}") from error
    replace_file(output, lambda file: file.write(data))
    noted = "".join(f"\nnote: {note}" for note in notes)
    return {"output": str(output), "notes": notes, "plan": plan.to_json()}, f"{plan}{noted}\nwrote {output}", 0
