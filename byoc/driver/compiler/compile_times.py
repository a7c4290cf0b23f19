"""What the stages and the passes of a compilation take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from byoc.base.progress import Progress
from byoc.driver.compiler.compile import compile_model
from byoc.driver.options import CompileRequest
from byoc.ir.passes.instrument import PassTimingInstrument
from byoc.ir.passes.transform import PassContext
from byoc.runtime.library import Library
from byoc.runtime.profile.record import CompileTimes

T = TypeVar("T")


class StageTimes:
    """A ``progress`` of ``byoc.compile`` that times each stage until the next begins, and passes it on."""

    def __init__(self, progress: Progress | None = None, clock: Callable[[], float] = time.perf_counter):
        self._progress, self._clock = progress, clock
        self._found: dict[str, float] = {}
        self._stage, self._begin = "", 0.0

    def __call__(self, stage: str) -> None:
        self._end()
        self._stage, self._begin = stage, self._clock()
        if self._progress is not None:
            self._progress(stage)

    def _end(self) -> None:
        if self._stage:
            self._found[self._stage] = self._found.get(self._stage, 0.0) + self._clock() - self._begin
            self._stage = ""

    def finished(self) -> tuple[tuple[str, float], ...]:
        """The stages so far, in the order in which they first began, with their seconds."""
        self._end()
        return tuple(self._found.items())


def timed_compile(asked: CompileRequest) -> tuple[Library, CompileTimes]:
    """What ``byoc.compile`` gives without its cache, and the seconds of its stages and passes."""
    return timed_build(compile_model, asked)


def timed_build(build: Callable[[CompileRequest], T], asked: CompileRequest) -> tuple[T, CompileTimes]:
    """What *build* makes of a request, and the seconds of the stages that it reports, and of passes."""
    stages, passes, outer = StageTimes(asked.progress), PassTimingInstrument(), PassContext.current()
    instruments = [*outer.instruments, passes]
    with PassContext(outer.opt_level, outer.required_pass, outer.disabled_pass, instruments, outer.config):
        made = build(replace(asked, progress=stages))
        return made, CompileTimes(stages.finished(), tuple(passes.profiles))
