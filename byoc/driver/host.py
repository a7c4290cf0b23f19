"""The host's share: main after partitioning, as a graph of calls and the functions that it calls.

Each call of a fused function becomes a symbol of the host's shared library; one for which no code can be generated runs
on numpy kernels through the JSON engine, with the reason kept; a call of a region is a call of its symbol. Constants
are bound into the functions that use them. A reshape that moves nothing shares storage.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.contract.signature import spec_of
from byoc.driver.host_functions import HostFunctions
from byoc.errors import CompileError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import TensorType, Type, tensor_types
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.narrowing import tensor_type, tuple_type
from byoc.relay.traverse import children, post_order, substitute
from byoc.runtime.core.strict_json import list_of
from byoc.runtime.graph.graph import RESHAPE
from byoc.runtime.graph.overlap import start_early

PREFIX = "tvmgen_default_"
CONTROL = "control"  # the module of a function that is no region: the virtual machine runs it
Entry = tuple[int, int, int]


@dataclass
class HostProgram:
    """The graph in the executor's JSON, and the functions that it calls."""

    graph: dict[str, object] = field(default_factory=dict)
    functions: HostFunctions = field(default_factory=lambda: HostFunctions(PREFIX))

    @property
    def outputs(self) -> int:
        """How many the graph has."""
        return len(list_of(self.graph["heads"], "heads"))


def lower_host(
    main: Function, regions: Mapping[GlobalVar, Function], starting: Container[str] = frozenset()
) -> HostProgram:
    """Turn the fused and partitioned *main* into a graph. Raises CompileError for control flow.

    Regions whose symbols are in *starting* work while the host goes on: they are called as early as may be.
    """
    return _HostLowering(regions, starting).lower(main)


def check_inputs(main: Function) -> None:
    """Raises CompileError for an input with a dimension that has neither a size nor a name."""
    for param in main.params:
        if not all(ty.is_symbolic for ty in tensor_types(param.checked_type)):
            raise CompileError(
                f"input {param.name_hint} has a dimension of unknown size, which a graph cannot plan for: give it a "
                "name (relay.Any('n')), or use the virtual machine"
            )


class _HostLowering:
    def __init__(self, regions: Mapping[GlobalVar, Function], starting: Container[str]):
        self._regions, self._starting = regions, starting
        self._program = HostProgram()
        self._nodes: list[dict[str, object]] = []
        self._types: list[tuple[str, TensorType]] = []
        self._row_ptr = [0]
        self._entries: dict[RelayExpr, list[Entry]] = {}
        self._input_names: set[str] = set()

    def lower(self, main: Function) -> HostProgram:
        for param in main.params:
            self._entries[param] = self._add_input(param)
        inputs = list(range(len(self._nodes)))
        for node in self._ordered(post_order(main.body, _dataflow)):
            if node not in self._entries:
                self._entries[node] = self._visit(node)
        self._program.graph = {
            "nodes": self._nodes,
            "arg_nodes": inputs,
            "heads": [list(h) for h in self._entries[main.body]],
            "node_row_ptr": self._row_ptr,
            "attrs": {
                "shape": ["list_shape", [list(spec_of(n, t).shape) for n, t in self._types]],
                "dltype": ["list_str", [t.dtype for _, t in self._types]],
                "device_index": ["list_int", [1] * len(self._types)],
            },
        }
        self._program.functions.graph = self._program.graph
        return self._program

    def _ordered(self, nodes: Iterable[RelayExpr]) -> Sequence[RelayExpr]:
        """*nodes* in the order of their steps; what takes no time is neither waited for nor waits."""
        found = list(nodes)
        if not any(self._starts(node) for node in found):
            return found
        return start_early(found, _dataflow, lambda n: not isinstance(n, (Call, Constant)) or self._starts(n))

    def _starts(self, node: RelayExpr) -> bool:
        region = self._regions.get(node.op) if isinstance(node, Call) and isinstance(node.op, GlobalVar) else None
        return region is not None and str(region.attrs["global_symbol"]) in self._starting

    def _add_input(self, param: Var) -> list[Entry]:
        """The node of a parameter; a tuple is one input for each tensor in it, ``name.0``, ``name.1``, ..."""
        types = tensor_types(param.checked_type)
        whole = isinstance(param.checked_type, TensorType)
        name = self._input_name(param.name_hint)
        names = [name] if whole else [f"{name}.{k}" for k in range(len(types))]
        return [e for name, ty in zip(names, types, strict=True) for e in self._add(name, ty, [], None)]

    def _input_name(self, base: str) -> str:
        """*base*, or with a number behind it where an earlier parameter has that name."""
        name, count = base, 0
        while name in self._input_names:
            count += 1
            name = f"{base}_{count}"
        self._input_names.add(name)
        return name

    def _visit(self, node: RelayExpr) -> list[Entry]:
        rule = _RULES.get(type(node))
        if rule is None:
            where = ", ".join(span_names(node.span)) or "main"
            raise CompileError(
                f"{where}: the graph executor runs no {type(node).__name__}: compile the module with "
                "relay.vm.compile, or remove control flow"
            )
        return rule(self, node)

    def _visit_item(self, item: TupleGetItem) -> list[Entry]:
        fields = tuple_type(item.tuple_value).fields
        before = sum(len(tensor_types(f)) for f in fields[: item.index])
        return self._entries[item.tuple_value][before : before + len(tensor_types(fields[item.index]))]

    def _visit_constant(self, constant: Constant) -> list[Entry]:
        """A constant that a region or an output takes as it is: a function without inputs copies it."""
        return self._call_host(Function([], constant, span=constant.span), [], constant, "constant")

    def _visit_call(self, call: Call) -> list[Entry]:
        if isinstance(call.op, GlobalVar):
            if call.op not in self._regions:
                where = ", ".join(span_names(call.span)) or "main"
                raise CompileError(
                    f"{where}: @{call.op.name_hint} is decided when the model runs, which a graph cannot: compile "
                    "the model with byoc.compile, or make its control flow constant"
                )
            region = self._regions[call.op]
            symbol = str(region.attrs["global_symbol"])
            inputs = [e for arg in call.args for e in self._entries[arg]]
            return self._add(
                symbol, call.checked_type, inputs, symbol, call, str(region.attrs.get("Compiler", CONTROL))
            )
        if not isinstance(call.op, Function):
            raise CompileError(f"{call.op!r} is called in main outside of a fused function: run FuseOps")
        function, args = bind_constants(call.op, call.args)
        inputs = [e for arg in args for e in self._entries[arg]]
        if is_free_reshape(function):
            return self._add(RESHAPE, call.checked_type, inputs, RESHAPE, call, "")
        return self._call_host(function, inputs, call, operators_name(function))

    def _call_host(self, function: Function, inputs: list[Entry], call: RelayExpr, name: str) -> list[Entry]:
        functions = self._program.functions
        symbol = functions.new_symbol(function, name)
        module = "c" if symbol in functions.compiled else "json"
        return self._add(symbol, call.checked_type, inputs, symbol, call, module)

    def _add(
        self,
        name: str,
        ty: Type,
        inputs: Sequence[Entry],
        function: str | None,
        origin: RelayExpr | None = None,
        module: str = "",
    ) -> list[Entry]:
        outputs = tensor_types(ty)
        node: dict[str, object] = {"op": "null" if function is None else "tvm_op", "name": name}
        if function is not None:
            sources = [self._types[self._row_ptr[nid] + k][1] for nid, k, _ in inputs]
            node["attrs"] = {
                "func_name": function,
                "num_inputs": str(len(inputs)),
                "num_outputs": str(len(outputs)),
                "flatten_data": "0",
                "module": module,
                "origin": list(span_names(origin.span)) if origin is not None else [],
                "dynamic": "1" if not all(t.is_symbolic for t in (*sources, *outputs)) else "0",
                **({"starts": "1"} if function in self._starting else {}),
            }
        node["inputs"] = [list(e) for e in inputs]
        self._nodes.append(node)
        self._types.extend((name, t) for t in outputs)
        self._row_ptr.append(self._row_ptr[-1] + len(outputs))
        return [(len(self._nodes) - 1, k, 0) for k in range(len(outputs))]


def _dataflow(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The operands that must exist before *expr* runs: constants go into functions, function bodies are not entered."""
    if isinstance(expr, Call):
        bound = isinstance(expr.op, Function)
        return [a for a in expr.args if not (bound and isinstance(a, Constant))]
    return () if isinstance(expr, (Function, GlobalVar)) else children(expr)


_RULES: dict[type, Callable[..., list[Entry]]] = {
    Constant: _HostLowering._visit_constant,
    Call: _HostLowering._visit_call,
    Tuple: lambda s, t: [e for f in t.fields for e in s._entries[f]],
    TupleGetItem: _HostLowering._visit_item,
}


def bind_constants(function: Function, args: Sequence[RelayExpr]) -> tuple[Function, list[RelayExpr]]:
    """*function* with constant arguments bound into its body, and the arguments that are left."""
    constants: dict[RelayExpr, RelayExpr] = {
        p: a for p, a in zip(function.params, args, strict=True) if isinstance(a, Constant)
    }
    if not constants:
        return function, list(args)
    params = [p for p in function.params if p not in constants]
    body = substitute(function.body, constants)
    kept = [a for a in args if not isinstance(a, Constant)]
    return Function(params, body, None, (), function.attrs, function.span), kept


def is_free_reshape(function: Function) -> bool:
    """True when the function only gives its first parameter another shape (operators with ``TReshapeOp``).

    Both shapes must be known before a run, since storage is shared when the memory is planned.
    """
    node = function.body
    while isinstance(node, Call) and isinstance(node.op, Op) and node.op.get_attr("TReshapeOp"):
        node = node.args[0]
    if not isinstance(node, Var) or node is function.body:
        return False
    return bool(tensor_type(node).is_symbolic and tensor_type(function.body).is_symbolic)


def operators_name(function: Function) -> str:
    """The operators of a fused function joined to a C identifier: ``nn_conv2d_add_nn_relu``."""
    names = [
        node.op.name if isinstance(node.op, Op) else str(node.op.attrs.get("Composite", "function"))
        for node in post_order(function.body)
        if isinstance(node, Call) and isinstance(node.op, (Op, Function))
    ]
    text = "_".join(names) or "copy"
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in text)[:80]
