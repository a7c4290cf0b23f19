"""Where bisect compiles and runs a model and its parts: a worker process, so that a crash is reported and not shared.

Everything that calls a backend's code on arrays happens there. What a worker loses, with a crash or by coming to no
end, is reported as a LostError, and the next piece goes to another.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TypeVar

import numpy as np

from byoc.base.progress import Progress
from byoc.contract.options import HOST_BACKEND
from byoc.contract.registration import get_backend
from byoc.debug.options import BisectRequest, as_asked
from byoc.debug.parts import cut_model
from byoc.debug.values import values_of
from byoc.driver.compiler.entry import compile as compile_model
from byoc.driver.options import PlanRequest
from byoc.errors import ByocError, UserError
from byoc.ir.module import IRModule
from byoc.runtime.core.errors import ContractError
from byoc.runtime.library import Library
from byoc.testing.core.case import Case
from byoc.testing.core.load_worker import raised_text
from byoc.testing.core.region_library import region_library, watched
from byoc.testing.core.saved import SavedRunner
from byoc.testing.core.sent_case import SentCase
from byoc.testing.core.vendor import VendorOrigin, backend_from, origin_of
from byoc.testing.core.worker_pool import AbsentError, Done, Lost, Task, WorkerPool

PLANNING, COMPILING, RUNNING = "planning it", "compiling it", "running it"
MODEL_PATIENCE = 10.0  # a whole model takes longer than a part
SAVED_PART = 0.8  # of a step's time, for the process that loads what was saved: it is named first
Arrays = Mapping[str, np.ndarray]
T = TypeVar("T")


class LostError(UserError):
    """A piece whose process crashed, or did not come to an end: *is_hung*."""

    def __init__(self, text: str, is_hung: bool = False):
        super().__init__(text)
        self.is_hung = is_hung


@dataclass(frozen=True)
class BenchOpening:
    """What a worker needs: where the backends come from, what is compiled, and the seconds of a step."""

    origins: tuple[VendorOrigin, ...]
    asked: BisectRequest | None
    limit: float

    def __call__(self, progress: Progress) -> WorkerBench:
        """The bench. Raises AbsentError where this process does not have the backends."""
        try:
            for origin in self.origins:
                backend_from(origin)
        except ByocError as error:
            raise AbsentError(str(error)) from error
        return WorkerBench(self.asked, self.limit, progress)


@dataclass
class WorkerBench:
    """What a worker has: the model that was asked about, and what it compiled, by target and place in the model."""

    asked: BisectRequest | None
    limit: float
    progress: Progress
    libraries: dict[tuple[str, int], Library] = field(default_factory=dict)
    _whole: Library | None = None
    _saved: dict[str, SavedRunner] = field(default_factory=dict)

    @property
    def whole(self) -> Library:
        """The whole model, compiled once. Raises as ``byoc.compile``."""
        if self._whole is None:
            assert self.asked is not None
            self.progress(COMPILING)
            asked = self.asked
            self._whole = compile_model(asked.model, asked.target_names, **as_asked(asked))
        return self._whole

    def part(self, sent: SentCase, target: str, place: int | None) -> Library:
        """A part alone, compiled by *target*; what has a *place* in the model is kept."""
        known = None if place is None else self.libraries.get((target, place))
        if known is not None:
            return known
        self.progress(COMPILING)
        asked = self.asked
        precision = asked.precision if asked is not None and target in asked.target_names else "f32"
        made = region_library(sent.case.function, target, precision=precision)
        if place is not None:
            self.libraries[target, place] = made
        return made

    def run(self, library: Library, inputs: Arrays, target: str, saved: bool) -> list[np.ndarray]:
        """The outputs; where *saved*, of the artefact in a process of its own, which may import the target's file."""
        self.progress(RUNNING)
        if not saved:
            return library.run(dict(inputs))
        if target not in self._saved:
            self._saved[target] = SavedRunner(get_backend(target), self.limit * SAVED_PART)
        return self._saved[target].run(library, [inputs])[0]


@dataclass(frozen=True)
class Refused:
    """What a backend, or byoc, does not take: the error, which the other side raises."""

    error: UserError


class _OfModel:
    """A task on the whole model."""

    @property
    def patience(self) -> float:
        """As the whole model."""
        return MODEL_PATIENCE


@dataclass(frozen=True)
class CompileModel(_OfModel):
    """Compile the whole model."""

    def do(self, bench: WorkerBench) -> Refused | None:
        """None where it compiles."""

        def compiled() -> None:
            assert bench.whole is not None

        return _refused(compiled)


@dataclass(frozen=True)
class CutModelTask(_OfModel):
    """Plan and cut the model, and keep nothing of it: this process does the same, where that does not end one."""

    def do(self, bench: WorkerBench) -> Refused | None:
        """None where it can be cut."""
        assert bench.asked is not None
        request = plan_request(bench.asked)
        bench.progress(PLANNING)

        def cut() -> None:
            cut_model(request)

        return _refused(cut)


@dataclass(frozen=True)
class RunModel(_OfModel):
    """Run the whole model, as users do."""

    inputs: Arrays
    saved: bool

    def do(self, bench: WorkerBench) -> list[np.ndarray] | Refused:
        """Its outputs."""
        assert bench.asked is not None
        vendors = [t for t in bench.asked.target_names if t != HOST_BACKEND] or [HOST_BACKEND]
        return _refused(lambda: bench.run(bench.whole, self.inputs, vendors[0], self.saved))


@dataclass(frozen=True)
class RunRegions(_OfModel):
    """Run the whole model node by node, and look at what its regions give."""

    inputs: Arrays

    def do(self, bench: WorkerBench) -> dict[str, list[np.ndarray]] | Refused:
        """The outputs of each region, by its name."""

        def outputs() -> dict[str, list[np.ndarray]]:
            library, found = bench.whole, dict[str, list[np.ndarray]]()
            bench.progress(RUNNING)
            for value in values_of(library, self.inputs):
                if value.function in library.module.regions:
                    found.setdefault(value.function, []).append(value.array)
            return found

        return _refused(outputs)


@dataclass(frozen=True)
class RunPart:
    """Compile a part alone and run it."""

    sent: SentCase
    inputs: Arrays
    target: str
    saved: bool
    place: int | None = None
    patience: float = 1.0

    def do(self, bench: WorkerBench) -> list[np.ndarray] | Refused:
        """Its outputs."""

        def outputs() -> list[np.ndarray]:
            library = watched(bench.part(self.sent, self.target, self.place))
            got = bench.run(library, self.inputs, self.target, False)  # which looks at the inputs
            return bench.run(library, self.inputs, self.target, True) if self.saved else got

        return _refused(outputs)


def plan_request(asked: BisectRequest) -> PlanRequest:
    """What the plan of the model of *asked* is asked for."""
    return PlanRequest(asked.model, asked.target_names, **as_asked(asked))


def _refused(work: Callable[[], T]) -> T | Refused:
    """What *work* gives, or its error as one that can be sent."""
    try:
        return work()
    except ContractError as error:  # without the region's name around it
        cause = error.__cause__ if isinstance(error.__cause__, ContractError) else error
        return Refused(ContractError(f"it breaks its contract: {cause}"))
    except UserError as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # a vendor's class with an __init__ of its own
            return Refused(UserError(str(error)))
        return Refused(error)
    except Exception as error:  # whatever a vendor's code raises
        return Refused(UserError(raised_text(error)))


class Workbench:
    """The worker process of a bisection for *targets*; *limit* are the seconds of one step of a part."""

    def __init__(self, targets: Sequence[str], asked: BisectRequest | None, limit: float):
        origins = tuple(origin_of(get_backend(t)) for t in dict.fromkeys(targets))
        here = [o for o in origins if o.is_of_this_process]
        forked = f"no import gives the class {here[0].kind}" if here else ""
        if asked is not None and isinstance(asked.model, IRModule):
            forked = "the model is a module of this process"
        if asked is not None:
            asked = replace(asked, inputs=None, samples=(), progress=None)
        self._pool = WorkerPool(BenchOpening(origins, asked, limit), 1, limit, forked)

    def __enter__(self) -> Workbench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    def compile_model(self) -> None:
        """Compile the whole model. Raises what that raises, and LostError."""
        self._done(CompileModel())

    def cut_model(self) -> None:
        """Plan the whole model, to see whether that ends the process. Raises UserError, and LostError."""
        self._done(CutModelTask())

    def run_model(self, inputs: Arrays, saved: bool) -> list[np.ndarray]:
        """The outputs of the whole model. Raises UserError, and LostError."""
        return self._arrays(RunModel(inputs, saved))

    def run_regions(self, inputs: Arrays) -> dict[str, list[np.ndarray]]:
        """The outputs of each region in a run of the whole model. Raises UserError, and LostError."""
        found = self._done(RunRegions(inputs))
        assert isinstance(found, dict)
        return found

    def run_part(self, case: Case, target: str, saved: bool, place: int | None = None) -> list[np.ndarray]:
        """The outputs of a part, compiled alone by *target*. Raises UserError, and LostError."""
        sent = SentCase.of(replace(case, feeds=()))
        return self._arrays(RunPart(sent, case.inputs(), target, saved, place))

    def _arrays(self, task: Task[WorkerBench]) -> list[np.ndarray]:
        found = self._done(task)
        assert isinstance(found, list)
        return found

    def _done(self, task: Task[WorkerBench]) -> object:
        ended = self._pool.one(task)
        if isinstance(ended, Lost):
            raise LostError(f"{ended.step or COMPILING}: {ended.text}", ended.hung)
        assert isinstance(ended, Done)
        if isinstance(ended.value, Refused):
            raise ended.value.error
        return ended.value
