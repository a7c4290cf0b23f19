"""What certification does in worker processes: everything that calls a vendor's code.

Cases travel as Relay's text and arrays. Each task reports its steps, so that a worker that crashes has said at which.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from byoc.base.progress import Progress
from byoc.contract.backend import Backend
from byoc.driver.compiler.plan import plan
from byoc.errors import ByocError, UserError
from byoc.ir.module import IRModule
from byoc.testing.all_cases import all_cases
from byoc.testing.cases.operators import BackendAnswers
from byoc.testing.certificate import CaseResult, SpeedRow
from byoc.testing.checks import Examiner, Finding
from byoc.testing.core.case import Case
from byoc.testing.core.refusals import grouped
from byoc.testing.core.saved import SavedRunner
from byoc.testing.core.sent_case import SentCase
from byoc.testing.core.vendor import VendorOrigin, backend_from
from byoc.testing.core.worker_pool import AbsentError
from byoc.testing.faults import fault_finding
from byoc.testing.models import model_results
from byoc.testing.speed import measured

MOST_REASONS = 5  # of refusals that are listed where nothing was taken
MODEL_PATIENCE = 10.0  # a model's steps take longer than a case's
SAVED_PART = 0.8  # of a step's time, for the process that loads what was saved: it is named first


@dataclass(frozen=True)
class WorkerContext:
    """What a worker has: the examiner, and where it reports its steps."""

    examiner: Examiner
    progress: Progress

    @property
    def backend(self) -> Backend:
        """The backend that is certified."""
        return self.examiner.backend


@dataclass(frozen=True)
class CertifyOpening:
    """What the context of a worker is made of; the other fields are those of ``certify``, *limit* that of a step."""

    origin: VendorOrigin
    tolerance: Mapping[str, float] | None
    options: Mapping[str, object]
    saved: bool
    limit: float
    precision: str = "f32"

    def __call__(self, progress: Progress) -> WorkerContext:
        """The context. Raises AbsentError where this process does not have the backend."""
        try:
            backend = backend_from(self.origin)
        except ByocError as error:
            raise AbsentError(str(error)) from error
        runner = SavedRunner(backend, self.limit * SAVED_PART) if self.saved else None
        if runner is not None:
            runner.start()
        return WorkerContext(
            Examiner(backend, self.tolerance, self.options, runner, progress, self.precision), progress
        )


@dataclass(frozen=True)
class MadeCases:
    """The cases of a backend; verdicts that failed when asked, patterns of which no case was made, and patterns that
    match nothing, each with why; the reasons of refusals that were given most often.
    """

    cases: Sequence[SentCase]
    raised: Mapping[str, str]
    unmade: Mapping[str, str]
    never: Mapping[str, str]
    refused: Sequence[str]


@dataclass(frozen=True)
class MakeCases:
    """Make all cases, without those of the names in *lost*, in whose verdicts a worker was lost."""

    seed: int
    only: Sequence[str]
    lost: frozenset[str]
    patience: float = 1.0

    def do(self, context: WorkerContext) -> MadeCases:
        """The cases."""
        asked = BackendAnswers(context.backend, progress=context.progress, lost=self.lost)
        cases = all_cases(asked, self.seed, self.only)
        reasons = grouped(asked.refused, MOST_REASONS)
        return MadeCases([SentCase.of(c) for c in cases], asked.raised, asked.unmade, asked.never, reasons)


@dataclass(frozen=True)
class Examined:
    """What was found of a case; *is_taken* where the backend still takes it; *imported* as SavedRunner has it."""

    findings: tuple[Finding, ...]
    is_taken: bool = True
    imported: bool = False


@dataclass(frozen=True)
class ExamineCase:
    """Put a case through *checks*; where *ask*, ask the backend first whether it takes the case."""

    sent: SentCase
    checks: Sequence[str]
    ask: bool = False
    patience: float = 1.0

    def do(self, context: WorkerContext) -> Examined:
        """What is found of it."""
        case = self.sent.case
        if self.ask and not is_taken(context.backend, case):
            return Examined((), False)
        found = context.examiner.examine(case, self.checks)
        runner = context.examiner.saved
        return Examined(tuple(found), True, runner is not None and runner.imported)


@dataclass(frozen=True)
class InjectFault:
    """Have the module of a case fail at a *stage*."""

    sent: SentCase
    stage: str
    patience: float = 1.0

    def do(self, context: WorkerContext) -> Finding | None:
        """What is wrong with what the host then does."""
        return fault_finding(context.examiner, self.sent.case, self.stage)


@dataclass(frozen=True)
class TryModel:
    """Compile and run a model."""

    model: str | os.PathLike[str]
    patience: float = MODEL_PATIENCE

    def do(self, context: WorkerContext) -> tuple[CaseResult, SpeedRow | None]:
        """What becomes of it, and its times."""
        return model_results(context.examiner, self.model, context.progress)


@dataclass(frozen=True)
class MeasureCase:
    """Time a case."""

    sent: SentCase
    patience: float = 1.0

    def do(self, context: WorkerContext) -> SpeedRow | None:
        """Its times; None where it does not run."""
        return measured(context.examiner, self.sent.case)


def is_taken(backend: Backend, case: Case) -> bool:
    """Whether *backend* takes *case*: each call, or a region of it by the planner."""
    if not case.whole:
        return BackendAnswers(backend).takes(case.function, case.name)
    try:
        return bool(plan(IRModule.from_expr(case.function), [backend.name, "host"]).regions)
    except UserError:
        return False
