"""What the importer promises of a module: names, types, spans, parameters, and shapes as static as they can be."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.errors import RegistryError
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import Any, TensorType, TupleType
from byoc.relay.expr import Call, Constant, If
from byoc.relay.frontend.onnx import from_onnx, import_onnx
from byoc.relay.frontend.onnx.named_nodes import named_nodes
from byoc.relay.frontend.onnx.registry import converter, find_converter
from byoc.relay.interpreter import evaluate
from byoc.relay.traverse import post_order

F32 = TensorProto.FLOAT
RNG = np.random.default_rng(3)


def graph_model(nodes, inputs, outputs, weights=None, opset=17, **extra) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, F32, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, F32, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **extra)


def calls(mod) -> list[Call]:
    return [e for e in post_order(mod["main"].body) if isinstance(e, Call)]


def test_the_importer_is_public() -> None:
    assert byoc.import_onnx is import_onnx


def test_parameters_are_the_real_inputs_in_order_under_their_exact_names() -> None:
    weight = np.ones(3, "float32")
    names = ["second; rm -rf /", "a/b:0", "__import__('os')"]
    nodes = [
        helper.make_node("Add", [names[0], names[1]], ["s"]),
        helper.make_node("Mul", ["s", "w"], ["t"]),
        helper.make_node("Sub", ["t", names[2]], ["out 1"]),
    ]
    inputs = {names[0]: [2, 3], "w": [3], names[1]: [2, 3], names[2]: [2, 3]}
    mod = import_onnx(graph_model(nodes, inputs, ["out 1", "s"], {"w": weight}))
    main = mod["main"]
    assert [p.name_hint for p in main.params] == names
    assert main.attrs["input_names"] == tuple(names)
    assert main.attrs["output_names"] == ("out 1", "s")
    assert isinstance(main.body.checked_type, TupleType)
    assert main.checked_type.ret_type == TupleType([TensorType((2, 3)), TensorType((2, 3))])


def test_every_call_has_the_name_of_its_node_and_unnamed_nodes_get_one() -> None:
    nodes = [
        helper.make_node("Gelu", ["x"], ["a"], name="act"),
        helper.make_node("Softplus", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"], name="Softplus_1"),
    ]
    mod = import_onnx(graph_model(nodes, {"x": [2, 3]}, ["y"], opset=20))
    names = [span_names(c.span) for c in calls(mod)]
    assert set(names) == {("act",), ("Softplus_1_1",), ("Softplus_1",)}
    assert names[-1] == ("Softplus_1",)


def test_nodes_that_share_a_name_are_distinguished_by_their_positions() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="n"),
        helper.make_node("Gelu", ["a"], ["b"], name="n_2"),
        helper.make_node("Tanh", ["b"], ["c"], name="n"),
        helper.make_node("Exp", ["c"], ["y"], name="alone"),
    ]
    model = graph_model(nodes, {"x": [2, 3]}, ["y"], opset=20)
    named = [n.name for n in named_nodes(model)]
    assert named == ["n_0", "n_2", "n_2_1", "alone"]
    assert list(dict.fromkeys(n for c in calls(import_onnx(model)) for n in span_names(c.span))) == named


def test_nodes_of_branches_are_never_taken_for_those_of_the_graph() -> None:
    def branch(name: str) -> onnx.GraphProto:
        body = [
            helper.make_node(op_type, ["x"], [f"{name}_{op_type}"], name=given)
            for op_type, given in (("Relu", "n"), ("Tanh", "own"), ("Exp", ""))
        ]
        total = helper.make_node("Sum", [n.output[0] for n in body], [name])
        return helper.make_graph([*body, total], name, [], [helper.make_tensor_value_info(name, F32, [3])])

    nodes = [
        helper.make_node("Greater", ["x", "x"], ["more"]),
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["i"], then_branch=branch("t"), else_branch=branch("e")),
        helper.make_node("Sigmoid", ["i"], ["s"], name="n"),
        helper.make_node("Exp", ["s"], ["y"]),
    ]
    model = graph_model(nodes, {"x": [3]}, ["y"])
    found: dict[str, set[str]] = {}
    mod = import_onnx(model)
    for call in (n for f in mod.functions.values() for n in post_order(f.body) if isinstance(n, Call)):
        for name in span_names(call.span):
            found.setdefault(name, set()).add(call.op.name if isinstance(call.op, Op) else "a function")
    named = {n.name: n.op_type for n in named_nodes(model)}
    assert named["n"] == "Sigmoid" and named["Exp_5"] == "Exp"
    assert found["n"] == {"sigmoid"} and found["n_0"] == {"nn.relu"} and found["own"] == {"tanh"}
    assert found["Exp_5"] == {"exp"}


def test_one_free_dimension_is_one_named_size() -> None:
    mod = import_onnx(graph_model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": ["N", 3], "b": ["N", 3]}, ["y"]))
    assert [p.checked_type.shape for p in mod["main"].params] == [(Any("N"), 3)] * 2
    assert mod["main"].checked_type.ret_type.shape == (Any("N"), 3)


def test_a_dimension_without_a_name_gets_one_of_its_own_and_hostile_names_become_identifiers() -> None:
    inputs = {"a b": [None, 3], "c": ["*/ system(1);", 3], "d": ["__ system(1);", 3]}
    mod = import_onnx(graph_model([helper.make_node("Relu", ["a b"], ["y"])], inputs, ["y"]))
    names = [p.checked_type.shape[0].name for p in mod["main"].params]
    assert all(n.isidentifier() for n in names)
    assert len(set(names)) == 3


def test_shapes_fix_a_free_dimension_wherever_it_occurs() -> None:
    model = graph_model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": ["N", 3], "b": ["N", 3]}, ["y"])
    mod = import_onnx(model, shapes={"a": [4, 3]})
    assert [p.checked_type.shape for p in mod["main"].params] == [(4, 3), (4, 3)]
    named = import_onnx(model, shapes={"a": ["M", 3], "b": ["M", 3]})
    assert named["main"].checked_type.ret_type.shape == (Any("M"), 3)


def test_shape_arithmetic_on_static_shapes_is_gone() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "zeros"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    weights = {"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([-1])}
    mod = import_onnx(graph_model(nodes, {"x": [2, 3, 4]}, ["y"], weights))
    assert [c.op.name for c in calls(mod)] == ["reshape"]
    assert mod["main"].checked_type.ret_type.shape == (2, 12)


def test_a_reshape_to_computed_sizes_keeps_a_free_dimension_and_the_heads() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "zeros"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
        helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 1, 3]),
    ]
    weights = {"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([5, 2, 4])}
    mod = import_onnx(graph_model(nodes, {"x": ["N", 5, 8]}, ["y"], weights))
    assert mod["main"].checked_type.ret_type.shape == (Any("N"), 2, 5, 4)
    x = RNG.standard_normal((3, 5, 8)).astype("float32")
    np.testing.assert_array_equal(evaluate(mod, [x]), x.reshape(3, 5, 2, 4).transpose(0, 2, 1, 3))


def test_what_depends_on_constants_alone_is_a_constant() -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"]),
        helper.make_node("Mul", ["wt", "wt"], ["w2"]),
        helper.make_node("MatMul", ["x", "w2"], ["y"]),
    ]
    weight = RNG.standard_normal((4, 3)).astype("float32")
    mod = import_onnx(graph_model(nodes, {"x": [2, 3]}, ["y"], {"w": weight}))
    assert [c.op.name for c in calls(mod)] == ["nn.dense"]
    x = RNG.standard_normal((2, 3)).astype("float32")
    np.testing.assert_allclose(evaluate(mod, [x]), x @ (weight.T**2), rtol=1e-5)


def test_weights_can_stay_parameters() -> None:
    weight = RNG.standard_normal((4, 3)).astype("float32")
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)]
    model = graph_model(nodes, {"x": [2, 3]}, ["y"], {"w": weight, "b": np.ones(4, "float32"), "unused": weight})
    mod, params = from_onnx(model, freeze_params=False)
    assert [p.name_hint for p in mod["main"].params] == ["x", "w", "b"]
    assert mod["main"].attrs["input_names"] == ("x",)
    x = RNG.standard_normal((2, 3)).astype("float32")
    got = evaluate(mod, {"x": x, **{k: v.numpy() for k, v in params.items()}})
    np.testing.assert_allclose(got, x @ weight.T + 1, rtol=1e-5)
    frozen, nothing = from_onnx(model, shape={"x": (2, 3)})
    assert nothing == {} and len(frozen["main"].params) == 1


def test_a_branch_is_chosen_when_its_condition_is_known_and_kept_when_it_is_not() -> None:
    def branch(op: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info("o", F32, [2])
        return helper.make_graph([helper.make_node(op, ["x"], ["o"], name=f"inside_{op}")], op, [], [out])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("Exp"), else_branch=branch("Neg"))
    x = np.array([0.5, 2], "float32")
    known = import_onnx(graph_model([node], {"x": [2]}, ["y"], {"c": np.array(False)}))
    assert [c.op.name for c in calls(known)] == ["negative"]
    open_model = graph_model([node], {"c": [], "x": [2]}, ["y"])
    open_model.graph.input[0].type.tensor_type.elem_type = TensorProto.BOOL
    mod = import_onnx(open_model)
    choice = mod[mod["main"].body.op]
    assert isinstance(choice.body, If)
    np.testing.assert_allclose(evaluate(mod, [np.array(True), x]), np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(evaluate(mod, [np.array(False), x]), -x)


def test_a_function_of_the_model_is_imported_in_place_and_named_after_its_call() -> None:
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    slope = leaky.attribute.add()
    slope.name, slope.ref_attr_name, slope.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    body = helper.make_function("acme", "act", ["a"], ["b"], [leaky], [helper.make_opsetid("", 17)], ["slope"])
    model = graph_model(
        [helper.make_node("act", ["x"], ["y"], name="call", domain="acme", slope=0.5)],
        {"x": [3]},
        ["y"],
        functions=[body],
    )
    model.opset_import.append(helper.make_opsetid("acme", 1))
    mod = import_onnx(model)
    assert {span_names(c.span) for c in calls(mod)} == {("call",)}
    got = evaluate(mod, [np.array([-2, 0, 4], "float32")])
    np.testing.assert_allclose(got, [-1, 0, 4])


def test_a_free_batch_flows_through_a_small_transformer() -> None:
    """Attention with a free batch and sequence, as exporters write it, against ONNX Runtime at two sizes."""
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "two"], ["lead"]),
        helper.make_node("Concat", ["lead", "heads"], ["t"], axis=0),
        helper.make_node("Reshape", ["q", "t"], ["q4"]),
        helper.make_node("Transpose", ["q4"], ["qh"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["k", "t"], ["k4"]),
        helper.make_node("Transpose", ["k4"], ["kh"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["qh", "kh"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"], axis=-1),
    ]
    weights = {
        "wq": RNG.standard_normal((8, 8)).astype("float32"),
        "wk": RNG.standard_normal((8, 8)).astype("float32"),
        "zero": np.array([0]),
        "two": np.array([2]),
        "heads": np.array([2, 4]),
    }
    model = graph_model(nodes, {"x": ["batch", "seq", 8]}, ["y"], weights)
    mod = import_onnx(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch, seq in ((1, 5), (3, 4)):
        x = RNG.standard_normal((batch, seq, 8)).astype("float32")
        np.testing.assert_allclose(evaluate(mod, [x]), session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-6)


def test_a_long_chain_is_imported_without_recursion() -> None:
    count = 20_000
    nodes = [helper.make_node("Relu", [f"v{k}"], [f"v{k + 1}"]) for k in range(count)]
    mod = import_onnx(graph_model(nodes, {"v0": [2]}, [f"v{count}"]))
    assert len(calls(mod)) == count


def test_converters_are_found_by_the_newest_version_not_after_the_opset() -> None:
    old, new = find_converter("", "Softmax", 12), find_converter("", "Softmax", 13)
    assert old is not new and find_converter("", "Softmax", 25) is new
    assert find_converter("", "GroupNormalization", 17) is None
    with pytest.raises(RegistryError, match="two converters are registered for Softmax since opset 13"):
        converter("Softmax", since=13)(new)


def test_an_initialiser_may_be_an_output() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    mod = import_onnx(graph_model(nodes, {"x": [2]}, ["y", "w"], {"w": np.ones(2, "float32")}))
    assert isinstance(mod["main"].body.fields[1], Constant)
