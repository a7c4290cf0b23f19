"""Parameters by name as bytes (safetensors). Source: ``tvm.runtime.params``, whose own file layout this is not."""

from __future__ import annotations

from collections.abc import Mapping

from byoc.runtime.ndarray import NDArray, from_any
from byoc.runtime.weights import read_weights, write_weights


def save_param_dict(params: Mapping[str, object]) -> bytearray:
    """The bytes of *params*. Raises UserError for a dtype that cannot be saved."""
    return bytearray(write_weights({name: NDArray(from_any(value)) for name, value in params.items()}))


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """The parameters that :func:`save_param_dict` wrote. Raises ArtifactError for bytes of another kind."""
    return read_weights(memoryview(bytes(param_bytes)), "the parameters")
