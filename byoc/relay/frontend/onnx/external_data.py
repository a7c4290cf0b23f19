"""Weights that stand in files beside the model.

A file is opened only inside the model's folder: absolute paths, ``..`` and links that lead out are refused before
anything is read, and a size is checked before memory is taken. Source: ONNX's *External Data* page.
"""

from __future__ import annotations

import os
from pathlib import Path, PureWindowsPath

import numpy as np
from onnx import TensorProto, numpy_helper

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx.dtypes import dtype_of
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.small_types import SMALL
from byoc.runtime.files.whole_file import open_file


def read_external(tensor: TensorProto, folder: Path | None, model_name: str) -> np.ndarray:
    """The array of a tensor whose data stand in a file inside *folder*.

    Raises ImportModelError for a file outside the folder, missing, too short, or of another size than the tensor.
    """
    where = f"{model_name}: external data of {tensor.name!r}"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _resolve(entries.get("location", ""), folder, where)
    name = dtype_of(tensor.data_type, where)
    dtype, packed = numpy_dtype(name), 8 // SMALL.get(name, 8)  # elements of 4 and 2 bits are several to a byte
    if dtype.hasobject:
        raise ImportModelError(f"{where} are strings, which ONNX does not keep outside the model; embed them")
    if any(d < 0 for d in tensor.dims):
        raise ImportModelError(f"{where}: the shape {list(tensor.dims)} has a negative dimension")
    count = 1
    for dim in tensor.dims:
        count *= dim
    needed = -(-count // packed) * dtype.itemsize
    offset = _number(entries, "offset", 0, where)
    length = _number(entries, "length", needed, where)
    if length != needed:
        raise ImportModelError(
            f"{where}: the shape {list(tensor.dims)} of {dtype.name} needs {needed} bytes, its entry says {length}"
        )
    if packed == 1:
        return _read(path, offset, count, dtype, where).reshape(tuple(tensor.dims))
    raw = _read(path, offset, needed, np.dtype(np.uint8), where)
    whole = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=raw.tobytes())
    return numpy_helper.to_array(whole)


def _resolve(location: str, folder: Path | None, where: str) -> Path:
    if folder is None:
        raise ImportModelError(f"{where} stand in a file, but the model was not given as one: give its path")
    if not location or "\0" in location:
        raise ImportModelError(f"{where} name no file: the entry 'location' is missing; export the model again")
    if Path(location).is_absolute() or PureWindowsPath(location).anchor:
        raise ImportModelError(
            f"{where} point to the absolute path {location!r}; only files in the model's folder are read: move it there"
        )
    root = Path(os.path.realpath(folder))
    path = Path(os.path.realpath(root / location))
    if not path.is_relative_to(root):
        raise ImportModelError(
            f"{where} point to {location!r}, outside the model's folder; only files inside it are read: move it there"
        )
    return path


def _number(entries: dict[str, str], key: str, default: int, where: str) -> int:
    text = entries.get(key)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit():
        raise ImportModelError(f"{where}: the entry {key!r} is a number of bytes, got {text!r}")
    return int(text)


def _read(path: Path, offset: int, count: int, dtype: np.dtype, where: str) -> np.ndarray:
    try:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            needed = offset + count * dtype.itemsize
            if status.st_size < needed:
                raise ImportModelError(
                    f"{where}: {path.name} has {status.st_size} bytes where {needed} are needed; the file is "
                    "truncated or not the model's"
                )
            file.seek(offset)
            return np.fromfile(file, dtype, count)
    except FileNotFoundError as error:
        raise ImportModelError(f"{where} need the file {path.name!r} beside the model, which is missing") from error
    except OSError as error:
        raise ImportModelError(f"{where}: {path.name!r} cannot be read: {error.strerror}") from error
