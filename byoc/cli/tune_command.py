"""``byoc tune``: find fast kernels for a model, and hand on what was found."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

from byoc.cli.flags.tuning_options import add_tuning_options, database_of, tuner_from
from byoc.cli.report.progress import StageProgress
from byoc.codegen.tune.database import best_of, export_records, import_records
from byoc.codegen.tune.level import LEVELS
from byoc.driver.compiler.compile import compile_model
from byoc.driver.options import CompileRequest
from byoc.errors import UserError
from byoc.options.flags import add_flags, given_options

HELP = "find fast kernels for a model by trying, or hand on what was found"
TRYING = tuple(name for name, level in LEVELS.items() if level.rounds)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc tune``."""
    command.add_argument("model", nargs="?", help="the ONNX file whose kernels are tuned")
    command.add_argument("--level", choices=TRYING, default=TRYING[0], help=f"how much is tried (default: {TRYING[0]})")
    command.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="FILE",
        help="take over what such a file says, before tuning; repeat it for several",
    )
    command.add_argument("--export", metavar="FILE", help="write all that is known to a file, afterwards")
    command.add_argument(
        "--merge", nargs="+", default=[], metavar="FILE", help="only merge such files into the file of --export"
    )
    add_tuning_options(command)
    add_flags(command, "tune", CompileRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Tune, import, export or merge. Raises UserError with one sentence."""
    if arguments.merge:
        return _merge(arguments)
    if not (arguments.model or arguments.imports or arguments.export):
        raise UserError("nothing to do: name a model to tune, or --import or --export a file")
    database = database_of(arguments)
    data: dict[str, object] = {}
    lines = []
    if arguments.imports:
        records = best_of(r for file in arguments.imports for r in import_records(Path(file)))
        problem = database.add(records)
        if problem:
            raise UserError(f"{problem}: name another folder with --database or BYOC_CACHE_DIR")
        data["imported"] = len(records)
        lines.append(f"imported {len(records)} records")
    if arguments.model:
        tuning, text = _tune(arguments)
        data["tuning"] = tuning
        lines.append(text)
    if arguments.export:
        records = database.read_all()
        export_records(Path(arguments.export), records)
        data["exported"] = len(records)
        lines.append(f"wrote {len(records)} records to {arguments.export}")
    return data, "\n".join(lines), 0


def _tune(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str]:
    """The report of tuning the model, in both forms; its code is compiled as well, and is in the cache then."""
    start = time.perf_counter()
    with StageProgress(quiet=arguments.json) as progress:
        tuner = tuner_from(arguments, arguments.level, progress, again=True)
        given = given_options(arguments, CompileRequest)
        compile_model(CompileRequest(arguments.model, **given, tune=tuner, progress=progress))
    seconds = time.perf_counter() - start
    report = {**tuner.report.to_json(), "seconds_in_all": round(seconds, 3)}
    return report, f"{tuner.report.text()}\ncompiled in {seconds:.1f} s, tuning included"


def _merge(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    if not arguments.export:
        raise UserError("--merge needs --export FILE: where the merged records go")
    records = best_of(r for file in arguments.merge for r in import_records(Path(file)))
    export_records(Path(arguments.export), records)
    return {"exported": len(records)}, f"wrote {len(records)} records to {arguments.export}", 0
