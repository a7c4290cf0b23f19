"""The options that say by which samples a model is quantized, and the files that hold these."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from byoc.cli.flags.option_values import CALIBRATIONS, PERCENTILE
from byoc.cli.tensors.sample_files import SampleFiles
from byoc.errors import UserError

if TYPE_CHECKING:
    from byoc.driver.quantization import Calibration

OPTIONS = ("method", "percentile", "keep_first", "keep_last", "max_error")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of a command that quantizes."""
    command.add_argument(
        "--calibrate",
        metavar="FOLDER_OR_NPZ",
        help="samples of the inputs, by which --precision int8 and fp16 find ranges: a folder of .npz files with the "
        "inputs by name (.npy for one input), or one .npz whose arrays hold samples along a first axis",
    )
    command.add_argument(
        "--calibration-method",
        dest="method",
        choices=CALIBRATIONS,
        default=None,
        help=f"how a range is chosen from what was seen (default: {CALIBRATIONS[0]})",
    )
    command.add_argument(
        "--percentile", type=float, metavar="P", help=f"per cent of the values that stay inside (default: {PERCENTILE})"
    )
    command.add_argument("--keep-first", action="store_true", default=None, help="leave the first product in f32")
    command.add_argument("--keep-last", action="store_true", default=None, help="leave the last product in f32")
    command.add_argument(
        "--max-error",
        type=float,
        metavar="E",
        help="fail where an output differs from f32 by more than this share of its size on the samples",
    )


def value_from(arguments: argparse.Namespace) -> Calibration | None:
    """The calibration that the command line describes; None for none. Raises UserError for what cannot be."""
    chosen = {name: getattr(arguments, name) for name in OPTIONS if getattr(arguments, name) is not None}
    if arguments.calibrate is None:
        if chosen:
            raise UserError(f"--{_spelled(next(iter(chosen)))} is for samples: name them with --calibrate")
        return None
    if arguments.precision not in ("int8", "fp16"):
        raise UserError("--calibrate is for --precision int8 and fp16")
    samples = SampleFiles.of(Path(arguments.calibrate), Path(arguments.model), "--calibrate")
    made: Calibration = importlib.import_module("byoc.driver.quantization").Calibration(samples, **chosen)
    return made


def _spelled(name: str) -> str:
    return "calibration-method" if name == "method" else name.replace("_", "-")
