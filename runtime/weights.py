"""Constants as safetensors: written by that library, read as views of the mapped file, without a copy.

Source of the format: https://github.com/huggingface/safetensors (an 8-byte length, a JSON header, the data).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import safetensors.numpy

from byoc.runtime.errors import ArtifactError, UserError
from byoc.runtime.ndarray import NDArray, numpy_dtype

DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}


def write_weights(arrays: Mapping[str, NDArray]) -> bytes:
    """The safetensors bytes of *arrays*. Raises UserError for a tensor of strings, which the format does not hold."""
    for name, array in arrays.items():
        if array.dtype not in DTYPES.values():
            raise UserError(f"constant {name!r} is of dtype {array.dtype}, which cannot be saved")
    return safetensors.numpy.save({k: np.asarray(a.numpy(), order="C") for k, a in arrays.items()})


def read_weights(data: memoryview, where: str) -> dict[str, NDArray]:
    """The tensors in *data* as read-only views of it. Raises ArtifactError when a header or a range is wrong."""
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(bytes(data[8 : 8 + length]))
        body = data[8 + length :]
        return {
            name: NDArray(_tensor(body, entry)) for name, entry in sorted(header.items()) if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{where}: weights.safetensors is damaged ({error}); save the model again") from error


def _tensor(body: memoryview, entry: Mapping[str, object]) -> np.ndarray:
    start, stop = entry["data_offsets"]  # type: ignore[misc]
    if not 0 <= start <= stop <= len(body):
        raise ValueError("a tensor lies outside the file")
    dtype = numpy_dtype(DTYPES[str(entry["dtype"])])
    return np.frombuffer(body[start:stop], dtype).reshape(entry["shape"])  # type: ignore[call-overload]
