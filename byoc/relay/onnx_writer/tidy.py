"""A written model as people expect to see it: what a rule wrote in general terms, in the shorter form where it has one.

Constants that nodes make of constants are made here, a bias that is added behind a convolution is the convolution's,
and outputs have their names without a node for that. Invariant: the model computes the same, inputs and outputs stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, numpy_helper
from onnx.reference import ReferenceEvaluator

TAKES_BIAS = ("Conv", "ConvTranspose")


def tidied(model: ModelProto, kept: Collection[str] = ()) -> ModelProto:
    """A copy of *model* in the shorter form. Nodes that give one of *kept* are not computed, which may be by chance."""
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    _fold(graph, made, kept)
    _drop_inverses(graph)
    _drop_unused(graph)
    _take_biases(graph)
    _name_outputs(graph)
    _drop_unused(graph)
    used = _uses(graph)
    kept = [tensor for tensor in graph.initializer if used[tensor.name]]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return made


def _uses(graph: GraphProto) -> Counter[str]:
    """How often each value is read, by nodes, by graphs inside of them, and as an output of the graph."""
    found = Counter([o.name for o in graph.output])
    for node in graph.node:
        found.update(node.input)
        for inner in _graphs(node):
            found.update(_uses(inner))
    return found


def _graphs(node: NodeProto) -> list[GraphProto]:
    """The graphs inside of *node*."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def _drop_unused(graph: GraphProto) -> None:
    """Drop nodes of which nothing is read, in graphs inside of others first."""
    for node in graph.node:
        for inner in _graphs(node):
            _drop_unused(inner)
    used, kept = _uses(graph), []
    for node in reversed(graph.node):
        if any(used[name] for name in node.output):
            kept.append(node)
        else:
            used.subtract(node.input)
            for inner in _graphs(node):
                used.subtract(_uses(inner))
    _replace_nodes(graph, reversed(kept))


def _rename(graph: GraphProto, named: Mapping[str, str]) -> None:
    """Read values of around *graph* by other names."""
    for node in graph.node:
        node.input[:] = [named.get(name, name) for name in node.input]
        for inner in _graphs(node):
            _rename(inner, named)


def _replace_nodes(graph: GraphProto, nodes: Iterable[NodeProto]) -> None:
    kept = list(nodes)
    del graph.node[:]
    graph.node.extend(kept)


def _fold(graph: GraphProto, model: ModelProto, left: Collection[str]) -> None:
    """Compute nodes of one result whose inputs are constants, by ONNX's reference."""
    known = {tensor.name: tensor for tensor in graph.initializer}
    outputs = {o.name for o in graph.output}
    kept = []
    for node in graph.node:
        given = [known.get(name) for name in node.input if name]
        if (
            not given
            or any(t is None for t in given)
            or _graphs(node)
            or len(node.output) != 1
            or node.output[0] in outputs
            or node.output[0] in left
        ):
            kept.append(node)
            continue
        arrays = {name: numpy_helper.to_array(known[name]) for name in node.input if name}
        opset = {o.domain: o.version for o in model.opset_import}
        found = ReferenceEvaluator(node, opsets=opset).run(None, arrays)
        assert isinstance(found, list)
        value = found[0]
        tensor = numpy_helper.from_array(np.asarray(value, order="C"), node.output[0])
        graph.initializer.append(tensor)
        known[tensor.name] = tensor
    _replace_nodes(graph, kept)


def _drop_inverses(graph: GraphProto) -> None:
    """Read what a ``Squeeze`` took the axes of in the place of an ``Unsqueeze`` behind it that adds them again."""
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    makers = {name: node for node in graph.node if node.op_type == "Squeeze" for name in node.output}
    for node in graph.node:
        before = makers.get(node.input[0]) if node.op_type == "Unsqueeze" else None
        if before is not None and len(before.input) == 2 and {before.input[1], node.input[1]} <= set(known):
            first, second = known[before.input[1]], known[node.input[1]]
            if (first >= 0).all() and np.array_equal(np.sort(first), np.sort(second)):
                node.op_type = "Identity"
                node.input[:] = [before.input[0]]


def _take_biases(graph: GraphProto) -> None:
    """``Conv`` and an ``Add`` of a constant for each channel as ``Conv`` with a bias."""
    known = {tensor.name: tensor for tensor in graph.initializer}
    uses, makers = _uses(graph), {name: node for node in graph.node for name in node.output}
    taken = set()
    for node in graph.node:
        pair = _bias_of(node, makers) if node.op_type == "Add" else None
        if pair is None:
            continue
        product, bias = pair
        weight = known.get(product.input[1])
        if weight is None or bias not in known or uses[product.output[0]] != 1:
            continue
        flat = _channels(numpy_helper.to_array(known[bias]), len(weight.dims), _outputs_of(product, weight.dims))
        if flat is None:
            continue
        name = f"{product.output[0]}.bias"
        graph.initializer.append(numpy_helper.from_array(flat, name))
        product.input.append(name)
        product.output[0] = node.output[0]
        taken.add(node.output[0])
    _replace_nodes(graph, [n for n in graph.node if n.op_type != "Add" or n.output[0] not in taken])


def _bias_of(node: NodeProto, makers: dict[str, NodeProto]) -> tuple[NodeProto, str] | None:
    """The product without a bias that *node* adds something to, and what."""
    for first, second in (tuple(node.input), tuple(reversed(node.input))):
        maker = makers.get(first)
        if maker is not None and maker.op_type in TAKES_BIAS and len(maker.input) == 2:
            return maker, second
    return None


def _outputs_of(product: NodeProto, weight: Iterable[int]) -> int:
    first, second, *_ = weight
    groups = next((a.i for a in product.attribute if a.name == "group"), 1)
    return first if product.op_type == "Conv" else second * groups


def _channels(array: np.ndarray, rank: int, channels: int) -> np.ndarray | None:
    """*array* as a number for each of *channels*, where it is that when added to a value of *rank* axes."""
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if shape != (1, channels, *[1] * (rank - 2)):
        return None
    return array.reshape(channels)


def _name_outputs(graph: GraphProto) -> None:
    """Drop each ``Identity`` that only names an output, where a node makes its value and nothing else names it."""
    made = {name for node in graph.node if node.op_type != "Identity" for name in node.output}
    outputs = {o.name for o in graph.output}
    named: dict[str, str] = {}
    for node in graph.node:
        if node.op_type == "Identity" and node.output[0] in outputs and node.input[0] in made:
            named.setdefault(node.input[0], node.output[0])
    kept = []
    for node in graph.node:
        if node.op_type == "Identity" and named.get(node.input[0]) == node.output[0]:
            continue
        node.input[:] = [named.get(name, name) for name in node.input]
        node.output[:] = [named.get(name, name) for name in node.output]
        for inner in _graphs(node):
            _rename(inner, named)
        kept.append(node)
    _replace_nodes(graph, kept)


__all__ = ["tidied"]
