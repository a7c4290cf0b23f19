"""JSON that somebody else wrote: read within limits, and taken apart with every type and key checked.

Python's own reader keeps the last of two equal keys, takes ``NaN``, and ends with RecursionError, or with the end of
the stack where the limit was raised, on a text that is nested deeply enough. Here depth and length are looked at first.
Every function raises ArtifactError, whose sentence begins with *where* the value stands.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.runtime.core.errors import ArtifactError

MOST_DEPTH = 256
MOST_TEXT = 1 << 28  # bytes of one JSON text
MOST_NUMBER = 1 << 47  # of anything that counts bytes, elements or steps: the address space of a process
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKET = re.compile(rb"[^\[\]{}]+")


def read_json(data: bytes | memoryview, where: str, constants: bool = False) -> object:
    """The value of a JSON text; ``NaN`` and the infinities are taken with *constants* alone."""
    content = bytes(data[: MOST_TEXT + 1])
    if len(content) > MOST_TEXT:
        raise ArtifactError(f"{where}: longer than {MOST_TEXT:,} bytes, which is more than byoc reads as JSON")
    if _depth_bound(content) > MOST_DEPTH:
        raise ArtifactError(f"{where}: nested deeper than {MOST_DEPTH} levels, which nothing that byoc writes is")

    def constant(name: str) -> float:
        if not constants:
            raise ArtifactError(f"{where}: {name} is no number of JSON")
        return float(name)

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(found)
        if len(result) != len(found):
            keys = [key for key, _ in found]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ArtifactError(f"{where}: the key {reprlib.repr(twice)} stands twice in one object")
        return result

    try:
        return json.loads(content.decode("utf-8"), parse_constant=constant, object_pairs_hook=pairs)
    except ArtifactError:
        raise
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{where}: not readable as JSON ({error})") from error


def _depth_bound(content: bytes) -> int:
    """How deep brackets are nested, strings left out; exact for JSON, and a bound for what is none."""
    if content.count(b"[") + content.count(b"{") <= MOST_DEPTH:
        return 0
    brackets = np.frombuffer(_NO_BRACKET.sub(b"", _STRING.sub(b"", content)), np.uint8)
    if not brackets.size:
        return 0
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    return int(np.cumsum(steps).max())


def object_of(
    data: object, where: str, required: Sequence[str] = (), optional: Sequence[str] = ()
) -> dict[str, object]:
    """*data* as an object with all *required* keys, and no other than these and the *optional* ones."""
    found = mapping_of(data, where)
    missing = [key for key in required if key not in found]
    if missing:
        raise ArtifactError(f"{where}: the key {missing[0]!r} is missing")
    unknown = [key for key in found if key not in required and key not in optional]
    if unknown:
        raise ArtifactError(f"{where}: the key {reprlib.repr(unknown[0])} is unknown")
    return found


def mapping_of(data: object, where: str) -> dict[str, object]:
    """*data* as an object with whatever keys."""
    if not isinstance(data, dict):
        raise ArtifactError(f"{where}: expected an object, found {reprlib.repr(data)}")
    return data


def list_of(data: object, where: str, length: int | None = None) -> list[object]:
    """*data* as a list, of *length* elements where it is given."""
    if not isinstance(data, (list, tuple)) or (length is not None and len(data) != length):
        wanted = "a list" if length is None else f"a list of {length}"
        raise ArtifactError(f"{where}: expected {wanted}, found {reprlib.repr(data)}")
    return list(data)


def text_of(data: object, where: str) -> str:
    """*data* as a text that can be a name: encodable, without NUL."""
    if not isinstance(data, str) or "\0" in data or (not data.isascii() and not _is_encodable(data)):
        raise ArtifactError(f"{where}: expected a text, found {reprlib.repr(data)}")
    return data


def _is_encodable(data: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in data)


def texts_of(data: object, where: str) -> tuple[str, ...]:
    """*data* as a list of texts."""
    return tuple(text_of(item, f"{where}[{k}]") for k, item in enumerate(list_of(data, where)))


def number_of(data: object, where: str, least: int = 0, most: int = MOST_NUMBER) -> int:
    """*data* as a whole number from *least* to *most*; neither true nor 1.0 is one."""
    if type(data) is not int:
        raise ArtifactError(f"{where}: expected a whole number, found {reprlib.repr(data)}")
    if not least <= data <= most:
        raise ArtifactError(f"{where}: expected a number from {least} to {most}, found {reprlib.repr(data)}")
    return data


def switch_of(data: object, where: str) -> bool:
    """*data* as true or false."""
    if not isinstance(data, bool):
        raise ArtifactError(f"{where}: expected true or false, found {reprlib.repr(data)}")
    return data


def at(where: str, key: object) -> str:
    """The place of *key* in *where*."""
    return f"{where}[{key}]" if isinstance(key, int) else f"{where}.{key}"


def numbered(data: Mapping[str, object], key: str, where: str) -> list[tuple[str, object]]:
    """The elements of the list at *key*, each with its place."""
    place = at(where, key)
    return [(at(place, k), item) for k, item in enumerate(list_of(data[key], place))]
