"""Regions as ONNX models that a library runs: the half that an artefact needs, without the compiler."""

from __future__ import annotations

import functools
import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from byoc.runtime.core.errors import ArtifactError, InputError, UnavailableError
from byoc.runtime.core.ndarray import from_any
from byoc.runtime.core.signature import Signature
from byoc.runtime.core.strict_json import read_json
from byoc.runtime.modules.module import Members, Module, PackedFunction
from byoc.runtime.modules.saving import opened, sealed

SIGNATURES = "signatures.json"
FORMAT, VERSION = "onnx regions", 1

# inputs and outputs in order, contiguous -> None, with the outputs filled
Session = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]


class OnnxModule(Module):
    """Symbols as ONNX models with inputs ``x0``, … and outputs ``y0``, …. A subclass says how a model is run.

    A model is opened when its symbol is first called; what it opens, any number of threads may call.
    """

    thread_safe = True

    def __init__(self, models: Mapping[str, bytes], signatures: Sequence[Signature]):
        super().__init__()
        self.models = dict(models)
        self.signatures = {s.symbol: s for s in signatures}
        self.symbols = tuple(self.models)
        self._sessions: dict[str, Session] = {}
        self._lock = threading.RLock()

    @abstractmethod
    def open(self, model: bytes) -> Session:
        """What runs *model*. Raises what the library raises for a model that it does not take."""

    def session(self, symbol: str) -> Session:
        """What runs *symbol*, opened once. Raises UnavailableError where the library is not installed."""
        with self._lock:
            if symbol not in self._sessions:
                problem = self.unavailable()
                if problem is not None:
                    raise UnavailableError(problem)
                self._sessions[symbol] = self.open(self.models[symbol])
            return self._sessions[symbol]

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        if name in self.models:
            return functools.partial(self._call, name)
        return super().get_function(name, query_imports)

    def _call(self, symbol: str, *args: object) -> None:
        """Inputs, then outputs, which are filled. Raises InputError for arrays that do not fit."""
        arrays, signature = [from_any(a) for a in args], self.signatures[symbol]
        count = len(signature.inputs)
        if len(arrays) != count + len(signature.outputs):
            raise InputError(
                f"{symbol}: expected {count} inputs and {len(signature.outputs)} outputs, got {len(arrays)} arrays"
            )
        signature.bind_sizes(arrays[:count])
        outputs = arrays[count:]
        direct = [a if a.flags.c_contiguous else np.empty(a.shape, a.dtype) for a in outputs]
        self.session(symbol)([np.asarray(a, order="C") for a in arrays[:count]], direct)
        for output, found in zip(outputs, direct, strict=True):
            if output is not found:
                np.copyto(output, found)

    def get_source(self, fmt: str = "") -> str:
        """The sizes of the models; they are read in any viewer of ONNX once the artefact is unpacked."""
        return "\n".join(f"{symbol}.onnx: {len(model)} bytes" for symbol, model in self.models.items())

    def save(self) -> dict[str, bytes]:
        head = json.dumps([s.to_json() for s in self.signatures.values()], indent=1).encode()
        models = {f"{symbol}.onnx": model for symbol, model in self.models.items()}
        return sealed(FORMAT, VERSION, {SIGNATURES: head, **models})

    @classmethod
    def load(cls, members: Members) -> OnnxModule:
        _, content = opened(members, FORMAT, VERSION)
        signatures = Signature.list_from_json(read_json(content[SIGNATURES], SIGNATURES), SIGNATURES)
        missing = next((f"{s.symbol}.onnx" for s in signatures if f"{s.symbol}.onnx" not in content), None)
        if missing is not None:
            raise ArtifactError(f"{missing} is missing: save the model again")
        return cls({s.symbol: content[f"{s.symbol}.onnx"] for s in signatures}, signatures)
