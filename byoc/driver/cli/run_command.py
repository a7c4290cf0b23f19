"""``byoc run``: run an artefact on arrays from files, or on seeded random ones."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from byoc.errors import InputError, UserError
from byoc.runtime.library import Library, load
from byoc.runtime.ndarray import numpy_dtype
from byoc.runtime.signature import TensorSpec

HELP = "run an artefact"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc run``."""
    command.add_argument("artifact", help="the file that byoc compile wrote")
    command.add_argument("-i", "--input", action="append", default=[], metavar="NAME=FILE.npy", help="an input")
    command.add_argument("--random", action="store_true", help="fill inputs that are not given with seeded numbers")
    command.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="the size of a free dimension for --random"
    )
    command.add_argument("-o", "--output", metavar="FILE.npz", help="write the outputs to a file")
    command.add_argument("--repeat", type=int, default=1, help="run several times and give the median time")


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Load, run, describe the outputs. Raises UserError with one sentence."""
    if arguments.repeat < 1:
        raise UserError(f"--repeat is at least 1, got {arguments.repeat}")
    library = load(arguments.artifact)
    inputs = read_inputs(library, arguments.input)
    if arguments.random:
        inputs = {**random_inputs(library, _sizes(arguments.size)), **inputs}
    seconds = []
    for _ in range(arguments.repeat):
        start = time.perf_counter()
        outputs = library.run(inputs)
        seconds.append(time.perf_counter() - start)
    named = {spec.name: value for spec, value in zip(library.outputs, outputs, strict=True)}
    if arguments.output:
        np.savez(arguments.output, **named)
    rows = [describe(name, value) for name, value in named.items()]
    data = {"outputs": rows, "median_ms": statistics.median(seconds) * 1e3, "runs": arguments.repeat}
    lines = [f"{r['name']}: {r['dtype']}{r['shape']}  min {r['min']:.6g}  max {r['max']:.6g}  mean {r['mean']:.6g}" for r in rows]
    text = "\n".join([*lines, f"median of {arguments.repeat}: {data['median_ms']:.3f} ms"])
    return data, text, 0


def read_inputs(library: Library, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """``NAME=FILE.npy`` texts as arrays; without a name where the model has one input. Raises InputError."""
    arrays: dict[str, np.ndarray] = {}
    for text in texts:
        name, equals, file = text.rpartition("=")
        if not equals:
            if len(library.inputs) != 1:
                raise InputError(f"--input {text!r}: the model has several inputs; write NAME={text}")
            name = library.inputs[0].name
        try:
            arrays[name] = np.load(Path(file), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"input {name!r}: {file} cannot be read as a .npy file ({error})") from error
    return arrays


def _sizes(texts: Sequence[str]) -> dict[str, int]:
    sizes = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdigit():
            raise UserError(f"--size {text!r}: expected NAME=NUMBER")
        sizes[name] = int(number)
    return sizes


def random_inputs(library: Library, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Seeded inputs; a free dimension is 1 unless *sizes* names it."""
    rng = np.random.default_rng(0)
    return {spec.name: _random(spec, sizes, rng) for spec in library.inputs}


def _random(spec: TensorSpec, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
    shape = tuple(d if isinstance(d, int) else sizes.get(d or "", 1) for d in spec.shape)
    dtype = numpy_dtype(spec.dtype)
    values = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
    return np.asarray(values, dtype)


def describe(name: str, value: np.ndarray) -> dict[str, object]:
    """Shape, dtype and range of an output."""
    numeric = value.astype(np.float64) if value.size and value.dtype.kind in "fiub" else np.zeros(1)
    return {
        "name": name,
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "min": float(numeric.min()),
        "max": float(numeric.max()),
        "mean": float(numeric.mean()),
    }
