"""Numpy kernels that make of each string, or each number, one thing. Strings are ``str`` objects.

Numbers are written and read as ONNX Runtime does: ``%.8g``, of doubles too, ``NaN``, ``INF``, ``-INF``.
"""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from byoc.runtime.core.errors import InputError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.kernels.core.broadcasting import broadcasting
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.strings.regex import regex_of

Table = TypeVar("Table")
CASES: dict[str, Callable[[str], str]] = {"none": str, "lower": str.lower, "upper": str.upper}
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?\s*|\s*[+-]?(inf|infinity|nan)\s*", re.I | re.A)


def each(function: Callable[[Any], object], data: np.ndarray, dtype: str) -> np.ndarray:
    """*function* of each string, as an array of *dtype* and the same shape."""
    out = np.empty(data.shape, numpy_dtype(dtype))
    flat = out.reshape(-1)
    for place, value in enumerate(data.reshape(-1).tolist()):
        flat[place] = function(value)
    return out


@kernel("strings.change_case")
def change_case(data: np.ndarray, *, case: str = "none") -> np.ndarray:
    """data: string[...] -> string[...], by Unicode's full mappings, which no locale changes."""
    return each(CASES[case], data, "string")


@kernel("strings.concat")
def concat(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Each string of *lhs* with that of *rhs* behind it; shapes are broadcast."""
    with broadcasting("strings.concat", {"lhs": lhs, "rhs": rhs}):
        return np.asarray(lhs.astype(object) + rhs.astype(object), object)


@kernel("strings.full_match")
def full_match(data: np.ndarray, *, pattern: str = "") -> np.ndarray:
    """data: string[...] -> bool[...]: whether *pattern*, in RE2's syntax, matches the whole string."""
    return each(regex_of(pattern).matches, data, "bool")


@kernel("strings.index_of")
def index_of(data: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """data: string[...], keys: string[K] -> int64[...]: the place of the first key that is equal, K without one."""
    places = kept_for(_places, keys)
    return each(lambda value: places.get(value, len(keys)), data, "int64")


def _places(keys: np.ndarray) -> dict[str, int]:
    return {key: place for place, key in reversed(list(enumerate(keys.tolist())))}


_KEPT: dict[tuple[int, ...], tuple[tuple[weakref.ref[np.ndarray], ...], object]] = {}


def kept_for(make: Callable[..., Table], *arrays: np.ndarray) -> Table:
    """What *make* gives for *arrays*; of constants, which nobody writes to, made once and kept as long as they live."""
    if any(array.flags.writeable for array in arrays):
        return make(*arrays)
    key = (id(make), *map(id, arrays))
    known = _KEPT.get(key)
    if known is None or any(ref() is not array for ref, array in zip(known[0], arrays, strict=True)):
        refs = tuple(weakref.ref(array, lambda _: _KEPT.pop(key, None)) for array in arrays)
        known = _KEPT[key] = refs, make(*arrays)
    return cast(Table, known[1])


@kernel("strings.from_number")
def from_number(data: np.ndarray) -> np.ndarray:
    """Each number as text: of floats eight digits, of bools 1 and 0."""
    if data.dtype.kind in "biu":
        return each(lambda value: str(int(value)), data, "string")
    return each(_float_text, data.astype(np.float64), "string")


def _float_text(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "INF" if number > 0 else "-INF"
    return f"{number:.8g}"


@kernel("strings.to_number")
def to_number(data: np.ndarray, *, dtype: str = "float32") -> np.ndarray:
    """Each string as a number of *dtype*. Raises InputError for a string that is none, or out of its range."""
    flat = data.reshape(-1).tolist()
    if dtype != "bool" and "int" not in dtype:
        return np.array([_float(dtype, v) for v in flat], np.float64).astype(numpy_dtype(dtype)).reshape(data.shape)
    numbers = [_integer(dtype, value) for value in flat]
    if dtype == "bool":
        return np.array([number != 0 for number in numbers], bool).reshape(data.shape)
    try:
        return np.array(numbers, numpy_dtype(dtype)).reshape(data.shape)
    except OverflowError as error:
        raise InputError(f"a string is a number out of the range of {dtype} ({error})") from error


def _integer(dtype: str, value: object) -> int:
    if not isinstance(value, str) or not _INTEGER.fullmatch(value):
        raise InputError(f"the string {value!r} is no whole number, and is cast to {dtype}")
    return int(value)


def _float(dtype: str, value: object) -> float:
    if not isinstance(value, str) or not _FLOAT.fullmatch(value):
        raise InputError(f"the string {value!r} is no number, and is cast to {dtype}")
    return float(value)
