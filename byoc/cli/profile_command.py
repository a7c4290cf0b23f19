"""``byoc profile``: what each part of a model takes, as a table, JSON, a page or a trace."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from byoc.cli.profile_values import profile_values
from byoc.cli.report.executed_graph import executed_graph
from byoc.cli.report.profile_vm import profile_by_machine
from byoc.cli.report.progress import StageProgress
from byoc.cli.run_command import is_model, load_artifact
from byoc.cli.tensors.arrays import named_arrays, named_sizes, parse_sizes, random_inputs, read_inputs
from byoc.debug.machine_runs import load_executable
from byoc.driver.compiler.compile_times import timed_build, timed_compile
from byoc.driver.options import CompileRequest
from byoc.driver.vm.cut_model import compile_for_vm
from byoc.errors import UserError
from byoc.options.flags import add_flags, given_options
from byoc.runtime.artefact.artifact import replace_file
from byoc.runtime.files.whole_file import read_file
from byoc.runtime.library import Library
from byoc.runtime.profile.record import CompileTimes
from byoc.runtime.profile.rows import LEVELS
from byoc.runtime.profile.run_profile import RunProfile

HELP = "time each region, kernel, operator and ONNX node of an artefact or a model"
WRITTEN: Mapping[str, Callable[[RunProfile, Library | None], str]] = {
    ".trace.json": lambda profile, _: json.dumps(profile.trace()),
    ".json": lambda profile, _: json.dumps(profile.to_json(), indent=1),
    ".html": lambda profile, library: profile.to_html("" if library is None else executed_graph(library, profile)),
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc profile``."""
    command.add_argument("file", help="an artefact that byoc compile wrote, or an ONNX model, which is compiled first")
    command.add_argument(
        "-i",
        "--inputs",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an input (default: seeded numbers)",
    )
    command.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="the size of a free dimension (default: 1)"
    )
    command.add_argument("--repeat", type=int, default=10, metavar="N", help="runs that count (default: 10)")
    command.add_argument("--warmup", type=int, default=2, metavar="N", help="runs before them (default: 2)")
    command.add_argument("--by", choices=LEVELS, default="kernel", help="what a row is (default: kernel)")
    command.add_argument("--all", action="store_true", help="all rows, not the longest alone")
    command.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help="write the profile: .json (which --compare takes), .html, or .trace.json for Perfetto and chrome://tracing",
    )
    command.add_argument(
        "--vm",
        action="store_true",
        help="by the virtual machine, which also runs what has control flow: a model, or an executable that was saved",
    )
    command.add_argument(
        "--values",
        action="store_true",
        help="instead of times the mean, deviation, extremes, NaN, infinite numbers and growth of each tensor of one "
        "run; a model is compiled operator by operator for it",
    )
    command.add_argument("--compare", metavar="OTHER.json", help="put it beside a profile that was written before")
    command.add_argument("--threads", type=int, metavar="N", help="threads of the whole program's run")
    command.add_argument(
        "--trusted", action="append", metavar="KEY.pem", help="an artefact only if one of these public keys signed it"
    )
    add_flags(command.add_argument_group("options for a model, as of byoc compile"), "profile", CompileRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Profile, write what is asked for, and print the table. Raises UserError with one sentence."""
    if arguments.values:
        return profile_values(arguments)
    outputs = [Path(text) for text in arguments.output]
    for path in outputs:
        _writer(path)
    other = read_profile(Path(arguments.compare)) if arguments.compare else None
    with StageProgress(quiet=arguments.json) as progress:
        library, times = (None, CompileTimes()) if arguments.vm else _library(arguments, progress)
        if library is None:
            measured, times = _by_machine(arguments, progress)
        else:
            measured = _by_graph(library, arguments, progress)
    profile = dataclasses.replace(measured, model=Path(arguments.file).stem, compiling=times)
    for path in outputs:
        write(path, profile, library)
    most = None if arguments.all else 40
    text = profile.table(arguments.by, most)
    if other is not None:
        text += f"\n\n{profile.compare(other, arguments.by, most)}"
    wrote = "".join(f"\nwrote {path}" for path in outputs)
    data = {**profile.to_json(), "rows": [row.to_json() for row in profile.rows(arguments.by)]}
    return data, text + wrote, 0


def _by_graph(library: Library, arguments: argparse.Namespace, progress: StageProgress) -> RunProfile:
    """What an artefact or a model takes as a graph."""
    library.threads = arguments.threads
    inputs = {
        **random_inputs(library, parse_sizes(library, arguments.size)),
        **read_inputs(library, arguments.inputs),
    }
    progress("running")
    return library.profile(inputs, repeat=arguments.repeat, warmup=arguments.warmup)


def _by_machine(arguments: argparse.Namespace, progress: StageProgress) -> tuple[RunProfile, CompileTimes]:
    """What a model, or an executable that was saved, takes by the virtual machine. Raises UserError for a graph."""
    path = Path(arguments.file)
    if arguments.threads is not None:
        raise UserError("--threads is for a whole program; the virtual machine calls functions on one thread")
    given, sizes = named_arrays(arguments.inputs, "--inputs"), named_sizes(arguments.size)
    if is_model(path):
        asked = CompileRequest(path, **given_options(arguments, CompileRequest), progress=progress)
        executable, times = timed_build(compile_for_vm, asked)
    else:
        executable, times = load_executable(path), CompileTimes()
    progress("running")
    return profile_by_machine(executable, given, sizes, (arguments.repeat, arguments.warmup)), times


def _library(arguments: argparse.Namespace, progress: StageProgress) -> tuple[Library, CompileTimes]:
    """The artefact, or the model compiled, and what that took."""
    path = Path(arguments.file)
    if not is_model(path):
        return load_artifact(path, arguments, progress), CompileTimes()
    if arguments.trusted:
        raise UserError(f"--trusted is for artefacts; {path} is a model, which nobody signed")
    request = CompileRequest(path, **given_options(arguments, CompileRequest), progress=progress)
    return timed_compile(request)


def read_profile(path: Path) -> RunProfile:
    """The profile in a file. Raises UserError for anything else."""
    try:
        data = read_file(path)
    except OSError as error:
        raise UserError(f"{path}: the profile cannot be read ({error.strerror})") from error
    return RunProfile.from_json(data, str(path))


def _writer(path: Path) -> Callable[[RunProfile, Library | None], str]:
    for suffix, writer in WRITTEN.items():
        if path.name.endswith(suffix):
            return writer
    raise UserError(f"--output {path}: a profile is written as {', '.join(WRITTEN)}")


def write(path: Path, profile: RunProfile, library: Library | None = None) -> None:
    """Write *profile*, of *library*, in the form that the name of *path* says, whole or not at all."""
    text = _writer(path)(profile, library)
    replace_file(path, lambda file: file.write(text.encode()))
