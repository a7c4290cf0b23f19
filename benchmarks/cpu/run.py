"""Our generated host code against ONNX Runtime and OpenVINO: ``python -m benchmarks.cpu --zoo FOLDER``.

For every ONNX file of the folder (``export_zoo.py`` makes nine known architectures) it compiles, checks that each
engine's outputs agree with ONNX Runtime's in f32 within TOLERANCE of the output's range, and times all in turns of one
run (``rounds.py``), with a loop that gives the processor's peak (``peak.py``). Printed are milliseconds, how many times
as fast as each peer and the better peer we are, the share of the peak that the model's multiply-adds (``counts.py``)
make, the geometric mean, then peak memory of each engine alone (``alone.py``), compile times with an empty and a filled
cache, and what one call of a tiny model costs. ``--groups MODEL`` instead shows where one model's time goes, and
``--sizes free`` what models with free sizes take (``free_sizes.py``). The status is 1 when a model of ours fails or
gives other numbers. Times are of this machine as it is: measure on an idle one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np

from benchmarks.cpu.alone import write_model
from benchmarks.cpu.counts import multiply_adds
from benchmarks.cpu.free_sizes import FreeModel, SizeCell, size_header, size_line, size_means, sizes_of
from benchmarks.cpu.peak import burner, peak
from benchmarks.cpu.results import Cell, header, line, means, memory_line
from benchmarks.engines import (
    ENGINES,
    OURS,
    Model,
    Ready,
    Unsupported,
    missing,
    prepare,
    random_inputs,
    relative_difference,
)
from benchmarks.quantized import is_quantized, quantize_static
from benchmarks.rounds import Schedule, interleave
from byoc.runtime.core.entry_points import DISTRIBUTION, install_command

REFERENCE = "onnxruntime"
PEAK = "peak"  # the loop's name among the engines' turns
BUSY = 1.2  # a load for each core above which the machine has other work
TOLERANCE = {"f32": 1e-4, "bf16": 5e-2, "int8": 5e-2}
TINY = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
FULL, QUICK = Schedule(), Schedule(rounds=3, turn_seconds=0.1)
CHILD_SECONDS = 1800
MESSAGE = 240  # characters shown of what an engine says


class CompileFailed(Exception):
    """Our compiler gave no artefact; the text is the last thing that it said."""


def run_child(module: str, *arguments: object, cache: Path | None = None) -> dict[str, float]:
    """What a module beside this one prints as JSON. Raises CompileFailed with its last line when it fails."""
    environment = {**os.environ, **({"BYOC_CACHE_DIR": str(cache)} if cache else {})}
    command = [sys.executable, "-m", f"benchmarks.cpu.{module}", *map(str, arguments)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=CHILD_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise CompileFailed(f"{module} took more than {CHILD_SECONDS} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise CompileFailed(said[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


class Benchmark:
    """One run of the benchmark over a folder of models."""

    def __init__(self, options: argparse.Namespace, scratch: Path):
        self.options, self.scratch = options, scratch
        self.engines: list[str] = [e for e in options.engines if e not in missing(options.engines)]
        self.schedule = QUICK if options.quick else FULL
        if options.rounds:
            self.schedule = Schedule(options.rounds, self.schedule.turn_seconds, self.schedule.pause_seconds)
        self.burners = {threads: burner(threads, options.precision) for threads in options.threads}
        self.cells: list[Cell] = []
        self.extra: dict[str, dict[str, object]] = {}
        self.failed = False

    def run(self, paths: Sequence[Path]) -> None:
        """Measure every model, printing as it goes."""
        busy, present, cores = os.getloadavg()[0], os.cpu_count() or 1, len(os.sched_getaffinity(0))
        if busy > BUSY * present:
            print(f"this machine is busy (load {busy:.1f} on {present} cores): ratios say more than milliseconds")
        if max(self.options.threads) > cores:
            print(f"this process may use {cores} cores: figures of more threads than that say little")
        print(header(self.engines), flush=True)
        for path in paths:
            self.model(path)
        for text in means(self.cells, len(paths)):
            print(text)

    def model(self, path: Path) -> None:
        """All cells of one model."""
        peers = self.peers_file(path)
        model = Model(path.stem, path, self.scratch / f"{path.stem}.byoc", random_inputs(path), peers)
        failures = self.compile(model) if OURS in self.engines else {}
        expected = self.reference(model)
        for threads in self.options.threads:
            cell = Cell(model.name, threads, self.options.precision, multiply_adds(path), None)
            cell.failures.update(failures)
            calls = self.ready(model, cell, expected)
            self.measure(cell, calls)
            self.cells.append(cell)
            self.failed |= OURS in cell.failures
            print(line(cell, self.engines), flush=True)
            del calls
            if self.options.memory:
                self.memory(model, threads, cell)
        model.artefact.unlink(missing_ok=True)
        if peers is not None:
            peers.unlink()

    def peers_file(self, path: Path) -> Path | None:
        """What the peers run of a model in f32 where int8 is asked for; None where they run the file itself."""
        if self.options.precision != "int8" or is_quantized(path) or not set(self.engines) - {OURS}:
            return None
        return quantize_static(path, self.scratch)

    def measure(self, cell: Cell, calls: Mapping[str, Ready]) -> None:
        """Time the engines in turns, and among them the loop that gives the peak: all under the same conditions."""
        burn = self.burners[cell.threads]
        loop = {} if burn is None else {PEAK: burn}
        timings = interleave({**{name: ready.run for name, ready in calls.items()}, **loop}, self.schedule)
        if burn is not None:
            cell.peak = burn.work / min(timings.pop(PEAK).turns)
        cell.timings = timings

    def reference(self, model: Model) -> Sequence[np.ndarray] | None:
        """ONNX Runtime's outputs in f32; None, said aloud, where it has none: then nothing is compared."""
        try:
            return list(prepare(REFERENCE, model, 1, "f32").run())
        except Exception as error:  # it is not installed, or whatever it raises for a model
            print(f"{model.name:<16}      outputs are not compared: {_said(error)}")
            return None

    def compile(self, model: Model) -> dict[str, str]:
        """Make the artefact; with ``--compile-times`` twice, first with an empty cache. Gives the failure, if any."""
        arguments = (model.onnx, model.artefact, self.options.precision)
        try:
            if not self.options.compile_times:
                run_child("compile_model", *arguments)
                return {}
            with tempfile.TemporaryDirectory(dir=self.scratch) as cache:
                cold = run_child("compile_model", *arguments, cache=Path(cache))
                warm = run_child("compile_model", *arguments, cache=Path(cache))
        except CompileFailed as error:
            return {OURS: str(error)}
        self.extra.setdefault(model.name, {})["compile"] = {"cold": cold, "warm": warm}
        print(
            f"{model.name:<16}      compiled cold in {cold['compile_seconds']:.1f} s, warm in "
            f"{warm['compile_seconds']:.1f} s",
            flush=True,
        )
        return {}

    def ready(self, model: Model, cell: Cell, expected: Sequence[np.ndarray] | None) -> dict[str, Ready]:
        """The engines that run this model and agree; the others are in ``cell.failures``, with the reason."""
        calls: dict[str, Ready] = {}
        for name in self.engines:
            if name in cell.failures:
                continue
            try:
                found = prepare(name, model, cell.threads, cell.precision)
            except Unsupported as error:
                cell.failures[name] = str(error)
                continue
            except Exception as error:  # whatever an engine raises for a model
                cell.failures[name] = _said(error)
                continue
            if expected is not None:
                cell.differences[name] = relative_difference(found.run(), expected)
                if not cell.differences[name] <= TOLERANCE[cell.precision]:
                    cell.failures[name] = (
                        f"its outputs differ from {REFERENCE}'s by {cell.differences[name]:.2g} of their range, more "
                        f"than {TOLERANCE[cell.precision]:g}"
                    )
                    continue
            calls[name] = found
        return calls

    def memory(self, model: Model, threads: int, cell: Cell) -> None:
        """Peak memory and first call of each engine in a process of its own."""
        described = write_model(model, cell.precision, self.scratch)
        found: dict[str, Mapping[str, float] | str] = {}
        for name in self.engines:
            if name in cell.failures:
                continue
            try:
                found[name] = run_child("alone", name, described, threads)
            except CompileFailed as error:
                found[name] = str(error)
                self.failed |= name == OURS
        self.extra.setdefault(model.name, {})[f"alone_{threads}"] = found
        print(memory_line(model.name, threads, found), flush=True)

    def to_json(self) -> dict[str, object]:
        """All that was found, with what it was found on."""
        return {
            "machine": machine(),
            "precision": self.options.precision,
            "tolerance": TOLERANCE[self.options.precision],
            "cells": [cell.to_json() for cell in self.cells],
            "models": self.extra,
        }


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:MESSAGE]}"


def machine() -> dict[str, object]:
    """The processor, the cores that this process may use, and the versions of what was compared."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [text.partition(":")[2].strip() for text in lines if text.startswith("model name")]
    installed = [name for name in ENGINES if not missing([name])]
    return {
        "processor": names[0] if names else platform.processor(),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {name: metadata.version(DISTRIBUTION if name == OURS else name) for name in installed},
    }


def tiny_call(path: Path, engines: Sequence[str], schedule: Schedule, scratch: Path) -> dict[str, object]:
    """Time a call of a tiny model from Python, on one thread, by all *engines*; prints a line each."""
    model = Model(path.stem, path, scratch / "tiny.byoc", random_inputs(path))
    if OURS in engines:
        run_child("compile_model", model.onnx, model.artefact, "f32")
    calls = {name: prepare(name, model, 1, "f32").run for name in engines}
    found = interleave(calls, schedule)
    for name, seconds in found.items():
        print(
            f"one call of {path.name} by {name}: {seconds.median * 1e6:.1f} us "
            f"({seconds.lower * 1e6:.1f}-{seconds.upper * 1e6:.1f})"
        )
    return {name: seconds.to_json() for name, seconds in found.items()}


def show_groups(path: Path, precision: str, rounds: int, out: Path | None) -> None:
    """Print where the time of one model goes, on one thread; *out* takes it as JSON."""
    from benchmarks.cpu.compile_model import ranges_for
    from benchmarks.cpu.groups import by_group, table, time_groups

    host, library = by_group(str(path), precision, ranges_for(path, precision))
    found = time_groups(host, library, random_inputs(path), rounds)
    peak_of_one = peak(1, precision)
    print(table(found, 2 * peak_of_one if peak_of_one else None))
    if out is not None:
        out.write_text(json.dumps([g.to_json() for g in found], indent=1) + "\n", encoding="utf-8")


def measure_free(options: argparse.Namespace, scratch: Path) -> int:
    """Measure models of free sizes; 1 when one of ours failed."""
    engines = [e for e in options.engines if e not in missing(options.engines)]
    schedule = Schedule(options.rounds or (QUICK if options.quick else FULL).rounds, QUICK.turn_seconds)
    cells: list[SizeCell] = []
    print(size_header(engines), flush=True)
    for path in find_models(options.zoo, options.models):
        for threads in options.threads:
            model = FreeModel(path, scratch, threads, options.precision, partial(run_child, "compile_model"))
            for sizes in sizes_of(path, options.batches, options.lengths):
                cells.append(model.cell(sizes, engines, schedule))
                print(size_line(cells[-1], engines), flush=True)
    print("\n".join(size_means(cells)))
    if options.json is not None:
        found = {"machine": machine(), "cells": [cell.to_json() for cell in cells]}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(OURS in cell.failures for cell in cells))


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--zoo", type=Path, default=Path("zoo"), help="a folder of ONNX files (export_zoo.py makes one)")
    made.add_argument("--models", type=_names, help="names of files without .onnx, by commas (default: all)")
    made.add_argument("--engines", type=_names, default=list(ENGINES), help="which of byoc,onnxruntime,openvino")
    made.add_argument("--threads", type=_numbers, default=[1, 2])
    made.add_argument("--sizes", choices=["fixed", "free"], default="fixed", help="free: one artefact, many sizes")
    made.add_argument("--batches", type=_numbers, default=[1, 4, 8], help="sizes free: the batches")
    made.add_argument("--lengths", type=_numbers, default=[1, 16, 64, 256], help="sizes free: the lengths")
    made.add_argument("--precision", choices=TOLERANCE, default="f32", help="int8: quantizes files in f32")
    made.add_argument("--rounds", type=int, default=0, help=f"turns of each engine (default {FULL.rounds})")
    made.add_argument("--memory", action=argparse.BooleanOptionalAction, default=None, help="peak memory of each alone")
    made.add_argument("--compile-times", action=argparse.BooleanOptionalAction, default=None)
    made.add_argument("--tiny", type=Path, default=TINY, help="the model whose call from Python is timed")
    made.add_argument("--json", type=Path, help="write all that was found here")
    made.add_argument("--picture", type=Path, help="write a picture of the ratios here (.png or .svg)")
    made.add_argument("--quick", action="store_true", help="few rounds, without memory and compile times")
    made.add_argument("--groups", metavar="MODEL", help="where one model's time goes; a name in the zoo or a file")
    return made


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def find_models(folder: Path, names: Sequence[str] | None) -> list[Path]:
    """The ONNX files of *folder*, or those of *names*. Raises SystemExit for a name without a file, and for none."""
    paths = [folder / f"{name}.onnx" for name in names] if names else sorted(folder.glob("*.onnx"))
    absent = [str(path) for path in paths if not path.is_file()]
    if absent or not paths:
        raise SystemExit(f"no such model: {', '.join(absent) or folder / '*.onnx'}; export_zoo.py writes a folder")
    return paths


def main() -> int:
    """Run what the options ask for; 1 when a model of ours failed."""
    options = parser().parse_args()
    for name in ("memory", "compile_times"):
        if getattr(options, name) is None:
            setattr(options, name, not options.quick)
    unknown = [name for name in options.engines if name not in ENGINES]
    if unknown:
        raise SystemExit(f"no such engine: {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    if options.groups:
        path = Path(options.groups)
        path = path if path.suffix == ".onnx" else find_models(options.zoo, [options.groups])[0]
        show_groups(path, options.precision, options.rounds or (3 if options.quick else 11), options.json)
        return 0
    for name in missing(options.engines):
        print(f"{name} is not installed and is left out: {install_command('bench')}")
    with tempfile.TemporaryDirectory(prefix="byoc_bench_") as folder:
        if options.sizes == "free":
            return measure_free(options, Path(folder))
        benchmark = Benchmark(options, Path(folder))
        benchmark.run(find_models(options.zoo, options.models))
        data = benchmark.to_json()
        try:
            data["call"] = tiny_call(options.tiny, benchmark.engines, benchmark.schedule, Path(folder))
        except CompileFailed as error:
            print(f"{options.tiny.name}: {error}")
            benchmark.failed = True
    if options.json is not None:
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if options.picture is not None:
        from benchmarks.cpu.picture import draw

        draw(benchmark.cells, options.picture, f"byoc, {options.precision}")
    return 1 if benchmark.failed else 0


if __name__ == "__main__":
    sys.exit(main())
