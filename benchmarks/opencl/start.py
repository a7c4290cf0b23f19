"""How long a process takes to its first answer from a device, without and with our cache of kernels.

    python -m benchmarks.opencl.start --rounds 5 --json out/start.json

A network of 50 convolutions is compiled and saved. Then processes load it and run it once, in turns: one with an empty
cache, one with what the first left. Each has an empty folder in the place of the driver's own cache (PoCL's, NVIDIA's),
which is switched off besides. A start is from loading the artefact to the first output, imports left out; the second
process must have built nothing from source.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import byoc
from benchmarks.opencl.queue import convolutions

CHILD = """
import json, sys, time
import numpy as np
import byoc.runtime
from byoc.runtime.opencl.build import build_counts
from byoc.runtime.opencl.devices import list_devices
list_devices()
begin = time.perf_counter()
library = byoc.runtime.load(sys.argv[1])
loaded = time.perf_counter()
x = np.ones(library.inputs[0].concrete_shape({}), "float32")
y = library(x)
first = time.perf_counter()
counts = build_counts()
found = {"load": loaded - begin, "first_run": first - loaded, "start": first - begin, "sum": float(y.sum())}
print(json.dumps({**found, "from_source": counts.from_source, "from_cache": counts.from_cache}))
"""


@dataclass(frozen=True)
class Start:
    """What a process reported: seconds, and how its programs came about."""

    load: float
    first_run: float
    start: float
    sum: float
    from_source: int
    from_cache: int


def started(artefact: Path, cache: Path, scratch: Path, device: str) -> Start:
    """A process with this *cache* of ours and none of the driver's."""
    with tempfile.TemporaryDirectory(dir=scratch) as own:
        environment = {
            **os.environ,
            "BYOC_CACHE_DIR": str(cache),
            "POCL_CACHE_DIR": own,
            "POCL_KERNEL_CACHE": "0",
            "CUDA_CACHE_PATH": own,
            "CUDA_CACHE_DISABLE": "1",
            **({"BYOC_OPENCL_DEVICE": device} if device else {}),
        }
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(artefact)], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"the process failed: {done.stderr.strip()}")
    return Start(**json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    """Measure and print; 1 when the second process built something, or gave another answer."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--convolutions", type=int, default=50)
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--device", default="", help="as BYOC_OPENCL_DEVICE")
    made.add_argument("--json", type=Path)
    options = made.parse_args()
    first, second = [], []
    with tempfile.TemporaryDirectory(prefix="byoc_start_") as folder:
        scratch = Path(folder)
        own = {"opencl": {"device": options.device}} if options.device else {}
        library = byoc.compile(convolutions(options.convolutions), ["opencl"], backend_options=own)
        artefact = library.save(scratch / "m.byoc")
        for k in range(options.rounds):
            cache = scratch / f"cache {k}"
            first.append(started(artefact, cache, scratch, options.device))
            second.append(started(artefact, cache, scratch, options.device))
    middle = [statistics.median(s.start for s in found) for found in (first, second)]
    print(f"{options.convolutions} convolutions, {options.rounds} rounds, seconds (median; least to most)")
    for name, found in (("first process", first), ("second process", second)):
        times = sorted(s.start for s in found)
        built = f"{found[0].from_source} programs from source, {found[0].from_cache} from the cache"
        print(f"{name}: {statistics.median(times):.3f} ({times[0]:.3f} to {times[-1]:.3f}); {built}")
    print(f"the second starts {middle[0] / middle[1]:.1f} times faster")
    if options.json:
        shown = {"first": [vars(s) for s in first], "second": [vars(s) for s in second], "ratio": middle[0] / middle[1]}
        options.json.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    return int(any(s.from_source for s in second) or len({s.sum for s in (*first, *second)}) > 1)


if __name__ == "__main__":
    sys.exit(main())
