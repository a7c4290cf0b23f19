"""``byoc compare``: two artefacts, or a model on two backends, tensor by tensor."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from byoc.cli.report.progress import StageProgress
from byoc.cli.tensors.arrays import add_input_arguments, given_arrays, given_sizes
from byoc.debug.comparing import compare
from byoc.debug.options import CompareRequest
from byoc.options.flags import add_flags, given_options

HELP = "compare two artefacts, or a model on two backends, tensor by tensor"
EXIT_FOUND = 2


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc compare``."""
    command.add_argument(
        "first", help="an artefact, or an executable of the virtual machine; or an ONNX model, with -t twice"
    )
    command.add_argument("second", nargs="?", help="another of these")
    add_input_arguments(command)
    add_flags(command, "compare", CompareRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """A table of errors by tensor, and the first that diverges; the exit code is 0 where none does."""
    inputs, sizes = given_arrays(arguments), given_sizes(arguments)
    with StageProgress(quiet=arguments.json) as progress:
        given = given_options(arguments, CompareRequest)
        found = compare(
            arguments.first, second=arguments.second, **given, inputs=inputs, sizes=sizes, progress=progress
        )
    return found.to_json(), str(found), 0 if found.ok else EXIT_FOUND
