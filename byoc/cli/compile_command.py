"""``byoc compile``: from a model to an artefact.

A model that is in the cache folder is written without loading the compiler.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from byoc.cli.report.library_notes import notes_of
from byoc.cli.report.progress import StageProgress
from byoc.driver.compiler.entry import compile as compile_model
from byoc.driver.options import CompileRequest
from byoc.errors import UserError
from byoc.options.declaration import part_of
from byoc.options.flags import add_flags, flag_of, given_options
from byoc.partition.options import CutOptions, PlacingOptions

if TYPE_CHECKING:
    from byoc.partition.plan.plan import Plan

HELP = "compile an ONNX model into an artefact"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc compile``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument("-o", "--output", help="the artefact to write (default: the model's name with .byoc, here)")
    add_flags(command, "compile", CompileRequest, PlacingOptions)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Compile and save. Raises UserError with one sentence."""
    output = output_path(arguments.model, arguments.output)
    given = {**given_options(arguments, CompileRequest), **made_plan(arguments)}
    start = time.perf_counter()
    with StageProgress(quiet=arguments.json) as progress:
        library = compile_model(arguments.model, **given, progress=progress)
        progress("writing the artefact")
        library.save(output)
    seconds = time.perf_counter() - start
    size = output.stat().st_size
    data = {"output": str(output), "bytes": size, "seconds": round(seconds, 3), **library.report}
    plan = library.report["plan_text"]
    return data, f"{plan}\n{notes_of(library.report)}\nwrote {output} ({size:,} bytes) in {seconds:.1f} s", 0


def made_plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """The plan where the command line says how to make one, with the options of the cut as they are without it.

    Raises UserError for a file beside options that make a plan, and for what cannot be planned.
    """
    asked = asked_placing(arguments)
    if not asked:
        return {}
    if arguments.plan is not None:
        raise UserError(f"--plan {arguments.plan}: the plan says where operators go already; leave out {asked[0]}")
    plan: Plan = importlib.import_module("byoc.cli.plan_command").plan_from_arguments(arguments)[1]
    return {**part_of(PlacingOptions(), CutOptions), "configuration": None, "plan": plan}


def asked_placing(arguments: argparse.Namespace) -> list[str]:
    """The flags of placing, but ``--exclude``, that are given and not as they are where nobody gives them."""
    given = given_options(arguments, PlacingOptions)
    usual = PlacingOptions()
    return [
        flag_of(name, PlacingOptions) for name, v in given.items() if name != "exclude" and v != getattr(usual, name)
    ]


def output_path(model: str, output: str | None) -> Path:
    """Where the artefact goes. Raises UserError, before any work, for a place that cannot be written."""
    path = Path(output or f"{Path(model).stem or 'model'}.byoc")
    if path.is_dir():
        raise UserError(f"{path}: this is a folder; name the artefact, as in --output {path / 'model.byoc'}")
    if not path.parent.is_dir():
        raise UserError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path}: the folder {path.parent} cannot be written; choose another with --output")
    if path.exists() and Path(model).exists() and path.samefile(model):
        raise UserError(f"{path}: this is the model itself; choose another name with --output")
    return path
