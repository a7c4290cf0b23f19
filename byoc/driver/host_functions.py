"""The functions that the host runs itself, generated C or JSON graphs on numpy kernels, and what each has to do.

Each gets a symbol, structurally equal functions the same one. The reason for each fallback is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from byoc.codegen.c.backend import compile_functions as compile_c
from byoc.codegen.c.backend import has_routine, no_code_reason
from byoc.codegen.c.whole.program import no_whole_program
from byoc.ir.expr import GlobalVar
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import Any, TensorType, TupleType, Type, tensor_types
from byoc.partition.costs.analytic import kernel_seconds
from byoc.partition.costs.kernels import one_kernel
from byoc.partition.costs.profile import HOST_DEFAULTS
from byoc.partition.costs.work import size, work_of
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import operator_of
from byoc.relay.traverse import post_order
from byoc.runtime.core.bound_sizes import is_computable
from byoc.runtime.core.function_work import FunctionWork, OperatorWork
from byoc.runtime.graph.graph import Graph
from byoc.runtime.modules.module import Module


@dataclass
class HostFunctions:
    """The functions to compile by symbol, those to interpret, and why.

    ``graph`` calls them, where there is one; ``node_by_node`` says why that cannot be one native function, where some
    are its own: those of control flow and of regions are not. Where they are *returning*, their results are new arrays,
    so that generated code needs inputs that determine the sizes of these; a graph knows all sizes. ``batch`` is the
    first dimension of a batch that the whole graph's function computes item by item, a size's name or a number; empty
    where it does not.
    """

    prefix: str
    returning: bool = False
    compiled: dict[str, Function] = field(default_factory=dict)
    interpreted: dict[str, Function] = field(default_factory=dict)
    fallback_reasons: dict[str, str] = field(default_factory=dict)
    graph: Mapping[str, object] | None = None
    node_by_node: str | None = None
    batch: str = ""
    _shared: dict[int, list[tuple[Function, str]]] = field(default_factory=dict)

    def symbol_of(self, function: Function, name: str) -> str:
        """The symbol of *function*, or of an equal one that is there; *name* is what it computes, for people."""
        from byoc.relay.structure.structural import structural_equal, structural_hash

        if has_routine(function):  # whose checks name its node, and whose C is written once all the same
            return self.new_symbol(function, name)
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
        reason = no_code_reason(typed) or (_undetermined(typed) if self.returning else None)
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
        if self.graph is not None and self.compiled:
            self.node_by_node = no_whole_program(Graph(self.graph))
        elif self.graph is not None and self.interpreted:
            self.node_by_node = "none of the host's functions is generated code"
        found: list[Module] = []
        if self.compiled:
            native = compile_c(self.compiled, options, self.graph)
            self.batch = "" if native.whole is None else native.whole.batch
            found.append(native)
        if not self.interpreted:
            return found
        from byoc.driver.json_functions import compile_json

        return [*found, compile_json(self.interpreted, self.fallback_reasons)]


def _undetermined(function: Function) -> str | None:
    """Why a typed *function* cannot make arrays for its results; None where its inputs determine their sizes."""
    inputs = [t for param in function.params for t in tensor_types(param.checked_type)]
    known = {d.name for t in inputs for d in t.shape if isinstance(d, Any)}
    for result in tensor_types(function.body.checked_type):
        for dim in result.shape:
            if isinstance(dim, Any) and not is_computable(dim.name, known):
                return f"its inputs do not determine the size {dim} of {result!r}"
    return None


# The work of each function of a library, for profiles: operators, ONNX nodes, operations, bytes. The weights by which a
# profile divides a function's time among its operators are those of the analytic cost model on a typical processor.

PICO = 1e12
MOST = 1 << 46  # of a count that is given


def work_of_functions(regions: Mapping[GlobalVar, Function], host: HostFunctions) -> dict[str, FunctionWork]:
    """The work of *regions* and of the functions of the host, by symbol."""
    found = {
        str(function.attrs["global_symbol"]): function_work(function, str(function.attrs["Compiler"]))
        for function in regions.values()
    }
    found |= {symbol: function_work(function, "c") for symbol, function in host.compiled.items()}
    return found | {symbol: function_work(function, "json") for symbol, function in host.interpreted.items()}


def function_work(function: Function, backend: str) -> FunctionWork:
    """The operators of the typed *function*, composites looked through."""
    calls = [n for n in post_order(function) if isinstance(n, Call) and isinstance(n.op, Op)]
    typed = [call for call in calls if all(_is_data(e.checked_type_) for e in (*call.args, call))]
    if not typed:
        return FunctionWork(backend)
    weights = kernel_seconds(one_kernel(typed), HOST_DEFAULTS)
    return FunctionWork(backend, tuple(_operator(c, w) for c, w in zip(typed, weights, strict=True)))


def _is_data(ty: Type | None) -> bool:
    """True for a tensor, or a tuple of data."""
    return isinstance(ty, TensorType) or (isinstance(ty, TupleType) and all(map(_is_data, ty.fields)))


def _operator(call: Call, weight: float) -> OperatorWork:
    results = tensor_types(call.checked_type)
    inputs = [t for arg in call.args for t in tensor_types(arg.checked_type)]
    known = {name for t in inputs for name in _free(t)}
    made = OperatorWork(
        operator_of(call).name,
        tuple(span_names(call.span)),
        inputs[0].dtype if inputs else "float32",
        min(int(weight * PICO), MOST),
    )
    if not all(t.is_symbolic for t in (*inputs, *results)) or any(
        not is_computable(n, known) for t in results for n in _free(t)
    ):
        return made  # sizes that are known only at run time
    constant = [size(t) for t in (*inputs, *results) if t.is_static]
    return replace(
        made,
        operations=min(int(work_of(call).operations), MOST),
        bytes=min(sum(constant), MOST),
        free=_most(_free(t) for t in (*inputs, *results)),
        free_bytes=tuple((min(size(t), MOST), _free(t)) for t in (*inputs, *results) if not t.is_static),
    )


def _free(ty: TensorType) -> tuple[str, ...]:
    """The names of the free dimensions, each as often as it occurs."""
    return tuple(str(d.name) for d in ty.shape if not isinstance(d, int))


def _most(tensors: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The sizes that an operator's points are counted by: each name as often as the tensor has it that has it most
    often, which a product of matrices [S, D] by [D, S] and an element-wise operator have in common."""
    found: Counter[str] = Counter()
    for names in tensors:
        found |= Counter(names)
    return tuple(sorted(found.elements()))
