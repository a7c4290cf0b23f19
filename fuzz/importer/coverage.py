"""The parent of coverage-guided fuzzing: starts ``guided.py``, reads its outcomes, and starts it again.

libFuzzer ends with the first crash of its process; here that is a finding like another, and the next process goes on
with what the one before had found. Which inputs are made depends on how fast they are read, so that a seed does not
give the same ones every time: every finding is kept as a file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.importer.seeds import seed_models
from fuzz.importer.worker import SECONDS, Outcome, lines

ROOT = Path(__file__).parents[2]
START_SECONDS = 300  # for importing the importer with instruments, on a busy machine
MISSING = (
    "the engine 'atheris' needs the package atheris, which is not installed: "
    "pip install atheris (Linux on x86-64, Python 3.11 to 3.13), or leave --engine away"
)
Start = Callable[[int, Path, int, int], subprocess.Popen]  # (descriptor, folder, inputs left, seconds left)


def is_missing() -> bool:
    """Whether atheris is not installed."""
    return importlib.util.find_spec("atheris") is None


@dataclass
class Run:
    """What a run of the engine saw: outcomes by kind, findings by place, and the branches of byoc that were reached."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Outcome] = field(default_factory=dict)
    branches: int = 0

    def add(self, outcome: Outcome, data: bytes, keep: Path | None) -> None:
        """Count *outcome*; print and keep the input of the first finding of its place."""
        self.counts[outcome.kind] += 1
        if not outcome.is_finding or outcome.place in self.findings:
            return
        self.findings[outcome.place] = outcome
        print(f"input {outcome.number}: {outcome.kind}: {outcome.place}: {outcome.text}", flush=True)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            path = keep / f"guided_{hashlib.sha256(data).hexdigest()[:16]}.onnx"
            path.write_bytes(data)
            print(f"  kept as {path}", flush=True)


def fuzz_by_coverage(
    inputs: int,
    seed: int,
    seconds: float,
    keep: Path | None = None,
    seeds: list[bytes] | None = None,
    start: Start | None = None,
) -> Run:
    """Read *inputs* inputs, or as many as *seconds* allow, the *seeds* (ONNX's tests unless given) among them.

    *start* starts the process that reads them, and is :func:`guided` unless a test gives another.
    """
    start = start or guided(seed)
    run, stop = Run(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="byoc-fuzz-") as name:
        folder = Path(name)
        for part in ("seeds", "found"):
            (folder / part).mkdir()
        for number, data in enumerate(seed_models() if seeds is None else seeds):
            (folder / "seeds" / f"{number:05}.onnx").write_bytes(data)
        while sum(run.counts.values()) < inputs and time.monotonic() < stop:
            before = sum(run.counts.values())
            for outcome, data in _outcomes(start, folder, before, inputs, stop):
                run.add(outcome, data, keep)
            run.branches = max(run.branches, _branches(folder))
            if sum(run.counts.values()) == before:
                raise RuntimeError(f"the fuzzer's process read nothing; it wrote:\n{_log(folder)[-2000:]}")
    return run


def guided(seed: int) -> Start:
    """What starts the process with libFuzzer; its words go to a file in the folder."""

    def start(report: int, folder: Path, inputs: int, seconds: int) -> subprocess.Popen:
        command = [sys.executable, "-m", "fuzz.importer.guided", "--report", str(report), "--folder", str(folder)]
        command += ["--inputs", str(inputs), "--seconds", str(seconds), "--seed", str(seed)]
        search = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
        with open(folder / "log", "wb") as log:
            return subprocess.Popen(
                command, pass_fds=[report], stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": search}
            )

    return start


def _outcomes(start: Start, folder: Path, done: int, inputs: int, stop: float) -> Iterator[tuple[Outcome, bytes]]:
    """The outcomes of one process and, of findings, their inputs; the last one says of what it died, if it did."""
    current = folder / "current"
    current.unlink(missing_ok=True)
    reader, writer = os.pipe()
    process = start(writer, folder, inputs - done, max(1, round(stop - time.monotonic())))
    os.close(writer)
    number, hangs = done, True
    try:
        select.select([reader], [], [], START_SECONDS)
        for line in lines(reader, 3 * SECONDS):
            if not line:
                hangs = False
                break
            kind, place, text, *data = json.loads(line)
            yield Outcome(number, kind, place, text), bytes.fromhex("".join(data))
            number += 1
    finally:
        os.close(reader)
        if hangs:
            process.kill()
        status = process.wait()
    if status == 0 or not current.is_file():
        return
    how = "hang" if hangs else f"killed by signal {-status}" if status < 0 else f"left the process with {status}"
    data = current.read_bytes()
    for path in (*folder.glob("seeds/*"), *folder.glob("found/*")):
        if path.read_bytes() == data:  # else the next process dies of it, too
            path.unlink()
    yield Outcome(number, how, how), data


def _log(folder: Path) -> str:
    path = folder / "log"
    return path.read_text(errors="replace") if path.is_file() else ""


def _branches(folder: Path) -> int:
    found = re.findall(r"\bcov: (\d+)", _log(folder))
    return int(found[-1]) if found else 0
