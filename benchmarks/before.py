"""This byoc against another version: ``python -m benchmarks.before OTHER/bin/python MODEL.onnx ...``.

OTHER is an environment in which the other version is installed (``git worktree add``, ``pip install``). Each version
compiles and runs every model in a process of its own, with a cache folder of its own; the two take turns, so that what
slows the machine slows both alike. First the outputs are compared, bit for bit, and whether the generated C is the same
text. Printed are the medians of this one and the other, and how many times as fast this one is: a run, compiling with
an empty cache, planning over a host and OpenCL by typical costs, ``import byoc``. The status is 1 where outputs differ
by more than TOLERANCE of their range.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.engines import random_inputs, relative_difference

NAMES = ("this", "other")
TOLERANCE = 1e-5
MILLI = 1e3
TURNS = 11

WORKER = """
import json, sys, time
start = time.perf_counter()
import byoc
print(json.dumps(time.perf_counter() - start), flush=True)
import hashlib
import numpy as np

library, inputs = None, []
for line in sys.stdin:
    name, *given = json.loads(line)
    start = time.perf_counter()
    answer = None
    if name == "compile":
        library = byoc.compile(given[0])
    elif name == "plan":
        byoc.plan(given[0], targets=["opencl", "c"], policy="cost", costs="typical")
    elif name == "inputs":
        inputs = list(dict(np.load(given[0])).values())
    elif name == "run":
        for _ in range(given[0]):
            result = library(*inputs)
    elif name == "outputs":
        result = library(*inputs)
        np.savez(given[0], *(result if isinstance(result, (tuple, list)) else [result]))
    elif name == "source":
        texts = [m.get_source() for m in library.module.imports]
        answer = hashlib.sha256("".join(texts).encode()).hexdigest()
    print(json.dumps([time.perf_counter() - start, answer]), flush=True)
"""


class Worker:
    """A process that has imported one version of byoc."""

    def __init__(self, python: Path, folder: Path):
        variables = {**os.environ, "BYOC_CACHE_DIR": str(folder / "cache")}
        self._process = subprocess.Popen(
            [python, "-c", WORKER],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.import_seconds = float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a worker has ended; what it said is above")
        return line

    def ask(self, *command: object) -> tuple[float, object]:
        """The seconds that *command* took there, and its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        seconds, answer = json.loads(self._line())
        return seconds, answer

    def end(self) -> None:
        """Let the process end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def workers(pythons: Mapping[str, Path], folder: Path) -> dict[str, Worker]:
    """A new process for each version, with an empty cache."""
    made = {}
    for name, python in pythons.items():
        (folder / name).mkdir(parents=True)
        made[name] = Worker(python, folder / name)
    return made


def row(what: str, this: float, other: float, note: str = "") -> str:
    """A line of the table; *this* and *other* are seconds."""
    return f"{what:44s} {this * MILLI:10.3f} {other * MILLI:10.3f} {other / this:7.3f}  {note}"


def in_turns(rounds: int, ask: Callable[[int, str], float]) -> dict[str, float]:
    """The medians of what *ask* gives for a round and each version, whose order changes by rounds."""
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for k in range(rounds):
        for name in NAMES[:: 1 if k % 2 else -1]:
            found[name].append(ask(k, name))
    return {name: statistics.median(values) for name, values in found.items()}


def compare(model: Path, pythons: Mapping[str, Path], folder: Path, rounds: int, seconds: float) -> list[str]:
    """The lines of one model. Raises ValueError where the outputs differ."""
    folder.mkdir(parents=True)
    inputs = folder / "inputs.npz"
    np.savez(inputs, **random_inputs(model))
    pair = workers(pythons, folder / "run")
    arrays, sources = {}, {}
    for name, worker in pair.items():
        worker.ask("compile", str(model))
        worker.ask("inputs", str(inputs))
        worker.ask("outputs", str(folder / f"{name}.npz"))
        sources[name] = worker.ask("source")[1]
        with np.load(folder / f"{name}.npz") as data:
            arrays[name] = [data[k] for k in data.files]
    difference = relative_difference(arrays["this"], arrays["other"])
    if difference > TOLERANCE:
        raise ValueError(f"{model.name}: the outputs differ by {difference:.1e} of their range")
    same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*arrays.values(), strict=True))
    text = "the same C" if len(set(sources.values())) == 1 else "other C"
    note = f"{'equal' if same else f'within {difference:.0e}'}, {text}"
    calls = max(1, round(seconds / max(pair["other"].ask("run", 1)[0], 1e-6)))
    times = in_turns(TURNS, lambda k, name: pair[name].ask("run", calls)[0] / calls)
    lines = [row(f"{model.stem}: a run", times["this"], times["other"], note)]
    for worker in pair.values():
        worker.ask("plan", str(model))
    planned = in_turns(rounds, lambda k, name: pair[name].ask("plan", str(model))[0])
    lines.append(row(f"{model.stem}: planning", planned["this"], planned["other"]))
    for worker in pair.values():
        worker.end()

    def compiled(k: int, name: str) -> float:
        worker = workers({name: pythons[name]}, folder / f"compile{k}")[name]
        seconds = worker.ask("compile", str(model))[0]
        worker.end()
        return seconds

    made = in_turns(rounds, compiled)
    return [*lines, row(f"{model.stem}: the first compile", made["this"], made["other"])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("other", type=Path, help="the interpreter of the other version's environment")
    parser.add_argument("models", type=Path, nargs="+", help="ONNX files")
    parser.add_argument("--rounds", type=int, default=5, help="of planning, compiling and importing (5)")
    parser.add_argument("--seconds", type=float, default=0.25, help="a turn of runs (0.25)")
    options = parser.parse_args(arguments)
    pythons = {"this": Path(sys.executable), "other": options.other.absolute()}
    print(f"{'':44s} {'this, ms':>10s} {'other, ms':>10s} {'faster':>7s}")
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for k, model in enumerate(options.models):
            try:
                folder = Path(temporary) / str(k)
                lines = compare(model.resolve(), pythons, folder, options.rounds, options.seconds)
                print("\n".join(lines), flush=True)
            except ValueError as error:
                failed += 1
                print(error)

        def imported(k: int, name: str) -> float:
            worker = workers({name: pythons[name]}, Path(temporary) / f"import{k}")[name]
            worker.end()
            return worker.import_seconds

        times = in_turns(options.rounds, imported)
        print(row("import byoc", times["this"], times["other"]))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
