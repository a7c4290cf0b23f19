"""A worker: makes cases, runs each under its configurations, and reports to the pool every step before it takes it."""

from __future__ import annotations

import os
import random
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from fuzz.case import Case

COMPILER_SECONDS = "90"  # for one unit: less than the pool gives a configuration, so that a compiler is named


@dataclass(frozen=True)
class Task:
    """A seed of a source, or the file of a case; ``done`` names configurations that are not to be run (again)."""

    source: str
    seed: int
    backends: tuple[str, ...]
    done: tuple[str, ...] = ()
    path: str = ""
    configurations: tuple[str, ...] = ()


def serve(pipe: Connection, scratch: str) -> None:
    """Do what the pipe asks until it is closed. *scratch* is this worker's own folder."""
    folder = Path(scratch)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = str(folder)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("BYOC_COMPILER_SECONDS", COMPILER_SECONDS)
    from fuzz.loader import LoaderProcess

    loader = LoaderProcess()
    try:
        while True:
            task = pipe.recv()
            _do(task, pipe, folder, loader)
    except (EOFError, BrokenPipeError):
        return
    finally:
        loader.close()


def _do(task: Task, pipe: Connection, folder: Path, loader: object) -> None:
    from fuzz.execute import execute
    from fuzz.judge.compare import Judge
    from fuzz.judge.oracle import NotApplicable

    began = time.monotonic()
    pipe.send(("step", "generating"))
    try:
        case = load_case(task)
    except NotApplicable as error:
        pipe.send(("nothing", str(error)))
        return
    except Exception as error:  # a defect of the fuzzer: reported, not hidden
        pipe.send(("broken", "".join(traceback.format_exception(error)[-3:])))
        return
    case.write(folder / "current.json")
    judges = [Judge(case.model, feeds, list(want)) for feeds, want in zip(case.feeds, case.wanted, strict=True)]
    pipe.send(("case", case.name, case.operators(), time.monotonic() - began))
    for configuration in configurations_for(task, case):
        if configuration.name in task.done:
            continue
        pipe.send(("step", configuration.name))
        pipe.send(("outcome", configuration.name, execute(case, configuration, judges, loader, folder)))  # type: ignore[arg-type]
    pipe.send(("done",))


def load_case(task: Task) -> Case:
    """The case of a task, with what is wanted of it. Raises NotApplicable for a seed that gives none."""
    from dataclasses import replace

    from fuzz.generators import case_of
    from fuzz.judge.oracle import wanted

    if not task.path:
        return case_of(task.source, task.seed)
    case = Case.read(Path(task.path))
    return replace(case, wanted=wanted(case.model, case.feeds))


def configurations_for(task: Task, case: Case) -> Sequence[object]:
    """Those that the task names, else those of the case, else those that its seed draws."""
    from fuzz.configurations import configuration_of, drawn

    named = task.configurations or case.configurations
    if named:
        return [configuration_of(name) for name in named]
    return drawn(task.backends, random.Random(f"{task.source}-{task.seed}"))
