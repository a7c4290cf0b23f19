"""Constants as safetensors: written by that library, read as views of the mapped file, without a copy.

Element types that the format does not have, of 4 and 2 bits and ``float8_e8m0fnu``, stand in it as bytes, one for each
element, and the entry ``dtypes`` of the metadata says what they are: a JSON object, tensor to dtype. So do strings, as
the bytes of a JSON text.
Source of the format: https://github.com/huggingface/safetensors (an 8-byte length, a JSON header, the data).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np

from byoc.runtime.core.errors import ArtifactError, OutOfMemoryError, UserError
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.core.signature import MOST_DIMENSIONS, item_bytes
from byoc.runtime.core.small_types import SMALL
from byoc.runtime.core.strict_json import list_of, mapping_of, number_of, object_of, read_json, text_of

DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
AS_BYTES = tuple(name for name in SMALL if name not in DTYPES.values())
STRING = "string"
TYPES = "dtypes"  # the entry of the metadata; one, since the library writes several in any order
SPARE_BYTES = 1 << 20  # beside the constants, while they are written


def write_weights(arrays: Mapping[str, NDArray]) -> bytes:
    """The safetensors bytes of *arrays*.

    Raises UserError for a dtype that cannot be saved, OutOfMemoryError where the library would lack memory: there it
    ends the process.
    """
    for name, array in arrays.items():
        if array.dtype not in (*DTYPES.values(), *AS_BYTES, STRING):
            raise UserError(f"constant {name!r} is of dtype {array.dtype}, which cannot be saved")
    types = {name: array.dtype for name, array in arrays.items() if array.dtype in (*AS_BYTES, STRING)}
    plain = {k: _plain(a) for k, a in arrays.items()}
    total = sum(array.nbytes for array in plain.values())
    try:
        np.empty(2 * total + SPARE_BYTES, "uint8")  # as the library's copy of each, and the whole; untouched
    except MemoryError:
        raise OutOfMemoryError(
            f"this process has too little memory to write constants of {total / 1e6:.1f} MB: allow it more"
        ) from None
    import safetensors.numpy  # a process that only loads and runs models does without

    return safetensors.numpy.save(plain, metadata={TYPES: json.dumps(types, sort_keys=True)} if types else None)


def _plain(array: NDArray) -> np.ndarray:
    """*array* as the format holds it."""
    if array.dtype == STRING:
        from byoc.runtime.core.strings import text_bytes

        return np.frombuffer(text_bytes(array.numpy()), np.uint8)
    data = np.asarray(array.numpy(), order="C")
    return data.view(np.uint8) if array.dtype in AS_BYTES else data


def read_weights(data: memoryview, where: str) -> dict[str, NDArray]:
    """The tensors in *data* as read-only views of it, strings as copies. Raises ArtifactError for damaged bytes."""
    try:
        length = int.from_bytes(data[:8], "little")
        if not 2 <= length <= len(data) - 8:
            raise ArtifactError("its header does not lie in it")
        header = mapping_of(read_json(data[8 : 8 + length], "its header"), "its header")
        said = text_of(mapping_of(header.pop("__metadata__", {}), "its metadata").get(TYPES, "{}"), TYPES)
        types = mapping_of(read_json(said.encode(), TYPES), TYPES)
        body = data[8 + length :]
        places = {name: _place(header[name], name, types.get(name)) for name in sorted(header)}
        _check_cover([places[name][1:3] for name in places], len(body))
        return {name: NDArray(_tensor(body, *place)) for name, place in places.items()}
    except ArtifactError as error:
        raise ArtifactError(f"{where}: weights.safetensors is damaged ({error}); save the model again") from error


def _place(data: object, name: str, said: object) -> tuple[str, int, int, tuple[int, ...]]:
    """The dtype of a tensor, *said* by the metadata where it stands as bytes, where it begins and ends, and its shape.

    Raises ArtifactError.
    """
    entry = object_of(data, f"tensor {name!r}", ("dtype", "shape", "data_offsets"))
    dtype = DTYPES.get(text_of(entry["dtype"], f"the dtype of tensor {name!r}"))
    if said is not None and dtype == "uint8":
        dtype = said if isinstance(said, str) and said in (*AS_BYTES, STRING) else None
    if dtype is None:
        raise ArtifactError(f"tensor {name!r} is of an unknown dtype")
    start, stop = (number_of(n, f"the place of tensor {name!r}") for n in list_of(entry["data_offsets"], name, 2))
    shape = tuple(number_of(d, f"the shape of tensor {name!r}") for d in list_of(entry["shape"], name))
    size = 1 if dtype == STRING else item_bytes(dtype, name)
    if len(shape) > MOST_DIMENSIONS or stop - start != math.prod(shape) * size:
        raise ArtifactError(f"tensor {name!r} has {stop - start} bytes, which are no {dtype}{list(shape)}")
    return dtype, start, stop, shape


def _check_cover(places: list[tuple[int, int]], size: int) -> None:
    """Raises ArtifactError unless *places* lie one behind the other in *size* bytes: no gap, nothing twice."""
    end = 0
    for start, stop in sorted(places):
        if start != end:
            raise ArtifactError("a tensor lies over another, or bytes belong to none")
        end = stop
    if end != size:
        raise ArtifactError("a tensor lies outside the file, or bytes belong to none")


def _tensor(body: memoryview, dtype: str, start: int, stop: int, shape: tuple[int, ...]) -> np.ndarray:
    from byoc.runtime.core.strings import read_text_bytes

    if dtype == STRING:
        return read_text_bytes(body[start:stop], "a tensor of strings")
    return np.frombuffer(body[start:stop], numpy_dtype(dtype)).reshape(shape)
