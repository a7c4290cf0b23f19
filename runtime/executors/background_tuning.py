"""Regions that are tuned by a thread of their own, while runs go on, and then compute with the kernels that won.

Who compiled a library knows how a region is made again (``TuningWork``); the runtime compiles nothing. Ensures: the
modules of a library change between two calls of a region and never in one; a region whose tuning fails, or is
stopped, keeps the kernels that it has; what a saved artefact holds is of one moment. Source: MNN's
``Session_Backend_Auto`` with ``MAX_TUNING_NUMBER``, which turns back to the CPU while kernels are tuned.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from byoc.runtime.core.errors import UserError
from byoc.runtime.executors.preparation import device_guards, roots_below
from byoc.runtime.modules.module import Module

if TYPE_CHECKING:
    from byoc.runtime.modules.metadata import MetadataModule
    from byoc.runtime.region.guard import RegionGuard


@dataclass(frozen=True)
class TunableModule:
    """A *module* in a library, and what makes it again with tuned kernels; it may raise what a backend raises."""

    module: Module
    tuned: Callable[[], Module]


class TuningWork(Protocol):
    """How the modules of a library are tuned; made by the compiler for a level."""

    @property
    def modules(self) -> Sequence[TunableModule]:
        """What can be tuned."""

    def reports_to(self, progress: Callable[[str], object]) -> None:
        """Have *progress* called with what is done next, in words; it may raise."""

    def entries(self, exchanged: Sequence[str]) -> Mapping[str, object]:
        """What the report of the library has of it, the symbols *exchanged* having other kernels now."""


class TunedInTheBackground(Protocol):
    """What is asked of a library here."""

    @property
    def module(self) -> MetadataModule:
        """The root of its modules."""

    @property
    def unchanged(self) -> contextlib.AbstractContextManager[object]:
        """Held while its modules and its report are to stay as they are."""

    @property
    def report(self) -> dict[str, object]:
        """What was done."""

    @property
    def tuning_source(self) -> TuningSource | None:
        """What makes the work of tuning it."""


TuningSource = Callable[[TunedInTheBackground, str, float | None], TuningWork]  # of a library, a level, seconds


class _Stopped(Exception):
    """Raised in the thread that tunes, to leave what it is doing."""


class BackgroundTuning:
    """The tuning of *library* by *work*, in a thread that has begun.

    With *on_host* the regions that are tuned are the host's until they are done, so that the device is free for trials.
    """

    def __init__(self, library: TunedInTheBackground, work: TuningWork, on_host: bool):
        work.reports_to(self._says)
        self._is_stopping, self._was_stopped = threading.Event(), False
        self._progress = "beginning"
        self._exchanged: list[str] = []
        self._errors: list[Exception] = []
        self._begun = threading.Event()
        run = _Run(library, work, on_host)  # which nobody holds but the thread: the library holds this handle
        self._thread = threading.Thread(target=self._run, args=(run,), name="byoc-tune", daemon=True)
        self._thread.start()
        self._begun.wait()  # calls from now on are the host's, where it was asked for

    @property
    def is_done(self) -> bool:
        """Whether nothing is tuned any more."""
        return not self._thread.is_alive()

    @property
    def was_stopped(self) -> bool:
        """Whether it ended since :meth:`stop` was called, before all was tuned."""
        return self._was_stopped

    @property
    def progress(self) -> str:
        """What is done now, in words."""
        return self._progress

    @property
    def exchanged(self) -> tuple[str, ...]:
        """The regions that compute with tuned kernels by now, by their names; parts of control flow have names of
        their own.
        """
        return tuple(self._exchanged)

    @property
    def error(self) -> Exception | None:
        """What the first region raised that could not be tuned; None where nothing was raised so far."""
        return self._errors[0] if self._errors else None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done, at most *timeout* seconds; whether it is. Raises ``error``, where there is one."""
        self._thread.join(timeout)
        if self.is_done and self._errors:
            raise self._errors[0]
        return self.is_done

    def stop(self) -> None:
        """Have it end behind the kernel that it tries, whose region and those after it keep the kernels they have.

        What was found so far stays in the database, and is not tried again.
        """
        self._is_stopping.set()

    def _says(self, what: str) -> None:
        self._progress = what
        if self._is_stopping.is_set():
            self._was_stopped = True
            raise _Stopped

    def _run(self, run: _Run) -> None:
        with run.on_host():
            self._begun.set()
            for k, job in enumerate(run.work.modules):
                try:
                    self._says(f"tuning module {k + 1} of {len(run.work.modules)}")
                    switch = run.prepared(job.module, job.tuned())
                    self._says("exchanging kernels")
                    switch()
                    self._exchanged += job.module.symbols
                except Exception as error:  # whatever a backend raises, or a device
                    if self._was_stopped:
                        break
                    self._errors.append(error)
                run.end_preparing(job.module)
        try:
            run.report(self._exchanged)
        except Exception as error:
            self._errors.append(error)
        self._progress = "stopped" if self._was_stopped else "done"


class _Run:
    """What a thread needs of *library* to tune it by *work*."""

    def __init__(self, library: TunedInTheBackground, work: TuningWork, on_host: bool):
        self.library, self.work = library, work
        roots = (library.module, *roots_below(library.module))
        self._roots = {id(m): root for root in roots for m in root.walk() if m is not root}
        self._guards: dict[int, list[RegionGuard]] = {}  # of regions that the host computes, by their module's id
        if on_host:
            device_guards(library.module)  # raises where the host cannot
            for module in (job.module for job in work.modules):
                root = self._roots[id(module)]
                self._guards[id(module)] = [root.guard(symbol) for symbol in module.symbols]

    def prepared(self, module: Module, tuned: Module) -> Callable[[], None]:
        """What has *module* compute as *tuned* does, all that takes time being done."""
        switch = self._roots[id(module)].exchange_kernels(module, tuned)

        def switched() -> None:
            with self.library.unchanged:
                switch()

        return switched

    def report(self, exchanged: Sequence[str]) -> None:
        """Have the report of the library say what was done."""
        with self.library.unchanged:
            self.library.report.update(self.work.entries(exchanged))

    @contextlib.contextmanager
    def on_host(self) -> Iterator[None]:
        """Have the host compute the regions that are tuned, where it was asked for."""
        for guard in (g for guards in self._guards.values() for g in guards):
            guard.begin_preparing(threading.get_ident())
        try:
            yield
        finally:
            for job in self.work.modules:
                self.end_preparing(job.module)

    def end_preparing(self, module: Module) -> None:
        """Have calls of the functions of *module* be the device's again."""
        for guard in self._guards.get(id(module), ()):
            guard.end_preparing()


def begin(
    library: TunedInTheBackground, asked: tuple[str, float | None, bool], before: BackgroundTuning | None
) -> BackgroundTuning:
    """Begin to tune *library*, for which *before* was the last; *asked* are level, seconds, and whether on the host.

    Raises:
        UserError: as ``Library.tune_in_background``.
    """
    level, seconds, on_host = asked
    if before is not None and not before.is_done:
        raise UserError("this library is being tuned in the background already: wait for that, or stop it")
    roots = (library.module, *roots_below(library.module))
    modules = [root.owner(symbol) for root in roots for symbol in root.regions]
    if not any(module is not None and module.can_start for module in modules):
        raise UserError("no region of this model runs on a device: there is nothing to tune in the background")
    if library.tuning_source is None:
        raise UserError(
            "this library holds kernels, and not what they were made of: to tune it in the background, have this "
            "process make it by byoc.compile with tune_later=True"
        )
    if seconds is not None and not seconds > 0:
        raise UserError(f"tune_in_background: seconds are a number above 0, got {seconds!r}")
    work = library.tuning_source(library, level, seconds)
    if not work.modules:
        raise UserError("no backend of this model's regions tunes: there is nothing to tune in the background")
    return BackgroundTuning(library, work, on_host)
