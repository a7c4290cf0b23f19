"""A function as a graph in JSON, in the layout of Relay's JSON codegen.

``{"symbol", "nodes", "arg_nodes", "heads", "node_row_ptr"}``: parameters first, then constants and calls in post-order.
Tuples and projections make no node: entries are flattened. A call of a composite function is one ``kernel`` node
named after it, its body is not entered (unless the engine has no kernel for it); calls of other inline functions are
entered. Constants are named
``<symbol>_const_<i>`` in the order in which they are met. The schema is ``schema.json`` beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources

from byoc.contract.region_steps import input_forms
from byoc.errors import UnsupportedError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import Type, tensor_types
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.narrowing import tuple_type
from byoc.relay.traverse import children, post_order
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.json.attributes import (
    SEQUENCES_OF_ONE,
    attribute_key,
    encode_attribute,
    encode_shape,
    sequences_of_one,
)
from byoc.runtime.json.table import operator_of, reference_attributes

Entry = tuple[int, int, int]
CompositeAttributes = Callable[[Function], Mapping[str, object]]


def schema() -> dict[str, object]:
    """The JSON schema (draft 2020-12) of a graph."""
    found: dict[str, object] = json.loads(resources.files(__package__).joinpath("schema.json").read_text())
    return found


def no_attributes(composite: Function) -> Mapping[str, object]:
    """A composite passes on nothing of its inside, as in Relay by default."""
    return {}


class JSONSerializer:
    """Serialises one function; a vendor gives *composite_attributes* to pass to its engine what a composite holds.

    The body of a composite for which *has_kernel* is false is entered instead. With *composite_constants* a composite's
    node has the constants in its body (in post-order) after its arguments; Relay leaves them out by default. *arity*
    says how many arrays a composite's kernel takes, None where that varies: a value that the match reads at several
    places is one parameter of the composite, and is listed once for each place where the kernel takes so many. Raises
    UnsupportedError for an expression that has no place in a graph (control flow, closures).
    """

    def __init__(
        self,
        symbol: str,
        composite_attributes: CompositeAttributes = no_attributes,
        has_kernel: Callable[[str], bool] = lambda name: True,
        composite_constants: bool = False,
        arity: Callable[[str], int | None] = lambda name: None,
    ):
        self.symbol = symbol
        self._arity = arity
        self.constants: dict[str, NDArray] = {}
        self._composite_attributes = composite_attributes
        self._has_kernel = has_kernel
        self._composite_constants = composite_constants
        self._nodes: list[dict[str, object]] = []
        self._row_ptr = [0]
        self._entries: dict[RelayExpr, list[Entry]] = {}

    def serialize(self, func: Function) -> dict[str, object]:
        """The graph of *func*, whose types are inferred."""
        for param in func.params:
            self._entries[param] = self._add("input", param.name_hint, param.checked_type, [], {})
        arg_nodes = list(range(len(self._nodes)))
        heads = self._visit_body(func.body)
        arg_nodes += [i for i, node in enumerate(self._nodes) if node["op"] == "const"]
        return {
            "symbol": self.symbol,
            "nodes": self._nodes,
            "arg_nodes": sorted(arg_nodes),
            "heads": [list(h) for h in heads],
            "node_row_ptr": self._row_ptr,
        }

    def _visit_body(self, body: RelayExpr) -> list[Entry]:
        for node in post_order(body, self._children):
            if node not in self._entries:
                self._entries[node] = self._visit(node)
        return self._entries[body]

    def _children(self, expr: RelayExpr) -> Sequence[RelayExpr]:
        if isinstance(expr, Call):
            return expr.args
        return () if isinstance(expr, Function) else children(expr)

    def _visit(self, expr: RelayExpr) -> list[Entry]:
        rule = _RULES.get(type(expr))
        if rule is None:
            kind = type(expr).__name__
            raise UnsupportedError(f"{self.symbol}: a {kind} has no place in a JSON graph; run it on the host")
        return rule(self, expr)

    def _visit_constant(self, constant: Constant) -> list[Entry]:
        name = f"{self.symbol}_const_{len(self.constants)}"
        self.constants[name] = constant.data
        return self._add("const", name, constant.checked_type, [], {})

    def _visit_var(self, var: Var) -> list[Entry]:
        raise UnsupportedError(f"{self.symbol}: %{var.name_hint} is not a parameter of the function")

    def _visit_item(self, item: TupleGetItem) -> list[Entry]:
        fields = tuple_type(item.tuple_value).fields
        before = sum(len(tensor_types(f)) for f in fields[: item.index])
        width = len(tensor_types(fields[item.index]))
        return self._entries[item.tuple_value][before : before + width]

    def _visit_call(self, call: Call) -> list[Entry]:
        inputs = [entry for arg in call.args for entry in self._entries[arg]]
        if isinstance(call.op, Op):
            attrs: dict[str, object] = dict(call.attrs.items()) if call.attrs is not None else {}
            name = call.op.name if self._has_kernel(call.op.name) else call.op.kernel  # what several operators share
            return self._add("kernel", name, call.checked_type, inputs, attrs)
        if not isinstance(call.op, Function):
            raise UnsupportedError(f"{self.symbol}: only operators and inline functions can be called in a JSON graph")
        if "Composite" in call.op.attrs and self._has_kernel(str(call.op.attrs["Composite"])):
            pattern = {key: call.op.attrs[key] for key in ["PartitionedFromPattern"] if key in call.op.attrs}
            attrs = {**pattern, **self._composite_attributes(call.op)}
            name = str(call.op.attrs["Composite"])
            return self._add("kernel", name, call.checked_type, self._composite_inputs(call, name), attrs)
        for param, arg in zip(call.op.params, call.args, strict=True):
            self._entries[param] = self._entries[arg]
        for node in post_order(call.op.body, self._children):
            if not isinstance(node, (Constant, Var)):
                self._entries.pop(node, None)  # of another call of the same function, with other arguments
        return self._visit_body(call.op.body)

    def _composite_inputs(self, call: Call, name: str) -> list[Entry]:
        """The entries of what a composite's kernel is given, in the form that has as many as it takes."""
        forms = []
        for form in input_forms(call):
            values = [v for v in form if self._composite_constants or v in call.args]
            for value in values:
                if value not in self._entries and isinstance(value, Constant):
                    self._entries[value] = self._visit_constant(value)
            forms.append([entry for value in values for entry in self._entries[value]])
        return next((form for form in forms if len(form) == self._arity(name)), forms[0])

    def _add(
        self, op: str, name: str, ty: Type, inputs: Sequence[Entry], attributes: Mapping[str, object]
    ) -> list[Entry]:
        outputs = tensor_types(ty)
        attrs: dict[str, object] = {}
        node: dict[str, object] = {"op": op, "name": name}
        if inputs:
            node["inputs"] = [list(entry) for entry in inputs]
            attrs["num_inputs"], attrs["num_outputs"] = str(len(inputs)), str(len(outputs))
        node["attrs"] = attrs
        attrs["shape"] = [[encode_shape(t.shape) for t in outputs]]
        attrs["dtype"] = [[t.dtype for t in outputs]]
        sequences = sequences_of_one(attributes, reference_attributes(operator_of(name)))
        if sequences is not None:
            attrs[SEQUENCES_OF_ONE] = encode_attribute(sequences)
        attrs.update({attribute_key(key): encode_attribute(value) for key, value in attributes.items()})
        self._nodes.append(node)
        self._row_ptr.append(self._row_ptr[-1] + len(outputs))
        return [(len(self._nodes) - 1, k, 0) for k in range(len(outputs))]


_RULES: dict[type, Callable[..., list[Entry]]] = {
    Constant: JSONSerializer._visit_constant,
    Var: JSONSerializer._visit_var,
    Call: JSONSerializer._visit_call,
    Tuple: lambda s, t: [entry for field in t.fields for entry in s._entries[field]],
    TupleGetItem: JSONSerializer._visit_item,
}
