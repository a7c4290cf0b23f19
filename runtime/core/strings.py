"""Tensors of strings: arrays of ``str`` objects, whatever kind of array they are given as; in files as JSON."""

from __future__ import annotations

import json
import math

import numpy as np

from byoc.runtime.core.container import object_vector
from byoc.runtime.core.errors import ArtifactError, InputError
from byoc.runtime.core.signature import MOST_DIMENSIONS
from byoc.runtime.core.strict_json import list_of, number_of, object_of, read_json


def as_strings(name: str, array: np.ndarray) -> np.ndarray:
    """*array*, the input *name*, as ``str`` objects: of numpy's texts and bytes (UTF-8), and of objects of either.

    A vector of arrays is as it is: the elements of a sequence. Raises InputError for an element of another kind.
    """
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype.kind not in "OS":
        return array
    values = array.reshape(-1).tolist()
    if all(type(value) is str for value in values):
        return array
    if array.ndim == 1 and not any(isinstance(value, (str, bytes)) for value in values):
        elements = (np.ndarray, list, tuple)
        if all(isinstance(value, elements) for value in array):
            return array
    return object_vector([_text(name, value) for value in values]).reshape(array.shape)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, bytes):
        what = "None" if value is None else f"{value!r}, a {type(value).__name__},"
        raise InputError(f"input {name!r}: {what} stands among strings; give texts alone, as an empty one")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"input {name!r}: {value!r} is no text in UTF-8 ({error.reason}); decode it first") from error


def text_bytes(array: np.ndarray) -> bytes:
    """A tensor of strings as JSON: its shape, and the strings in C order."""
    values = [value.decode() if isinstance(value, bytes) else str(value) for value in array.reshape(-1).tolist()]
    return json.dumps({"shape": list(array.shape), "values": values}, separators=(",", ":")).encode()


def read_text_bytes(data: bytes | memoryview, where: str) -> np.ndarray:
    """The tensor, not to be written to, that :func:`text_bytes` wrote. Raises ArtifactError for other bytes."""
    fields = object_of(read_json(data, where), where, ("shape", "values"))
    shape = tuple(number_of(size, f"the shape of {where}") for size in list_of(fields["shape"], where))
    values = list_of(fields["values"], where)
    if not all(isinstance(value, str) for value in values):
        raise ArtifactError(f"{where} has strings that are none")
    if math.prod(shape) != len(values) or len(shape) > MOST_DIMENSIONS:
        raise ArtifactError(f"{where} has {len(values)} strings, which are no {list(shape)}")
    found = object_vector(values).reshape(shape)
    found.flags.writeable = False
    return found
