"""A region as a program of steps over numbered values: read from an artefact, and one step of it computed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from byoc.contrib.torch.kernels import Step
from byoc.contrib.torch.table import KERNELS
from byoc.runtime.core.errors import ArtifactError, KernelError
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.strict_json import at, list_of, mapping_of, number_of, numbered, object_of, text_of, texts_of

FIELDS = ("inputs", "constants", "steps", "outputs")
STEP_FIELDS = ("operator", "arguments", "attributes", "results")
Program = Mapping[str, Any]


def computed(symbol: str, told: Mapping[str, Any], tensors: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """The results of one step. Raises KernelError where they are not of the types that its operator has."""
    torch: Any = importlib.import_module("torch")
    specs = [TensorSpec(result["name"], tuple(result["shape"]), result["dtype"]) for result in told["results"]]
    shapes, dtypes = [spec.concrete_shape(sizes) for spec in specs], [spec.dtype for spec in specs]
    if not any(0 not in shape for shape in shapes):
        return [
            torch.empty(shape, dtype=getattr(torch, dtype), device=tensors[0].device)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
    step = Step({**told["attributes"], "operator": told["operator"]}, shapes, dtypes)
    given = KERNELS[told["operator"]].compute(step, *tensors)
    results = list(given) if isinstance(given, (list, tuple)) else [given]
    for value, shape, dtype in zip(results, shapes, dtypes, strict=True):
        if tuple(value.shape) != shape or value.dtype != getattr(torch, dtype):
            raise KernelError(
                f"{symbol}: {told['operator']} gave {value.dtype}{list(value.shape)}, expected {dtype}{list(shape)}"
            )
    return results


def checked_program(data: object, where: str) -> Program:
    """*data* as a program whose steps are in the table and read what stands before them. Raises ArtifactError."""
    program = object_of(data, where, FIELDS)
    known = number_of(program["inputs"], at(where, "inputs")) + len(
        texts_of(program["constants"], at(where, "constants"))
    )
    for place, item in numbered(program, "steps", where):
        step = object_of(item, place, STEP_FIELDS)
        operator = text_of(step["operator"], at(place, "operator"))
        if operator not in KERNELS:
            raise ArtifactError(f"{place}: no operator is called {operator!r} here: install a newer byoc")
        _below(known, step["arguments"], at(place, "arguments"))
        results = list_of(step["results"], at(place, "results"))
        for k, result in enumerate(results):
            TensorSpec.from_json(result, at(place, f"results[{k}]"))
        mapping_of(step["attributes"], at(place, "attributes"))
        known += len(results)
    _below(known, program["outputs"], at(where, "outputs"))
    return program


def _below(known: int, data: object, where: str) -> None:
    wrong = next((k for k in list_of(data, where) if not number_of(k, where) < known), None)
    if wrong is not None:
        raise ArtifactError(f"{where}: value {wrong} is none of the {known} before it")
