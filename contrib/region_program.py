"""A region as a program of steps over numbered values, as modules that call a library's functions save and run it.

Inputs come first, then constants, then what each step gives, in their order. A step has an operator, the numbers of the
values that it reads, its attributes, and its results as tensors.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.strict_json import at, list_of, mapping_of, number_of, numbered, object_of, text_of, texts_of

FIELDS = ("inputs", "constants", "steps", "outputs")
STEP_FIELDS = ("operator", "arguments", "attributes", "results")
RegionProgram = Mapping[str, Any]


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


def checked_program(data: object, where: str, operators: Container[str]) -> RegionProgram:
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


@dataclass(frozen=True)
class Operation:
    """One operator as what computes it sees it: its attributes as JSON has them, and for each result its shape and its
    element type by name.
    """

    operator: str
    attributes: Mapping[str, Any]
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[str]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.shapes[0]

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]

    def get(self, name: str, default: Any) -> Any:
        """An attribute, or *default* where the operator has none of that name, or an empty one."""
        return self.attributes.get(name) or default

    def axis(self, ndim: int, default: int, name: str = "axis") -> int:
        """The attribute *name* as an axis of *ndim*, not below 0."""
        axis = self.attributes.get(name, default)
        return int(default if axis is None else axis) % max(ndim, 1)

    def reduced_axes(self, ndim: int) -> tuple[int, ...]:
        """The axes that a reduction goes over, none of them below 0."""
        axis = self.attributes.get("axis")
        named = [axis] if isinstance(axis, int) else axis
        axes = {int(a) % ndim for a in named} if named is not None else set(range(ndim))
        return tuple(sorted(set(range(ndim)) - axes if self.get("exclude", False) else axes))

    def slice_begins(self, shape: Sequence[int]) -> list[int]:
        """Where a forward slice of data of *shape* begins along each axis."""
        axes = self.get("axes", None)
        places = [int(a) % len(shape) for a in axes] if axes else list(range(len(self["begin"])))
        begins = [0] * len(shape)
        for axis, begin in zip(places, self["begin"], strict=False):
            begins[axis] = min(max(int(begin) + shape[axis] if int(begin) < 0 else int(begin), 0), shape[axis])
        return begins

    def slice_steps(self, shape: Sequence[int]) -> list[int]:
        """The step of a forward slice of data of *shape* along each axis."""
        axes, steps = self.get("axes", None), [int(s) for s in self.get("strides", [1])]
        count = len(axes) if axes else max(len(self["begin"]), len(self["end"]))
        steps = steps * count if len(steps) == 1 else steps + [1] * (count - len(steps))
        found = [1] * len(shape)
        if self.get("slice_mode", "end") == "end":
            for axis, step in zip(axes or range(count), steps, strict=False):
                found[int(axis) % len(shape)] = step
        return found
