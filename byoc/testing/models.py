"""Real models on a backend: its regions and the host together, against the reference in float64; saved and loaded."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from byoc.base.progress import Progress
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
MOST_REASONS = 3  # for which it takes nothing of a model, those shown
LEAST_INTEGER_DB = 30.0  # of integers, which a rounding may move by one


def model_results(
    examiner: Examiner, model: str | os.PathLike[str], progress: Progress
) -> tuple[CaseResult, SpeedRow | None]:
    """What becomes of *model*, and its times where it ran; *progress* is called with each step before it is taken.

    Where the backend takes nothing of it and sizes are free, it is tried with these at 1, and its name says so.
    """
    name = Path(model).name
    progress(COMPILE)
    shapes: dict[str, tuple[int, ...]] | None = None
    try:
        library = _compiled(examiner, model, None)
        inputs = seeded_inputs(library.inputs, {})
        if not library.plan.regions and any(not isinstance(d, int) for spec in library.inputs for d in spec.shape):
            shapes = {name: array.shape for name, array in inputs.items()}
            library = _compiled(examiner, model, shapes)
    except UserError as error:
        return model_result(name, Finding(NUMBERS, LATE, str(error))), None
    if not library.plan.regions:
        return model_result(name, Finding(NUMBERS, UNTRIED, _why_nothing(library, examiner.backend.name))), None
    progress(NUMBERS)
    try:
        main = module_of(model)["main"]
        assert isinstance(main, Function)
        wanted = outputs_of(main, [inputs[p.name_hint] for p in main.params], True)
    except UserError as error:
        return model_result(name, Finding(NUMBERS, UNTRIED, f"the reference does not run it: {error}")), None
    progress(RUN)
    try:
        got = library.run(inputs)
    except Exception as error:  # whatever a vendor's code raises
        return model_result(name, Finding(NUMBERS, LATE, f"{type(error).__name__}: {error}")), None
    assert len(got) == len(tensor_types(main.body.checked_type))
    findings = _judged(library, got, wanted, NUMBERS)
    if not findings and examiner.saved is not None:
        progress(SAVED)
        try:
            findings = _judged(library, examiner.saved.run(library, [inputs])[0], wanted, SAVED)
        except UserError as error:
            findings = [Finding(SAVED, LATE, str(error))]
    row, label = None, f"{name}, sizes of 1" if shapes else name
    if not findings:
        progress(SPEED)
        row = compared(label, (library, compile_model(model, ["c"], shapes=shapes)), inputs)
    return replace(model_result(name, *findings), name=label), row


def _compiled(examiner: Examiner, model: str | os.PathLike[str], shapes: Mapping[str, Sequence[int]] | None) -> Library:
    options = {examiner.backend.name: dict(examiner.options)} if examiner.options else None
    return compile_model(model, [examiner.backend.name, "c"], backend_options=options, shapes=shapes)


def _why_nothing(library: Library, target: str) -> str:
    """Why *target* takes nothing of the model that *library* was compiled from."""
    reasons = [r for decision in library.plan.decisions for r in dict(decision.verdicts)[target].why]
    texts = ", ".join(text for text, _ in Counter(r.text for r in reasons).most_common(MOST_REASONS))
    return f"it takes no operator of this model{f', and wants: {texts}' if texts else ''}"


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
