"""Real models on a backend: its regions and the host together, against the reference in float64; saved and loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from byoc.driver.compiler.entry import compile as compile_model
from byoc.driver.model import module_of
from byoc.errors import UserError
from byoc.ir.types import tensor_types
from byoc.relay.expr import Function
from byoc.runtime.library import Library
from byoc.testing.certificate import CaseResult, SpeedRow
from byoc.testing.checks import COMPILE, LATE, NUMBERS, RUN, SAVED, SPEED, UNTRIED, WRONG, Examiner, Finding
from byoc.testing.core.difference import errors as errors_of
from byoc.testing.core.difference import is_float
from byoc.testing.core.inputs import seeded_inputs
from byoc.testing.core.reference import outputs_of
from byoc.testing.speed import compared

MODEL = "models"
LEAST_DB = 60.0  # signal over noise of a model's float outputs
LEAST_INTEGER_DB = 30.0  # of integers, which a rounding may move by one


def model_results(
    examiner: Examiner, model: str | os.PathLike[str], tell: Callable[[str], None]
) -> tuple[CaseResult, SpeedRow | None]:
    """What becomes of *model*, and its times where it ran; *tell* is called with each step before it is taken."""
    name, backend = Path(model).name, examiner.backend
    tell(COMPILE)
    options = {backend.name: dict(examiner.options)} if examiner.options else None
    try:
        library = compile_model(model, [backend.name, "c"], backend_options=options)
    except UserError as error:
        return model_result(name, Finding(NUMBERS, LATE, str(error))), None
    plan = library.report.get("plan")
    if not (isinstance(plan, dict) and plan.get("regions")):
        return model_result(name, Finding(NUMBERS, UNTRIED, "it takes no operator of this model")), None
    inputs = seeded_inputs(library.inputs, {})
    tell(NUMBERS)
    try:
        main = module_of(model)["main"]
        assert isinstance(main, Function)
        wanted = outputs_of(main, [inputs[p.name_hint] for p in main.params], True)
    except UserError as error:
        return model_result(name, Finding(NUMBERS, UNTRIED, f"the reference does not run it: {error}")), None
    tell(RUN)
    try:
        got = library.run(inputs)
    except Exception as error:  # whatever a vendor's code raises
        return model_result(name, Finding(NUMBERS, LATE, f"{type(error).__name__}: {error}")), None
    assert len(got) == len(tensor_types(main.body.checked_type))
    findings = _judged(library, got, wanted, NUMBERS)
    if not findings and examiner.saved is not None:
        tell(SAVED)
        try:
            findings = _judged(library, examiner.saved.run(library, [inputs])[0], wanted, SAVED)
        except UserError as error:
            findings = [Finding(SAVED, LATE, str(error))]
    row = None
    if not findings:
        tell(SPEED)
        row = compared(name, (library, compile_model(model, ["c"])), inputs)
    return model_result(name, *findings), row


def _judged(library: Library, got: list[np.ndarray], wanted: list[np.ndarray], check: str) -> list[Finding]:
    for spec, value, want in zip(library.outputs, got, wanted, strict=True):
        found = errors_of(value, want)
        least = LEAST_DB if is_float(value.dtype) else LEAST_INTEGER_DB
        if found.unlike or found.snr_db < least:
            problem = found.unlike or f"{found.snr_db:.1f} dB over the noise, largest error {found.max_abs:.3g}"
            return [Finding(check, WRONG, f"output {spec.name!r}: {problem}; byoc bisect says where it begins")]
    return []


def model_result(name: str, *findings: Finding) -> CaseResult:
    """The result of the model called *name*."""
    return CaseResult(name, f"model {name}", MODEL, findings)
