"""Arrays in numpy's files, from whoever wrote them: nothing is unpickled, and sizes are checked before memory is taken.

A header of 128 bytes may claim an array of petabytes, and a compressed member may grow a thousandfold: what a file says
of its size is compared with what it has, and with this machine's memory, first.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from byoc.errors import InputError
from byoc.runtime.core.strict_json import read_json
from byoc.runtime.files.whole_file import open_file
from byoc.runtime.graph.memory_plan import physical_memory

MOST_ARRAYS = 10_000  # of one .npz
_ZIP = b"PK"
_DAMAGED = (
    OSError,
    ValueError,
    EOFError,
    OverflowError,
    TypeError,
    KeyError,
    SyntaxError,
    RecursionError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
)


def read_array(name: str, file: Path) -> np.ndarray:
    """The array in a ``.npy`` file, or in a ``.json`` file of nested lists, for the input *name*. Raises InputError."""
    if file.suffix == ".json":
        return _from_json(f"input {name!r}: {file}", file)
    with _readable(f"input {name!r}: {file} cannot be read as a .npy file"), open_file(file) as source:
        if source.read(2) == _ZIP:
            raise InputError(f"input {name!r}: {file} holds several arrays; give one, as numpy.save writes it")
        source.seek(0)
        return _array(source, file.stat().st_size)


def read_arrays(file: Path) -> np.ndarray | Mapping[str, np.ndarray]:
    """The array of a ``.npy`` file, or those of a ``.npz`` by their names. Raises InputError."""
    with _readable(f"{file}: cannot be read as numpy's .npz or .npy"), open_file(file) as source:
        if source.read(2) != _ZIP:
            source.seek(0)
            return _array(source, file.stat().st_size)
        with zipfile.ZipFile(source) as archive:
            return dict(_members(archive))


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of an ``.npz``, by their names."""
    found = archive.infolist()
    total = sum(info.file_size for info in found)
    if len(found) > MOST_ARRAYS or total > physical_memory():
        raise ValueError(f"{len(found)} arrays of {total:,} bytes are more than this machine takes")
    if len({info.filename for info in found}) != len(found):
        raise ValueError("an array stands in it twice")
    for info in found:
        with archive.open(info) as source:
            yield info.filename.removesuffix(".npy"), _array(source, info.file_size)


def _array(source: IO[bytes], size: int) -> np.ndarray:
    """The array that *source*, of *size* bytes, holds. Raises ValueError for one of another size than it says."""
    version = np.lib.format.read_magic(source)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise ValueError(f"version {version} of the format is unknown here")
    shape, fortran, dtype = read_header[version](source)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: they would be unpickled")
    if any(type(d) is not int or d < 0 for d in shape) or dtype.itemsize * math.prod(shape) != size - source.tell():
        raise ValueError(f"it says that it holds {dtype}{list(shape)}, and has {size - source.tell()} bytes")
    data = source.read()
    flat = np.frombuffer(data, dtype) if data else np.empty(0, dtype)
    array = flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    return array.copy()


def _from_json(where: str, file: Path) -> np.ndarray:
    """Nested lists of numbers, of true and false, or of strings, as an array."""
    with _readable(f"{where} cannot be read"), open_file(file) as source:
        value = read_json(source.read(), where)
        array = np.array(value, object)
        kinds = {type(element) for element in array.reshape(-1).tolist()}
        if kinds == {str}:
            return array
        if not kinds or not (kinds <= {int, float} or kinds == {bool}):
            raise ValueError("it holds no list of strings, of numbers or of true and false, as deep as long everywhere")
        return array.astype(bool if kinds == {bool} else np.int64 if kinds == {int} else np.float64)


@contextmanager
def _readable(sentence: str) -> Iterator[None]:
    """Whatever a damaged file raises becomes an InputError with *sentence*."""
    try:
        yield
    except InputError:
        raise
    except _DAMAGED as error:
        raise InputError(f"{sentence} ({error})") from error
