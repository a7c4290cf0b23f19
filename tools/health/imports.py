"""What the first compile of a process imports of ours, and how long that takes, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from statistics import median

from tools.health.sources import ROOT

MODEL = ROOT / "examples" / "digits" / "digits.onnx"
RUNS = 5

PROBE = """
import json, sys, time
import numpy, onnx
start = time.perf_counter()
import byoc
alone = time.perf_counter() - start
byoc.compile(sys.argv[1], targets=["c"])
names = sorted(m for m in sys.modules if m == "byoc" or m.startswith("byoc."))
print(json.dumps({"alone": alone, "names": names}))
"""
AGAIN = """
import importlib, json, sys, time
import numpy, onnx
names = json.load(sys.stdin)
start = time.perf_counter()
for name in names:
    importlib.import_module(name)
print(time.perf_counter() - start)
"""


@dataclass(frozen=True)
class Imports:
    """The modules of ours that the first compile imports; seconds of ``import byoc``, and of importing them all."""

    modules: list[str]
    alone_s: float
    all_s: float


def python(code: str, *arguments: str, text: str = "", compiled: str) -> str:
    """What *code* prints in a new process with an empty cache folder, Python's compiled modules in *compiled*."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "BYOC_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def measure() -> Imports:
    """Medians over :data:`RUNS` processes, whose modules were compiled by one before them.

    numpy and onnx are imported before the clock starts.
    """
    with tempfile.TemporaryDirectory() as compiled:
        names = json.loads(python(PROBE, str(MODEL), compiled=compiled))["names"]
        probes = [json.loads(python(PROBE, str(MODEL), compiled=compiled)) for _ in range(RUNS)]
        seconds = [float(python(AGAIN, text=json.dumps(names), compiled=compiled)) for _ in range(RUNS)]
    return Imports(names, median(p["alone"] for p in probes), median(seconds))
