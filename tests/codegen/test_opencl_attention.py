"""Attention on GPUs: one kernel, whose work-groups share rows of a head, however exporters write the heads."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc

pytestmark = [pytest.mark.needs_opencl, pytest.mark.needs_cc]
SEQUENCE, HEADS, DEPTH = 48, 3, 16
WIDTH = HEADS * DEPTH


def model(batch):
    """Heads made by Reshape and Transpose, as BERT's, with a mask; ``x: f32[batch, 48, 48]``."""
    rng = np.random.default_rng(3)
    weights, nodes = [], []

    def constant(name, value):
        weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    heads, flat = constant("heads", [batch, SEQUENCE, HEADS, DEPTH]), constant("flat", [batch, SEQUENCE, WIDTH])
    turned = {}
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        w = constant(f"w{name}", rng.standard_normal((WIDTH, WIDTH)).astype("float32") / 4)
        b = constant(f"b{name}", rng.standard_normal(WIDTH).astype("float32"))
        own = node("Add", [node("MatMul", ["x", w], f"p{name}"), b], f"a{name}")
        turned[name] = node("Transpose", [node("Reshape", [own, heads], f"r{name}")], f"t{name}", perm=order)
    scale = constant("scale", np.float32(0.25))
    scores = node("Mul", [node("MatMul", [turned["q"], turned["k"]], "dots"), scale], "scaled")
    shares = node("Softmax", [node("Add", [scores, "mask"], "masked")], "shares", axis=-1)
    mixed = node("Transpose", [node("MatMul", [shares, turned["v"]], "mixed")], "back", perm=[0, 2, 1, 3])
    node("Reshape", [mixed, flat], "y")
    shapes = {"x": [batch, SEQUENCE, WIDTH], "mask": [batch, 1, 1, SEQUENCE], "y": [batch, SEQUENCE, WIDTH]}
    x, mask, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    graph = helper.make_graph(nodes, "attention", [x, mask], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_columns_of_a_head_are_one_groups_work(batch):
    library = byoc.compile(
        model(batch).SerializeToString(), targets=["opencl"], backend_options={"opencl": {"schedules": "gpu"}}
    )
    (module,) = (m for m in library.module.walk() if m.type_key == "opencl")
    (launch,) = (
        v for plan in module.plans for step in plan.launches for v in step.variants if v.schedule == "attention"
    )
    assert launch.extent <= batch * HEADS * -(-SEQUENCE // 16)  # 16 times as many would take a column each
    rng = np.random.default_rng(batch)
    x = rng.standard_normal((batch, SEQUENCE, WIDTH)).astype("float32")
    mask = np.where(rng.random((batch, 1, 1, SEQUENCE)) < 0.2, -1e9, 0).astype("float32")
    (got,) = library.run({"x": x, "mask": mask})
    (wanted,) = byoc.compile(model(batch).SerializeToString(), targets=["c"]).run({"x": x, "mask": mask})
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
