"""Whole models tuned on the device against the cost model's choice: ``python -m benchmarks.opencl.tuned``.

Each model is compiled as it is and once more with its kernels tuned there at ``--level``, the cache empty at first.
Both give the same numbers within TOLERANCE of each output's range, and are then timed in turns, from numpy to numpy
(``rounds.py``). Printed are milliseconds, how many times as fast the tuned one is, what compiling and a first call take
both ways, the share of the processors that other processes took during the turns, and what tuning says of itself.

Times beside busy processes mean little: turns are taken again, up to ``--tries`` times, until others take less than
QUIET, and the quietest series counts (on Linux; elsewhere the first). ``--models FOLDER`` takes ONNX files from there;
what is not in it is made here (``device_cases.py``). The status is 1 when outputs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.engines import random_inputs
from benchmarks.opencl.device_cases import case_of, onnx_file
from benchmarks.rounds import Schedule, interleave

Found = TypeVar("Found")
TOLERANCE = 1e-4
QUIET = 0.02  # of the processors that others may take
DEFAULT = "resnet18,resnet50,mobilenetv2,bert,vit"


def inputs_of(path: Path, library: Any) -> list[np.ndarray]:
    """Seeded inputs of *library*, the model of that file, in its order."""
    named = random_inputs(path)
    return [named[spec.name] for spec in library.inputs]


def compiled(path: Path, level: str) -> tuple[Any, float]:
    """A model for the device, its kernels tuned at *level*, with the seconds that compiling and a first call take."""
    import byoc

    begin = time.perf_counter()
    library = byoc.compile(path, targets="opencl", tune=level)
    library(*inputs_of(path, library))
    return library, time.perf_counter() - begin


def relative_difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference between two outputs, relative to the range of *expected*."""
    exact = np.asarray(expected, "float64")
    return float(np.abs(np.asarray(found, "float64") - exact).max() / max(np.ptp(exact), 1e-30))


def others_seconds() -> float | None:
    """Processor seconds that all other processes have taken until now; None where the system does not say."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft = map(int, fields)
    own = os.times()
    busy = (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")
    return busy - sum((own.user, own.system, own.children_user, own.children_system))


def quietest(turns: Callable[[], Found], tries: int) -> tuple[Found, float | None]:
    """Of up to *tries* calls of *turns* the one beside which others took the least processor time, and their share."""
    best: tuple[Found, float | None] | None = None
    for _ in range(tries):
        before, start = others_seconds(), time.perf_counter()
        found, after = turns(), others_seconds()
        if before is None or after is None:
            return found, None
        share = max(after - before, 0.0) / (time.perf_counter() - start) / (os.cpu_count() or 1)
        if best is None or best[1] is None or share < best[1]:
            best = found, share
        if share < QUIET:
            break
    assert best is not None
    return best


def measure(name: str, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """One model both ways."""
    path = onnx_file(case_of(name), options.models, scratch)
    plain, plain_seconds = compiled(path, "none")
    tuned, tuned_seconds = compiled(path, options.level)
    inputs = inputs_of(path, plain)
    named = {spec.name: array for spec, array in zip(plain.inputs, inputs, strict=True)}
    difference = max(map(relative_difference, plain.run(named), tuned.run(named)))
    calls: dict[str, Callable[[], object]] = {"none": lambda: plain(*inputs), options.level: lambda: tuned(*inputs)}
    times, others = quietest(lambda: interleave(calls, Schedule(rounds=options.rounds)), max(options.tries, 1))
    return {
        "model": name,
        "difference": difference,
        "none": times["none"].to_json(),
        options.level: times[options.level].to_json(),
        "ratio": times["none"].median / times[options.level].median,
        "others": others,
        "seconds": {"none": plain_seconds, options.level: tuned_seconds},
        "tuning": tuned.report["tuning"]["text"].splitlines()[0],
    }


def shown(share: float | None) -> str:
    """A share of the processors in per cent, or that it is not known."""
    return "unknown" if share is None else f"{100 * share:.0f} %"


def main() -> int:
    """Measure every model, print a line for each, and say whether all agreed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=DEFAULT, help="models, by commas")
    parser.add_argument("--models", type=Path, help="a folder of ONNX files")
    parser.add_argument("--level", default="fast", choices=["fast", "normal", "wide", "heavy"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tries", type=int, default=5, help="series of turns, until one is quiet")
    parser.add_argument("--json", type=Path, help="write all that was found here")
    options = parser.parse_args()
    rows = []
    level = options.level
    print(f"{'model':14}{'none ms':>12}{level + ' ms':>12}{'times':>8}{'none s':>9}{level + ' s':>9}{'others':>8}")
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            os.environ["BYOC_CACHE_DIR"] = scratch
            rows.append(found := measure(name, options, Path(scratch)))
        base, other, seconds = found["none"], found[options.level], found["seconds"]
        print(
            f"{name:14}{1e3 * base['median']:12.3f}{1e3 * other['median']:12.3f}{found['ratio']:8.2f}"
            f"{seconds['none']:9.1f}{seconds[options.level]:9.1f}{shown(found['others']):>8}",
            f"  {found['tuning']}",
            flush=True,
        )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    wrong = [row["model"] for row in rows if not row["difference"] <= TOLERANCE]
    for model in wrong:
        print(f"{model}: the outputs differ by more than {TOLERANCE:g} of their range")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
