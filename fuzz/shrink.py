"""Smaller cases from a case: each function proposes some, the reducer keeps those that still fail.

The values of a case are those that the oracle computed, so that any of them can stand as an input of what reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from byoc.testing.core.difference import is_float
from byoc.testing.core.reduction import simple_arrays
from fuzz.case import Case, Feeds
from fuzz.judge.oracle import evaluate, read_names

Shrink = Callable[[Case], Iterator[Case]]


def one_setting(case: Case) -> Iterator[Case]:
    """One set of inputs instead of several; then every size is a number."""
    for feeds in case.feeds if len(case.feeds) > 1 else ():
        yield rebuilt(case, case.model.graph.node, output_names(case.model), [feeds])
    free = any(d.HasField("dim_param") for i in case.model.graph.input for d in i.type.tensor_type.shape.dim)
    if free and len(case.feeds) == 1:
        yield rebuilt(case, case.model.graph.node, output_names(case.model), case.feeds)


def one_output(case: Case) -> Iterator[Case]:
    """One output alone; then any earlier value as the only output."""
    names = output_names(case.model)
    made = [o for node in case.model.graph.node for o in node.output if o]
    for name in (*(names if len(names) > 1 else ()), *made[:-1]):
        if [name] != list(names):
            yield rebuilt(case, case.model.graph.node, [name], case.feeds)


def cut(case: Case) -> Iterator[Case]:
    """A value that a node makes becomes an input, late ones first, and what made it goes."""
    values = [evaluate(case.model, feeds) for feeds in case.feeds]
    nodes = list(case.model.graph.node)
    for index in range(len(nodes) - 2, -1, -1):
        rest = nodes[:index] + nodes[index + 1 :]
        feeds = [
            {**one, **{o: v[o] for o in nodes[index].output if o}} for one, v in zip(case.feeds, values, strict=True)
        ]
        outputs = [n for n in output_names(case.model) if n not in nodes[index].output]
        if outputs:
            yield rebuilt(case, rest, outputs, feeds)


def bypass(case: Case) -> Iterator[Case]:
    """A node goes, and its readers read its first input."""
    nodes = list(case.model.graph.node)
    for index, node in enumerate(nodes):
        if not node.input or not node.input[0] or set(node.output) & set(output_names(case.model)):
            continue
        rest = []
        for other in nodes[:index] + nodes[index + 1 :]:
            changed = NodeProto()
            changed.CopyFrom(other)
            for k, name in enumerate(changed.input):
                if name == node.output[0]:
                    changed.input[k] = node.input[0]
            rest.append(changed)
        yield rebuilt(case, rest, output_names(case.model), case.feeds)


def fewer_attributes(case: Case) -> Iterator[Case]:
    """An attribute less."""
    nodes = list(case.model.graph.node)
    for index, node in enumerate(nodes):
        for k in range(len(node.attribute)):
            if node.attribute[k].HasField("g"):
                continue
            changed = NodeProto()
            changed.CopyFrom(node)
            del changed.attribute[k]
            yield rebuilt(case, [*nodes[:index], changed, *nodes[index + 1 :]], output_names(case.model), case.feeds)


def smaller_sizes(case: Case) -> Iterator[Case]:
    """Every axis of one size cut to a smaller one, in all inputs and constants together; then one axis alone."""
    arrays = {**weights_of(case.model), **case.feeds[0]}
    sizes = sorted({s for v in arrays.values() for s in v.shape if s > 1}, reverse=True)
    if len(case.feeds) > 1:
        return
    for size in sizes:
        for smaller in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < smaller < size:
                yield mapped(
                    case, lambda n, v, a=size, b=smaller: v[tuple(slice(b if s == a else None) for s in v.shape)]
                )
    for name, value in arrays.items():
        for axis, size in enumerate(value.shape):
            for smaller in dict.fromkeys((1, size // 2, size - 1)):
                if 0 < smaller < size:
                    index = (slice(None),) * axis + (slice(smaller),)
                    yield mapped(case, lambda n, v, name=name, at=index: v[at] if n == name else v)


def simpler_numbers(case: Case) -> Iterator[Case]:
    """Each array as zeros, as ones, counting up, or rounded; small ones element by element."""
    arrays = {**weights_of(case.model), **case.feeds[0]}
    for name, value in arrays.items():
        if not is_float(value.dtype) and name not in case.feeds[0]:
            continue  # shapes and axes
        for simple in simple_arrays(value):
            if simple.tobytes() == value.tobytes():
                break  # what follows is less simple than what is there: to offer it would go round in circles
            yield mapped(case, lambda n, v, name=name, to=simple: to if n == name and to.shape == v.shape else v)


SHRINKS: Sequence[Shrink] = (
    one_setting,
    one_output,
    cut,
    bypass,
    smaller_sizes,
    fewer_attributes,
    simpler_numbers,
)


def mapped(case: Case, change: Callable[[str, np.ndarray], np.ndarray]) -> Case:
    """*case* with every input and constant changed by *change* of its name and value."""

    def changed(name: str, value: np.ndarray) -> np.ndarray:
        found = change(name, value)
        return np.ascontiguousarray(found).reshape(found.shape)  # numpy makes a vector of a scalar

    weights = {n: changed(n, v) for n, v in weights_of(case.model).items()}
    feeds = [{n: changed(n, v) for n, v in one.items()} for one in case.feeds]
    return rebuilt(case, case.model.graph.node, output_names(case.model), feeds, weights)


def output_names(model: ModelProto) -> list[str]:
    """The names of a model's outputs."""
    return [o.name for o in model.graph.output]


def weights_of(model: ModelProto) -> Feeds:
    """The constants of a model by name."""
    return {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}


def rebuilt(
    case: Case,
    nodes: Sequence[NodeProto],
    outputs: Sequence[str],
    feeds: Sequence[Feeds],
    weights: Feeds | None = None,
) -> Case:
    """*case* with these nodes and outputs, without what they do not need; free sizes stay while feeds are several."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if any(o in needed for o in node.output):
            kept.append(node)
            needed.update(read_names(node))
    kept.reverse()
    constants = weights_of(case.model) if weights is None else weights
    inputs = [n for n in feeds[0] if n in needed and n not in {o for node in kept for o in node.output}]
    declared = {i.name: i for i in case.model.graph.input}
    infos = []
    for name in inputs:
        shapes = [f[name].shape for f in feeds]
        dims: list[int | str] = list(shapes[0])
        if len(feeds) > 1 and name in declared:
            dims = [d.dim_param or d.dim_value for d in declared[name].type.tensor_type.shape.dim]
        elif len(set(shapes)) > 1:
            dims = ["N" if len({s[k] for s in shapes}) > 1 else shapes[0][k] for k in range(len(shapes[0]))]
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(feeds[0][name].dtype), dims))
    value_types = {o.name: o for o in case.model.graph.output}
    graph = GraphProto(name=case.model.graph.name or "case")
    graph.node.extend(kept)
    for node in graph.node:
        if not node.domain:
            node.ClearField("domain")  # as ONNX's text is read back
    graph.input.extend(infos)
    graph.initializer.extend(plain_tensor(v, n) for n, v in constants.items() if n in needed)
    graph.output.extend(value_types.get(n) or helper.make_empty_tensor_value_info(n) for n in outputs)
    model = helper.make_model(graph, opset_imports=list(case.model.opset_import), ir_version=case.model.ir_version)
    model.functions.extend(case.model.functions)
    small = replace(case, model=model, feeds=[{n: f[n] for n in inputs} for f in feeds], wanted=())
    return replace(small, model=with_output_types(small))


def plain_tensor(value: np.ndarray, name: str) -> object:
    """A tensor that ONNX's text shows with its numbers."""
    if str(value.dtype) in ("bfloat16", "float16") or not value.size:
        return numpy_helper.from_array(value, name)
    return helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape, value.ravel().tolist())


def with_output_types(case: Case) -> ModelProto:
    """The model of *case* whose outputs have the element types that they turn out to have; their shapes stay open."""
    values = evaluate(case.model, case.feeds[0])
    infos = [
        helper.make_tensor_value_info(o.name, helper.np_dtype_to_tensor_dtype(values[o.name].dtype), None)
        for o in case.model.graph.output
    ]
    del case.model.graph.output[:]
    case.model.graph.output.extend(infos)
    return case.model
