"""Faults injected: the backend's module fails to load, to initialise or to launch, and the host has to stand in.

The fault is put into the module that the backend made, so that this tests what stands around it: that the module can
be left alone at any stage, and that nothing of it is needed any more once it has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from byoc.errors import CompilerNotFoundError, DeviceError
from byoc.runtime.library import Library
from byoc.runtime.modules.module import Module
from byoc.runtime.region.record import INITIALIZE, LAUNCH, LOAD
from byoc.testing.cases.operators import SAMPLE
from byoc.testing.checks import FALLBACK, UNTRIED, WRONG, Examiner, Finding
from byoc.testing.core.case import CONSTANT, Case
from byoc.testing.core.region_library import region_symbol

FAULTS = "faults"


class Kinded(Protocol):
    """What has the kind of a case."""

    @property
    def kind(self) -> str:
        """The sort of test."""


C = TypeVar("C", bound=Kinded)


class InjectedFault(DeviceError):
    """What an injected fault raises."""


def fault_cases(cases: Sequence[C]) -> list[tuple[C, str]]:
    """The first sample, and the first case with constants, each with every stage at which the module may fail."""
    chosen = [next((c for c in cases if c.kind == kind), None) for kind in (SAMPLE, CONSTANT)]
    return [(case, stage) for case in chosen if case is not None for stage in _STAGES]


def fault_finding(examiner: Examiner, case: Case, stage: str) -> Finding | None:
    """What is wrong with what the host does when the module of *case* fails at *stage*; None where nothing is."""
    inject = _STAGES[stage]
    try:
        library: Library = examiner.compiled(case, fallback=True)
    except CompilerNotFoundError as error:
        return Finding(FALLBACK, UNTRIED, str(error))
    except Exception as error:  # whatever a vendor's code raises; compiling it alone is judged elsewhere
        return Finding(FALLBACK, UNTRIED, f"the host has no version of it: {error}")
    symbol = region_symbol(examiner.backend.name)
    module = library.module.owner(symbol)
    if module is None:
        return Finding(FALLBACK, UNTRIED, f"its library has no module of {symbol}")
    inject(module, symbol)
    try:
        got = library.run(case.inputs())
    except Exception as error:  # whatever a vendor's code raises
        return Finding(FALLBACK, WRONG, f"with a fault at {stage} the run fails: {type(error).__name__}: {error}")
    if not any(f.stage == stage for f in library.fallbacks):
        return Finding(FALLBACK, WRONG, f"a fault at {stage} is recorded nowhere")
    problem = examiner.wrong(got, examiner.wanted(case, case.feeds[0]))
    return None if problem is None else Finding(FALLBACK, WRONG, f"with a fault at {stage}: {problem}")


def _fail(*args: object, **options: object) -> None:
    raise InjectedFault("a fault that certify injected")


def _at_load(module: Module, symbol: str) -> None:
    setattr(module, "get_function", _fail)  # noqa: B010 - a method of this one object


def _at_initialize(module: Module, symbol: str) -> None:
    setattr(module, "initialize", _fail)  # noqa: B010 - a method of this one object


def _at_launch(module: Module, symbol: str) -> None:
    def function(name: str, query_imports: bool = False) -> Callable[..., None] | None:
        return _fail if name == symbol else None

    setattr(module, "get_function", function)  # noqa: B010 - a method of this one object


_STAGES: dict[str, Callable[[Module, str], None]] = {
    LOAD: _at_load,
    INITIALIZE: _at_initialize,
    LAUNCH: _at_launch,
}
