"""``byoc.testing.certify``: a backend against the reference, on every form in which it may be given what it takes."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from byoc.base.counted import counted
from byoc.base.progress import silent
from byoc.contract.backend import Backend
from byoc.contract.checks import device_name_of, level_of, why_unavailable
from byoc.contract.registration import get_backend
from byoc.errors import UnavailableError, UserError
from byoc.ir.op import OPS
from byoc.options.entry import takes
from byoc.runtime.core.entry_points import version
from byoc.runtime.core.processor import usable_processors
from byoc.testing.all_cases import is_wanted
from byoc.testing.cases.operators import SAMPLE
from byoc.testing.cases.patterns import PATTERN
from byoc.testing.certificate import RIGHT, CaseResult, Certificate, SpeedRow
from byoc.testing.checks import CHECKS, CRASHED, FAILED, FALLBACK, NUMBERS, PATTERN_MATCH, UNTRIED, Finding
from byoc.testing.core.sent_case import SentCase
from byoc.testing.core.vendor import origin_of, written_in
from byoc.testing.core.worker_pool import Done, Lost, WorkerPool
from byoc.testing.faults import FAULTS, fault_cases
from byoc.testing.models import model_result
from byoc.testing.options import CertifyRequest
from byoc.testing.run_cases import OVER, CaseRun, lost_finding, verdict_results
from byoc.testing.worker import CertifyOpening, InjectFault, MeasureCase, TryModel

MOST_WORKERS = 8
INTERRUPTED = "it was interrupted"


@takes(CertifyRequest, "byoc.testing.certify")
def certify(asked: CertifyRequest) -> Certificate:
    """Try a backend on every case of what it says it takes, and say what is covered, wrong, refused late and slow.

    Cases are made of the samples of all operators, with variable and constant inputs, in other element types and
    layouts, empty and of free size; of its patterns; and of several operators in one region. Each is compiled, run,
    run again, run by threads, run on guarded memory, saved and loaded in another process, and compared with numpy's
    kernels in the model's types and in float64. All of that happens in worker processes: a crash, and what comes to
    no end, is reported with its case, and the next cases are tried. An interruption (Ctrl-C) ends it with what was
    found until then, as the time that is over does; the certificate's ``unfinished`` says so. What differs only where
    the backend's ``deviations`` leave results free is counted and reported, and is no failure.

    Returns:
        The certificate: ``certificate.ok``, ``str(certificate)``, ``certificate.save("acme.json")``.

    Raises:
        UserError: an unknown backend or check, or a name that nothing it takes has.
        UnavailableError: the backend cannot work on this machine.
    """
    backend = checked_backend(asked)
    with worker_pool(asked, backend) as pool:
        return certified(asked, backend, pool)


def worker_pool(asked: CertifyRequest, backend: Backend) -> WorkerPool:
    """The workers of a certification of *backend*."""
    options = asked.backend_options or {}
    origin = origin_of(backend)
    opening = CertifyOpening(origin, asked.tolerance, options, asked.saved, asked.case_seconds, asked.precision)
    count = asked.workers or min(MOST_WORKERS, usable_processors())
    forked = f"no import gives the class {origin.kind}" if origin.is_of_this_process else ""
    return WorkerPool(opening, count, asked.case_seconds, forked)


def certified(asked: CertifyRequest, backend: Backend, pool: WorkerPool) -> Certificate:
    """See :func:`certify`; *pool* is what :func:`worker_pool` gave for as much of *asked*."""
    progress = asked.progress or silent
    deadline = None if asked.seconds is None else time.monotonic() + asked.seconds
    run = CaseRun(pool, asked.skip, deadline, progress)
    progress("making cases")
    made = run.make(asked.seed, asked.only)
    said_nothing = not made.cases and not asked.models and not run.lost_verdicts
    if asked.only and said_nothing and not (made.raised or made.never or made.unmade):
        why = f"; it refuses for: {'; '.join(made.refused)}" if made.refused else ""
        raise UserError(f"backend {backend.name!r} takes nothing that is called {', '.join(asked.only)}{why}")
    rest = _Rest(run, asked)
    ended = OVER
    try:
        run.examine()
        rest.inject_faults()
        rest.try_models()
        rest.measure()
        run.find_smallest(asked.cases)
    except KeyboardInterrupt:
        ended = INTERRUPTED
        pool.close()
        run.smallest.clear()
        run.deadline = time.monotonic()  # as they are, which is quick
        run.find_smallest(asked.cases)
    verdicts = [*verdict_results(made.raised), *verdict_results(made.never, FAILED, PATTERN_MATCH)]
    verdicts += verdict_results(run.lost_verdicts, CRASHED)
    left = sum(r is None for r in run.results) + rest.left
    results = [
        r or CaseResult(c.name, c.operator, c.kind, (Finding(NUMBERS, UNTRIED, ended),))
        for c, r in zip(run.cases, run.results, strict=True)
    ]
    return Certificate(
        backend.name,
        _versions(backend),
        _machine(backend, asked.backend_options or {}),
        _asked(asked),
        (*verdicts, *_unmade(made.unmade, asked), *results, *rest.results(ended)),
        tuple(run.smallest),
        tuple(rest.speed),
        tuple(_notes(backend, run)),
        f"{ended}; {left} of {counted(len(results) + rest.count, 'case')} not tried" if left else "",
        {d.code: d.text for d in backend.deviations},
        tuple(made.refused),
    )


class _Rest:
    """What a certification does beside its cases: faults, models, times."""

    def __init__(self, run: CaseRun, asked: CertifyRequest):
        self._run, self._asked = run, asked
        self._faults = fault_cases(run.cases) if FALLBACK not in asked.skip else []
        self._found: dict[int, CaseResult] = {}
        self._modelled: dict[int, CaseResult] = {}
        self.speed: list[SpeedRow] = []

    @property
    def count(self) -> int:
        """How many faults and models there are."""
        return len(self._faults) + len(self._asked.models)

    @property
    def left(self) -> int:
        """How many of them were not tried."""
        return self.count - len(self._found) - len(self._modelled)

    def inject_faults(self) -> None:
        """Have the module of two cases fail at each stage."""
        self._run.progress("injecting faults")
        tasks = ((k, InjectFault(case, stage)) for k, (case, stage) in enumerate(self._faults))
        for k, ended in self._run.pool.run(tasks, self._run.deadline):
            if isinstance(ended, Done):
                assert ended.value is None or isinstance(ended.value, Finding)
                self._found[k] = self._fault(k, *([ended.value] if ended.value else []))
            elif isinstance(ended, Lost):
                self._found[k] = self._fault(k, Finding(FALLBACK, CRASHED, ended.text))

    def try_models(self) -> None:
        """Compile and run each model."""
        for k, model in enumerate(self._asked.models):
            if self._run.is_over:
                return
            name = Path(model).name
            self._run.progress(f"the model {name}")
            ended = self._run.pool.one(TryModel(os.path.abspath(model)))
            if isinstance(ended, Lost):
                self._modelled[k] = model_result(name, lost_finding(ended))
            elif isinstance(ended, Done):
                assert isinstance(ended.value, tuple)
                self._modelled[k], row = ended.value
                self.speed += [row] if self._asked.speed and row is not None else []

    def measure(self) -> None:
        """Time the first case of each operator that came out right."""
        if not self._asked.speed:
            return
        firsts: dict[str, SentCase] = {}
        for case, result in zip(self._run.cases, self._run.results, strict=True):
            if result is not None and result.verdict == RIGHT:
                firsts.setdefault(case.operator, case)
        rows = []
        for case in firsts.values():
            if self._run.is_over:
                break
            self._run.progress(f"timing {case.name}")
            ended = self._run.pool.one(MeasureCase(case))  # one at a time
            if isinstance(ended, Done) and isinstance(ended.value, SpeedRow):
                rows.append(ended.value)
        self.speed[:0] = rows

    def results(self, ended: str) -> list[CaseResult]:
        """What became of faults and models; what was not tried says that *ended* is why."""
        untried = Finding(NUMBERS, UNTRIED, ended)
        faults = [self._found.get(k) or self._fault(k, untried) for k in range(len(self._faults))]
        models = [
            self._modelled.get(k) or model_result(Path(model).name, untried)
            for k, model in enumerate(self._asked.models)
        ]
        return [*faults, *models]

    def _fault(self, number: int, *findings: Finding) -> CaseResult:
        case, stage = self._faults[number]
        return CaseResult(f"{case.name}, fault at {stage}", case.operator, FAULTS, findings)


def checked_backend(asked: CertifyRequest) -> Backend:
    """The backend that is meant, which works here. Raises as :func:`certify`."""
    backend = _backend(asked.backend)
    unknown = [name for name in asked.skip if name not in CHECKS]
    if unknown:
        raise UserError(f"skip: no check is called {unknown[0]!r}; they are {', '.join(CHECKS)}")
    return backend


def _backend(asked: str | Backend) -> Backend:
    backend = get_backend(asked) if isinstance(asked, str) else asked
    if backend is asked and get_backend(backend.name) is not backend:  # by name Relay's style has a new one each time
        raise UserError(f"another backend is registered as {backend.name!r}; register this one to certify it")
    problem = why_unavailable(backend)
    if problem is not None:
        raise UnavailableError(f"backend {backend.name!r} cannot work here: {problem}")
    level = level_of(backend)
    if not level.runs:
        raise UnavailableError(
            f"backend {backend.name!r} can compile on this machine and not run ({level}): certify it where "
            "its device is, or emulated"
        )
    return backend


def _unmade(unmade: Mapping[str, str], asked: CertifyRequest) -> list[CaseResult]:
    return [
        CaseResult(name, name, SAMPLE if name in OPS else PATTERN, (Finding(NUMBERS, UNTRIED, why),))
        for name, why in unmade.items()
        if not asked.only or is_wanted(asked.only, name) or is_wanted(asked.only, PATTERN)
    ]


def _notes(backend: Backend, run: CaseRun) -> list[str]:
    found = []
    if run.imported:
        found.append(
            f"another process loads its artefacts only after {written_in(backend)} was imported: an entry point "
            "of the package would do that"
        )
    if run.pool.forked:
        found.append(f"cases ran in copies of the process that asked, not in new ones: {run.pool.forked}")
    return found


def _versions(backend: Backend) -> dict[str, str]:
    package = written_in(backend).partition(".")[0]
    own = getattr(backend, "version", None)
    if own is None:
        names = importlib.metadata.packages_distributions().get(package, [])
        own = importlib.metadata.version(names[0]) if names else "of no distribution"
    return {"byoc": version(), f"backend {backend.name}": str(own), "Python": platform.python_version()}


def _machine(backend: Backend, options: Mapping[str, object]) -> dict[str, str]:
    """The machine, and the device where the backend runs on one."""
    device = device_name_of(backend, options)
    return {
        "machine": f"{platform.machine()} {sys.platform}",
        "processor": platform.processor() or "unknown",
        **({"device": device} if device else {}),
    }


def _asked(asked: CertifyRequest) -> dict[str, object]:
    return {
        "only": list(asked.only),
        "skip": list(asked.skip),
        "seed": asked.seed,
        "seconds": asked.seconds,
        "models": [str(m) for m in asked.models],
        "tolerance": dict(asked.tolerance or {}),
        "precision": asked.precision,
    }
