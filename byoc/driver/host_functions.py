"""The functions that the host runs itself: generated C where that is possible, JSON graphs on numpy kernels elsewhere.

Each gets a symbol, structurally equal functions the same one. The reason for each fallback is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from byoc.codegen.c.backend import compile_functions as compile_c
from byoc.codegen.c.whole.program import no_whole_program
from byoc.codegen.kernel.lower import unsupported_reason
from byoc.ir.types import Any, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function
from byoc.runtime.core.bound_sizes import is_computable
from byoc.runtime.graph.graph import Graph
from byoc.runtime.modules.module import Module


@dataclass
class HostFunctions:
    """The functions to compile by symbol, those to interpret, and why.

    ``graph`` calls them, where there is one; ``node_by_node`` says why that cannot be one native function. Where they
    are *returning*, their results are new arrays, so that generated code needs inputs that tell the sizes of these; a
    graph knows all sizes.
    """

    prefix: str
    returning: bool = False
    compiled: dict[str, Function] = field(default_factory=dict)
    interpreted: dict[str, Function] = field(default_factory=dict)
    fallback_reasons: dict[str, str] = field(default_factory=dict)
    graph: Mapping[str, object] | None = None
    node_by_node: str | None = None
    _shared: dict[int, list[tuple[Function, str]]] = field(default_factory=dict)

    def symbol_of(self, function: Function, name: str) -> str:
        """The symbol of *function*, or of an equal one that is there; *name* is what it computes, for people."""
        from byoc.relay.structure.structural import structural_equal, structural_hash

        key = structural_hash(function)
        for known, symbol in self._shared.get(key, ()):
            if structural_equal(known, function):
                return symbol
        symbol = self.new_symbol(function, name)
        self._shared.setdefault(key, []).append((function, symbol))
        return symbol

    def new_symbol(self, function: Function, name: str) -> str:
        """A symbol of its own for *function*; *name* is what it computes, for people."""
        symbol = self._unique(f"{self.prefix}fused_{name}")
        typed = infer_function(function).with_attr("global_symbol", symbol)
        reason = unsupported_reason(typed) or (_untold(typed) if self.returning else None)
        if reason is None:
            self.compiled[symbol] = typed
        else:
            self.interpreted[symbol] = typed
            self.fallback_reasons[symbol] = reason
        return symbol

    def _unique(self, base: str) -> str:
        name, count = base, 0
        while name in self.compiled or name in self.interpreted:
            count += 1
            name = f"{base}_{count}"
        return name

    def modules(self, options: Mapping[str, object]) -> list[Module]:
        """The modules that have the symbols. Raises CompilerNotFoundError without a C compiler."""
        if self.graph is not None:
            none = "none of the host's functions is generated code"
            self.node_by_node = no_whole_program(Graph(self.graph)) if self.compiled else none
        found: list[Module] = [compile_c(self.compiled, options, self.graph)] if self.compiled else []
        if not self.interpreted:
            return found
        from byoc.driver.json_functions import compile_json

        return [*found, compile_json(self.interpreted, self.fallback_reasons)]


def _untold(function: Function) -> str | None:
    """Why a typed *function* cannot make arrays for its results; None where its inputs tell their sizes."""
    inputs = [t for param in function.params for t in tensor_types(param.checked_type)]
    known = {d.name for t in inputs for d in t.shape if isinstance(d, Any)}
    for result in tensor_types(function.body.checked_type):
        for dim in result.shape:
            if isinstance(dim, Any) and not is_computable(dim.name, known):
                return f"its inputs do not tell the size {dim} of {result!r}"
    return None
