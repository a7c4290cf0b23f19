"""What ``tune_later`` of ``byoc.compile`` keeps: how each region's module is made again, with a tuner.

A region is kept as its backend was given it, cut, lowered and in the precision that was asked for, so that it is tuned
by the same search space, runner and database as a compilation at that level, and neither read nor planned again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from byoc.codegen.tune import NO_TUNING, TUNE
from byoc.codegen.tune.level import level_named
from byoc.codegen.tune.tuner import Tuner, own_database
from byoc.contract.backend import Backend
from byoc.driver.region_report import region_memory
from byoc.errors import UserError
from byoc.ir.passes.carried import carried
from byoc.runtime.executors.background_tuning import TunableModule, TunedInTheBackground
from byoc.runtime.executors.preparation import roots_below
from byoc.runtime.modules.module import Module

if TYPE_CHECKING:
    from byoc.runtime.library import Library

REPORT = "background_tuning"
Again = Callable[[Mapping[str, object]], Module]  # the module, made with more options


class RegionSources:
    """How modules of regions are made again, whose backends tune; those of cuts that were tried and dropped too."""

    def __init__(self) -> None:
        self._found: list[tuple[Module, Again]] = []

    def add(self, module: Module, backend: Backend, again: Again) -> None:
        """*module*, which *backend* made in this thread's contexts, is made by *again* too."""
        if TUNE in (backend.options or ()):
            self._found.append((module, carried(again)))

    def serve(self, library: Library) -> None:
        """Have *library* be tuned by what was kept of its own modules."""
        roots = (library.module, *roots_below(library.module))
        own = {id(module) for root in roots for module in root.walk()}
        found = [(module, again) for module, again in self._found if id(module) in own]
        library.tuning_source = functools.partial(_tuning, found)


def _tuning(
    found: Sequence[tuple[Module, Again]], library: TunedInTheBackground, level: str, seconds: float | None
) -> RegionTuning:
    """The tuning of the modules *found* in *library* at *level*. Raises UserError for a level that tunes nothing."""
    asked = level_named(level)
    if asked.name == NO_TUNING:
        raise UserError(f"tune_in_background: the level {NO_TUNING} tries nothing; give another, as normal")
    if seconds is not None:
        asked = dataclasses.replace(asked, seconds=seconds)
    return RegionTuning(library, found, Tuner(asked, own_database(), again=True))


@dataclass(frozen=True)
class RegionTuning:
    """The modules *found* in *library*, tuned by *tuner*: what ran out of time before is tried as well."""

    library: TunedInTheBackground
    found: Sequence[tuple[Module, Again]]
    tuner: Tuner

    @property
    def modules(self) -> Sequence[TunableModule]:
        """What can be tuned."""
        return [TunableModule(module, functools.partial(again, {TUNE: self.tuner})) for module, again in self.found]

    def reports_to(self, progress: Callable[[str], object]) -> None:
        """Have *progress* called with what is done next; where it raises, tuning ends there."""
        self.tuner.progress = progress

    def entries(self, exchanged: Sequence[str]) -> Mapping[str, object]:
        """What is said of it in the report."""
        report = self.tuner.report
        tuning = {**report.to_json(), "text": report.text(), "exchanged": list(exchanged)}
        return {REPORT: tuning, "regions": region_memory(self.library.module)}
