"""Reading a model: a file, bytes or a ModelProto becomes a checked ModelProto and the folder of its external data.

Checked here: that it is ONNX at all, that it is whole, that it has a graph, and that its operator sets are known.
What the graph says is checked where it is converted. ``onnx.checker`` is not asked, because it refuses old models
(experimental operators of opset 7) that run well.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx.dtypes import check_dims, dtype_of
from byoc.relay.frontend.onnx.left_data import LeftData
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.small_types import SMALL
from byoc.runtime.files.whole_file import read_file

MAX_OPSET = 28  # the newest version of the default operator set that the converters were checked against
Read = TypeVar("Read")
ModelSource = str | os.PathLike[str] | bytes | ModelProto


@dataclass(frozen=True)
class LoadedModel:
    """A model with its name for messages, the folder of its external data, and its operator sets by domain."""

    proto: ModelProto
    name: str
    folder: Path | None
    opsets: Mapping[str, int]
    left: LeftData | None = None  # weights that are still in the file

    def array(self, tensor: TensorProto) -> np.ndarray:
        """The data of a tensor of this model. Raises ImportModelError where they are missing or do not fit."""

        where = f"{self.name}: tensor {tensor.name!r}"
        if any(size < 0 for size in tensor.dims):
            raise ImportModelError(f"{where}: a shape has no negative dimension, got {list(tensor.dims)}")
        check_dims(tensor.dims, where)
        if tensor.data_location == TensorProto.EXTERNAL:
            from byoc.relay.frontend.onnx.external_data import read_external

            return read_external(tensor, self.folder, self.name)
        name = dtype_of(tensor.data_type, where)
        if self.left is not None and tensor.raw_data in self.left:
            return self._left(tensor, name, where)
        try:
            if tensor.data_type == TensorProto.STRING:  # of which numpy_helper drops the last NULs
                from byoc.runtime.core.container import object_vector

                return object_vector([s.decode() for s in tensor.string_data]).reshape(tuple(tensor.dims))
            array = numpy_helper.to_array(tensor)
        except UnicodeDecodeError as error:
            raise ImportModelError(f"{where}: a string of it is no text in UTF-8 ({error.reason})") from error
        except (ValueError, TypeError) as error:
            raise ImportModelError(f"{where}: its data do not fit its shape {list(tensor.dims)}: {error}") from error
        return array

    def _left(self, tensor: TensorProto, name: str, where: str) -> np.ndarray:
        """The data of a tensor that stand in the model's file."""
        assert self.left is not None
        word, dtype = tensor.raw_data, numpy_dtype(name)
        if name in SMALL or dtype.hasobject:
            whole = TensorProto(data_type=tensor.data_type, dims=tensor.dims)
            whole.raw_data = self.left.read(word, np.dtype(np.uint8)).tobytes()
            return LoadedModel(self.proto, self.name, self.folder, self.opsets).array(whole)
        if math.prod(tensor.dims) * dtype.itemsize != self.left.bytes_of(word):
            raise ImportModelError(
                f"{where}: its data do not fit its shape {list(tensor.dims)}: {self.left.bytes_of(word)} bytes of "
                f"{name}"
            )
        return self.left.read(word, dtype).reshape(tuple(tensor.dims))


def load_model(source: ModelSource, opset: int | None = None, leave: bool = False) -> LoadedModel:
    """Read *source*; *opset* replaces the version of the default operator set that the model states.

    With *leave* large weights stay in the file, and are no part of ``proto``, until :meth:`LoadedModel.array` is asked.

    Raises ImportModelError for what is missing, not ONNX, truncated, empty, or newer than what is supported.
    """
    left = None
    if isinstance(source, ModelProto):
        proto, name, folder = source, "<ModelProto>", None
    elif isinstance(source, (bytes, bytearray, memoryview)):
        name, folder = "<bytes>", None
        proto = _parse(bytes(source), name)
    elif isinstance(source, (str, os.PathLike)):
        path = Path(source)
        name, folder = str(path), path.parent
        left = _of_file(path, LeftData.of_file) if leave else None
        proto = _parse(_of_file(path, read_file) if left is None else left.message, name)
    else:
        raise ImportModelError(f"a model is a path, bytes or an onnx.ModelProto, got {type(source).__name__}")
    _check_whole(proto, name)
    return LoadedModel(proto, name, folder, _opsets(proto, name, opset), left)


def _of_file(path: Path, read: Callable[[Path], Read]) -> Read:
    try:
        return read(path)
    except FileNotFoundError as error:
        raise ImportModelError(f"{path}: there is no such file; give the path of an ONNX model") from error
    except IsADirectoryError as error:
        raise ImportModelError(f"{path}: is a folder; give the path of the ONNX model in it") from error
    except OSError as error:
        raise ImportModelError(f"{path}: cannot be read: {error.strerror or error}") from error


def _parse(data: bytes, name: str) -> ModelProto:
    if not data:
        raise ImportModelError(f"{name}: is empty; an ONNX model is expected")
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        if any(word in str(error).lower() for word in ("depth", "nest", "recurs")):  # protobuf's names of one limit
            raise ImportModelError(
                f"{name}: its sub-graphs are nested deeper than the 100 levels that protobuf reads, three for each; "
                "flatten the model"
            ) from error
        if data[0] == 0x08:  # an ONNX model begins with its IR version
            raise ImportModelError(
                f"{name}: is truncated or damaged ({len(data)} bytes do not parse as an ONNX model); fetch it again"
            ) from error
        raise ImportModelError(f"{name}: is not an ONNX model; export it to ONNX first") from error
    return proto


def _check_whole(proto: ModelProto, name: str) -> None:
    if not proto.HasField("graph"):
        if proto.ir_version or proto.opset_import:
            raise ImportModelError(f"{name}: has no graph; the file is truncated, or only part of a model")
        raise ImportModelError(f"{name}: is not an ONNX model; export it to ONNX first")
    if not proto.graph.node and not proto.graph.output:
        raise ImportModelError(f"{name}: the graph is empty: it has no node and no output, so nothing is to compile")
    if not proto.graph.output:
        raise ImportModelError(f"{name}: the graph has no output, so there is nothing to compute; name one")


def domain_name(domain: str) -> str:
    """The domain by its short name: the default operator set is ``""``."""
    return "" if domain == "ai.onnx" else domain


def _opsets(proto: ModelProto, name: str, override: int | None) -> dict[str, int]:
    opsets = {domain_name(o.domain): o.version for o in proto.opset_import}
    if override is not None:
        opsets[""] = override
    if "" not in opsets and proto.ir_version < 3:
        opsets[""] = 1  # before IR version 3 models did not say
    if not opsets:
        raise ImportModelError(f"{name}: names no operator set (opset_import); the file is truncated or damaged")
    version = opsets.get("", 1)
    if not 1 <= version <= MAX_OPSET:
        raise ImportModelError(
            f"{name}: needs ONNX opset {version}, supported are 1 to {MAX_OPSET}; export it with an opset in that range"
        )
    return opsets
