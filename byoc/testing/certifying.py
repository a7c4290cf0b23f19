"""``byoc.testing.certify``: a backend against the reference, on every form in which it may be given what it takes."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time

from byoc.contract.backend import Backend
from byoc.contract.registration import get_backend
from byoc.errors import UnavailableError, UserError
from byoc.options.entry import takes
from byoc.runtime.core.distribution import version
from byoc.testing.cases.operators import Asked
from byoc.testing.cases.patterns import PATTERN
from byoc.testing.certificate import CaseResult, Certificate, SpeedRow
from byoc.testing.checks import CHECKS, FALLBACK, NUMBERS, UNTRIED, Examiner, Finding
from byoc.testing.core.case import Case
from byoc.testing.core.saved import SavedRunner
from byoc.testing.faults import fault_results
from byoc.testing.models import model_results
from byoc.testing.options import CertifyRequest
from byoc.testing.run_cases import CaseRun, all_cases, is_wanted, raised_verdicts
from byoc.testing.speed import measured


@takes(CertifyRequest, "byoc.testing.certify")
def certify(asked: CertifyRequest) -> Certificate:
    """Try a backend on every case of what it says it takes, and say what is covered, wrong, refused late and slow.

    Cases are made of the samples of all operators, with variable and constant inputs, in other element types and
    layouts, empty and of free size; of its patterns; and of several operators in one region. Each is compiled, run,
    run again, run by threads, run on guarded memory, saved and loaded in another process, and compared with numpy's
    kernels in the model's types and in float64. What differs only where the backend's ``deviations`` leave results
    free is counted and told, and is no failure. A crash of the backend's native code ends the process.

    Returns:
        The certificate: ``certificate.ok``, ``str(certificate)``, ``certificate.save("acme.json")``.

    Raises:
        UserError: an unknown backend or check, or a name that nothing it takes has.
        UnavailableError: the backend cannot work on this machine.
    """
    backend = _backend(asked.backend)
    unknown = [name for name in asked.skip if name not in CHECKS]
    if unknown:
        raise UserError(f"skip: no check is called {unknown[0]!r}; they are {', '.join(CHECKS)}")
    tell = asked.progress or _silent
    deadline = None if asked.seconds is None else time.monotonic() + asked.seconds
    said = Asked(backend)
    tell("making cases")
    cases = all_cases(said, asked.seed, asked.only)
    if asked.only and not cases and not asked.models and not said.raised:
        raise UserError(f"backend {backend.name!r} takes nothing that is called {', '.join(asked.only)}")
    runner = SavedRunner(backend) if asked.saved else None
    try:
        examiner = Examiner(backend, asked.tolerance, asked.backend_options or {}, runner)
        run = CaseRun(examiner, asked.skip, deadline, tell)
        found = run.results(cases)
        results = [*raised_verdicts(said), *_unmade(said, asked), *(result for _, result in found)]
        smallest = run.smallest(found, asked.cases)
        if FALLBACK not in asked.skip:
            tell("injecting faults")
            results += fault_results(examiner, cases)
        modelled = [model_results(examiner, model, tell) for model in asked.models]
        results += [result for result, _ in modelled]
        speed = _speed(examiner, cases, asked) + [row for _, row in modelled if asked.speed and row is not None]
        notes = _notes(backend, runner)
    finally:
        if runner is not None:
            runner.close()
    told = _asked(asked)
    return Certificate(
        backend.name,
        _versions(backend),
        _machine(),
        told,
        tuple(results),
        tuple(smallest),
        tuple(speed),
        tuple(notes),
        {d.code: d.text for d in backend.deviations},
    )


def _backend(asked: str | Backend) -> Backend:
    backend = get_backend(asked) if isinstance(asked, str) else asked
    if get_backend(backend.name) is not backend:
        raise UserError(f"another backend is registered as {backend.name!r}; register this one to certify it")
    problem = backend.unavailable()
    if problem is not None:
        raise UnavailableError(f"backend {backend.name!r} cannot work here: {problem}")
    return backend


def _unmade(said: Asked, asked: CertifyRequest) -> list[CaseResult]:
    return [
        CaseResult(name, name, PATTERN, (Finding(NUMBERS, UNTRIED, why),))
        for name, why in said.unmade.items()
        if not asked.only or is_wanted(asked.only, name) or is_wanted(asked.only, PATTERN)
    ]


def _speed(examiner: Examiner, cases: list[Case], asked: CertifyRequest) -> list[SpeedRow]:
    if not asked.speed:
        return []
    firsts: dict[str, Case] = {}
    for case in cases:
        firsts.setdefault(case.operator, case)
    rows = (measured(examiner, case) for case in firsts.values())
    return [row for row in rows if row is not None]


def _notes(backend: Backend, runner: SavedRunner | None) -> list[str]:
    found = []
    if runner is not None and runner.imported:
        found.append(
            f"another process loads its artefacts only after {type(backend).__module__} was imported: an entry point "
            "of the package would do that"
        )
    return found


def _versions(backend: Backend) -> dict[str, str]:
    package = type(backend).__module__.partition(".")[0]
    own = getattr(backend, "version", None)
    if own is None:
        names = importlib.metadata.packages_distributions().get(package, [])
        own = importlib.metadata.version(names[0]) if names else "of no distribution"
    return {"byoc": version(), f"backend {backend.name}": str(own), "Python": platform.python_version()}


def _machine() -> dict[str, str]:
    return {"machine": f"{platform.machine()} {sys.platform}", "processor": platform.processor() or "unknown"}


def _asked(asked: CertifyRequest) -> dict[str, object]:
    return {
        "only": list(asked.only),
        "skip": list(asked.skip),
        "seed": asked.seed,
        "seconds": asked.seconds,
        "models": [str(m) for m in asked.models],
        "tolerance": dict(asked.tolerance or {}),
    }


def _silent(stage: str) -> None:
    """Progress that nobody watches."""
