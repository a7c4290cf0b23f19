"""Regions as models that a library runs, ONNX or others: the half that an artefact needs, without the compiler."""

from __future__ import annotations

import ctypes
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from byoc.runtime.core.errors import ArtifactError, UnavailableError
from byoc.runtime.core.fork import new_rlock
from byoc.runtime.core.signature import Signature
from byoc.runtime.core.strict_json import read_json
from byoc.runtime.modules.contiguous_module import ContiguousModule
from byoc.runtime.modules.module import Members
from byoc.runtime.modules.saving import opened, sealed

SIGNATURES = "signatures.json"
VERSION = 1

# inputs and outputs in order, contiguous -> None, with the outputs filled
Session = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]


def aliased(array: np.ndarray) -> np.ndarray:
    """The same memory without its protection, for libraries that take no read-only array, though they only read it."""
    if array.flags.writeable:
        return array
    if not array.size:
        return np.empty(array.shape, array.dtype)
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.ctypes.data)
    return np.ctypeslib.as_array(memory).view(array.dtype).reshape(array.shape)


class ModelModule(ContiguousModule):
    """Symbols as models, whose inputs and outputs are the region's in their order. A subclass says how one is run.

    A model is opened when its symbol is first called; what it opens, any number of threads may call. ``ending`` is that
    of the models' files, ``content_kind`` what artefacts call what they hold.
    """

    thread_safe = True
    ending: ClassVar[str]
    content_kind: ClassVar[str]

    def __init__(self, models: Mapping[str, bytes], signatures: Sequence[Signature]):
        super().__init__(signatures)
        self.models = dict(models)
        self.symbols = tuple(self.models)
        self._sessions: dict[str, Session] = {}
        self._lock = new_rlock()

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

    def run(
        self, symbol: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: Mapping[str, int]
    ) -> None:
        self.session(symbol)(inputs, outputs)

    def get_source(self, fmt: str = "") -> str:
        """The sizes of the models; viewers of such models read them once the artefact is unpacked."""
        return "\n".join(f"{symbol}{self.ending}: {len(model)} bytes" for symbol, model in self.models.items())

    def save(self) -> dict[str, bytes]:
        head = json.dumps([s.to_json() for s in self.signatures.values()], indent=1).encode()
        models = {f"{symbol}{self.ending}": model for symbol, model in self.models.items()}
        return sealed(self.content_kind, VERSION, {SIGNATURES: head, **models})

    @classmethod
    def load(cls, members: Members) -> ModelModule:
        _, content = opened(members, cls.content_kind, VERSION)
        signatures = Signature.list_from_json(read_json(content[SIGNATURES], SIGNATURES), SIGNATURES)
        names = {s.symbol: f"{s.symbol}{cls.ending}" for s in signatures}
        missing = next((name for name in names.values() if name not in content), None)
        if missing is not None:
            raise ArtifactError(f"{missing} is missing: save the model again")
        return cls({symbol: content[name] for symbol, name in names.items()}, signatures)


class OnnxModule(ModelModule):
    """Symbols as ONNX models with inputs ``x0``, … and outputs ``y0``, …."""

    ending = ".onnx"
    content_kind = "onnx regions"
