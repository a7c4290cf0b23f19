"""What a model should compute: each node by ONNX Runtime without optimisations, else by ONNX's reference.

ONNX Runtime has no kernel for many element types (int16 sums, bfloat16 nearly everywhere); those nodes are computed by
``onnx.reference``, which is numpy. Values that ONNX leaves undefined are recognised by ``undefined.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi import onnxruntime_pybind11_state as ort

from byoc.testing.core.difference import is_float
from fuzz.case import Feeds
from fuzz.judge.onnx_runtime import session, unsigned_product
from fuzz.judge.reference_errors import reference_error
from fuzz.judge.runtime_errors import runtime_error, with_counted_axes
from fuzz.judge.undefined import undefined

ORT_ERRORS = (
    ort.Fail,
    ort.InvalidArgument,
    ort.InvalidGraph,
    ort.NotImplemented,
    ort.RuntimeException,
    ort.NoSuchFile,
    ort.EPFail,
    ort.ModelLoaded,
    ort.NoModel,
    ort.InvalidProtobuf,
)
NO_RUNTIME = ("bfloat16",)  # Python has no way to hand these to ONNX Runtime
IR_VERSION = 9


class NotApplicable(Exception):
    """A node that no oracle can compute, or whose value ONNX leaves undefined: the text says which."""


def one_node_model(node: NodeProto, opset: int, feeds: Mapping[str, np.ndarray]) -> ModelProto:
    """A model of *node* alone, whose inputs are *feeds*."""
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), None) for n, v in feeds.items()],
        [helper.make_empty_tensor_value_info(n) for n in node.output if n],
    )
    domains = {node.domain, ""}
    opsets = [helper.make_opsetid(d, opset if d == "" else 1) for d in sorted(domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def run_node(node: NodeProto, opset: int, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What *node* computes of *values*. Raises NotApplicable when it is undefined, or nobody can compute it."""
    feeds = {n: values[n] for n in read_names(node) if n in values}
    reason = undefined(node, feeds)
    if reason:
        raise NotApplicable(reason)
    exact = unsigned_product(*with_counted_axes(node, feeds))
    model = one_node_model(exact.node, opset, exact.feeds)
    if not any(str(v.dtype) in NO_RUNTIME for v in feeds.values()):
        try:
            found = exact.outputs(session(model, optimised=False).run(None, exact.feeds))
            reason = runtime_error(node, feeds, found)
            if not reason:
                return found
            raise NotApplicable(f"ONNX Runtime {reason}")
        except ort.NotImplemented:
            pass
        except ORT_ERRORS as error:
            raise NotApplicable(f"{node.op_type}: {error}") from error
        except RuntimeError as error:  # a type that Python's binding does not know
            if "numpy" not in str(error).lower() and "type" not in str(error).lower():
                raise NotApplicable(f"{node.op_type}: {error}") from error
    reason = reference_error(node, feeds)
    if reason:
        raise NotApplicable(f"ONNX's reference {reason}")
    return exact.outputs(run_reference(model, exact.feeds))


def run_reference(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """ONNX's reference on a whole model. Raises NotApplicable for whatever it cannot do."""
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception as error:  # it is numpy code of several hundred authors: any class is possible
        raise NotApplicable(f"ONNX's reference: {type(error).__name__}: {error}") from error
    if not all(isinstance(v, (np.ndarray, np.generic)) for v in found):
        raise NotApplicable("ONNX's reference gives no array")
    return [np.asarray(v) for v in found]


def read_names(node: NodeProto) -> list[str]:
    """Every value that *node* reads, those of its subgraphs from outside included, once each."""
    names = dict.fromkeys(n for n in node.input if n)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graph = attribute.g
            own = {i.name for i in graph.input} | {w.name for w in graph.initializer}
            own |= {o for n in graph.node for o in n.output}
            outer = [n for inner in graph.node for n in read_names(inner)] + [o.name for o in graph.output]
            names |= dict.fromkeys(n for n in outer if n not in own)
    return list(names)


def evaluate(model: ModelProto, feeds: Feeds, noise: Noise | None = None) -> Feeds:
    """Every value of *model* for *feeds*, node by node. Raises NotApplicable where a node cannot be computed."""
    values = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer} | dict(feeds)
    opset = opset_of(model)
    for node in model.graph.node:
        found = run_node(node, opset, noise(node, values) if noise else values)
        values.update(zip([n for n in node.output if n], found, strict=True))
    return values


def opset_of(model: ModelProto) -> int:
    """The version of ONNX's own operators that *model* names."""
    return next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))


def wanted(model: ModelProto, feeds: Sequence[Feeds]) -> list[list[np.ndarray]]:
    """The outputs for each of *feeds*. Raises NotApplicable."""
    found = [evaluate(model, one) for one in feeds]
    return [[values[o.name] for o in model.graph.output] for values in found]


class Noise:
    """Relative errors of size *size* in whatever floating-point values a node that computes is given.

    Called with a node and the values so far, it gives those values disturbed; nodes that only move data are given
    theirs as they are.
    """

    def __init__(self, size: float, exact: frozenset[str], seed: int | np.random.Generator = 0):
        self.size, self.exact = size, exact
        self.numbers = np.random.default_rng(seed)

    def __call__(self, node: NodeProto, values: Feeds) -> Feeds:
        names = read_names(node)
        if node.op_type == "Resize" and interpolates(node):
            names = names[:1]  # its scales and sizes must stay as they are
        elif node.op_type in self.exact:
            return values
        changed = {n: values[n] for n in names if n in values and is_float(values[n].dtype)}
        for name, value in changed.items():
            changed[name] = disturbed(value, self.size, self.numbers)
        return {**values, **changed}


def interpolates(node: NodeProto) -> bool:
    """Whether a Resize computes new numbers."""
    return any(a.name == "mode" and a.s != b"nearest" for a in node.attribute)


def disturbed(value: np.ndarray, size: float, numbers: np.random.Generator) -> np.ndarray:
    """*value* with a relative error of up to *size*, at least the rounding of its type, in each element."""
    least = {"float16": 1e-3, "bfloat16": 8e-3}.get(str(value.dtype), 0.0)
    noise = 1 + max(size, least) * numbers.uniform(-1, 1, value.shape)
    with np.errstate(all="ignore"):
        return np.asarray(value.astype("float64") * noise).astype(value.dtype)
