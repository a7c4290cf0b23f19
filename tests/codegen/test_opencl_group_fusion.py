"""Kernels of GPUs that take what stands around them: epilogues past reshapes, sums of parts, tensors without memory."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc

pytestmark = [pytest.mark.needs_opencl, pytest.mark.needs_cc]
GPU = {"opencl": {"schedules": "gpu"}}


def model(nodes, inputs, outputs, weights=()):
    """An ONNX model of *nodes* (kind, inputs, output, attributes)."""
    made = [helper.make_node(kind, ins, [out], **attributes) for kind, ins, out, attributes in nodes]
    infos = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in d.items()] for d in (inputs, outputs)]
    graph = helper.make_graph(made, "g", *infos, [numpy_helper.from_array(a, n) for n, a in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def draw(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def kernels_and_outputs(data, inputs):
    """The schedules of the kernels, and what the model gives, after a look at what C gives."""
    library = byoc.compile(data, targets=["opencl"], backend_options=GPU)
    plans = [plan for m in library.module.walk() if m.type_key == "opencl" for plan in m.plans]
    got, wanted = library.run(inputs), byoc.compile(data, targets=["c"]).run(inputs)
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    return [launch.variants[0].schedule for plan in plans for launch in plan.launches], got


def test_a_product_takes_what_is_elementwise_behind_its_reshape():
    data = model(
        [
            ("Reshape", ["x", "flat"], "rows", {}),
            ("MatMul", ["rows", "w"], "p", {}),
            ("Reshape", ["p", "deep"], "r", {}),
            ("Add", ["r", "x"], "s", {}),
            ("Sigmoid", ["s"], "g", {}),
            ("Mul", ["s", "g"], "y", {}),
        ],
        {"x": [4, 48, 64]},
        {"y": [4, 48, 64]},
        [("w", draw(64, 64)), ("flat", np.array([192, 64])), ("deep", np.array([4, 48, 64]))],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(4, 48, 64)})
    assert len(schedules) == 1 and schedules[0].startswith("product")


def test_of_two_products_that_are_added_one_takes_the_sum():
    data = model(
        [
            ("MatMul", ["x", "v"], "p", {}),
            ("MatMul", ["x", "w"], "q", {}),
            ("Add", ["p", "q"], "s", {}),
            ("Relu", ["s"], "y", {}),
        ],
        {"x": [192, 64]},
        {"y": [192, 64]},
        [("v", draw(64, 64)), ("w", draw(64, 64) + 1)],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(192, 64)})
    assert len(schedules) == 2 and all(s.startswith("product") for s in schedules)


def test_a_stage_that_two_read_is_computed_once():
    data = model(
        [("MatMul", ["x", "w"], "p", {}), ("Relu", ["p"], "y", {}), ("Sigmoid", ["p"], "z", {})],
        {"x": [192, 64]},
        {"y": [192, 64], "z": [192, 64]},
        [("w", draw(64, 64))],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(192, 64)})
    assert sum(s.startswith("product") for s in schedules) == 1


def test_the_parts_of_a_deep_sum_end_in_the_kernel_of_the_norm_behind_them():
    data = model(
        [
            ("MatMul", ["h", "w"], "p", {}),
            ("Add", ["p", "x"], "s", {}),
            ("LayerNormalization", ["s", "scale", "shift"], "n", {"axis": -1}),
            ("Add", ["s", "n"], "y", {}),
        ],
        {"h": [24, 1024], "x": [24, 64]},
        {"y": [24, 64]},
        [("w", draw(1024, 64) / 32), ("scale", draw(64)), ("shift", draw(64) + 1)],
    )
    schedules, _ = kernels_and_outputs(data, {"h": draw(24, 1024), "x": draw(24, 64)})
    assert [s[:4] for s in schedules] == ["prod", "rows"] or [s[:4] for s in schedules] == ["prod", "rows", "item"]


@pytest.mark.parametrize("terms", [64, 1024], ids=["a product", "a product in parts"])
def test_a_norm_rounds_its_result_to_halves_where_products_read_them(terms):
    """No kernel rounds alone, nor is there one for the reshape behind it."""
    data = model(
        [
            ("MatMul", ["h", "v"], "p", {}),
            ("Add", ["p", "x"], "s", {}),
            ("LayerNormalization", ["s", "scale", "shift"], "n", {"axis": -1}),
            ("Reshape", ["n", "flat"], "rows", {}),
            ("MatMul", ["rows", "w"], "y", {}),
        ],
        {"h": [2, 12, terms], "x": [2, 12, 64]},
        {"y": [24, 48]},
        [
            ("v", draw(terms, 64) / 32),
            ("w", draw(64, 48) / 8),
            *(("scale", draw(64)), ("shift", draw(64) + 1), ("flat", np.array([24, 64]))),
        ],
    )
    options = {"opencl": {"schedules": "gpu", "half": "memory"}}
    library = byoc.compile(data, targets=["opencl"], precision="fp16", backend_options=options)
    inputs = {"h": draw(2, 12, terms), "x": draw(2, 12, 64)}
    (got,), (want,) = library.run(inputs), byoc.compile(data, targets=["c"]).run(inputs)
    np.testing.assert_allclose(got, want, rtol=0, atol=5e-3 * np.abs(want).max())
    plans = [plan for m in library.module.walk() if m.type_key == "opencl" for plan in m.plans]
    schedules = [launch.variants[0].schedule[:4] for plan in plans for launch in plan.launches]
    assert schedules == ["item", "prod", "rows", "prod"], "halves of h, the sum, the norm, the product"


@pytest.mark.parametrize("outputs", [["y"], ["y", "z"], ["p", "y"]])
def test_reshaped_results_lie_where_they_were_computed(outputs):
    shapes = {"p": [192, 64], "y": [4, 48, 64], "z": [2, 96, 64]}
    data = model(
        [("MatMul", ["x", "w"], "p", {}), ("Reshape", ["p", "deep"], "y", {}), ("Reshape", ["p", "half"], "z", {})],
        {"x": [192, 64]},
        {n: shapes[n] for n in outputs},
        [("w", draw(64, 64)), ("deep", np.array([4, 48, 64])), ("half", np.array([2, 96, 64]))],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(192, 64)})
    assert len(schedules) == len(outputs)  # the second result of the same elements is a copy


def test_a_result_that_is_an_input_in_another_shape_is_copied():
    data = model(
        [("Reshape", ["x", "deep"], "y", {}), ("Exp", ["y"], "z", {})],
        {"x": [192, 64]},
        {"y": [4, 48, 64], "z": [4, 48, 64]},
        [("deep", np.array([4, 48, 64]))],
    )
    x = draw(192, 64)
    _, (y, _) = kernels_and_outputs(data, {"x": x})
    np.testing.assert_array_equal(y, x.reshape(4, 48, 64))


def test_products_of_the_same_rows_are_one_with_the_weights_of_all():
    """As an attention's queries, keys and values are: one launch for three, whose results it reads where they lie."""
    nodes = []
    for name in "qkv":
        nodes += [
            ("MatMul", ["x", f"w{name}"], f"p{name}", {}),
            ("Add", [f"p{name}", f"b{name}"], f"s{name}", {}),
            ("Reshape", [f"s{name}", "heads"], f"h{name}", {}),
            ("Transpose", [f"h{name}"], name, {"perm": [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]}),
        ]
    nodes += [
        ("MatMul", ["q", "k"], "scores", {}),
        ("Softmax", ["scores"], "powers", {"axis": -1}),
        ("MatMul", ["powers", "v"], "mixed", {}),
        ("Transpose", ["mixed"], "rows", {"perm": [0, 2, 1, 3]}),
        ("Reshape", ["rows", "flat"], "y", {}),
    ]
    weights = [(f"w{n}", draw(64, 64) / 8 + k / 100) for k, n in enumerate("qkv")]
    weights += [(f"b{n}", draw(64) + k) for k, n in enumerate("qkv")]
    weights += [("heads", np.array([1, 40, 4, 16])), ("flat", np.array([1, 40, 64]))]
    data = model(nodes, {"x": [1, 40, 64]}, {"y": [1, 40, 64]}, weights)
    schedules, _ = kernels_and_outputs(data, {"x": draw(1, 40, 64)})
    assert len(schedules) == 2 and schedules[0].startswith("product") and schedules[1] == "attention"


def test_products_of_which_a_result_is_asked_for_stay_apart():
    data = model(
        [
            ("MatMul", ["x", "v"], "p", {}),
            ("MatMul", ["x", "w"], "q", {}),
            ("Sigmoid", ["q"], "g", {}),
            ("Transpose", ["g"], "t", {"perm": [1, 0]}),
        ],
        {"x": [32, 64]},
        {"p": [32, 48], "t": [48, 32]},
        [("v", draw(64, 48)), ("w", draw(64, 48) + 1)],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(32, 64)})
    assert sum(s.startswith("product") for s in schedules) == 2


def test_products_of_other_rows_or_of_other_shapes_stay_apart():
    data = model(
        [
            ("MatMul", ["x", "v"], "p", {}),
            ("MatMul", ["z", "w"], "q", {}),
            ("MatMul", ["x", "u"], "r", {}),
            ("Softmax", ["p"], "a", {"axis": 0}),
            ("Softmax", ["q"], "b", {"axis": 0}),
            ("Softmax", ["r"], "c", {"axis": 0}),
        ],
        {"x": [32, 64], "z": [32, 64]},
        {"a": [32, 48], "b": [32, 48], "c": [32, 40]},
        [("v", draw(64, 48)), ("w", draw(64, 48) + 1), ("u", draw(64, 40))],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(32, 64), "z": draw(32, 64)})
    assert sum(s.startswith("product") for s in schedules) == 3


@pytest.mark.parametrize("perm", [[1, 0], [0, 1]])
def test_a_transposed_operand_is_left_to_the_product_that_reads_it(perm):
    shape = [64, 48] if perm == [1, 0] else [48, 64]
    data = model(
        [
            ("Transpose", ["w"], "t", {"perm": perm}),
            ("MatMul", ["x", "t"], "p", {}),
            ("Transpose", ["z"], "u", {"perm": [1, 0]}),
            ("MatMul", ["p", "u"], "q", {}),
            ("Relu", ["q"], "y", {}),
        ],
        {"x": [40, 48], "w": shape, "z": [56, 64]},
        {"y": [40, 56]},
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(40, 48), "w": draw(*shape), "z": draw(56, 64)})
    assert len(schedules) == 2 and all(s.startswith("product") for s in schedules)


def test_a_transposed_value_that_others_read_too_has_memory():
    data = model(
        [
            ("Sigmoid", ["w"], "s", {}),
            ("Transpose", ["s"], "t", {"perm": [1, 0]}),
            ("MatMul", ["x", "t"], "p", {}),
            ("ReduceSum", ["t", "axes"], "r", {"keepdims": 0}),
            ("Add", ["p", "r"], "y", {}),
        ],
        {"x": [40, 48], "w": [64, 48]},
        {"y": [40, 64], "t": [48, 64]},
        [("axes", np.array([0]))],
    )
    _, got = kernels_and_outputs(data, {"x": draw(40, 48), "w": draw(64, 48)})
    assert len(got) == 2
