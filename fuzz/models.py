"""``python -m fuzz models``: random models for so many seconds."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fuzz.configurations import BACKENDS
from fuzz.generators.nnsmith_source import missing
from fuzz.pool import Listener, Pool
from fuzz.report import Report
from fuzz.worker import Task

SOURCE_NAMES = ("small", "wide", "products", "ordinary", "quantized", "recurrent", "control", "nnsmith")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``models``."""
    parser.add_argument("--seconds", type=float, default=600, help="how long new models are made (600)")
    parser.add_argument("--models", type=int, default=0, help="stop after so many models")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the same seeds give the same models")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes (one a processor)")
    parser.add_argument("--sources", default=",".join(SOURCE_NAMES), help=f"of {', '.join(SOURCE_NAMES)}")
    parser.add_argument("--backends", default=",".join(BACKENDS), help=f"of {', '.join(BACKENDS)}")
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--findings", type=Path, default=Path("out/fuzz"), help="where cases that go wrong are kept")


def tasks(sources: list[str], backends: tuple[str, ...], first: int, count: int) -> Iterator[Task]:
    """Seeds in order, one of each source after the other."""
    seeds = itertools.count(first) if not count else range(first, first + -(-count // len(sources)))
    for seed in seeds:
        for source in sources:
            yield Task(source, seed, backends)


def main(options: argparse.Namespace) -> int:
    """Run, print the report, and return 1 when anything is wrong."""
    sources = available(options.sources.split(","))
    report = Report(options.findings)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        os.environ["BYOC_CACHE_DIR"] = str(Path(scratch) / "cache")
        os.environ["BYOC_LIBRARY_CACHE_MB"] = "0"
        os.environ.setdefault("POCL_CACHE_DIR", str(Path(scratch) / "pocl"))
        pool = Pool(options.workers, Path(scratch), listener_for(report))
        try:
            wanted = tasks(sources, tuple(options.backends.split(",")), options.seed, options.models)
            pool.run(wanted, began + options.seconds)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
        finally:
            pool.close()
        report.seconds["wall"] = time.monotonic() - began
        write_report(report, options.json)  # before the folder is removed, which takes long when it is full
    return 1 if report.bad else 0


def write_report(report: Report, path: Path | None) -> None:
    """Print *report*, and write it as JSON to *path*."""
    print(report.text(), flush=True)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")


def available(sources: list[str]) -> list[str]:
    """*sources* without NNSmith where it is not installed, which is said."""
    problem = missing() if "nnsmith" in sources else None
    if problem:
        print(problem, file=sys.stderr)
    return [s for s in sources if s != "nnsmith" or not problem]


def listener_for(report: Report) -> Listener:
    """A listener that counts, and prints each finding when it is found."""

    def hear(kind: str, task: Task, message: tuple, folder: Path) -> None:
        before = report.bad
        report.hear(kind, task, message, folder)
        if report.bad > before:
            last = report.broken[-1] if kind == "broken" else report.findings[-1] if report.findings else message
            print(last, file=sys.stderr, flush=True)

    return hear
