"""The metadata section of the text format: tensors without a literal, as JSON with base64 data; devices; sizes.

Invariant: one array is stored once, however many constants hold it, and the order is that of the first use. Data
is little-endian and row-major. Source: Relay's ``#[metadata]``; the layout of the JSON is ours.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping

import numpy as np

from byoc.errors import ParseError, UserError
from byoc.ir.attrs import as_int, as_ints, as_list
from byoc.ir.size_var import SizeVar, Var
from byoc.ir.target import as_target
from byoc.ir.virtual_device import VirtualDevice
from byoc.runtime.core.ndarray import NDArray, numpy_dtype

CONSTANT_KEY = "relay.Constant"
DEVICE_KEY = "VirtualDevice"
# sizes that are variables, by the names of their classes in TVM
SIZE_CLASSES: dict[str, type[Var]] = {"tir.SizeVar": SizeVar, "tir.Var": Var}
MARKER = "#[metadata]"


class MetaTable:
    """The arrays of one text, numbered in the order of their first use."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._arrays: list[NDArray] = []
        self._devices: list[VirtualDevice] = []
        self._sizes: dict[str, list[Var]] = {key: [] for key in SIZE_CLASSES}

    def __len__(self) -> int:
        return len(self._arrays) + len(self._devices) + sum(map(len, self._sizes.values()))

    def add(self, array: NDArray) -> int:
        """The number of *array*, which is stored at its first use."""
        index = self._index.setdefault(id(array), len(self._arrays))
        if index == len(self._arrays):
            self._arrays.append(array)
        return index

    def text(self) -> str:
        """The whole section, one line an array or a device; nothing when none is stored."""
        tables = {CONSTANT_KEY: list(map(encode, self._arrays)), DEVICE_KEY: list(map(encode_device, self._devices))}
        tables |= {key: [encode_size(key, size) for size in sizes] for key, sizes in self._sizes.items()}
        texts = [f'"{key}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for key, rows in tables.items() if rows]
        return f"{MARKER}\n{{{', '.join(texts)}}}\n" if texts else ""

    def add_device(self, device: VirtualDevice) -> int:
        """The number of *device*; equal ones are one."""
        if device not in self._devices:
            self._devices.append(device)
        return self._devices.index(device)

    def size_variable(self, size: Var) -> str:
        """``meta[tir.SizeVar][0]``: what stands for *size* in the text."""
        key = next(key for key, kind in SIZE_CLASSES.items() if isinstance(size, kind))
        if size not in self._sizes[key]:
            self._sizes[key].append(size)
        return f"meta[{key}][{self._sizes[key].index(size)}]"


def encode_size(key: str, size: Var) -> dict[str, object]:
    """A size that is a variable as JSON."""
    return {"type_key": key, "name": size.name, "dtype": size.dtype}


def encode_device(device: VirtualDevice) -> dict[str, object]:
    """A virtual device as JSON."""
    target = device.target.export() if device.target is not None else None
    scope = device.memory_scope
    return {"device_type": device.device_type_int, "id": device.virtual_device_id, "target": target, "scope": scope}


def decode_device(row: Mapping[str, object]) -> VirtualDevice:
    """The device that :func:`encode_device` wrote. Raises KeyError, TypeError or UserError for a damaged row."""
    target = as_target(row["target"]) if row["target"] is not None else None
    return VirtualDevice.of_type(as_int(row["device_type"]), as_int(row["id"]), target, str(row["scope"]))


def encode(array: NDArray) -> dict[str, object]:
    """One array as JSON: dtype, shape and base64 ``data``, or ``values`` for strings."""
    data = array.numpy()
    head: dict[str, object] = {"dtype": array.dtype, "shape": list(array.shape)}
    if array.dtype == "string":
        return {**head, "values": [_encode_string(v) for v in data.ravel().tolist()]}
    little = data.astype(data.dtype.newbyteorder("<"), copy=False)
    return {**head, "data": base64.b64encode(little.tobytes()).decode("ascii")}


def _encode_string(value: object) -> object:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    return str(value)


def _decode_string(value: object) -> object:
    if isinstance(value, dict):
        return base64.b64decode(value["bytes"], validate=True)
    return str(value)


def decode(row: Mapping[str, object]) -> NDArray:
    """The array that :func:`encode` wrote. Raises KeyError, TypeError or ValueError for a damaged row."""
    dtype, shape = str(row["dtype"]), as_ints(row["shape"])
    if any(d < 0 for d in shape):
        raise ValueError(f"negative dimension in {list(shape)}")
    size = math.prod(shape)
    if dtype == "string":
        values = [_decode_string(v) for v in as_list(row["values"])]
        if len(values) != size:
            raise ValueError(f"{len(values)} strings for the shape {list(shape)}")
        out = np.empty(size, object)
        out[:] = values
        return NDArray(out.reshape(shape))
    kind = numpy_dtype(dtype)
    data = base64.b64decode(str(row["data"]), validate=True)
    if len(data) != size * kind.itemsize:
        raise ValueError(f"{len(data)} bytes of data, {size * kind.itemsize} expected for {dtype}{list(shape)}")
    return NDArray(np.frombuffer(data, kind).reshape(shape).copy())


def decode_section(text: str, line: int) -> dict[str, list[object]]:
    """The tables of a metadata section whose JSON is *text*, which starts on *line*.

    Raises ParseError saying which row is damaged and how.
    """
    try:
        tables = json.loads(text)
    except json.JSONDecodeError as error:
        at = line + error.lineno - 1
        raise ParseError(f"line {at}: the metadata section is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # a number of too many digits, lists nested too deeply
        raise ParseError(f"line {line}: the metadata section cannot be read: {error}") from error
    if not isinstance(tables, dict) or not all(isinstance(rows, list) for rows in tables.values()):
        raise ParseError(f"line {line}: the metadata section must map names to lists of tensors")
    return {key: [_decode_row(key, i, row, line) for i, row in enumerate(rows)] for key, rows in tables.items()}


def _decode_row(key: str, index: int, row: object, line: int) -> object:
    if not isinstance(row, dict):
        raise ParseError(f"line {line}: meta[{key}][{index}] must be a JSON object, got {type(row).__name__}")
    try:
        if key in SIZE_CLASSES:
            return SIZE_CLASSES[key](str(row["name"]), str(row["dtype"]))
        return decode_device(row) if key == DEVICE_KEY else decode(row)
    except (KeyError, TypeError, ValueError, UserError, binascii.Error) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ParseError(f"line {line}: meta[{key}][{index}] is damaged: {why}") from error
