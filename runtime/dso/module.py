"""DsoModule: functions of a shared library that our C generator wrote, called through cffi.

Each symbol is ``int32_t f(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team)``, which holds no
state: threads may call at once, each with a workspace of its own, and cffi releases the GIL. Constants are given once
and referenced. A symbol is called by a team of one; the whole model, where the library has it, by as many as are
wanted (``runtime/dso/aot.py``).
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import cffi
import numpy as np

from byoc.runtime.core.bound_sizes import Sizes, is_computable
from byoc.runtime.core.errors import ArtifactError, InputError, InternalError, UnavailableError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.core.ndarray import ALIGNMENT, NDArray, from_any, numpy_dtype
from byoc.runtime.core.processor import Processor, this_processor
from byoc.runtime.core.signature import Signature, TensorSpec, symbol_of
from byoc.runtime.core.strict_json import read_json
from byoc.runtime.core.time_limit import LIMIT
from byoc.runtime.dso.library_file import SANITIZERS, sanitizer_refusal
from byoc.runtime.dso.matrix_permission import matrix_refusal
from byoc.runtime.dso.whole_program import WholeProgram, check_contract, contract_of
from byoc.runtime.graph.graph import Graph
from byoc.runtime.modules.module import Members, Module, PackedFunction, Root

if TYPE_CHECKING:
    from byoc.runtime.dso.aot import AotExecutor
    from byoc.runtime.dso.library_file import LibraryFile
    from byoc.runtime.region.checks import CallChecks

WHOLE_MEMBER, SANITIZERS_MEMBER = "program.json", "sanitizers.json"
_FFI = cffi.FFI()
ASKS_FOR_TIME = "run_look"  # what generated C calls to see whether its run is over
_DECLARATIONS = """
int32_t {symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const void *team);
int64_t {symbol}_workspace(const int64_t *sizes);
"""


class DsoModule(Module):
    """A shared library with its signatures, its source, and the processor that it needs.

    ``constant_arrays`` (name to array) is not saved here. ``whole`` describes the function that is the whole model,
    where the library has it. ``sanitizers`` are those that the library was built with.
    """

    type_key = "c"
    thread_safe = True

    def __init__(
        self,
        library: bytes,
        signatures: Sequence[Signature],
        source: str,
        constant_arrays: Mapping[str, NDArray] | None = None,
        processor: Processor | None = None,
        whole: WholeProgram | None = None,
        sanitizers: Sequence[str] = (),
    ):
        super().__init__()
        self.sanitizers = tuple(sanitizers)
        self.whole = whole
        self.processor = processor or Processor(this_processor().machine)
        self._library, self._source = library, source
        self._signatures = {s.symbol: s for s in signatures}
        self.symbols = tuple(self._signatures)
        self.constant_arrays: dict[str, NDArray] = dict(constant_arrays or {})
        self._constants: dict[str, list[np.ndarray]] = {}
        self._functions: dict[str, _NativeFunction] = {}
        self._lock = new_lock()
        self._file: LibraryFile | None = None

    @property
    def library(self) -> bytes:
        """The shared library as it is written to a file."""
        return self._library

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """What each symbol takes and gives."""
        return self._signatures

    def unavailable(self) -> str | None:
        lack = this_processor().lacks(self.processor) or matrix_refusal(self.processor)
        return lack or sanitizer_refusal(self.sanitizers)

    def get_source(self, fmt: str = "") -> str:
        return self._source

    def constants(self) -> Mapping[str, Sequence[str]]:
        return {s.symbol: tuple(c.name for c in s.constants) for s in self._signatures.values()}

    def constant_specs(self, symbol: str) -> Sequence[TensorSpec]:
        return self._signatures[symbol].constants

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        """Keep the constants of *symbol*. Raises InputError when one is not what the signature says."""
        specs = self._signatures[symbol].constants
        if len(specs) != len(constants):
            raise InputError(f"{symbol}: expected {len(specs)} constants, got {len(constants)}")
        arrays = [np.asarray(from_any(c), order="C") for c in constants]
        if self.sanitizers:  # in memory of their own, whose ends the address sanitizer knows
            arrays = [a.copy() for a in arrays]
        for spec, array in zip(specs, arrays, strict=True):
            spec.bind(array, Sizes())
        self._constants[symbol] = arrays
        self._functions.pop(symbol, None)

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        if name not in self._signatures:
            return super().get_function(name, query_imports)
        return self._native(name)

    def bind(self, symbol: str, arrays: Sequence[object]) -> Callable[[], None]:
        """A call of *symbol* on just these arrays (inputs, then outputs), checked and prepared now.

        The arrays are read and written in place on every call. Raises InputError for an array that does not fit or is
        not contiguous.
        """
        return self._native(symbol).bind([from_any(a) for a in arrays])

    def constants_of(self, symbol: str) -> list[np.ndarray]:
        """The constants of *symbol*. Raises InputError before they were given."""
        signature = self._signatures[symbol]
        constants = self._constants.get(symbol)
        if constants is None:
            given = self.constant_arrays
            constants = [given[c.name].numpy() for c in signature.constants if c.name in given]
        if len(constants) != len(signature.constants):
            raise InputError(f"{symbol} is called before it was given its {len(signature.constants)} constants")
        return constants

    def memory(self, symbol: str) -> Mapping[str, int]:
        """The workspace of one call, for values inside, in bytes; nothing where sizes are free, nor where this process
        cannot open the library: it has sanitizers, or is another processor's.
        """
        if self._signatures[symbol].size_names or self.sanitizers or self.unavailable():
            return {}
        with self._lock:
            handle = self.file().open(_DECLARATIONS.format(symbol=symbol))
        return {"workspace": int(getattr(handle, f"{symbol}_workspace")(_FFI.new("int64_t[]", 0)))}

    def file(self) -> LibraryFile:
        """The library in a file, to be opened. Raises UnavailableError where this machine cannot run it."""
        from byoc.runtime.dso.library_file import LibraryFile

        if self._file is None:
            problem = self.unavailable()
            if problem:
                raise UnavailableError(f"{', '.join(self.symbols)} cannot run here: {problem}")
            self._file = LibraryFile(self._library)
        return self._file

    def whole_executor(self, graph: Graph, root: Root, threads: int | None) -> AotExecutor | None:
        from byoc.runtime.dso.aot import AotExecutor
        from byoc.runtime.dso.native_program import NativeProgram

        if self.whole is None:
            return None
        with self._lock:
            file = self.file()
        for symbol in dict.fromkeys(symbol for symbol, _ in self.whole.constants):
            root.ensure_initialized(symbol)
        constants = [np.asarray(self.constants_of(symbol)[k], order="C") for symbol, k in self.whole.constants]
        externals = [root[call.function] for call in self.whole.externals]
        return AotExecutor(graph, NativeProgram(file, self.whole), constants, externals, threads)

    def _native(self, symbol: str) -> _NativeFunction:
        with self._lock:
            if symbol not in self._functions:
                handle = self.file().open(_DECLARATIONS.format(symbol=symbol))
                made = _NativeFunction(handle, self._signatures[symbol], self.constants_of(symbol))
                made.keeps_time = not self._source or ASKS_FOR_TIME in self._source
                made.file = self.file
                self._functions[symbol] = made
            return self._functions[symbol]

    def save(self) -> dict[str, bytes]:
        signatures = [s.to_json() for s in self._signatures.values()]
        whole = {} if self.whole is None else {WHOLE_MEMBER: json.dumps(self.whole.to_json(), indent=1).encode()}
        sanitizers = {SANITIZERS_MEMBER: json.dumps(self.sanitizers).encode()} if self.sanitizers else {}
        return {
            **whole,
            **sanitizers,
            "lib.so": self._library,
            "processor.json": json.dumps(self.processor.to_json(), indent=1).encode(),
            "signature.json": json.dumps(signatures, indent=1).encode(),
            "source.c": self._source.encode(),
        }

    @classmethod
    def load(cls, members: Members) -> DsoModule:
        for name in ("lib.so", "processor.json", "signature.json", "source.c"):
            if name not in members:
                raise ArtifactError(f"a module of type 'c' needs the member {name!r}; it has {', '.join(members)}")
        try:
            data = read_json(members["signature.json"], "signature.json")
            signatures = Signature.list_from_json(data, "signature.json")
            for signature in signatures:
                symbol_of(signature.symbol, "signature.json", of_c=True)
            processor = Processor.from_json(read_json(members["processor.json"], "processor.json"))
            source = bytes(members["source.c"]).decode()
            program = _whole_program(members, signatures)
            sanitizers = _sanitizers(members)
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"a module of type 'c' is damaged ({error}); compile the model again") from error
        library = bytes(members["lib.so"])
        check_contract(library, contract_of(signatures, program, sanitizers), "the library of a module of type 'c'")
        return cls(library, signatures, source, processor=processor, whole=program, sanitizers=sanitizers)


def _sanitizers(members: Members) -> tuple[str, ...]:
    """The sanitizers among *members*. Raises ArtifactError for names that are none."""
    names = read_json(members[SANITIZERS_MEMBER], SANITIZERS_MEMBER) if SANITIZERS_MEMBER in members else []
    if not isinstance(names, list) or not all(name in SANITIZERS for name in names):
        raise ArtifactError(f"{SANITIZERS_MEMBER}: expected names of {', '.join(SANITIZERS)}, got {names!r}")
    return tuple(names)


def _whole_program(members: Members, signatures: Sequence[Signature]) -> WholeProgram | None:
    """The description of the whole program among *members*. Raises ArtifactError where it does not fit them."""
    if WHOLE_MEMBER not in members:
        return None
    program = WholeProgram.from_json(read_json(members[WHOLE_MEMBER], WHOLE_MEMBER), WHOLE_MEMBER)
    counts = {s.symbol: len(s.constants) for s in signatures}
    if program.symbol in counts:
        raise ArtifactError(f"{WHOLE_MEMBER}: its function {program.symbol} is one of the module's own")
    for symbol, position in program.constants:
        if position >= counts.get(symbol, 0):
            raise ArtifactError(f"{WHOLE_MEMBER}: constant {position} of {symbol} is none that the module has")
    return program


NO_SIZES: Mapping[str, int] = MappingProxyType({})


class _Workspace(threading.local):
    """Scratch memory of one thread, which grows to the largest need."""

    def __init__(self) -> None:
        from byoc.runtime.dso.run_state import RunState

        self.buffer = np.empty(0, np.uint8)
        self.pointer = _FFI.NULL
        self.state = RunState()
        self.state.watch(is_long=True)

    def at_least(self, size: int) -> object:
        """A pointer to *size* bytes, aligned to a cache line."""
        if self.buffer.size < size + ALIGNMENT:
            self.buffer = np.empty(size + ALIGNMENT, np.uint8)
            start = self.buffer.ctypes.data
            self.pointer = _FFI.cast("uint8_t *", start + -start % ALIGNMENT)
        return self.pointer


_WORKSPACE = _Workspace()


class _NativeFunction:
    """One symbol, callable with NDArrays or numpy arrays: inputs, then outputs.

    ``keeps_time``: its code looks whether its time is over, as byoc's does; what a vendor's generator wrote does not.
    """

    keeps_time = True
    file: Callable[[], LibraryFile]  # of the library, where it can be opened again

    def __init__(self, handle: object, signature: Signature, constants: Sequence[np.ndarray]):
        self.signature = signature
        self.constants = list(constants)
        self._handle = handle  # the library is unloaded with its last owner
        try:
            self._run = getattr(handle, signature.symbol)
            self._size = getattr(handle, f"{signature.symbol}_workspace")
        except AttributeError as error:
            raise ArtifactError(f"the compiled library lacks a function: {error}") from error
        self._size_names = signature.size_names
        self._dtypes = [numpy_dtype(s.dtype) for s in signature.outputs]
        self._need = 0 if self._size_names else self._size(_FFI.new("int64_t[]", 0))

    def __call__(self, *arrays: object) -> None:
        count = len(self.signature.inputs)
        given = [from_any(a) for a in arrays]
        inputs = [np.asarray(a, order="C") for a in given[:count]]
        outputs = given[count:]
        places = [a if a.flags.c_contiguous else np.empty(a.shape, a.dtype) for a in outputs]
        self.bind([*inputs, *places])()
        for target, place in zip(outputs, places, strict=True):
            if target is not place:
                np.copyto(target, place)

    def with_checks(self, checks: CallChecks) -> PackedFunction:
        """This function on a workspace between fences; of declared kernels one that calls each under *checks*."""
        from byoc.runtime.dso.checked_steps import DECLARATIONS, CheckedSteps, steps_in, with_fenced_workspace

        handle = self.file().open(DECLARATIONS.format(symbol=self.signature.symbol))
        steps = steps_in(handle, self.signature.symbol)
        if steps is not None:
            return CheckedSteps(handle, steps, self, checks)
        if not checks.edges:
            return self
        made = copy.copy(self)
        made._run = with_fenced_workspace(self._run, self._size)
        return made

    @property
    def undetermined_sizes(self) -> tuple[str, ...]:
        """The sizes that the function needs and its inputs do not determine: whoever calls it knows them.

        A function that is given ``(div(H,14))`` tokens and needs ``(4*div(H,14)+1)`` is not given H.
        """
        signature = self.signature
        known = {d for spec in signature.inputs for d in spec.shape if isinstance(d, str)}
        return tuple(name for name in self._size_names if not is_computable(name, known))

    def call_returning(self, inputs: Sequence[np.ndarray], known: Mapping[str, int] = NO_SIZES) -> list[np.ndarray]:
        """The outputs of the function, in new arrays; *known* are :attr:`undetermined_sizes`.

        Raises InputError for an input that does not fit.
        """
        signature = self.signature
        sizes = signature.bind_sizes(inputs)
        for spec in signature.outputs:
            signature.check_known(spec, sizes)
        outputs = [np.empty(s.concrete_shape(sizes), t) for s, t in zip(signature.outputs, self._dtypes, strict=True)]
        given = [np.asarray(a, order="C") for a in inputs]
        pointers = [_FFI.from_buffer(a) for a in (*given, *self.constants, *outputs)]
        size_args = _FFI.new("int64_t[]", [known[n] if n in known else sizes[n] for n in self._size_names])
        need = self._need if not self._size_names else self._size(size_args)
        _run_alone(self._run, _FFI.new("void *[]", pointers), size_args, need, signature.checks)
        return outputs

    def bind(self, arrays: Sequence[np.ndarray], known: Mapping[str, int] = NO_SIZES) -> Callable[[], None]:
        """A call on just these arrays, which must be contiguous; *known* are :attr:`undetermined_sizes`."""
        signature = self.signature
        inputs, outputs = signature.divided(arrays)
        sizes = signature.bind_sizes(inputs)
        for spec, array in zip(signature.outputs, outputs, strict=True):
            _check_output(signature.symbol, spec, array, sizes)  # which may determine a size that no input does
        for array in arrays:
            if not array.flags.c_contiguous:
                raise InputError(f"{signature.symbol}: an array of shape {list(array.shape)} is not contiguous")
        kept = [*inputs, *self.constants, *outputs]
        args = _FFI.new("void *[]", [_FFI.cast("void *", a.ctypes.data) for a in kept])
        size_args = _FFI.new("int64_t[]", [known[n] if n in known else sizes[n] for n in self._size_names])
        need = self._size(size_args)
        run, checks = self._run, signature.checks

        def call(_kept: object = (self._handle, kept)) -> None:  # to whose memory *args* points
            _run_alone(run, args, size_args, need, checks)

        vars(call)["keeps_time"] = self.keeps_time
        return call


def _run_alone(run: Callable[..., int], args: object, sizes: object, need: int, checks: Sequence[str]) -> None:
    """Call a symbol by this thread alone, with *need* bytes of workspace.

    Raises InputError for an index outside its dimension, which *checks* name, RunTimeoutError, and whatever a signal's
    handler raised.
    """
    workspace = _WORKSPACE
    state = workspace.state
    if LIMIT.deadline or state.has_deadline:
        state.watch(is_long=True)
    status = run(args, sizes, workspace.at_least(need), state.alone)
    if status != 0:
        raise state.error_of(status, checks) or InternalError("a compiled function failed without a reason")


def _check_output(symbol: str, spec: TensorSpec, array: np.ndarray, sizes: Sizes) -> None:
    """Raises InputError for an array that is not as *spec*; one whose size no input determines binds that size."""
    if array.ndim == len(spec.shape):
        for dim, size in zip(spec.shape, array.shape, strict=True):
            if isinstance(dim, str):
                sizes.bind(dim, size)
    want = tuple(d if isinstance(d, int) else sizes[d] if sizes.determines(d) else None for d in spec.shape)
    if tuple(array.shape) != want or array.dtype != numpy_dtype(spec.dtype) or not array.flags.writeable:
        raise InputError(
            f"{symbol}: output {spec.name!r} must be a writable {spec.dtype}{list(want)}, "
            f"got {array.dtype}{list(array.shape)}"
        )
