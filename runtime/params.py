"""Parameters by name as bytes, in TVM's own layout: what either writes, the other reads.

A list: magic number, 8 reserved bytes, the names, the arrays. A name: its length, its bytes. An array: magic number, 8
reserved bytes, device, rank, dtype (code, bits, lanes), shape, number of bytes, data in C order. All numbers are little
endian. Source: ``src/runtime/file_utils.cc`` and ``include/tvm/runtime/ndarray.h`` of Apache TVM v0.18.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from byoc.runtime.artefact.artifact import replace_file
from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.core.ndarray import NDArray, from_any, numpy_dtype
from byoc.runtime.core.signature import shape_of
from byoc.runtime.files.whole_file import read_file

LIST_MAGIC = 0xF7E58D4F05049CB7
ARRAY_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1

# DLPack's code of a kind of number, and its bits -> dtype
_DTYPES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (1, 1): "bool",
    (4, 16): "bfloat16",
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


def save_param_dict(params: Mapping[str, object]) -> bytearray:
    """The bytes of *params*: arrays by name. Raises UserError for a dtype that the layout does not hold.

    Source: ``tvm.runtime.save_param_dict``.
    """
    out = bytearray(struct.pack("<QQQ", LIST_MAGIC, 0, len(params)))
    for name in params:
        text = name.encode()
        out += struct.pack("<Q", len(text)) + text
    out += struct.pack("<Q", len(params))
    for name, value in params.items():
        out += array_bytes(name, NDArray(from_any(value)))
    return out


def array_bytes(name: str, array: NDArray) -> bytes:
    """The bytes of one *array*, called *name*. Raises UserError for a dtype that the layout does not hold."""
    if array.dtype not in _CODES:
        raise UserError(f"parameter {name!r} is of dtype {array.dtype}, which cannot be saved")
    code, bits = _CODES[array.dtype]
    data = np.asarray(array.numpy(), order="C")
    little = data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()
    head = struct.pack("<QQiiiBBH", ARRAY_MAGIC, 0, _CPU, 0, array.ndim, code, bits, 1)
    return head + struct.pack(f"<{array.ndim}qq", *array.shape, len(little)) + little


class _Reader:
    """Takes numbers and bytes off the front of a text of bytes."""

    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    def numbers(self, layout: str) -> tuple[int, ...]:
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))

    def text(self) -> str:
        """A text, behind its length in bytes."""
        data = self.take(self.numbers("Q")[0])
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ArtifactError(f"a name of the parameters is no text ({error}): they are damaged") from error

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self._at:
            raise ArtifactError(f"the parameters end within a field at byte {self._at}: save them again")
        self._at += count
        return self._data[self._at - count : self._at]


def load_param_dict(param_bytes: bytes | bytearray | str) -> dict[str, NDArray]:
    """The arrays that :func:`save_param_dict`, here or of TVM, wrote. Raises ArtifactError for other bytes.

    Source: ``tvm.runtime.load_param_dict``.
    """
    reader = _Reader(param_bytes.encode("latin-1") if isinstance(param_bytes, str) else bytes(param_bytes))
    magic, _, count = reader.numbers("QQQ")
    if magic != LIST_MAGIC:
        raise ArtifactError("these bytes are no parameters: they do not begin as save_param_dict writes them")
    names = [reader.text() for _ in range(count)]
    (arrays,) = reader.numbers("Q")
    if arrays != count:
        raise ArtifactError(f"the parameters hold {count} names and {arrays} arrays: they are damaged, save them again")
    return {name: _read_array(reader, name) for name in names}


def _read_array(reader: _Reader, name: str) -> NDArray:
    magic, _, _, _, ndim, code, bits, lanes = reader.numbers("QQiiiBBH")
    if magic != ARRAY_MAGIC or ndim < 0:
        raise ArtifactError(f"parameter {name!r} does not begin as an array: the parameters are damaged")
    if (code, bits) not in _DTYPES or lanes != 1:
        raise ArtifactError(f"parameter {name!r} has a dtype that byoc does not know (code {code}, {bits} bits)")
    *shape, size = reader.numbers(f"{ndim}qq")
    dtype = numpy_dtype(_DTYPES[code, bits])
    data = reader.take(size)
    if min(shape, default=0) < 0 or size != dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise ArtifactError(f"parameter {name!r} has {size} bytes for shape {tuple(shape)}: the parameters are damaged")
    shape_of(shape, _DTYPES[code, bits], f"parameter {name!r}")  # of no bytes it may still be too large
    return NDArray(np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape))


def read_array(data: bytes) -> NDArray:
    """The array that :func:`array_bytes` wrote. Raises ArtifactError for other bytes."""
    return _read_array(_Reader(data), "array")


def save_param_dict_to_file(params: Mapping[str, object], path: str | os.PathLike[str]) -> None:
    """Write *params* to the file *path*, whole or not at all. Raises UserError where it cannot be written."""
    data = save_param_dict(params)
    replace_file(Path(path), lambda file: file.write(data))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """The parameters in the file *path*. Raises ArtifactError for a file of another kind, or that cannot be read."""
    try:
        return load_param_dict(read_file(path))
    except OSError as error:
        raise ArtifactError(f"{os.fspath(path)}: the parameters cannot be read ({error.strerror})") from error
