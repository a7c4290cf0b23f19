"""The attributes of a kernel that has many of them, as one object, and what ``reshape`` is asked for.

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
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from byoc.runtime.core.errors import UserError

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


# The special numbers of Relay's ``reshape``: ``0`` copies the dimension at the same place (a size of 0 with
# *allowzero*), ``-1`` is inferred, ``-2`` copies all that remain, ``-3`` is the product of the next two, ``-4`` splits
# the next one into the two numbers that follow, one of which may be ``-1``. Type relation and kernel both read the plan
# made here. Source: ``relay.reshape``.


@dataclass(frozen=True)
class NewDim:
    """One dimension of the result: ``number`` times the input's dimensions *source*, by *divisor*; or inferred."""

    source: tuple[int, ...] = ()
    number: int = 1
    divisor: int = 1
    inferred: bool = False


def plan_newshape(ndim: int, newshape: Sequence[int], allowzero: bool = False) -> list[NewDim]:
    """The dimensions that *newshape* asks for, of a tensor of rank *ndim*.

    Raises UserError when it copies a dimension that is not there, or infers more than one.
    """
    plan: list[NewDim] = []
    codes = iter(newshape)
    place = 0
    for code in codes:
        new, used = _read(code, codes, place, ndim, allowzero)
        copies = code < -1 or (code == 0 and not allowzero)
        if copies and place + used > ndim:
            raise UserError(f"newshape {tuple(newshape)}: {code} asks for dimension {place} of a tensor of rank {ndim}")
        plan.extend(new)
        place += used
    if sum(d.inferred for d in plan) > 1:
        raise UserError(f"newshape {tuple(newshape)} has more than one -1")
    return plan


def _read(code: int, codes: Iterator[int], place: int, ndim: int, allowzero: bool) -> tuple[list[NewDim], int]:
    """The dimensions that one code gives, and how many of the input's it uses up."""
    if code > 0 or (code == 0 and allowzero):
        return [NewDim(number=code)], 1
    if code == 0:
        return [NewDim((place,))], 1
    if code == -1:
        return [NewDim(inferred=True)], 1
    if code == -2:
        return [NewDim((k,)) for k in range(place, ndim)], max(ndim - place, 0)
    if code == -3:
        return [NewDim((place, place + 1))], 2
    if code == -4:
        return _split(next(codes, None), next(codes, None), place), 1
    raise UserError(f"newshape has {code}; a size, 0, -1, -2, -3 or -4 is expected")


def _split(first: int | None, second: int | None, place: int) -> list[NewDim]:
    if first is None or second is None:
        raise UserError("-4 in newshape needs two sizes after it")
    if first == -1 and second > 0:
        return [NewDim((place,), divisor=second), NewDim(number=second)]
    if second == -1 and first > 0:
        return [NewDim(number=first), NewDim((place,), divisor=first)]
    if first > 0 and second > 0:
        return [NewDim(number=first), NewDim(number=second)]
    raise UserError(f"-4 in newshape splits into {first} and {second}; at most one may be -1")


def resolve_newshape(shape: Sequence[int], newshape: Sequence[int], allowzero: bool = False) -> tuple[int, ...]:
    """The sizes that *newshape* gives for a tensor of *shape*.

    Beside a size of 0, -1 is what the sizes that are not 0 leave, so that a batch of nothing keeps its other axes; ONNX
    Runtime has it so too. Raises UserError when the elements do not fit.
    """
    plan = plan_newshape(len(shape), newshape, allowzero)
    sizes = [-1 if d.inferred else math.prod(shape[k] for k in d.source) * d.number // d.divisor for d in plan]
    total, known = math.prod(shape), math.prod(s for s in sizes if s != -1)
    if total == known == 0 and -1 in sizes:
        total, known = (math.prod(s for s in given if s not in (0, -1)) for given in (shape, sizes))
    fits = total == known if -1 not in sizes else known != 0 and total % known == 0
    if not fits:
        raise UserError(f"a tensor of shape {tuple(shape)} cannot take the shape {tuple(newshape)}")
    return tuple(total // known if s == -1 else s for s in sizes)
