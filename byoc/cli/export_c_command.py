"""``byoc export-c``: from a model to a folder of C that builds with make and runs without Python."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Mapping

from byoc.cli.calibration_options import add_calibration_options, calibration_from
from byoc.cli.compile_command import add_precision_options, parse_shapes
from byoc.cli.generator_options import backend_options_from
from byoc.cli.progress import StageProgress
from byoc.cli.tuning_options import add_tuning_options, tuner_from
from byoc.codegen.c.export.options import WEIGHTS
from byoc.codegen.tune.level import LEVELS
from byoc.driver.export_c import export_c

HELP = "write an ONNX model as C that needs no Python"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc export-c``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument("folder", help="where the files go; it is made where it is missing")
    command.add_argument(
        "--portable", action="store_true", help="C99 without extensions, for any compiler and processor"
    )
    command.add_argument(
        "--threads", action="store_true", help="also a function by which threads of yours share one run"
    )
    command.add_argument(
        "--shape", action="append", default=[], metavar="INPUT=1,3,224,224", help="fix the shape of an input"
    )
    command.add_argument(
        "--symbol-prefix",
        default="model",
        metavar="NAME",
        help="with what the names of files and of functions begin (default: model)",
    )
    command.add_argument(
        "--weights",
        choices=WEIGHTS,
        default="",
        help="the weights as arrays in C, as a file that the assembler includes, or as a file for which the caller "
        "gives memory (default: c; incbin for more than 4 MiB that are not portable)",
    )
    command.add_argument(
        "--march",
        default="native",
        metavar="NAME",
        help="the processor that the code is for, as the C compiler calls it (default: this one)",
    )
    add_precision_options(command)
    add_calibration_options(command)
    command.add_argument(
        "--tune",
        choices=tuple(LEVELS),
        default="none",
        help="how much is tried for fast kernels on this machine; what won is kept "
        "(default: none, a cost model decides)",
    )
    add_tuning_options(command)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Export. Raises UserError with one sentence."""
    shapes, calibration = parse_shapes(arguments.shape), calibration_from(arguments)
    start = time.perf_counter()
    with StageProgress(quiet=arguments.json) as tell:
        made = export_c(
            arguments.model,
            arguments.folder,
            shapes=shapes,
            symbol=arguments.symbol_prefix,
            march=arguments.march,
            portable=arguments.portable,
            threads=arguments.threads,
            weights=arguments.weights,
            progress=tell,
            precision=arguments.precision,
            keep_f32=arguments.keep_f32,
            calibration=calibration,
            backend_options=backend_options_from(arguments),
            tune=(tuner := tuner_from(arguments, arguments.tune, tell)),
        )
    seconds = time.perf_counter() - start
    data: dict[str, object] = {"output": arguments.folder, "files": made, "seconds": round(seconds, 3)}
    data["notes"] = made.notes
    tuned = ""
    if tuner.tunes:
        data["tuning"], tuned = tuner.report.to_json(), f"{tuner.report.text()}\n"
    rows = "\n".join(f"  {name} ({size:,} bytes)" for name, size in made.items())
    folder = shlex.quote(arguments.folder)
    notes = "".join(f"{note}\n" for note in made.notes)
    text = f"{tuned}{notes}wrote {arguments.folder} in {seconds:.1f} s:\n{rows}\nbuild it: make -C {folder}; run it: "
    return data, f"{text}(cd {folder} && ./{arguments.symbol_prefix})", 0
