"""``byoc compile``: from a model to an artefact."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from byoc.driver.cli.progress import StageProgress
from byoc.driver.compile import compile as compile_model
from byoc.errors import UserError
from byoc.partition.plan import Plan

HELP = "compile an ONNX model into an artefact"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc compile``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument("-o", "--output", help="the artefact to write (default: the model's name with .byoc)")
    command.add_argument(
        "-t", "--target", action="append", metavar="NAME",
        help='a target, in order of preference; repeat it; a last "c" is the host (default: c)',
    )
    command.add_argument(
        "--shape", action="append", default=[], metavar="INPUT=1,3,224,224", help="fix the shape of an input"
    )
    command.add_argument(
        "--exclude", action="append", default=[], metavar="NAME", help="keep an ONNX node or an operator on the host"
    )


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Compile and save. Raises UserError with one sentence."""
    output = Path(arguments.output or Path(arguments.model).with_suffix(".byoc").name)
    if not output.parent.is_dir():
        raise UserError(f"{output}: the folder {output.parent} does not exist; make it first")
    start = time.perf_counter()
    with StageProgress(quiet=arguments.json) as tell:
        library = compile_model(
            arguments.model,
            arguments.target or ["c"],
            shapes=parse_shapes(arguments.shape),
            exclude=arguments.exclude,
            progress=tell,
        )
        tell("writing the artefact")
        library.save(output)
    seconds = time.perf_counter() - start
    plan = Plan.from_json(library.report["plan"])  # type: ignore[arg-type]
    data = {"output": str(output), "bytes": output.stat().st_size, "seconds": round(seconds, 3), **library.report}
    text = f"{plan}\n\nwrote {output} ({data['bytes']} bytes) in {seconds:.1f} s"
    return data, text, 0


def parse_shapes(texts: Sequence[str]) -> dict[str, list[int | str]]:
    """``name=1,3,N`` texts as shapes by input; a dimension that is no number is a name. Raises UserError."""
    shapes: dict[str, list[int | str]] = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        if not equals or not name or not dims:
            raise UserError(f"--shape {text!r}: expected INPUT=1,3,224,224")
        shapes[name] = [int(d) if d.strip().lstrip("-").isdigit() else d.strip() for d in dims.split(",")]
        if any(isinstance(d, int) and d < 0 for d in shapes[name]):
            raise UserError(f"--shape {text!r}: a dimension is not negative; give a free one a name")
    return shapes
