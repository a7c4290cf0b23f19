"""Compile a case under a configuration, run it, and judge what comes out."""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import byoc
from byoc.codegen.c.toolchain.command import CommandError
from byoc.driver.vm import compile_module
from byoc.errors import CompilerNotFoundError, DeviceError, InternalError, UserError
from byoc.partition.plan.planner import make_plan  # noqa: F401  # loads the planner before time is taken
from byoc.relay.frontend.onnx import import_onnx
from byoc.runtime.core.container import ADT
from byoc.runtime.library import Library
from byoc.runtime.vm import VirtualMachine
from fuzz.case import Case, Feeds
from fuzz.configurations import Configuration
from fuzz.judge.compare import AGREED, WRONG, Judge
from fuzz.loader import Failure, LoaderProcess
from fuzz.running import run_library

REFUSED, ERROR, CRASHED, HUNG = "refused", "error", "crashed", "hung"
COSTS = "typical"  # those that are equal on every machine, so that a seed stands for one cut
BAD = (WRONG, ERROR, CRASHED, HUNG)
GENERATED = "refused generated code"  # how the C compiler's own error begins


@dataclass(frozen=True)
class Outcome:
    """What became of a case under a configuration: a verdict of ``compare``, or one of this file's.

    ``taken`` says whether the backend got a region; ``text`` is the reason of a refusal, or what was wrong.
    """

    verdict: str
    text: str = ""
    taken: bool = False
    seconds: float = 0.0

    @property
    def is_bad(self) -> bool:
        """True for what must not happen."""
        return self.verdict in BAD


def execute(
    case: Case, configuration: Configuration, judges: Sequence[Judge], loader: LoaderProcess, scratch: Path
) -> Outcome:
    """The outcome of *case*, whose judges stand in the order of its feeds."""
    began = time.monotonic()
    verdict, text, taken = _attempt(case, configuration, judges, loader, scratch)
    return Outcome(verdict, text, taken, time.monotonic() - began)


def _attempt(
    case: Case, configuration: Configuration, judges: Sequence[Judge], loader: LoaderProcess, scratch: Path
) -> tuple[str, str, bool]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = compiled(case, configuration)
    except (CompilerNotFoundError, DeviceError):
        raise
    except UserError as error:
        problem = compiler_failure(error)
        return (ERROR, f"compiling: {problem}", False) if problem else (REFUSED, reason_of(error), False)
    except Exception as error:  # whatever is raised that is no refusal is what the fuzzer looks for
        return ERROR, f"compiling: {_last_line(error)}", False
    taken = model.took_a_region
    try:
        found = model.outputs(case.feeds, loader, scratch)
    except Failure as error:
        return error.verdict, f"in another process: {error}", taken
    except Exception as error:
        return ERROR, f"running: {_last_line(error)}", taken
    return (*_judged(found, judges, configuration), taken)


def _judged(
    found: Sequence[Sequence[np.ndarray]], judges: Sequence[Judge], configuration: Configuration
) -> tuple[str, str]:
    worst, text = AGREED, ""
    for k, (outputs, judge) in enumerate(zip(found, judges, strict=True)):
        if len(outputs) != len(judge.wanted):
            return WRONG, f"{len(outputs)} outputs, expected {len(judge.wanted)}"
        for index, got in enumerate(outputs):
            one = judge.judge(index, got, configuration.narrowing)
            if one.verdict == WRONG:
                return WRONG, f"feeds {k}, output {index}: {one.text}"
            if one.verdict != AGREED:
                worst, text = one.verdict, one.text
    return worst, text


@dataclass(frozen=True)
class CompiledCase:
    """What a configuration made of a model."""

    configuration: Configuration
    library: Library | None
    machine: VirtualMachine | None

    @property
    def took_a_region(self) -> bool:
        """True when the backend that is counted got something to do; the host always has."""
        if self.library is None or self.configuration.backend in ("c", "precision", "mixture"):
            return True
        plan: dict[str, list] = self.library.report["plan"]  # type: ignore[assignment]
        return bool(plan["regions"])

    def outputs(self, feeds: Sequence[Feeds], loader: LoaderProcess, scratch: Path) -> list[list[np.ndarray]]:
        """The outputs for each of *feeds*. Raises Failure, and whatever running raises."""
        if self.machine is not None:
            return [_plain(self.machine.run(**one)) for one in feeds]
        library = self.library
        assert library is not None
        if self.configuration.saved:
            path = library.save(scratch / "case.byoc")
            return loader.run(path, feeds, self.configuration)
        return run_library(library, feeds, self.configuration.executor, self.configuration.threads)


def _plain(value: object) -> list[np.ndarray]:
    return [np.asarray(v) for v in value] if isinstance(value, (list, tuple, ADT)) else [np.asarray(value)]


def compiled(case: Case, configuration: Configuration) -> CompiledCase:
    """*case* compiled. Raises what compiling raises."""
    if configuration.executor == "vm":
        mod = import_onnx(case.model)
        if configuration.targets != ("c",):
            plan = byoc.plan(mod, list(configuration.targets), policy=configuration.policy, costs=COSTS)
            assert plan.origin is not None
            mod = plan.apply(plan.origin.mod)
        executable = compile_module(mod, precision=configuration.precision)
        return CompiledCase(configuration, None, VirtualMachine(executable, byoc.runtime.cpu()))
    options = {"calibration": list(case.feeds)} if configuration.precision == "int8" else {}
    library = byoc.compile(
        case.model,
        list(configuration.targets),
        policy=configuration.policy,
        costs=COSTS,
        precision=configuration.precision,
        **options,  # type: ignore[arg-type]
    )
    return CompiledCase(configuration, library, None)


def compiler_failure(error: BaseException) -> str:
    """What the C compiler did to generated code, which is no refusal of ours: hung, crashed or refused; or nothing."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, CommandError) or GENERATED in str(cause):
            return str(error).splitlines()[0][:300]
        cause = cause.__cause__
    return ""


def reason_of(error: Exception) -> str:
    """A refusal without the names and numbers of its model, so that equal ones are counted together."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", str(error).splitlines()[0])
    text = re.sub(r"\bnode \S+|\b[tx]\d+(_\d+)?\b", "…", text)
    return f"{type(error).__name__}: " + re.sub(r"-?\d+(\.\d+)?", "#", text)[:200]


def _last_line(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    kind = "InternalError: " if isinstance(error, InternalError) else f"{type(error).__name__}: "
    first = (str(error).splitlines() or [""])[0]
    return f"{kind}{first[:300]} ({frame.filename.rsplit('/', 2)[-1]}:{frame.lineno})"
