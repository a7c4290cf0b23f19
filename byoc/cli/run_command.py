"""``byoc run``: run an artefact, or a model that is compiled first, on arrays from files or on seeded random ones."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from byoc.cli.flags.devices import HELP as DEVICE_HELP
from byoc.cli.flags.devices import use_device, with_device
from byoc.cli.flags.option_values import PROGRAM_ENDING
from byoc.cli.report.progress import StageProgress
from byoc.cli.report.run_times import RunSetting, RunTimes, largest_difference, run_settings, table_of
from byoc.cli.run_end import ended_in_time
from byoc.cli.tensors.arrays import nameless, npz_bytes, parse_sizes, random_inputs, read_inputs
from byoc.driver.options import CompileRequest
from byoc.errors import InputError, UserError
from byoc.options.flags import add_flags, given_flags, given_options
from byoc.runtime.artefact.artifact import replace_file
from byoc.runtime.core.ndarray import dtype_name
from byoc.runtime.core.small_types import BITS
from byoc.runtime.core.time_limit import check_timeout
from byoc.runtime.files.whole_file import open_file
from byoc.runtime.library import Library
from byoc.runtime.loading import load

HELP = "run an artefact, or an ONNX model, which is compiled first"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc run``."""
    command.add_argument("file", help="an artefact that byoc compile wrote, or an ONNX model")
    command.add_argument("-i", "--input", action="append", default=[], metavar="NAME=FILE.npy", help="an input")
    command.add_argument("--random", action="store_true", help="fill inputs that are not given with seeded numbers")
    command.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="the size of a free dimension for --random"
    )
    command.add_argument("-o", "--output", metavar="FILE.npz", help="write the outputs to a file")
    command.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times more and give the spread")
    command.add_argument(
        "--warmup", type=int, default=0, metavar="M", help="run M times before them that do not count (default: 0)"
    )
    command.add_argument(
        "--trusted",
        action="append",
        metavar="KEY.pem",
        help="run an artefact only if one of these public keys signed it",
    )
    command.add_argument(
        "--threads",
        metavar="N[,N...]",
        help="threads of a run (default: the processors that byoc may use); several are run one after the other",
    )
    command.add_argument(
        "--devices",
        metavar="NAME[,NAME...]",
        help=f"{DEVICE_HELP}; several are run one after the other",
    )
    command.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="how long a run may take (default: as long as it takes)"
    )
    command.add_argument(
        "--eager", action="store_true", help="initialise every module before the first run, and say how long that took"
    )
    add_flags(command.add_argument_group("options for a model, as of byoc compile"), "run", CompileRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Load or compile, run, describe the outputs. Raises UserError with one sentence."""
    for name, least in (("repeat", 1), ("warmup", 0)):
        if getattr(arguments, name) < least:
            raise UserError(f"--{name} is at least {least}, got {getattr(arguments, name)}")
    check_timeout(arguments.timeout)
    settings = run_settings(arguments.threads, arguments.devices)
    with StageProgress(quiet=arguments.json) as progress:
        measured = [_measured(arguments, setting, progress) for setting in settings]
    library, outputs, found = measured[0]
    named = {spec.name: value for spec, value in zip(library.outputs, outputs, strict=True)}
    if arguments.output:
        replace_file(Path(arguments.output), lambda file: file.write(npz_bytes(named)))
    rows = [describe(name, value) for name, value in named.items()]
    times = [replace(t, difference=largest_difference(outputs, values)) for _, values, t in measured]
    fallbacks = [fallback for lib, _, _ in measured for fallback in lib.fallbacks]
    data = {
        "outputs": rows,
        **found.to_json(),
        "fallbacks": [f.to_json() for f in fallbacks],
        "initialization": library.initialization,
        "settings": [t.to_json() for t in times],
    }
    lines = [*map(_line, rows), *([table_of(times)] if len(times) > 1 else [found.text()])]
    if arguments.eager:
        lines += [f"initialised {_initialized(entry)}" for entry in library.initialization]
    lines += [f"on the host instead: {fallback}" for fallback in fallbacks]
    if arguments.output:
        lines.append(f"wrote {arguments.output}")
        lines += filter(None, [nameless(named)])
    return data, "\n".join(lines), 0


def _measured(
    arguments: argparse.Namespace, setting: RunSetting, progress: StageProgress
) -> tuple[Library, list[np.ndarray], RunTimes]:
    """A library of its own that ran with *setting*, the outputs, and the times; copies in and out are in a run."""
    begin = time.perf_counter()
    library = open_library(arguments, progress, setting.device)
    opening = time.perf_counter() - begin
    library.threads = setting.threads
    inputs = _inputs(library, arguments)
    if arguments.eager:
        progress("initialising the modules")
        library.initialize()
    progress(f"running{setting.words}")
    outputs, first = _timed(library, inputs, arguments.timeout)
    for _ in range(arguments.warmup):
        _timed(library, inputs, arguments.timeout)
    seconds = [_timed(library, inputs, arguments.timeout)[1] for _ in range(arguments.repeat)]
    return library, outputs, RunTimes(setting, opening, first, arguments.warmup, tuple(seconds))


def _initialized(entry: Mapping[str, Any]) -> str:
    return (
        f"module {entry['module']} ({entry['type']}: {', '.join(entry['symbols'])}) in {entry['seconds'] * 1e3:.3f} ms"
    )


def open_library(arguments: argparse.Namespace, progress: StageProgress, device: str = "") -> Library:
    """The artefact, or the model compiled, for an OpenCL *device* where one is named.

    Raises UserError for options that do not belong to the file, and for a device where nothing runs on one.
    """
    path = Path(arguments.file)
    if not is_model(path):
        library = load_artifact(path, arguments, progress)
    elif arguments.trusted:
        raise UserError(f"--trusted is for artefacts; {path} is a model, which nobody signed")
    else:
        from byoc.driver.compiler.compile import compile_model  # a process that runs artefacts needs no compiler

        given = with_device(given_options(arguments, CompileRequest), device)
        library = compile_model(CompileRequest(path, **given, progress=progress))
    if device:
        use_device(library, device)
    return library


def is_model(path: Path) -> bool:
    """Whether the file at *path* is a model and no artefact. Raises UserError where there is none."""
    if not path.exists():
        raise UserError(f"{path}: there is no such file")
    return path.suffix == PROGRAM_ENDING or (path.suffix == ".onnx" and not _is_zip(path))


def load_artifact(path: Path, arguments: argparse.Namespace, progress: StageProgress) -> Library:
    """The artefact at *path*. Raises UserError for options that are for models."""
    given = given_flags(arguments, CompileRequest)
    if given:
        raise UserError(f"{given[0]} is for ONNX models; {path} is compiled already")
    progress("loading the artefact")
    return load(path, trusted=arguments.trusted)


def _is_zip(path: Path) -> bool:
    if not path.is_file():
        return False
    with open_file(path) as file:
        return file.read(2) == b"PK"


def _inputs(library: Library, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    sizes = parse_sizes(library, arguments.size)
    inputs = read_inputs(library, arguments.input)
    if arguments.random:
        return {**random_inputs(library, sizes), **library.input_defaults, **inputs}
    given = {**library.input_defaults, **inputs}
    missing = [spec for spec in library.inputs if spec.name not in given]
    if missing:
        wanted = ", ".join(f"{s.name}: {s.dtype}{s}" for s in missing)
        raise InputError(f"missing input {wanted}; give --input {missing[0].name}=FILE.npy, or --random")
    return given


def _timed(library: Library, inputs: Mapping[str, np.ndarray], timeout: float | None) -> tuple[list[np.ndarray], float]:
    with ended_in_time("byoc run", timeout):
        start = time.perf_counter()
        outputs = library.run(inputs, timeout)
        return outputs, time.perf_counter() - start


@dataclass(frozen=True)
class _Spread:
    """Least, greatest and mean of numbers; None where there are none."""

    min: float | None = None
    max: float | None = None
    mean: float | None = None

    @staticmethod
    def of(numbers: np.ndarray) -> _Spread:
        return _Spread(*map(float, (numbers.min(), numbers.max(), numbers.mean()))) if numbers.size else _Spread()


_SPREAD = tuple(field.name for field in fields(_Spread))


def _is_number(dtype: np.dtype) -> bool:
    return dtype.kind in "fiub" or dtype_name(dtype) in BITS


def describe(name: str, value: np.ndarray) -> dict[str, object]:
    """Shape, dtype, and least, greatest and mean of the finite numbers of an output; None where there are none."""
    numbers = value.astype(np.float64) if _is_number(value.dtype) else np.zeros(0)
    finite = numbers[np.isfinite(numbers)]
    return {
        "name": name,
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        **asdict(_Spread.of(finite)),
        "not_finite": int(numbers.size - finite.size),
    }


def _line(row: Mapping[str, Any]) -> str:
    numbers = "  ".join(f"{k} {row[k]:.6g}" for k in _SPREAD if row[k] is not None)
    odd = f"  {row['not_finite']} of {math.prod(row['shape'])} not finite" if row["not_finite"] else ""
    return f"{row['name']}: {row['dtype']}{row['shape']}  {numbers}{odd}".rstrip()
