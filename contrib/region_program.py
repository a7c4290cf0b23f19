"""A region as a program of steps over numbered values, as modules that call a library's functions save and run it.

Inputs come first, then constants, then what each step gives, in their order. A step has an operator, the numbers of the
values that it reads, its attributes, and its results as tensors.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.strict_json import at, list_of, mapping_of, number_of, numbered, object_of, text_of, texts_of

FIELDS = ("inputs", "constants", "steps", "outputs")
STEP_FIELDS = ("operator", "arguments", "attributes", "results")
Program = Mapping[str, Any]


def step(
    operator: str, arguments: Sequence[int], attributes: Mapping[str, object], results: Sequence[TensorSpec]
) -> dict[str, object]:
    """A step as JSON has it."""
    given = [{**spec.to_json(), "shape": plain(spec.shape)} for spec in results]
    plain_attributes = {str(k): plain(v) for k, v in attributes.items()}
    return {"operator": operator, "arguments": list(arguments), "attributes": plain_attributes, "results": given}


def plain(value: object) -> object:
    """An attribute as JSON has it; an infinity as text."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, float, str)):
        return value
    return int(value) if isinstance(value, int) else str(value)


def checked_program(data: object, where: str, operators: Container[str]) -> Program:
    """*data* as a program of these *operators* whose steps read what stands before them. Raises ArtifactError."""
    program = object_of(data, where, FIELDS)
    known = number_of(program["inputs"], at(where, "inputs")) + len(
        texts_of(program["constants"], at(where, "constants"))
    )
    for place, item in numbered(program, "steps", where):
        one = object_of(item, place, STEP_FIELDS)
        operator = text_of(one["operator"], at(place, "operator"))
        if operator not in operators:
            raise ArtifactError(f"{place}: no operator is called {operator!r} here: install a newer byoc")
        _below(known, one["arguments"], at(place, "arguments"))
        results = list_of(one["results"], at(place, "results"))
        for k, result in enumerate(results):
            TensorSpec.from_json(result, at(place, f"results[{k}]"))
        mapping_of(one["attributes"], at(place, "attributes"))
        known += len(results)
    _below(known, program["outputs"], at(where, "outputs"))
    return program


def _below(known: int, data: object, where: str) -> None:
    wrong = next((k for k in list_of(data, where) if not number_of(k, where) < known), None)
    if wrong is not None:
        raise ArtifactError(f"{where}: value {wrong} is none of the {known} before it")
