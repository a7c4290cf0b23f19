"""A shared library of functions in TVM's convention for packed functions in C, called with tensors of DLPack.

Each symbol is ``int f(TVMValue *args, int *codes, int count, TVMValue *result, int *result_code, void *)`` and returns
0 where all went well. Source: ``TVMBackendPackedCFunc`` of TVM's ``c_backend_api.h``, and ``CSourceModule``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cffi
import numpy as np

from byoc.runtime.core.errors import ArtifactError, InputError, KernelError, UnavailableError
from byoc.runtime.core.ndarray import NDArray, dtype_name, from_any
from byoc.runtime.core.processor import Processor, this_processor
from byoc.runtime.core.signature import symbol_of
from byoc.runtime.core.strict_json import list_of, read_json, texts_of
from byoc.runtime.dso.library_file import LibraryFile
from byoc.runtime.modules.module import Members, Module, PackedFunction

_TENSOR, _CPU = 7, 1  # kTVMDLTensorHandle, kDLCPU
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # of DLDataType, by numpy's kinds
_BFLOAT = 4
_ERROR = "byoc_cxx_error"  # of the header packed_func.h, in C++ alone
_TYPES = """
typedef struct { int32_t device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct {
  void *data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t *shape; int64_t *strides; uint64_t byte_offset;
} DLTensor;
typedef union { int64_t v_int64; double v_float64; void *v_handle; } TVMValue;
"""
_FFI = cffi.FFI()
_FFI.cdef(_TYPES)
_NAMES = ("lib.so", "processor.json", "symbols.json", "source.c")
_CONSTANTS = "const_vars.json"  # where it has some


@dataclass(frozen=True)
class NativeFunction:
    """A packed function of a library, and the library, which says what C++ threw."""

    call: Any
    library: Any

    def thrown(self) -> str:
        """The text of the last exception; empty of a library in C, or where nothing was thrown."""
        try:
            text = getattr(self.library, _ERROR)
        except KeyError:  # what cffi raises for a variable that is not there
            return ""
        thrown: bytes = _FFI.string(text)
        return thrown.decode(errors="replace")


class PackedModule(Module):
    """Functions of a library that was compiled from C or C++, with the source and the processor that it needs.

    *const_vars* are the constants of its first symbol, as TVM's: before its first call ``__init_<symbol>`` is called
    with them, one tensor each, which live as long as the module.
    """

    type_key = "packed_c"

    def __init__(
        self,
        library: bytes,
        symbols: Sequence[str],
        source: str,
        processor: Processor,
        const_vars: Sequence[str] = (),
    ):
        super().__init__()
        self._const_vars = tuple(const_vars)
        self._given: dict[str, list[tuple[Any, Any, np.ndarray]]] = {}
        self._library, self.symbols, self._source, self.processor = library, tuple(symbols), source, processor
        self._file = LibraryFile(library)

    def unavailable(self) -> str | None:
        return this_processor().lacks(self.processor)

    def get_source(self, fmt: str = "") -> str:
        return self._source

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        if name not in self.symbols:
            return super().get_function(name, query_imports)
        return functools.partial(_call, name, self.opened(name))

    def constants(self) -> Mapping[str, Sequence[str]]:
        return {self.symbols[0]: self._const_vars} if self._const_vars else {}

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        """Hand *constants* to ``__init_<symbol>``; nothing where there is none."""
        if constants:
            arrays = [c.numpy() for c in constants]
            kept = [(*_tensor(symbol, array), array) for array in arrays]
            _call_with(f"__init_{symbol}", self.opened(f"__init_{symbol}"), [tensor for tensor, _, _ in kept])
            self._given[symbol] = kept

    def opened(self, symbol: str) -> NativeFunction:
        """The function *symbol*. Raises UnavailableError on another machine, ArtifactError where it is not there."""
        problem = self.unavailable()
        if problem is not None:
            raise UnavailableError(f"{symbol} cannot run here: {problem}")
        declaration = f"int {symbol}(void *, int *, int, void *, int *, void *);"  # TVMValues, which are ours
        library = self._file.open(f"{declaration} extern char {_ERROR}[512];")
        try:
            return NativeFunction(getattr(library, symbol), library)
        except AttributeError:
            raise ArtifactError(
                f"the C of {', '.join(self.symbols)} has no visible function {symbol!r}: declare it with TVM_DLL, "
                'in C++ in extern "C" { ... }'
            ) from None

    def save(self) -> dict[str, bytes]:
        arguments = (self._library, self.processor.to_json(), list(self.symbols), self._source)
        texts = [part if isinstance(part, (bytes, str)) else json.dumps(part) for part in arguments]
        members = {name: t if isinstance(t, bytes) else t.encode() for name, t in zip(_NAMES, texts, strict=True)}
        return {**members, _CONSTANTS: json.dumps(self._const_vars).encode()} if self._const_vars else members

    @classmethod
    def load(cls, members: Members) -> PackedModule:
        missing = next((name for name in _NAMES if name not in members), None)
        if missing is not None:
            raise ArtifactError(f"a module of type {cls.type_key!r} needs the member {missing!r}: save the model again")
        processor, symbols = (read_json(members[name], name) for name in _NAMES[1:3])
        names = [symbol_of(name, "symbols.json", of_c=True) for name in list_of(symbols, "symbols.json")]
        source = bytes(members["source.c"]).decode(errors="replace")
        constants = texts_of(read_json(members[_CONSTANTS], _CONSTANTS), _CONSTANTS) if _CONSTANTS in members else ()
        return cls(bytes(members["lib.so"]), names, source, Processor.from_json(processor), constants)


def _call(symbol: str, function: NativeFunction, *args: object) -> None:
    """Inputs, then outputs, which are filled. Raises InputError for a dtype without a code, KernelError if it fails."""
    arrays = [from_any(a) for a in args]
    kept = [_tensor(symbol, array) for array in arrays]
    _call_with(symbol, function, [tensor for tensor, _ in kept])


def _call_with(symbol: str, function: NativeFunction, tensors: Sequence[Any]) -> None:
    """The same with DLTensors. Raises KernelError if it fails, with what a C++ function threw."""
    values = _FFI.new("TVMValue[]", max(len(tensors), 1))
    for k, tensor in enumerate(tensors):
        values[k].v_handle = tensor
    codes = _FFI.new("int[]", [_TENSOR] * len(tensors) or [0])
    result, code = _FFI.new("TVMValue *"), _FFI.new("int *")
    status = function.call(values, codes, len(tensors), result, code, _FFI.NULL)
    if status:
        thrown = function.thrown()
        raise KernelError(f"{symbol} returned {status}, and 0 where all goes well{f': {thrown}' if thrown else ''}")


def _tensor(symbol: str, array: np.ndarray) -> tuple[Any, Any]:
    """*array* as a DLTensor, with what it points to."""
    name = dtype_name(array.dtype)
    kind = _BFLOAT if name == "bfloat16" else _CODES.get(array.dtype.kind)
    if kind is None:
        raise InputError(f"{symbol}: C that was written for TVM takes numbers and truth values, got {name}")
    counts = [*array.shape, *(step // array.itemsize for step in array.strides)]
    sizes = _FFI.new("int64_t[]", counts or [0])
    tensor = _FFI.new("DLTensor *")
    tensor.data = _FFI.cast("void *", array.__array_interface__["data"][0])
    tensor.device.device_type, tensor.ndim = _CPU, array.ndim
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = kind, array.itemsize * 8, 1
    tensor.shape = sizes
    tensor.strides = _FFI.NULL if array.flags.c_contiguous else sizes + array.ndim
    return tensor, sizes
