"""``byoc inspect``: what is in an artefact, or in a model."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from byoc.cli.flags.option_values import PROGRAM_ENDING
from byoc.cli.report.library_notes import notes_of
from byoc.errors import UserError
from byoc.options.texts import parse_targets
from byoc.partition.plan.plan import Plan
from byoc.runtime.artefact.artifact import read_artifact
from byoc.runtime.core.strict_json import mapping_of
from byoc.runtime.files.whole_file import open_file
from byoc.runtime.library import Library
from byoc.runtime.loading import read_library

HELP = "show what is in an artefact or in an ONNX model"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc inspect``."""
    command.add_argument("file", help="an artefact (.byoc) or a model (.onnx)")
    command.add_argument("--text", action="store_true", help="a model: print the simplified graph in Relay's text")
    command.add_argument(
        "-t",
        "--target",
        action="append",
        metavar="NAME",
        help="a model: the graph that these targets are asked about, which for those that compute on integers has what "
        "the model quantizes as operators of qnn; repeat it or separate by commas",
    )
    command.add_argument("--source", action="store_true", help="an artefact: print the source of its modules")


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Describe the file by its kind. Raises UserError when it is neither."""
    path = Path(arguments.file)
    if not path.is_file():
        raise UserError(f"{path}: this is a folder" if path.is_dir() else f"{path}: there is no such file")
    with open_file(path) as file:
        is_artifact = path.suffix != PROGRAM_ENDING and (file.read(2) == b"PK" or path.suffix == ".byoc")
    if arguments.text and is_artifact:
        raise UserError(f"--text is for ONNX models; {path} is an artefact: --source shows what it holds")
    if arguments.source and not is_artifact:
        raise UserError(f"--source is for artefacts; {path} is a model: compile it first")
    if arguments.target and is_artifact:
        raise UserError(f"--target is for ONNX models; {path} is an artefact, and was cut already")
    if is_artifact:
        return inspect_artifact(path, arguments.source)
    from byoc.cli.report.inspected_model import inspect_model  # a process that looks into artefacts needs no compiler

    return inspect_model(path, arguments.text, parse_targets(arguments.target))


def inspect_artifact(path: Path, source: bool) -> tuple[Mapping[str, object], str, int]:
    """The manifest, the module tree, the plan; also of an artefact that cannot run here, with the reason."""
    manifest = read_artifact(path).manifest
    library = read_library(path)
    problems = library.problems()
    plan = Plan.from_json(library.report["plan"])
    sources = _sources(library) if source else {}
    data = {**manifest, "problems": problems, "report": library.report, **({"sources": sources} if source else {})}
    producer = mapping_of(manifest["producer"], "producer")
    lines = [
        f"{path}: schema {manifest['schema_version']}, made by byoc {producer['version']}",
        *(f"input   {s.name}: {s.dtype}{s}{_may_be_left(s.name, library)}" for s in library.inputs),
        *(f"output  {s.name}: {s.dtype}{s}" for s in library.outputs),
        f"constants: {len(library.module.constant_arrays)} of {library.module.constant_bytes:,} bytes",
        *_memory_lines(library.report),
        "modules:",
        *(f"  {line}" for line in library.module.tree().splitlines()),
        *(f"cannot run here: {place}: {problem}" for place, problem in problems.items()),
        "",
        f"{plan}\n{_summary(library.report)}".rstrip(),
        *(f"\n// {key}\n{text}" for key, text in sources.items()),
    ]
    return data, "\n".join(lines), 0


def _may_be_left(name: str, library: Library) -> str:
    return ", which a run may leave out" if name in library.input_defaults else ""


def _summary(report: Mapping[str, object]) -> str:
    """What the artefact records of itself beside its plan."""
    found = report.get("labels")
    labels = "".join(f"label {name}: {text}\n" for name, text in found.items()) if isinstance(found, dict) else ""
    return labels + notes_of(report)


def _memory_lines(report: Mapping[str, object]) -> list[str]:
    """The memory of a device for each region that says what it takes, and how much of it is needed at one time."""
    regions = report.get("regions")
    listed = [r for r in regions if isinstance(r, dict)] if isinstance(regions, list) else []
    return [
        f"device memory of {r['region']}: {r['device_memory']:,} bytes ({r['device_memory_bound']:,} at one time)"
        for r in listed
        if isinstance(r.get("device_memory"), int) and isinstance(r.get("device_memory_bound"), int)
    ]


def _sources(library: Library) -> dict[str, str]:
    return {f"module {k} ({m.type_key})": m.get_source() for k, m in enumerate(library.module.imports)}
