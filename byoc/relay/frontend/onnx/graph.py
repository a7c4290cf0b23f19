"""The importer: an ONNX graph, node by node, each behind those that it reads, becomes the function ``main``.

Ensures: every call made for a node carries the node's name as its span, and is typed as soon as it is made, so that
an error names the node; what depends on constants alone is a constant. Value names are looked up, never evaluated.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from byoc.errors import ImportModelError, UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.span import Span
from byoc.ir.types import TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Function, Tuple, Var
from byoc.relay.frontend.onnx.attributes import NodeAttributes
from byoc.relay.frontend.onnx.dtypes import check_declared_dtype, check_type
from byoc.relay.frontend.onnx.folding import ConstantFolder, fold_constants, kept
from byoc.relay.frontend.onnx.functions import FunctionTable, all_nodes, bound_attributes
from byoc.relay.frontend.onnx.inputs import InputDefaults, InputTypes, Shapes
from byoc.relay.frontend.onnx.load import LoadedModel, domain_name
from byoc.relay.frontend.onnx.names import NodeNames
from byoc.relay.frontend.onnx.node import BranchesDifferError, GraphServices, OnnxNode, SingleSlice
from byoc.relay.frontend.onnx.partial_shapes import Dims, PartialShapes
from byoc.relay.frontend.onnx.registry import NCHWC, Converter, find_converter
from byoc.relay.frontend.onnx.schemas import check_element_types, check_node_form
from byoc.relay.frontend.onnx.scope import Body, CapturingScope, NodesToConvert, OnnxScope, as_sequence
from byoc.relay.frontend.onnx.structure import check_structure
from byoc.relay.frontend.onnx.subgraphs import InnerFunctions, InnerGraph, InnerSizes, TakenDecision
from byoc.relay.narrowing import as_var
from byoc.relay.transform.simplify.folding_budget import FoldingBudget
from byoc.relay.traverse import children, post_order

if TYPE_CHECKING:
    from byoc.relay.frontend.onnx.branch_trials import BranchTrials
    from byoc.relay.frontend.onnx.declared_sizes import DeclaredSizes

_FOR_OTHERS = "replace them in the model, or register a converter for them"
_FOR_NCHWC = (
    "ONNX Runtime wrote this model for one machine, with weights in blocks of a size that the file does not say: write "
    "it again with the optimization level ORT_ENABLE_EXTENDED, or take the model that it was made from"
)


class GraphImporter:
    """Converts one model. *freeze_params* makes weights constants; else they are parameters of ``main``.

    Initialisers that the graph lists as inputs are constants too, but for those that *overridable* names.
    """

    def __init__(self, model: LoadedModel, freeze_params: bool = True, overridable: Sequence[str] = ()):
        self._model, self._freeze = model, freeze_params
        self._overridable = frozenset(overridable)
        self._table = FunctionTable.of(model.proto.functions, model.opsets)
        self._names = NodeNames(model.proto.graph)
        self.weights: dict[RelayExpr, np.ndarray] = {}
        self.partial_shapes = PartialShapes()
        self.single_slices: dict[RelayExpr, SingleSlice] = {}
        self._budget = FoldingBudget(model.proto.ByteSize)
        self.folder = ConstantFolder(self._budget)
        self.sizes, self.inner = InnerSizes(), InnerFunctions()
        self.ones: dict[str, bool] = {}
        self._trials: BranchTrials | None = None

    def main(self, shapes: Shapes | None = None) -> Function:
        """The function ``main`` of the model, typed. Raises ImportModelError, which names the node."""
        graph = self._model.proto.graph
        self._refuse_unsupported(graph)
        check_structure(self._model.proto, self._model.name)
        scope = OnnxScope()
        defaults = InputDefaults.of(graph, self._overridable, self._model.name)
        self._initialisers(graph, scope, defaults.overridable)
        real = [v for v in graph.input if v.name not in defaults.all] + defaults.inputs
        params = InputTypes(real, shapes, self._model.name, self.sizes.names).variables()
        for param in params:
            scope[param.name_hint] = param
        body = Body(scope, self._table)
        declared = _Declared(graph, params).named
        outputs = [o.name for o in graph.output]
        self._convert_nodes(NodesToConvert(graph.node, outputs, self._names.main, declared, graph=graph), body)
        found = [as_sequence(self._output(name, scope)) for name in outputs]
        for declared_output, value in zip(graph.output, found, strict=True):
            check_declared_dtype(declared_output, infer_expr(value), self._model.name)
        result = found[0] if len(found) == 1 else Tuple(found)
        used = self._used_weights(result)
        attrs = {
            "input_names": tuple(p.name_hint for p in params),
            "output_names": tuple(o.name for o in graph.output),
            **({"fixed_inputs": defaults.fixed} if defaults.fixed else {}),
        }
        return Function([*params, *used], result, attrs=attrs)

    def _used_weights(self, result: RelayExpr) -> list[Var]:
        if not self.weights:
            return []
        from_result = set(post_order(result))
        used = [as_var(w) for w in self.weights if w in from_result]
        self.weights = {w: self.weights[w] for w in used}
        return used

    def _output(self, name: str, scope: OnnxScope) -> RelayExpr:
        value = scope.find(name)
        if value is None:
            raise ImportModelError(f"{self._model.name}: no node makes the output {name!r}; the model is damaged")
        return value

    def _refuse_unsupported(self, graph: GraphProto) -> None:
        missing: dict[str, list[str]] = {}
        supported: dict[tuple[object, ...], tuple[bool, FunctionTable]] = {}  # holds the table, whose id is in the key
        for position, (node, table) in enumerate(all_nodes(graph, self._table)):
            own = (node.domain, node.op_type, node.overload)
            try:
                "".join((*own, node.name, *node.input, *node.output))
            except TypeError as error:  # protobuf gives bytes for what is not UTF-8
                raise ImportModelError(
                    f"{self._model.name}: node {position} has a name that is not UTF-8 text; the model is damaged"
                ) from error
            kind = (id(table), *own)
            known = supported.get(kind)
            if known is None:
                known = supported[kind] = (table.supports(node), table)
            if not known[0]:
                domain = domain_name(node.domain)
                what = f"{node.op_type} (domain {domain or 'ai.onnx'}, opset {table.opset(domain)})"
                missing.setdefault(what, []).append(node.name or f"{node.op_type}_{position}")
        if missing:
            listed = "; ".join(f"{what} at {_shown(nodes)}" for what, nodes in missing.items())
            advice = _FOR_NCHWC if any(f"(domain {NCHWC}," in what for what in missing) else _FOR_OTHERS
            raise ImportModelError(f"{self._model.name}: operators that are not supported: {listed}; {advice}")

    def _initialisers(self, graph: GraphProto, scope: OnnxScope, but: Container[str] = ()) -> None:
        if graph.sparse_initializer:
            raise ImportModelError(
                f"{self._model.name}: sparse initialisers are not supported; export the model with dense weights"
            )
        for tensor in graph.initializer:
            if tensor.name not in but:
                scope[tensor.name] = self._weight(tensor.name, self._model.array(tensor))

    def _weight(self, name: str, array: np.ndarray) -> RelayExpr:
        value = kept(array)
        if self._freeze or array.dtype.kind != "f" or array.ndim == 0:
            return value
        variable = Var(name, infer_expr(value))
        self.weights[variable] = array
        return variable

    def _convert_nodes(self, rest: NodesToConvert, body: Body) -> None:
        services = _Services(self, body, rest.graph)
        needed = rest.needed() if rest.first == 0 else []
        if any(max(before, default=-1) >= k for k, before in enumerate(needed)):
            from byoc.relay.frontend.onnx.node_order import in_order

            rest = in_order(rest, needed, self._model.name)
        for position in range(rest.first, len(rest.nodes)):
            proto, taken = rest.nodes[position], rest.taken if position == rest.first else ()
            name = rest.names[position] if rest.names else body.origin
            name = name or self._names.inside(proto.name, proto.op_type, position)
            try:
                made = self._convert(proto, name, body, services, taken)
            except BranchesDifferError as error:
                return self._branch_trials().go_on(error, replace(rest, first=position, taken=taken), body)
            for output, value in zip(proto.output, made, strict=False):
                if output and value is not None:
                    body.scope[output] = value if rest.declared is None else rest.declared(output, value)
        return None

    def _branch_trials(self) -> BranchTrials:
        if self._trials is None:
            from byoc.relay.frontend.onnx.branch_trials import BranchTrials

            self._trials = BranchTrials(self.inner, self.sizes, self.ones, self._convert_nodes)
        return self._trials

    def _convert(
        self, proto: NodeProto, name: str, body: Body, services: GraphServices, taken: tuple[TakenDecision, ...] = ()
    ) -> Sequence[RelayExpr | None]:
        """The outputs of a node, by the decisions that are *taken* for it."""
        inputs = [self._input(i, proto, name, body.scope) for i in proto.input]
        attributes = bound_attributes(proto, body.attrs, body.defaults)
        where = f"{self._model.name}: node {name} ({proto.op_type})"
        domain = domain_name(proto.domain)
        opset = body.table.opset(domain)
        node = OnnxNode(name, proto.op_type, opset, inputs, proto.output, NodeAttributes(attributes, where), services)
        node.taken = taken
        is_own = body.table.own(proto) is not None
        convert = None if is_own else find_converter(domain, node.op_type, opset)
        if taken and node.op_type == "If":
            from byoc.relay.frontend.onnx.branch_trials import from_one_branch

            convert = from_one_branch
        try:
            if not is_own:
                check_node_form(node, proto, attributes, domain)
                check_element_types(node, domain)
            made = _outputs(convert, node) if convert is not None else None
            return self._expand(proto, node, attributes, body) if made is None else self._finish(node, made)
        except BranchesDifferError as error:
            raise error.at(node, _located(str(error), self._model.name, "")) from error
        except ImportModelError as error:
            raise ImportModelError(_located(str(error), self._model.name, "")) from error
        except UserError as error:
            raise ImportModelError(_located(str(error), self._model.name, f"node {name} ({proto.op_type})")) from error
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            raise ImportModelError(f"{where} has inputs or attributes that ONNX does not allow: {error}") from error

    def _input(self, value_name: str, proto: NodeProto, name: str, scope: OnnxScope) -> RelayExpr | None:
        if not value_name:
            return None
        value = scope.find(value_name)
        if value is None and not scope.is_absent(value_name):
            raise ImportModelError(
                f"{self._model.name}: node {name} ({proto.op_type}) reads {value_name!r}, which is neither an input, "
                "an initialiser nor the output of a node; the model is damaged"
            )
        return value

    def _finish(self, node: OnnxNode, outputs: list[RelayExpr]) -> list[RelayExpr]:
        """Name, type and fold what a converter made."""
        span = Span.named(node.name)
        _set_spans(outputs, node.inputs, span)
        for value in outputs:
            check_type(infer_expr(value), f"node {node.name} ({node.op_type}): its output")
        folded = fold_constants(outputs, node.inputs, span, self._budget)
        for value in folded:
            if value not in outputs:
                infer_expr(value)
        known_shape = self.partial_shapes.note(node, folded)
        if known_shape is None:
            return folded
        known_shape.span = span
        infer_expr(known_shape)
        return [known_shape]

    def _expand(
        self, proto: NodeProto, node: OnnxNode, attributes: Sequence[AttributeProto], body: Body
    ) -> list[RelayExpr | None]:
        """Import the function that defines *proto* in the place of the call."""
        call = NodeProto()
        call.CopyFrom(proto)
        del call.attribute[:]
        call.attribute.extend(attributes)
        types = [infer_expr(i) if i is not None else None for i in node.inputs]
        if any(t is not None and not isinstance(t, TensorType) for t in types) and body.table.own(proto) is None:
            raise node.error("the operator is not supported for sequences; replace it in the model")
        function = body.table.body(call, [t if isinstance(t, TensorType) else None for t in types])
        if function is None:
            raise node.error("the operator is not supported for these inputs; replace it in the model")
        key = (domain_name(function.domain), function.name)
        if key in body.active:
            raise node.error("the function calls itself, which ONNX does not allow; the model is damaged")
        for kind, given, most in (
            ("inputs", proto.input, len(function.input)),
            ("outputs", proto.output, len(function.output)),
        ):
            if any(given[most:]):
                raise node.error(
                    f"the function has {most} {kind}, and is called with {len(given)}; the model is damaged"
                )
        actual = {formal: node.optional(index) for index, formal in enumerate(function.input)}
        scope = OnnxScope(absent=frozenset(formal for formal, value in actual.items() if value is None))
        for formal, value in actual.items():
            if value is not None:
                scope[formal] = value
        table, defaults, active = body.table.inside(function), body.table.defaults(proto), body.active | {key}
        inner = Body(scope, table, node.name, node.attrs, defaults, active, list(node.taken))
        wanted = function.output[: len(proto.output)]
        self._convert_nodes(NodesToConvert(function.node, wanted), inner)
        return [self._function_output(o, k, inner.scope, node) for k, o in enumerate(wanted)]

    def _function_output(self, name: str, index: int, scope: OnnxScope, node: OnnxNode) -> RelayExpr | None:
        value = scope.find(name)
        if value is None and node.has_output(index):
            raise node.error(f"its function does not make the output {name!r}")
        return value

    def convert_inlined(
        self, graph: GraphProto, body: Body, given: Sequence[RelayExpr], forced: list[TakenDecision] | None = None
    ) -> list[RelayExpr]:
        """The outputs of a sub-graph over *given* in the place of its inputs, in a scope inside *body*'s."""
        scope = OnnxScope(body.scope)
        for value, expr in zip(graph.input, given, strict=True):
            scope[value.name] = expr
        self._initialisers(graph, scope)
        inner = replace(body, scope=scope, forced=forced)
        self._convert_nodes(NodesToConvert(graph.node, [o.name for o in graph.output], graph=graph), inner)
        return [self._output(o.name, scope) for o in graph.output]

    def convert_inner(
        self, graph: GraphProto, body: Body, given: Sequence[RelayExpr], forced: list[TakenDecision] | None = None
    ) -> InnerGraph:
        """A sub-graph over *given*, which take the place of its inputs, apart from the graph around it."""
        scope = CapturingScope(body.scope, self.sizes.named)
        for tensor in graph.initializer:
            scope[tensor.name] = kept(self._model.array(tensor))
        for value, expr in zip(graph.input, given, strict=True):
            scope[value.name] = expr
        inner = replace(body, scope=scope, forced=forced)
        self._convert_nodes(NodesToConvert(graph.node, [o.name for o in graph.output], graph=graph), inner)
        outputs = [self._output(o.name, scope) for o in graph.output]
        return InnerGraph((), scope.captured, [as_sequence(output) for output in outputs])

    def tensor(self, tensor: TensorProto) -> np.ndarray:
        """The data of a tensor of the model."""
        return self._model.array(tensor)


class _Services(GraphServices):
    def __init__(self, importer: GraphImporter, body: Body, graph: GraphProto | None):
        self._importer, self._body, self._graph = importer, body, graph
        self.weights: Mapping[RelayExpr, np.ndarray] = importer.weights
        self.single_slices = importer.single_slices
        self.sizes, self.functions, self.is_inner = importer.sizes, importer.inner, body.scope.is_inner
        self.ones = importer.ones

    def tensor(self, tensor: TensorProto) -> np.ndarray:
        return self._importer.tensor(tensor)

    def declared_rank(self, name: str) -> int | None:
        if self._graph is None:
            return None
        declared = next((v.type for v in (*self._graph.output, *self._graph.value_info) if v.name == name), None)
        known = declared is not None and declared.tensor_type.HasField("shape")
        return len(declared.tensor_type.shape.dim) if declared is not None and known else None

    def dims(self, expr: RelayExpr) -> Dims | None:
        return self._importer.partial_shapes.find(expr)

    def fold(self, expr: RelayExpr) -> RelayExpr:
        return self._importer.folder.fold(expr)

    def subgraph(self, graph: GraphProto, taken: Sequence[TakenDecision] = ()) -> list[RelayExpr]:
        return self._importer.convert_inlined(graph, self._body, (), list(taken))

    def branch(self, graph: GraphProto) -> InnerGraph:
        return self._importer.convert_inner(graph, self._body, (), [])

    def leave_out(self, name: str) -> None:
        self._body.scope.leave_out(name)

    def inlined(self, graph: GraphProto, given: Sequence[RelayExpr]) -> list[RelayExpr]:
        return self._importer.convert_inlined(graph, self._body, given)

    def inner(self, graph: GraphProto, given: Sequence[RelayExpr]) -> InnerGraph:
        return self._importer.convert_inner(graph, self._body, given)


class _Declared:
    """What the main graph declares of sizes inside, which few models need."""

    def __init__(self, graph: GraphProto, params: Sequence[Var]):
        self._graph, self._params = graph, params
        self._sizes: DeclaredSizes | None = None

    def named(self, name: str, value: RelayExpr) -> RelayExpr:
        """*value*, called *name* in the graph, with names for those of its sizes that have none and are declared."""
        ty = infer_expr(value)
        if not isinstance(ty, TensorType) or ty.is_symbolic:
            return value
        if self._sizes is None:
            from byoc.relay.frontend.onnx.declared_sizes import DeclaredSizes

            self._sizes = DeclaredSizes(self._graph.value_info, self._params)
        return self._sizes.named(name, value)


def _outputs(convert: Converter, node: OnnxNode) -> list[RelayExpr] | None:
    result = convert(node)
    return [result] if isinstance(result, RelayExpr) else None if result is None else list(result)


def _located(message: str, model_name: str, node: str) -> str:
    """*message* after the model and, where it is not named already, the node."""
    if message.startswith(f"{model_name}: "):
        return message
    return f"{model_name}: {node}: {message}" if node else f"{model_name}: {message}"


def _shown(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(nodes[:5])}{more}"


def _set_spans(outputs: Sequence[RelayExpr], inputs: Sequence[RelayExpr | None], span: Span) -> None:
    """Give *span* to what a converter made of *inputs*: what has none yet, but for variables."""
    stack = list(outputs)
    while stack:
        expr = stack.pop()
        if expr.span is None and expr not in inputs and not isinstance(expr, Var):
            expr.span = span
            stack += children(expr)
