"""``byoc opt``: the simplified graph of a model as ONNX again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from byoc.cli.report.progress import StageProgress
from byoc.driver.models.opt import opt
from byoc.driver.models.options import OptRequest
from byoc.options.flags import add_flags, given_options

HELP = "write the simplified graph of a model as ONNX, checked by ONNX Runtime"
ENDING = ".opt.onnx"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc opt``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument(
        "-o", "--output", metavar="FILE.onnx", help=f"the file to write (default: the model's name with {ENDING}, here)"
    )
    add_flags(command, "opt", OptRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Simplify, check and write. Raises UserError with one sentence."""
    output = Path(arguments.output) if arguments.output else Path(Path(arguments.model).stem + ENDING)
    with StageProgress(quiet=arguments.json) as progress:
        made = opt(arguments.model, output, **given_options(arguments, OptRequest), progress=progress)
    return made.to_json(), str(made), 0
