"""Values of JSON by the types that dataclasses declare: objects become dataclasses, lists tuples.

Invariant: what comes back has the declared types throughout; what does not fit them is refused with its place. Numbers
without a fraction are counts or positions, from 0.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TypeVar, Union, get_args, get_origin, get_type_hints

from byoc.errors import PartitionError
from byoc.partition.costs.model import float_of

T = TypeVar("T")
Reader = Callable[[object], object]  # raises Misfit
_OTHER = object()  # what a reader gives for data that is not of its kind
WORDS = {str: "a text", bool: "true or false", int: "a whole number from 0", float: "a number", NoneType: "null"}


class Misfit(Exception):
    """What is wrong, and its place, which those who pass it on lengthen at its front."""

    def __init__(self, text: str, place: str = ""):
        super().__init__(text)
        self.place = place

    def at(self, step: str) -> Misfit:
        """The same, seen from one step further out."""
        self.place = f"{step}{self.place}"
        return self

    def __str__(self) -> str:
        return f"{self.place.lstrip('.') or 'it'} {super().__str__()}"


def typed(data: object, wanted: type[T]) -> T:
    """*data* as *wanted*, a dataclass of texts, numbers, tuples, mappings, dataclasses and unions of such.

    Raises PartitionError for the first place that does not fit.
    """
    kind: type = wanted
    try:
        found = _reader(kind)(data)
    except Misfit as misfit:
        raise PartitionError(str(misfit)) from misfit
    assert isinstance(found, wanted)
    return found


@cache
def _reader(wanted: type) -> Reader:
    """The reader of a type, made once."""
    alternatives = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
    readers = [_reader_of_one(alternative) for alternative in alternatives]
    expected = " or ".join(_described(alternative) for alternative in alternatives)

    def read(data: object) -> object:
        for reader in readers:
            found = reader(data)
            if found is not _OTHER:
                return found
        raise Misfit(f"is {reprlib.repr(data)}, expected {expected}")

    return read


def _described(alternative: type) -> str:
    return WORDS.get(alternative) or ("a list" if get_origin(alternative) is tuple else "an object")


def _reader_of_one(alternative: type) -> Reader:
    """The reader of values of one kind, which gives :data:`_OTHER` for those of others."""
    if is_dataclass(alternative):
        return _object_reader(alternative)
    if get_origin(alternative) is tuple:
        return _list_reader(_reader(get_args(alternative)[0]))
    if get_origin(alternative) is Mapping:
        return _mapping_reader(_reader(get_args(alternative)[1]))
    readers: dict[type, Reader] = {int: _count, float: _float}
    return readers.get(alternative) or (lambda data: data if isinstance(data, alternative) else _OTHER)


def _count(data: object) -> object:
    if not isinstance(data, int) or isinstance(data, bool):
        return _OTHER
    if data < 0:
        raise Misfit(f"is {data}, expected {WORDS[int]}")
    return data


def _float(data: object) -> object:
    found = float_of(data)
    return _OTHER if found is None else found


def _list_reader(element: Reader) -> Reader:
    def read(data: object) -> object:
        if not isinstance(data, (list, tuple)):
            return _OTHER
        found: list[object] = []
        try:
            for value in data:
                found.append(element(value))
        except Misfit as misfit:
            raise misfit.at(f"[{len(found)}]") from None
        return tuple(found)

    return read


def _mapping_reader(element: Reader) -> Reader:
    def read(data: object) -> object:
        if not isinstance(data, Mapping):
            return _OTHER
        found: dict[str, object] = {}
        for key, value in data.items():
            if not isinstance(key, str):
                raise Misfit(f"has the key {reprlib.repr(key)}, expected a text")
            try:
                found[key] = element(value)
            except Misfit as misfit:
                raise misfit.at(f".{key}") from None
        return found

    return read


def _object_reader(alternative: type) -> Reader:
    hints = get_type_hints(alternative)
    readers = {field.name: _reader(hints[field.name]) for field in fields(alternative)}
    needed = {f.name for f in fields(alternative) if f.default is MISSING and f.default_factory is MISSING}

    def read(data: object) -> object:
        if not isinstance(data, Mapping):
            return _OTHER
        given: dict[str, object] = {}
        for key, value in data.items():
            if key not in readers:
                raise Misfit(f"has {key!r}, which is none of {', '.join(readers)}")
            try:
                given[key] = readers[key](value)
            except Misfit as misfit:
                raise misfit.at(f".{key}") from None
        if not needed <= data.keys():
            raise Misfit(f"lacks {', '.join(sorted(needed - data.keys()))}")
        try:
            return alternative(**given)
        except PartitionError as error:
            raise Misfit(f"cannot be: {error}") from error

    return read
