"""``byoc lint``: what to know of a model before it is compiled."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from byoc.cli.exit_codes import EXIT_USER
from byoc.cli.report.progress import StageProgress
from byoc.driver.models.lint import lint
from byoc.driver.options import PlanRequest
from byoc.options.flags import add_flags, given_options

HELP = "say what of a model would run where, what is not supported, and what to change for an accelerator"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc lint``."""
    command.add_argument("model", help="the ONNX file")
    add_flags(command, "lint", PlanRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """The report; the exit code is 0 where the model would compile."""
    with StageProgress(quiet=arguments.json) as progress:
        found = lint(arguments.model, **given_options(arguments, PlanRequest), progress=progress)
    return found.to_json(), str(found), 0 if found.ok else EXIT_USER
