"""ResNet-50 over vendors' libraries and our host: ``python -m benchmarks.models.resnet50_vendors``.

For each vendor's target three libraries are compiled: our generated code alone, the target with all that it takes, and
the cut that costs least by measured costs (``policy="cost", costs="measured"``). Their outputs are held against ONNX
Runtime's in f32 (``engines.relative_difference``), then all are timed in turns of one run (``rounds.py``), and with
them the cut once more, which shows the noise. Printed are milliseconds with quartiles, and how many times as long as
the faster of the two alone the cut takes; the status is 1 where outputs differ, or where that is more than ``--most``.

Costs are measured while compiling, so that the whole run wants an idle machine. ``--model FILE`` takes another model,
``--target NAME`` (once for each) other targets.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

import byoc
from benchmarks.cpu.run import BUSY, TOLERANCE, machine
from benchmarks.engines import Model, prepare, random_inputs, relative_difference
from benchmarks.models.resnet50 import resnet50
from benchmarks.rounds import Schedule, Timing, interleave
from byoc.base.progress import Progress
from byoc.contract import get_backend
from byoc.runtime.library import Library

HOST, CUT, AGAIN = "c alone", "measured cut", "measured cut again"
MOST = 1.05  # times the faster of both alone
Call = Callable[[], object]


@dataclass
class Vendor:
    """What was found for one target: seconds to compile each library, their timings, what the cut is."""

    target: str
    plan: str = ""
    notes: Sequence[str] = ()
    regions: int = 0
    compiling: dict[str, float] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The cut's time over that of the faster of both alone."""
        alone = [self.timings[name].median for name in (HOST, f"{self.target} alone")]
        return self.timings[CUT].median / min(alone)

    def to_json(self) -> dict[str, object]:
        """What was found as values that ``json.dumps`` takes."""
        timings = {name: found.to_json() for name, found in self.timings.items()}
        return {**vars(self), "notes": list(self.notes), "timings": timings, "ratio": self.ratio}


def libraries(path: Path, target: str, found: Vendor, progress: Progress) -> dict[str, Library]:
    """The three libraries by name, and in *found* the seconds that each took to compile and what the cut is."""
    asked: Mapping[str, Mapping[str, object]] = {
        HOST: {"targets": ["c"]},
        f"{target} alone": {"targets": [target, "c"]},
        CUT: {"targets": [target, "c"], "policy": "cost", "costs": "measured"},
    }
    made = {}
    for name, options in asked.items():
        progress(f"{target}: compiling {name}")
        start = time.perf_counter()
        made[name] = byoc.compile(path, **options)
        found.compiling[name] = time.perf_counter() - start
    report = made[CUT].report
    found.plan = str(report["plan_text"]).splitlines()[0]
    found.notes, found.regions = report["plan"]["notes"], len(report["plan"]["regions"])
    return made


def measured(path: Path, target: str, schedule: Schedule, progress: Progress) -> Vendor:
    """One target against our host. Raises ValueError where outputs differ."""
    found, model = Vendor(target), Model(path.stem, path, path, random_inputs(path))
    expected = prepare("onnxruntime", model, 1, "f32").run()
    calls: dict[str, Call] = {}
    for name, library in libraries(path, target, found, progress).items():
        found.differences[name] = relative_difference(library.run(dict(model.inputs)), expected)
        if not found.differences[name] <= TOLERANCE["f32"]:
            raise ValueError(f"{target}: the outputs of {name} are off by {found.differences[name]:.2g} of their range")
        calls[name] = _call(library, model)
    calls[AGAIN] = calls[CUT]
    progress(f"{target}: timing")
    found.timings = interleave(calls, schedule)
    return found


def _call(library: Library, model: Model) -> Call:
    values = [model.inputs[spec.name] for spec in library.inputs]
    return lambda: library(*values)


def lines(found: Vendor) -> list[str]:
    """What to print of one target."""
    shown = [found.plan, *(f"  {note}" for note in found.notes)]
    for name, timing in found.timings.items():
        span = f"{1e3 * timing.lower:.2f} to {1e3 * timing.upper:.2f}"
        compiled = f", compiled in {found.compiling[name]:.1f} s" if name in found.compiling else ""
        shown.append(f"  {name:20} {1e3 * timing.median:9.2f} ms ({span}){compiled}")
    noise = found.timings[AGAIN].median / found.timings[CUT].median
    return [*shown, f"  the cut takes {found.ratio:.3f} times the faster alone; the same once more {noise:.3f}"]


def main() -> int:
    """Run the benchmark; the status is 1 where outputs differ or a cut is slower than allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="an ONNX file; without it, ResNet-50 with random weights")
    parser.add_argument("--target", action="append", help="a vendor's target (default: openvino)")
    parser.add_argument("--size", type=int, default=224, help="rows and columns of the image of our ResNet-50")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each library")
    parser.add_argument("--most", type=float, default=MOST, help="how many times the faster alone a cut may take")
    parser.add_argument("--json", type=Path, help="where to write all that was found")
    options = parser.parse_args()
    busy = os.getloadavg()[0]
    if busy > BUSY * (os.cpu_count() or 1):
        print(f"this machine is busy (load {busy:.1f}): costs and times that are measured now say little")
    failed, found = False, []
    with tempfile.TemporaryDirectory() as folder:
        path = options.model or Path(folder) / "resnet50.onnx"
        if options.model is None:
            onnx.save(resnet50(size=options.size), path)
        for target in options.target or ["openvino"]:
            problem = get_backend(target).unavailable()
            if problem is not None:
                print(f"{target}: {problem}")
                continue
            try:
                found.append(measured(path, target, Schedule(options.rounds), lambda stage: print(stage, flush=True)))
            except ValueError as error:
                print(error)
                failed = True
                continue
            print("\n".join(lines(found[-1])), flush=True)
            failed |= found[-1].ratio > options.most
    if options.json is not None:
        shown = {"machine": machine(), "targets": [f.to_json() for f in found]}
        options.json.write_text(json.dumps(shown, indent=1) + "\n")
    return int(failed or not found)


if __name__ == "__main__":
    sys.exit(main())
