"""``byoc export-c``: from a model to a folder of C that builds with make and runs without Python."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Mapping

from byoc.cli.flags.tuning_options import add_tuning_options, tuner_from
from byoc.cli.report.progress import StageProgress
from byoc.driver.compiler.export_c import export_c
from byoc.driver.options import UNTUNED, ExportRequest
from byoc.options.flags import add_flags, given_options

HELP = "write an ONNX model as C that needs no Python"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc export-c``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument("folder", help="where the files go; it is made where it is missing")
    add_flags(command, "export-c", ExportRequest)
    add_tuning_options(command)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Export. Raises UserError with one sentence."""
    given = given_options(arguments, ExportRequest)
    start = time.perf_counter()
    with StageProgress(quiet=arguments.json) as progress:
        tuner = tuner_from(arguments, arguments.tune or UNTUNED, progress)
        made = export_c(arguments.model, arguments.folder, **{**given, "tune": tuner}, progress=progress)
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
    return data, f"{text}(cd {folder} && ./{given.get('symbol', ExportRequest.symbol)})", 0
