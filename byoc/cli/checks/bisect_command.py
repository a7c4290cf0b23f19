"""``byoc bisect``: the first region, and the operator in it, whose numbers leave the reference."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from byoc.cli.report.progress import StageProgress
from byoc.cli.tensors.arrays import add_input_arguments, given_arrays, given_sizes
from byoc.cli.tensors.sample_files import SampleFiles
from byoc.debug.bisection import PART_SECONDS, bisect, replay
from byoc.debug.limits import ErrorLimits
from byoc.debug.options import BisectRequest
from byoc.errors import UserError
from byoc.options.flags import add_flags, given_options

HELP = "find the first region, and the operator in it, whose numbers leave the reference"
EXIT_FOUND = 2


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc bisect``."""
    command.add_argument("model", nargs="?", help="the ONNX file")
    command.add_argument("--replay", metavar="CASE.npz", help="run a case that bisect or certify wrote, on one target")
    add_input_arguments(command)
    command.add_argument(
        "--samples",
        metavar="FOLDER_OR_NPZ",
        help="several settings of the inputs, of which the first that shows a mistake is reported: a folder of .npz "
        "files with the inputs by name (.npy for one input), or one .npz whose arrays hold samples along a first axis",
    )
    add_flags(command, "bisect", BisectRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """What was found; the exit code is 0 where nothing leaves the reference."""
    given = given_options(arguments, BisectRequest)
    if (arguments.model is None) == (arguments.replay is None):
        raise UserError("give an ONNX model, or --replay and a case")
    if arguments.replay is not None:
        targets = given.get("targets", ())
        if len(targets) != 1:
            raise UserError("--replay runs on one target: write -t acme")
        precision = given.get("precision", "f32")
        limits = ErrorLimits.of(given.get("tolerance"), given.get("snr"), precision)
        step = replay(arguments.replay, targets[0], limits, given.get("part_seconds", PART_SECONDS), precision)
        data = {"case": arguments.replay, "target": targets[0], "ok": step.is_right, "text": str(step)}
        return data, f"{'right' if step.is_right else 'wrong'}: {step}", 0 if step.is_right else EXIT_FOUND
    inputs, sizes = given_arrays(arguments), given_sizes(arguments)
    samples = SampleFiles.of(Path(arguments.samples), Path(arguments.model), "--samples") if arguments.samples else ()
    with StageProgress(quiet=arguments.json) as progress:
        found = bisect(arguments.model, **given, inputs=inputs, samples=samples, sizes=sizes, progress=progress)
    return found.to_json(), str(found), 0 if found.ok else EXIT_FOUND
