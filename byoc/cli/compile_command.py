"""``byoc compile``: from a model to an artefact.

A model that is in the cache folder is written without loading the compiler.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from byoc.cli.calibration_options import add_calibration_options, calibration_from
from byoc.cli.generator_options import add_generator_options, backend_options_from
from byoc.cli.pass_options import add_pass_options, pipeline_without
from byoc.cli.placing_options import add_placing_options, asked_placing
from byoc.cli.progress import StageProgress
from byoc.cli.words import AVAILABLE, PRECISIONS, TUNE_LEVELS
from byoc.driver.entry import compile as compile_model
from byoc.errors import UserError

if TYPE_CHECKING:
    from byoc.partition.plan.plan import Plan

HELP = "compile an ONNX model into an artefact"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc compile``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument("-o", "--output", help="the artefact to write (default: the model's name with .byoc, here)")
    command.add_argument(
        "--tune",
        choices=TUNE_LEVELS,
        default="none",
        help="how much is tried for fast kernels on the host; what won is kept (default: none, a cost model decides)",
    )
    command.add_argument(
        "--plan", metavar="FILE", help="cut the model by this plan (byoc plan -o FILE.json), whose targets stand"
    )
    command.add_argument(
        "--fallback",
        action="store_true",
        help="put the host's version of each region in as well, which runs where a backend fails when the model runs",
    )
    command.add_argument(
        "--replan",
        action="store_true",
        help="plan again without a target that fails when compiling or is not on this machine; the report says so",
    )
    add_compile_options(command)
    add_pass_options(command)
    add_placing_options(command)
    add_calibration_options(command)


def add_compile_options(command: argparse.ArgumentParser) -> None:
    """The options that say how a model is compiled."""
    add_target_options(command)
    add_precision_options(command)


def add_target_options(command: argparse.ArgumentParser) -> None:
    """The options that say for what a model is compiled."""
    command.add_argument(
        "-t",
        "--target",
        action="append",
        metavar="NAME",
        help='a target, in order of preference; repeat it or separate by commas; a last "c" is the host (default: c)',
    )
    command.add_argument(
        "--shape", action="append", default=[], metavar="INPUT=1,3,224,224", help="fix the shape of an input"
    )
    command.add_argument(
        "--exclude", action="append", default=[], metavar="NAME", help="keep an ONNX node or an operator on the host"
    )


def add_precision_options(command: argparse.ArgumentParser) -> None:
    """The options that say what a model's products compute in, and how."""
    command.add_argument(
        "--precision",
        choices=PRECISIONS,
        default=PRECISIONS[0],
        help="what the host's products compute in, where that pays; sums are always float32 (default: f32)",
    )
    command.add_argument(
        "--keep-f32", action="append", default=[], metavar="NAME", help="an ONNX node or an operator that stays in f32"
    )
    add_generator_options(command)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Compile and save. Raises UserError with one sentence."""
    output = output_path(arguments.model, arguments.output)
    targets, shapes = parse_targets(arguments.target), parse_shapes(arguments.shape)
    calibration = calibration_from(arguments)
    start = time.perf_counter()
    with StageProgress(quiet=arguments.json) as tell:
        library = compile_model(
            arguments.model,
            targets,
            shapes=shapes,
            exclude=arguments.exclude,
            precision=arguments.precision,
            keep_f32=arguments.keep_f32,
            calibration=calibration,
            tune=arguments.tune,
            plan=plan_of(arguments),
            replan=arguments.replan,
            fallback=arguments.fallback,
            backend_options=backend_options_from(arguments),
            pipeline=pipeline_without(arguments.disable_pass),
            progress=tell,
        )
        tell("writing the artefact")
        library.save(output)
    seconds = time.perf_counter() - start
    size = output.stat().st_size
    data = {"output": str(output), "bytes": size, "seconds": round(seconds, 3), **library.report}
    told = (replanned_lines, origin_lines, fallback_lines, quantization_lines, tuning_lines)
    notes = "".join(lines(library.report) for lines in told)
    plan = library.report["plan_text"]
    return data, f"{plan}\n{notes}\nwrote {output} ({size:,} bytes) in {seconds:.1f} s", 0


def plan_of(arguments: argparse.Namespace) -> Plan | str | None:
    """The plan that the command line asks for: a file's, or one made as it says; None where the compiler makes it.

    Raises UserError for a file beside options that make a plan, and for what cannot be planned.
    """
    asked = asked_placing(arguments)
    if not asked:
        given: str | None = arguments.plan
        return given
    if arguments.plan is not None:
        raise UserError(f"--plan {arguments.plan}: the plan says where operators go already; leave out {asked[0]}")
    plan: Plan = importlib.import_module("byoc.cli.plan_command").planned(arguments)[1]
    return plan


def tuning_lines(report: Mapping[str, object]) -> str:
    """What tuning did; else empty."""
    told: Mapping[str, str] = report.get("tuning", {})  # type: ignore[assignment]
    return f"\n{told['text']}\n" if told else ""


def quantization_lines(report: Mapping[str, object]) -> str:
    """What int8 changes in each output, where samples told; else empty."""
    told: Mapping[str, object] = report.get("quantization", {})  # type: ignore[assignment]
    errors: Mapping[str, float] = told.get("errors", {})  # type: ignore[assignment]
    if not errors:
        return ""
    rows = "".join(f"  {name}: {error:.2%}\n" for name, error in errors.items())
    return f"\ndifference of int8 from f32 on the samples, relative to the size of the output:\n{rows}"


def replanned_lines(report: Mapping[str, object]) -> str:
    """The targets that were planned without, and why; else empty."""
    losses: Sequence[Mapping[str, str]] = report.get("replanned", ())  # type: ignore[assignment]
    rows = "".join(f"  {loss['target']} ({loss['stage']}): {loss['error']}\n" for loss in losses)
    return f"\nplanned again without:\n{rows}" if rows else ""


def origin_lines(report: Mapping[str, object]) -> str:
    """The regions that should have a version for the host and have none, and why; else empty."""
    told: Mapping[str, str] = report.get("fallback", {})  # type: ignore[assignment]
    rows = "".join(f"  {symbol}: {reason}\n" for symbol, reason in told.items() if reason != AVAILABLE)
    return f"\nregions that cannot fall back:\n{rows}" if rows else ""


def fallback_lines(report: Mapping[str, object]) -> str:
    """What does not run as it should, and why: host functions on numpy kernels, a model node by node; else empty."""
    reasons: Mapping[str, str] = report.get("host_fallbacks", {})  # type: ignore[assignment]
    by_node = report.get("node_by_node")
    whole = f"\nthe model runs node by node, not by one native call: {by_node}\n" if by_node else ""
    if not reasons:
        return whole
    rows = "".join(f"  {symbol}: {reason}\n" for symbol, reason in reasons.items())
    return f"\nhost functions on numpy kernels, for which no code is generated:\n{rows}{whole}"


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


def parse_targets(texts: Sequence[str] | None) -> list[str]:
    """The targets of ``-t opencl -t c`` or ``-t opencl,c``; the host alone without any. Raises UserError."""
    names = [name.strip() for text in texts or ["c"] for name in text.split(",")]
    if not all(names):
        raise UserError(f"--target {','.join(texts or ())!r}: a name is empty; write --target opencl --target c")
    return names


def parse_shapes(texts: Sequence[str]) -> dict[str, list[int | str]]:
    """``name=1,3,N`` texts as shapes by input; a dimension that is no number is a name. Raises UserError."""
    shapes: dict[str, list[int | str]] = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        if not equals or not name or not dims:
            raise UserError(f"--shape {text!r}: expected INPUT=1,3,224,224")
        shapes[name] = [_dimension(text, d.strip()) for d in dims.split(",")]
    return shapes


def _dimension(text: str, dim: str) -> int | str:
    if dim.isdecimal():
        return int(dim)
    if not dim.isidentifier():
        raise UserError(f"--shape {text!r}: {dim!r} is neither a number nor the name of a free dimension")
    return dim
