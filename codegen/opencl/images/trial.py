"""Buffers and images both tried on the device, in turns, and the faster kept; which it was is kept for later processes.

Each form runs on the same inputs, once to warm up and then :data:`ROUNDS` times in turns, the first of a turn changing;
the device's own clock gives the time of a run's kernels, and the lower median wins. The pair of times is a setting of
the device (``runtime/opencl/settings.py``), under the hash of both forms' code: who compiles the same again tries
nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.codegen.opencl.images.choice import BUFFER, IMAGE
from byoc.errors import DeviceError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.opencl.devices import OpenDevice, open_device
from byoc.runtime.opencl.launches import FunctionPlan
from byoc.runtime.opencl.module import OpenCLModule
from byoc.runtime.opencl.settings import settings_of

ROUNDS = 7
FORMS = (BUFFER, IMAGE)
Form = tuple[str, tuple[FunctionPlan, ...]]  # source and plans


@dataclass(frozen=True)
class MemoryTrial:
    """Which form to take, and a sentence that says why."""

    memory: str
    note: str


def try_memory(forms: Mapping[str, Form], module_of: Callable[[str], OpenCLModule], device: str = "") -> MemoryTrial:
    """The faster of *forms* on the device here, by what is kept of an earlier trial or by one now.

    Args:
        forms: source and plans, by ``buffer`` and ``image``.
        module_of: a new module of a form, with its constants.
        device: which device, as the backend's option says it; the module must be for the same.

    Raises:
        DeviceError: neither runs.
    """
    plans = forms[IMAGE][1]
    if not any(plan.images for plan in plans):
        return MemoryTrial(BUFFER, "memory=trial: nothing to try, since no tensor is an image: buffers")
    if any(plan.signature.size_names for plan in plans):
        return MemoryTrial(BUFFER, "memory=trial: nothing is tried for sizes that are free: buffers")
    try:
        opened = open_device(device)
    except DeviceError as error:
        return MemoryTrial(BUFFER, f"memory=trial: there is no device to try on: buffers ({error})")
    name, settings = _key(forms), settings_of(opened)
    known = _seconds_of(settings.get(name))
    if known is not None:
        return _chosen(known, ", tried in an earlier process")
    seconds, failed = _measured(module_of, opened)
    if failed:
        other = next(form for form in FORMS if form not in failed)
        return MemoryTrial(other, f"memory=trial: {other}s, since the others fail: {failed.popitem()[1]}")
    settings.put(name, seconds)
    return _chosen(seconds, "")


def _chosen(seconds: Mapping[str, float], when: str) -> MemoryTrial:
    winner = min(FORMS, key=lambda form: seconds[form])
    times = ", ".join(f"{form}s {seconds[form] * 1e3:.4g} ms" for form in FORMS)
    return MemoryTrial(winner, f"memory=trial: {winner}s are kept: {times}, medians of {ROUNDS} runs each{when}")


def _key(forms: Mapping[str, Form]) -> str:
    digest = hashlib.sha256()
    for form in FORMS:
        source, plans = forms[form]
        digest.update(json.dumps([form, source, [plan.to_json() for plan in plans]]).encode())
    return f"memory.trial.{digest.hexdigest()}"


def _seconds_of(value: object) -> dict[str, float] | None:
    """A pair of times that was kept; None for anything else."""
    if not isinstance(value, dict) or set(value) != set(FORMS):
        return None
    found = {form: value[form] for form in FORMS}
    return found if all(isinstance(s, float) and math.isfinite(s) and s >= 0 for s in found.values()) else None


def _measured(
    module_of: Callable[[str], OpenCLModule], opened: OpenDevice
) -> tuple[dict[str, float], dict[str, DeviceError]]:
    """The median seconds of each form, and why one that fails does. Raises DeviceError where both do."""
    modules: dict[str, OpenCLModule] = {}
    failed: dict[str, DeviceError] = {}
    for form in FORMS:
        module = module_of(form)
        module.profile(True)
        try:
            _run(module)
            modules[form] = module
        except DeviceError as error:
            failed[form] = error
    if len(failed) == len(FORMS):
        raise DeviceError(f"memory=trial: neither buffers nor images run on {opened.info.name!r}: {failed[BUFFER]}")
    times: dict[str, list[float]] = {form: [] for form in modules}
    for turn in range(ROUNDS if not failed else 0):
        for form in FORMS if turn % 2 == 0 else FORMS[::-1]:
            times[form].append(_run(modules[form]))
    return {form: statistics.median(found) for form, found in times.items() if found}, failed


def _run(module: OpenCLModule) -> float:
    """The seconds that the kernels of one call of each symbol take."""
    module.profile(True)  # what was kept before
    for plan in module.plans:
        module[plan.signature.symbol](*_arrays(plan.signature))
    return sum(e.end - e.begin for e in module.profile(True) if not e.name.startswith("copy "))


def _arrays(signature: Signature) -> Sequence[np.ndarray]:
    """Inputs, and outputs to fill: floats of a normal distribution, and zeros, which are indices of something."""
    rng = np.random.default_rng(0)
    return [*(_array(spec, rng) for spec in signature.inputs), *(_array(spec, None) for spec in signature.outputs)]


def _array(spec: TensorSpec, rng: np.random.Generator | None) -> np.ndarray:
    shape, dtype = spec.concrete_shape({}), numpy_dtype(spec.dtype)
    if rng is not None and spec.dtype.startswith(("float", "bfloat")):
        return rng.standard_normal(shape).astype(dtype)
    return np.zeros(shape, dtype)
