"""One ONNX node, run here and by ONNX Runtime."""

from collections.abc import Sequence

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate


def single_node(
    op: str,
    opset: int,
    inputs: Sequence[np.ndarray | None],
    constants: Sequence[np.ndarray | None] = (),
    outputs: int = 1,
    domain: str = "",
    free: bool = False,
    **attrs: object,
) -> ModelProto:
    """A model of one node, whose inputs x0, x1, ... come before the *constants* c0, c1, ...; None is left out.

    With *free* every dimension of the inputs has a name instead of a size.
    """
    runtime = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    fixed = [f"c{i}" if c is not None else "" for i, c in enumerate(constants)]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, runtime + fixed, made, name="node", domain=domain, **attrs)
    given = [(n, a) for n, a in zip(runtime, inputs, strict=True) if a is not None]
    values = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(a.dtype), [f"{n}_{k}" for k in range(a.ndim)] if free else a.shape
        )
        for n, a in given
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in made]
    for value in results:
        value.ClearField("type")
    weights = [numpy_helper.from_array(c, n) for n, c in zip(fixed, constants, strict=True) if c is not None]
    graph = helper.make_graph([node], "g", values, results, weights)
    opsets = [helper.make_opsetid("", 17 if domain else opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, opset))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def feeds_of(inputs: Sequence[np.ndarray | None]) -> dict[str, np.ndarray]:
    """The inputs by their names."""
    return {f"x{i}": a for i, a in enumerate(inputs) if a is not None}


def ours(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs by the interpreter."""
    got = evaluate(import_onnx(model), feeds)
    return got if isinstance(got, list) else [got]


def assert_like_onnx_runtime(
    model: ModelProto, feeds: dict[str, np.ndarray], rtol: float = 1e-4, atol: float = 1e-5
) -> None:
    """Both have the same outputs, of the same types."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for found, expected in zip(ours(model, feeds), session.run(None, feeds), strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
