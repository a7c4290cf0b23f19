"""The origin program of a region: the same computation compiled for the host, which runs where the backend fails.

It is a library of its own below one symbol, a graph over generated C and numpy kernels, whose constants the root of the
whole library owns, as it owns all: :meth:`OriginModule.initialize` hands them on. A region with a dimension that has
neither a size nor a name has no graph, and its one function is called as it is. Source: Paddle Lite's subgraph engines
(``origin_program``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from byoc.runtime.consistency import check_counts, check_graph
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.ndarray import NDArray, from_any
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.core.strict_json import at, mapping_of, numbered, object_of, read_json, text_of, texts_of
from byoc.runtime.graph.graph import Graph
from byoc.runtime.graph.graph_check import checked_graph
from byoc.runtime.library import Library
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Members, Module, PackedFunction, members_below, module_class, saved_members

MEMBER = "origin.json"
SUFFIX = "_origin"


class OriginModule(Module):
    """The host's version of the region of *signature*: its *graph* over the functions of *modules*.

    *needs* says which constants each function takes, by name; ``constant_arrays`` (name to array) is not saved here.
    """

    type_key = "origin"
    thread_safe = True

    def __init__(
        self,
        signature: Signature,
        graph: Mapping[str, object] | None,
        needs: Mapping[str, Sequence[str]],
        modules: Sequence[Module],
        constant_arrays: Mapping[str, NDArray] | None = None,
    ):
        super().__init__()
        self.signature = signature
        self.symbols = (signature.symbol + SUFFIX,)
        self.stands_for = {self.symbols[0]: signature.symbol}
        self.constant_arrays: dict[str, NDArray] = dict(constant_arrays or {})
        self._graph, self._needs, self._modules = graph, dict(needs), tuple(modules)
        self._names = tuple(dict.fromkeys(name for names in self._needs.values() for name in names))
        self._given: Sequence[NDArray] | None = None
        self._program: _Origin | None = None

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """What the symbol takes and gives: what the region does."""
        return {self.symbols[0]: self.signature}

    def constants(self) -> Mapping[str, Sequence[str]]:
        return {self.symbols[0]: self._names} if self._names else {}

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        self._given, self._program = list(constants), None

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        if name not in self.symbols:
            return super().get_function(name, query_imports)
        if self._program is None:
            given = self.constant_arrays if self._given is None else dict(zip(self._names, self._given, strict=True))
            root = MetadataModule(given, self._needs)
            for module in self._modules:
                root.import_module(module)
            self._program = _Origin(self.signature, self._graph, root)
        return self._program

    def get_source(self, fmt: str = "") -> str:
        return "\n".join(module.get_source(fmt) for module in self._modules)

    def unavailable(self) -> str | None:
        return next((problem for m in self._modules if (problem := m.unavailable())), None)

    def save(self) -> dict[str, bytes]:
        places = [{"type_key": m.type_key, "path": f"{k}_{m.type_key}"} for k, m in enumerate(self._modules)]
        members = {
            f"{place['path']}/{name}": data
            for place, module in zip(places, self._modules, strict=True)
            for name, data in saved_members(module).items()
        }
        content = {
            "signature": self.signature.to_json(),
            "graph": self._graph,
            "needs": {symbol: list(names) for symbol, names in self._needs.items()},
            "modules": places,
        }
        return {**members, MEMBER: json.dumps(content, indent=1).encode()}

    @classmethod
    def load(cls, members: Members) -> OriginModule:
        """The module from its members. Raises ArtifactError for one that is missing or damaged."""
        try:
            content = object_of(read_json(members[MEMBER], MEMBER), MEMBER, ("signature", "graph", "needs", "modules"))
            signature = Signature.from_json(content["signature"], at(MEMBER, "signature"))
            places = [_place(m, where) for where, m in numbered(content, "modules", MEMBER)]
            graph = checked_graph(content["graph"], at(MEMBER, "graph")) if content["graph"] else None
            needs = mapping_of(content["needs"], at(MEMBER, "needs"))
        except (KeyError, ValueError, TypeError) as error:
            raise ArtifactError(f"the origin program of a region cannot be read ({error!r}); save it again") from error
        modules = [module_class(key).load(members_below(members, path)) for key, path in places]
        origin = cls(signature, graph, {s: texts_of(n, at(MEMBER, s)) for s, n in needs.items()}, modules)
        origin._check()
        return origin

    def _check(self) -> None:
        """Raises ArtifactError where the graph, the modules and their constants do not fit each other."""
        root = MetadataModule({name: _NOTHING for name in self._names}, self._needs)
        for module in self._modules:
            root.import_module(module)
        unknown = [symbol for symbol in self._needs if root.owner(symbol) is None]
        if unknown or (self._graph is None and root.owner(self.signature.symbol) is None):
            raise ArtifactError(f"{MEMBER}: it has no function {(*unknown, self.signature.symbol)[0]!r}")
        for module in self._modules:
            check_counts(module, module.symbols, self._needs)
        if self._graph is not None:
            graph = Graph(self._graph)
            check_graph(self._graph, graph, root, self.signature.inputs, self.signature.outputs, MEMBER)

    def constant_specs(self, symbol: str) -> Sequence[TensorSpec] | None:
        found: dict[str, TensorSpec] = {}
        for module in self._modules:
            for inner in module.symbols:
                found.update(zip(self._needs.get(inner, ()), module.constant_specs(inner) or (), strict=False))
        return [found[name] for name in self._names] if found.keys() >= set(self._names) else None


def _place(data: object, where: str) -> tuple[str, str]:
    fields = object_of(data, where, ("type_key", "path"))
    key = text_of(fields["type_key"], where)
    if key in (OriginModule.type_key, MetadataModule.type_key):
        raise ArtifactError(f"{where}: a module of type {key!r} does not lie in another")
    return key, text_of(fields["path"], where)


_NOTHING = NDArray(np.zeros(0, "float32"))


class _Origin:
    """The function: inputs, then outputs, or :meth:`call_returning` inputs alone; any number of threads may call it."""

    keeps_time = True

    def __init__(self, signature: Signature, graph: Mapping[str, object] | None, root: MetadataModule):
        self._signature, self._root = signature, root
        self._library = None
        if graph is not None:
            self._library = Library(graph, root, [spec.name for spec in signature.outputs])

    def __call__(self, *arrays: object) -> None:
        given = [from_any(a) for a in arrays]
        count = len(self._signature.inputs)
        for target, value in zip(given[count:], self.call_returning(given[:count]), strict=True):
            np.copyto(target, value)

    def call_returning(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, in new arrays. Raises InputError for an input that does not fit."""
        if self._library is None:
            function: Any = self._root[self._signature.symbol]  # of a native module, which returns its outputs
            outputs: list[np.ndarray] = function.call_returning(inputs)
            return outputs
        return self._library.run(dict(zip((s.name for s in self._library.inputs), inputs, strict=True)))
