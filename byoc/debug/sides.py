"""The two sides of a comparison, each in a worker process of its own: what it takes, and what it gives.

A side is compiled or loaded, and run, in its process, so that a crash, an exit, or a run that comes to no end is
reported with the side, the step and the node that it was at, and is not shared.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import numpy as np

from byoc.base.progress import Progress
from byoc.contract.options import HOST_BACKEND
from byoc.contract.registration import BACKENDS, get_backend
from byoc.debug.comparison import LostSide
from byoc.debug.machine_runs import input_specs, load_executable, run_executable
from byoc.debug.options import CompareRequest, as_asked
from byoc.debug.unfused import compile_unfused
from byoc.debug.values import InnerValue, values_of
from byoc.driver.compiler.entry import compile as compile_model
from byoc.driver.options import CompileRequest
from byoc.driver.vm.cut_model import compile_for_vm
from byoc.errors import ByocError, UserError
from byoc.ir.module import IRModule
from byoc.runtime.artefact.artifact import read_artifact
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.library import Library
from byoc.runtime.loading import load
from byoc.runtime.vm.executable import Executable
from byoc.testing.core.load_worker import raised_text
from byoc.testing.core.vendor import VendorOrigin, backend_from, origin_of
from byoc.testing.core.worker_pool import AbsentError, Done, Lost, WorkerPool

MODEL_PATIENCE = 10.0  # planning and compiling a model say less often that they go on
Arrays = Mapping[str, np.ndarray]
T = TypeVar("T")


class LostSideError(UserError):
    """What is raised of a lost side, to be reported in the comparison."""

    def __init__(self, lost: LostSide):
        super().__init__(str(lost))
        self.lost = lost


@dataclass(frozen=True)
class SideRun:
    """What one side gave: the values inside of it, in their order, and its outputs by name."""

    values: Sequence[InnerValue]
    outputs: Sequence[tuple[str, np.ndarray]]


@dataclass(frozen=True)
class Refusal:
    """An error that belongs to the user, which the other side of the pipe raises."""

    error: UserError


@dataclass(frozen=True)
class SideOpening:
    """What a worker needs: where the backends come from, what is compared, and which of both it is."""

    origins: tuple[VendorOrigin, ...]
    asked: CompareRequest
    index: int

    def __call__(self, progress: Progress) -> SideBench:
        """The bench. Raises AbsentError where that process does not have the backends."""
        try:
            for origin in self.origins:
                backend_from(origin)
        except ByocError as error:
            raise AbsentError(str(error)) from error
        return SideBench(self.asked, self.index, progress)


@dataclass
class SideBench:
    """A side as its worker holds it: a library as users have it, and in the pieces whose values are looked at; or an
    executable of the virtual machine.
    """

    asked: CompareRequest
    index: int
    progress: Progress
    _pair: tuple[Library, Library] | None = field(default=None, repr=False)
    _executable: Executable | None = field(default=None, repr=False)

    def specs(self) -> Sequence[TensorSpec]:
        """What the side takes; it is compiled or loaded now. Raises UserError."""
        asked, targets = self.asked, _targets(self.asked)
        if targets:
            self._compile(targets[self.index])
        else:
            given = asked.first if self.index == 0 else asked.second
            assert isinstance(given, (str, os.PathLike))
            self._load(Path(given))
        return self._pair[0].inputs if self._pair else input_specs(self._made_executable())

    def run(self, inputs: Arrays) -> SideRun:
        """What the side gives for *inputs*. Raises UserError."""
        if self._pair is None and self._executable is None:  # another worker had it, and this one tries the run again
            self.specs()
        if self._pair is None:
            self.progress("running it by the virtual machine")
            outputs = run_executable(self._made_executable(), inputs)
            return SideRun((), [(f"output {k}", array) for k, array in enumerate(outputs)])
        whole, split = self._pair
        values = values_of(split, inputs, progress=lambda node: self.progress(f"running {node}"))
        self.progress("running the whole model")
        return SideRun(values, [(s.name, a) for s, a in zip(whole.outputs, whole.run(inputs), strict=True)])

    def _made_executable(self) -> Executable:
        assert self._executable is not None  # specs() or run() made it
        return self._executable

    def _compile(self, target: str) -> None:
        asked = self.asked
        cut = [HOST_BACKEND] if target in (HOST_BACKEND, "host") else [target, HOST_BACKEND]
        assert not isinstance(asked.first, Library)
        if asked.vm:
            request = CompileRequest(asked.first, cut, progress=self.progress, **as_asked(asked))
            self._executable = compile_for_vm(request)
            return
        self.progress("compiling it")
        whole = compile_model(asked.first, cut, **as_asked(asked))
        self.progress("compiling it operator by operator")
        self._pair = whole, compile_unfused(asked.first, cut, asked)

    def _load(self, path: Path) -> None:
        self.progress("loading it")
        if path.suffix == ".onnx":
            self._compile(HOST_BACKEND)
        elif read_artifact(path).manifest.get("tree") and read_artifact(path).manifest.get("kind") == "modules":
            self._executable = load_executable(path)
        elif self.asked.vm:
            raise UserError(f"{path} holds a graph, and --vm is for models and executables: leave it out")
        else:
            library = load(path)
            self._pair = library, library


@dataclass(frozen=True)
class Prepare:
    """Compile or load the side."""

    patience: float = MODEL_PATIENCE

    def do(self, bench: SideBench) -> Sequence[TensorSpec] | Refusal:
        """What it takes."""
        return _refused(bench.specs)


@dataclass(frozen=True)
class RunSide:
    """Run the side."""

    inputs: Arrays
    patience: float = 1.0

    def do(self, bench: SideBench) -> SideRun | Refusal:
        """What it gives."""
        return _refused(lambda: bench.run(self.inputs))


def _refused(work: Callable[[], T]) -> T | Refusal:
    """What *work* gives, or its error as one that can be sent."""
    try:
        return work()
    except UserError as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # a vendor's class with an __init__ of its own
            return Refusal(UserError(str(error)))
        return Refusal(error)
    except Exception as error:  # whatever a vendor's code raises
        return Refusal(UserError(raised_text(error)))


def _targets(asked: CompareRequest) -> list[str]:
    return [asked.targets] if isinstance(asked.targets, str) else list(asked.targets)


class ComparedSide:
    """A side of the comparison *asked* for, called *name*, with its process."""

    def __init__(self, asked: CompareRequest, index: int, name: str):
        self.name = name
        targets = _targets(asked)
        accelerators = [t for t in targets[index : index + 1] if t not in (HOST_BACKEND, "host")]
        known = accelerators if targets else list(BACKENDS)
        origins = tuple(o for o in (origin_of(get_backend(t)) for t in known) if targets or _is_vendors(o))
        here = [o for o in origins if o.is_of_this_process]
        forked = f"no import gives the class {here[0].kind}" if here else ""
        if isinstance(asked.first, IRModule):
            forked = "the model is a module of this process"
        sent = replace(asked, inputs=None, progress=None)
        self._pool = WorkerPool(SideOpening(origins, sent, index), 1, asked.step_seconds, forked)

    def __enter__(self) -> ComparedSide:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    def specs(self) -> Sequence[TensorSpec]:
        """What it takes. Raises UserError, and LostSideError."""
        found = self._done(Prepare())
        assert isinstance(found, Sequence)
        return found

    def run(self, inputs: Arrays) -> SideRun:
        """What it gives for *inputs*. Raises UserError, and LostSideError."""
        found = self._done(RunSide(inputs))
        assert isinstance(found, SideRun)
        return found

    def _done(self, task: Prepare | RunSide) -> object:
        ended = self._pool.one(task)
        if isinstance(ended, Lost):
            raise LostSideError(LostSide(self.name, ended.step or "starting", ended.text, ended.hung))
        assert isinstance(ended, Done)
        if isinstance(ended.value, Refusal):
            raise ended.value.error
        return ended.value


def _is_vendors(origin: VendorOrigin) -> bool:
    """Whether a backend is none of byoc's own, so that a process which loads its artefacts must import it."""
    return not origin.kind.startswith("byoc.")
