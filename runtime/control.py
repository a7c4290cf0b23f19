"""A function with control flow inside of a library: bytecode that calls libraries of straight code.

The bytecode (``vm/``) decides which part runs and how often; each part, a branch or a loop's body, is a library of its
own, compiled as a model is: a graph over generated code and regions, whole programs where that is possible, with its
constants and with further functions of this kind below it. A run of it can be interrupted, and is held to the time
limit of the run around it: the machine looks at both between two instructions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.runtime.artefact.manifest import read_parts
from byoc.runtime.core.container import ADT
from byoc.runtime.core.errors import ArtifactError, InternalError
from byoc.runtime.core.ndarray import NDArray, from_any
from byoc.runtime.core.signature import Signature
from byoc.runtime.core.strict_json import at, list_of, numbered, object_of, read_json, text_of, texts_of
from byoc.runtime.dso.native_block import NativeBlock
from byoc.runtime.graph.executor_base import Executor
from byoc.runtime.graph.graph import ANY_RANK, OPTIONAL, SEQUENCE, Graph, Kind, LoopCall, LoopResult
from byoc.runtime.library import Library
from byoc.runtime.loading import library_of
from byoc.runtime.modules.module import Members, Module, PackedFunction, Root, members_below
from byoc.runtime.native_control import native_decision, native_loop
from byoc.runtime.region.record import Fallback
from byoc.runtime.region.variants import ChosenVariants
from byoc.runtime.vm.code import read_code, write_code
from byoc.runtime.vm.decisions import decision_of
from byoc.runtime.vm.executable import CODE_MEMBER, Executable
from byoc.runtime.vm.library_calls import LibraryCalls
from byoc.runtime.vm.loops import body_of
from byoc.runtime.vm.machine import BytecodeMachine
from byoc.runtime.vm.program import VMFunction

MEMBER = "control.json"
# of inputs and outputs: "", "sequence", "optional", of outputs "any rank"; () for tensors alone
Forms = tuple[Sequence[str], Sequence[str]]


class ControlModule(Module):
    """The function of *signature*: *program*'s function of that name over *parts*, libraries by their symbols.

    Raises ArtifactError where the program has no such function, or calls what is no part.
    """

    type_key = "control"
    thread_safe = True

    def __init__(
        self, signature: Signature, program: Executable, parts: Mapping[str, Library], forms: Forms = ((), ())
    ):
        super().__init__()
        self.forms = forms
        self.signature, self.program, self.parts = signature, program, dict(parts)
        self.parts_modules = [part.module for part in self.parts.values()]
        self.symbols = (signature.symbol,)
        entry = [f for f in program.functions if f.name == signature.symbol]
        missing = [s.symbol for s in program.symbols if s.symbol not in self.parts]
        if missing or not entry or len(entry[0].params) != len(signature.inputs):
            what = missing[0] if missing else signature.symbol
            raise ArtifactError(f"{MEMBER}: the program and its parts do not fit: {what!r}; save the model again")
        for called in program.symbols:
            counts = len(self.parts[called.symbol].inputs), len(self.parts[called.symbol].outputs)
            if counts != (len(called.inputs), len(called.outputs)):
                raise ArtifactError(f"{MEMBER}: {called.symbol!r} has another number of tensors than its calls")
        self._function = _Control(signature, program, entry[0], self.parts)

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """What the symbol takes and gives."""
        return {self.signature.symbol: self.signature}

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        return self._function if name in self.symbols else super().get_function(name, query_imports)

    def whole_executor(self, graph: Graph, root: Root, threads: int | None) -> Executor | None:
        from byoc.runtime.executors.control_executor import ControlExecutor

        if not ControlExecutor.fits(graph, self.signature.symbol):
            return None
        root.ensure_initialized(self.signature.symbol)
        return ControlExecutor(graph, self._function.call_returning)

    def get_source(self, fmt: str = "") -> str:
        return self.program.bytecode

    def unavailable(self) -> str | None:
        found = (f"{name}: {problem}" for name, part in self.parts.items() for problem in part.problems().values())
        return next(found, None)

    @property
    def counts(self) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for part in self.parts.values():
            found.update(part.device_counts)
        return dict(found)

    @property
    def fallbacks(self) -> list[Fallback]:
        """The regions of parts that ran on the host instead, so far."""
        return [record for part in self.parts.values() for record in part.fallbacks]

    @property
    def variants(self) -> list[ChosenVariants]:
        """The kernels that regions of parts chose, so far."""
        return [chosen for part in self.parts.values() for chosen in part.variants]

    def use_threads(self, count: int | None) -> None:
        for part in self.parts.values():
            part.threads = count

    def keep_sizes(self, count: int) -> None:
        for part in self.parts.values():
            for module in part.module.walk():
                module.keep_sizes(count)

    def save(self) -> dict[str, bytes]:
        program = self.program
        members = {CODE_MEMBER: bytes(write_code(program.functions, program.symbols, program.constants))}
        parts = []
        for place, (symbol, part) in enumerate(self.parts.items()):
            path = f"part_{place}"
            manifest, inner = part.content()
            parts.append({"symbol": symbol, "path": path, "library": manifest})
            members.update({f"{path}/{name}": data for name, data in inner.items()})
        forms = [list(names) for names in self.forms]
        header = {"signature": self.signature.to_json(), "parts": parts, "forms": forms}
        return {**members, MEMBER: json.dumps(header, indent=1).encode()}

    @classmethod
    def load(cls, members: Members) -> ControlModule:
        """The module from its members. Raises ArtifactError for one that is missing or damaged."""
        if MEMBER not in members or CODE_MEMBER not in members:
            raise ArtifactError(f"a function with control flow has members {MEMBER} and {CODE_MEMBER}: save it again")
        header = object_of(read_json(members[MEMBER], MEMBER), MEMBER, ("signature", "parts", "forms"))
        signature = Signature.from_json(header["signature"], at(MEMBER, "signature"))
        parts = {}
        for where, data in numbered(header, "parts", MEMBER):
            fields = object_of(data, where, ("symbol", "path", "library"))
            path = text_of(fields["path"], at(where, "path"))
            manifest = read_parts(fields["library"], at(where, "library"))
            symbol = text_of(fields["symbol"], at(where, "symbol"))
            parts[symbol] = library_of(manifest, members_below(members, path), f"{where} ({symbol})")
        functions, symbols, constants = read_code(members[CODE_MEMBER])
        return cls(signature, Executable(functions, symbols, constants), parts, _forms(header["forms"], signature))


def _forms(data: object, signature: Signature) -> Forms:
    """The forms of a saved module. Raises ArtifactError for those that do not fit its signature."""
    where = at(MEMBER, "forms")
    inputs, outputs = (tuple(texts_of(names, where)) for names in (list_of(data, where) if data else ((), ())))
    known = {"", SEQUENCE, OPTIONAL}
    for names, specs, forms in ((inputs, signature.inputs, known), (outputs, signature.outputs, {*known, ANY_RANK})):
        if names and (len(names) != len(specs) or not set(names) <= forms):
            raise ArtifactError(f"{where}: {list(names)[:8]} are no forms of {len(specs)} values; save the model again")
    return inputs, outputs


class _Parts(Module):
    """The parts as functions that return their outputs."""

    def __init__(self, parts: Mapping[str, Library]):
        super().__init__()
        self._functions = {name: _Part(part) for name, part in parts.items()}

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        return self._functions.get(name)


class _Part:
    """A library as a function: inputs, then outputs, or :meth:`call_returning` inputs alone."""

    def __init__(self, library: Library):
        self._library = library

    def __call__(self, *arrays: object) -> None:
        count = len(self._library.inputs)
        _fill(arrays[count:], self.call_returning(list(map(from_any, arrays[:count]))))

    def call_returning(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, in new arrays. Raises InputError for an input that does not fit."""
        return self._library.compute(inputs)

    def loop(self, call: LoopCall, inputs: Sequence[np.ndarray]) -> LoopResult | None:
        """Runs that follow each other in native code; None where the library cannot."""
        return self._library.loop(call, inputs)


class _Control:
    """The function with control flow; any number of threads may call it."""

    keeps_time = True

    def __init__(self, signature: Signature, program: Executable, entry: VMFunction, parts: Mapping[str, Library]):
        self._signature, self._entry, self._program, self._parts = signature, entry, program, parts
        calls = LibraryCalls(program.symbols, _Parts(parts))
        self._machine = BytecodeMachine(program.functions, program.live_constants, calls)

    def __call__(self, *arrays: object) -> None:
        given = list(map(from_any, arrays))
        count = len(self._signature.inputs)
        _fill(given[count:], self.call_returning(given[:count]))

    def call_returning(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, in arrays that share no memory with *inputs*."""
        found = self._machine.call(self._entry, [NDArray(i) for i in inputs])
        several = isinstance(found, ADT) and len(self._signature.outputs) != 1
        results = [_tensor(v) for v in (found if isinstance(found, ADT) and several else [found])]
        return [r.copy() if any(np.may_share_memory(r, i) for i in inputs) else r for r in results]

    def native(self, inputs: Sequence[Kind], outputs: Sequence[Kind]) -> NativeBlock | None:
        """The function for arrays of these kinds as native code calls it; None where Python has to."""
        libraries = [self._parts[called.symbol] for called in self._program.symbols]
        number = next(k for k, f in enumerate(self._program.functions) if f is self._entry)
        body = body_of(self._entry, number, self._program.live_constants)
        if body is not None:
            return native_loop(self._entry, body, libraries, inputs, outputs)
        decision = decision_of(self._entry)
        return None if decision is None else native_decision(decision, libraries, inputs, outputs)


def _tensor(value: object) -> np.ndarray:
    if not isinstance(value, NDArray):
        raise InternalError(f"a function with control flow gives a {type(value).__name__} where a tensor is expected")
    return value.numpy()


def _fill(targets: Sequence[object], values: Sequence[np.ndarray]) -> None:
    for target, value in zip(targets, values, strict=True):
        np.copyto(from_any(target), value)


__all__ = ["ControlModule"]
