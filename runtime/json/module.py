"""The runtime module of JSON graphs: symbols run by the JSON engine over a named table of kernels."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.runtime.core.device_event import DeviceEvent
from byoc.runtime.core.errors import ArtifactError, KernelError, UnavailableError, UserError
from byoc.runtime.core.ndarray import NDArray, from_any
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.core.strict_json import at, object_of, read_json, text_of
from byoc.runtime.json.engine import JsonEngine
from byoc.runtime.json.graph_check import checked_json_graph, constant_specs
from byoc.runtime.json.table import NUMPY, Kernels, get_table
from byoc.runtime.modules.module import Members, Module, PackedFunction

ENGINE_MEMBER = "engine.json"


class JsonModule(Module):
    """Symbols as JSON graphs. *graphs* and *signatures* are by symbol; *table* names the kernels.

    Beside ``<symbol>``, a module has the functions of Relay's JSON runtime: ``get_symbol`` and ``get_const_vars``.
    """

    type_key = "json"
    thread_safe = True

    def __init__(
        self, graphs: Mapping[str, Mapping[str, object]], signatures: Sequence[Signature], table: str = "numpy"
    ):
        super().__init__()
        self.table = table
        self.graphs = dict(graphs)
        self.symbols = tuple(self.graphs)
        self.signatures = {s.symbol: s for s in signatures}
        self.constant_arrays: dict[str, NDArray] = {}
        kernels = self.kernels()
        self._engines = {symbol: JsonEngine(graph, kernels) for symbol, graph in graphs.items()}
        self._constants: dict[str, list[np.ndarray]] = {}

    def kernels(self) -> Kernels:
        """What its nodes are called by. Raises KernelError where there is no such table."""
        return get_table(self.table)

    @property
    def brought_by(self) -> Sequence[str]:
        return () if self.table == NUMPY.name else (self.table,)

    def constants(self) -> Mapping[str, Sequence[str]]:
        return {symbol: tuple(engine.constant_names) for symbol, engine in self._engines.items()}

    def constant_specs(self, symbol: str) -> Sequence[TensorSpec]:
        return constant_specs(self.graphs[symbol])

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        self._constants[symbol] = [c.numpy() for c in constants]

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        if name in self._engines:
            return JsonFunction(self, name)
        if name == "get_symbol":
            return lambda: next(iter(self.graphs))
        if name == "get_const_vars":
            return lambda: [c for names in self.constants().values() for c in names]
        return super().get_function(name, query_imports)

    def call(self, symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of *symbol*. Raises InputError when an input does not fit, UserError before initialisation."""
        self.signatures[symbol].bind_sizes(inputs)
        engine = self._engines[symbol]
        constants = self._constants.get(symbol, [])
        if len(constants) != len(engine.constant_names):
            raise UserError(f"{symbol}: its constants were not given; call it through the metadata module")
        return engine(inputs, constants)

    def profile(self, on: bool) -> Sequence[DeviceEvent]:
        events = [event for engine in self._engines.values() for event in engine.events or ()]
        for engine in self._engines.values():
            engine.events = [] if on else None
        return events

    def get_source(self, fmt: str = "") -> str:
        return "\n".join(_text(graph) for graph in self.graphs.values())

    def save(self) -> dict[str, bytes]:
        head = {"table": self.table, "symbols": [s.to_json() for s in self.signatures.values()]}
        return {
            ENGINE_MEMBER: json.dumps(head, indent=1).encode(),
            **{f"{symbol}.json": _text(graph).encode() for symbol, graph in self.graphs.items()},
        }

    @classmethod
    def load(cls, members: Members) -> JsonModule:
        graphs, signatures, table = read_members(members)
        return cls(graphs, signatures, table)


def read_members(members: Members) -> tuple[dict[str, Mapping[str, object]], list[Signature], str]:
    """The graphs, the signatures and the name of the table of a saved module.

    Raises ArtifactError for what is damaged, UnavailableError where nobody brings the table.
    """
    graphs: dict[str, Mapping[str, object]]
    try:
        head = object_of(read_json(members[ENGINE_MEMBER], ENGINE_MEMBER), ENGINE_MEMBER, ("table", "symbols"))
        signatures = Signature.list_from_json(head["symbols"], at(ENGINE_MEMBER, "symbols"))
        graphs = {s.symbol: _read_graph(members, s) for s in signatures}
        table = text_of(head["table"], at(ENGINE_MEMBER, "table"))
    except (KeyError, ValueError, TypeError) as error:
        raise ArtifactError(f"a JSON module cannot be read ({error!r}); save the model again") from error
    try:
        get_table(table)
    except KernelError as error:
        raise UnavailableError(str(error)) from error
    return graphs, signatures, table


class JsonFunction:
    """A symbol of a JSON module as a function: inputs then outputs, or :meth:`call_returning` inputs alone.

    numpy's kernels are asked between them whether time is left; a vendor's may not end, and are watched from outside.
    """

    def __init__(self, module: JsonModule, symbol: str):
        self.keeps_time = module.table == NUMPY.name
        self._module, self._symbol = module, symbol
        self._signature = module.signatures[symbol]

    def __call__(self, *args: object) -> None:
        inputs, outputs = self._signature.divided([from_any(a) for a in args])
        for k, (value, target) in enumerate(zip(self._module.call(self._symbol, inputs), outputs, strict=True)):
            if value.shape != target.shape:
                raise KernelError(
                    f"{self._symbol}: its output {k} is of shape {list(value.shape)}, and the graph has "
                    f"{list(target.shape)}: a kernel must give the shape that the operator's type says"
                )
            np.copyto(target, value)

    def call_returning(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of the function, for shapes that are known only afterwards."""
        return self._module.call(self._symbol, inputs)

    def bind(self, arrays: Sequence[np.ndarray]) -> functools.partial[None]:
        """The call on these inputs and outputs as a function without arguments."""
        return functools.partial(self, *arrays)


def _read_graph(members: Members, signature: Signature) -> dict[str, object]:
    name = f"{signature.symbol}.json"
    return checked_json_graph(read_json(members[name], name), signature, name)


def _text(graph: Mapping[str, object]) -> str:
    return json.dumps(graph, indent=1)
