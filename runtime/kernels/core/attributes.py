"""The attributes of a kernel that has many of them, as one object.

    @dataclass(frozen=True, kw_only=True)
    class ConvAttributes(KernelAttributes):
        strides: tuple[int, ...] = (1,)

    @kernel("nn.conv2d")
    def conv(data: np.ndarray, weight: np.ndarray, *, attrs: ConvAttributes) -> np.ndarray: ...

The registry gives such a kernel its attributes as it gives them to others, by name; annotations and defaults are read
from the fields. Kernels call each other with the object.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

R = TypeVar("R")
_PARAMETER = "attrs"


@dataclass(frozen=True, kw_only=True)
class KernelAttributes:
    """The base of classes of attributes: a field for each attribute, those that must be given without a default."""


def by_keywords(function: Callable[..., R]) -> Callable[..., R]:
    """*function* with each field of its attributes as a keyword; itself where it has no such parameter."""
    signature = inspect.signature(function)
    parameter = signature.parameters.get(_PARAMETER)
    if parameter is None or parameter.kind is not parameter.KEYWORD_ONLY:
        return function
    kind = parameter.annotation
    if isinstance(kind, str):
        kind = inspect.unwrap(function).__globals__.get(kind)
    if not (isinstance(kind, type) and issubclass(kind, KernelAttributes)):
        return function

    @functools.wraps(function)
    def run(*arrays: np.ndarray, **attrs: object) -> R:
        return function(*arrays, attrs=kind(**attrs))

    arrays = [p for p in signature.parameters.values() if p is not parameter]
    vars(run)["__signature__"] = signature.replace(parameters=[*arrays, *_keywords(kind)])
    return run


def _keywords(kind: type[KernelAttributes]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=field.type,
        )
        for field in dataclasses.fields(kind)
    ]
