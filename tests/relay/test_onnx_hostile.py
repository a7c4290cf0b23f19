"""Models that would take all memory or time: refused in one sentence, or read without computing what they blow up."""

import itertools
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from byoc.errors import ImportModelError
from byoc.ir.passes.transform import PassContext
from byoc.relay.expr import Constant
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.transform import FoldConstant
from byoc.relay.traverse import post_order

BIG = 10**12


def weight(name: str, value: object, dtype: str = "int64") -> TensorProto:
    return numpy_helper.from_array(np.array(value, dtype), name)


def model(nodes, weights=(), shape=(3,), output="y", functions=()) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(list(nodes), "g", inputs, [onnx.ValueInfoProto(name=output)], list(weights))
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("own", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    made.functions.extend(functions)
    return made


def constant_bytes(mod) -> int:
    return sum(e.data.numpy().nbytes for e in post_order(mod["main"]) if isinstance(e, Constant))


def summed(name: str) -> list[onnx.NodeProto]:
    return [helper.make_node("ReduceSum", [name], ["s"], keepdims=0), helper.make_node("Add", ["x", "s"], ["y"])]


@pytest.mark.parametrize("negated", [False, True])
def test_constants_that_double_stop_at_a_megabyte(negated: bool) -> None:
    nodes = []
    for k in range(34):
        nodes.append(helper.make_node("Neg", [f"c{k}"], [f"n{k}"]))
        nodes.append(helper.make_node("Concat", [f"c{k}", f"n{k}" if negated else f"c{k}"], [f"c{k + 1}"], axis=0))
    mod = import_onnx(model([*nodes, *summed("c34")], [weight("c0", [1, 2, 3, 4], "float32")]))
    for _ in range(3):
        mod = FoldConstant()(mod)
    assert constant_bytes(mod) < 1 << 24


def test_the_option_replaces_the_total_that_may_be_folded() -> None:
    made = model(
        [helper.make_node("Neg", ["w"], ["n"]), helper.make_node("Add", ["x", "n"], ["y"])],
        [weight("w", np.ones(3000), "float32")],
        shape=(3000,),
    )
    assert not any(getattr(e, "op", None) is not None for e in post_order(import_onnx(made)["main"].body.args[1]))
    with PassContext(config={"relay.FoldConstant.max_bytes": 0}):
        assert not isinstance(import_onnx(made)["main"].body.args[1], Constant)


BOMBS = {
    "Expand": ([helper.make_node("Expand", ["c", "k"], ["b"])], [weight("k", [BIG // 4, 4])]),
    "Tile": ([helper.make_node("Tile", ["c", "k"], ["b"])], [weight("k", [BIG // 4])]),
    "ConstantOfShape": ([helper.make_node("ConstantOfShape", ["k"], ["b"])], [weight("k", [BIG // 4, 4])]),
    "OneHot": (
        [helper.make_node("OneHot", ["i", "k", "v"], ["b"])],
        [weight("i", [1, 2]), weight("k", BIG), weight("v", [0, 1], "float32")],
    ),
    "Pad": ([helper.make_node("Pad", ["c", "k"], ["b"])], [weight("k", [0, BIG])]),
    "squares": (
        [helper.make_node("Mul", [f"k{i}", f"k{i}"], [f"k{i + 1}"]) for i in range(4)]
        + [helper.make_node("Expand", ["c", "k4"], ["b"])],
        [weight("k0", [6])],
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_constant_of_a_terabyte_stays_an_operator_or_is_refused(name: str) -> None:
    nodes, weights = BOMBS[name]
    first = [1.0] if name == "squares" else [1, 2, 3, 4]
    made = model([*nodes, *summed("b")], [weight("c", first, "float32"), *weights])
    assert constant_bytes(import_onnx(made)) < 1 << 20


REFUSED = {
    "a rank of 2,000": (model([helper.make_node("Relu", ["x"], ["y"])], shape=[1] * 2000), "2000 dimensions"),
    "a rank made inside": (
        model([helper.make_node("Reshape", ["x", "k"], ["y"])], [weight("k", [3] + [1] * 99)]),
        "its output has 100 dimensions",
    ),
    "a long range": (
        model([helper.make_node("Range", ["a", "b", "c"], ["y"])], [weight("a", 0), weight("b", BIG), weight("c", 1)]),
        "1000000000000 elements",
    ),
    "an absurd shape": (model([helper.make_node("Relu", ["x"], ["y"])], shape=[2**40, 2**40]), "which is more than"),
    "a resize": (
        model([helper.make_node("Resize", ["x", "", "k"], ["y"], mode="linear")], [weight("k", [1e8], "float32")]),
        "cannot be resized",
    ),
    "two makers": (
        model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])]),
        "makes 'y', which something before it makes too",
    ),
    "two initialisers": (
        model([helper.make_node("Relu", ["x"], ["y"])], [weight("w", 1), weight("w", 2)]),
        "two initialisers are called 'w'",
    ),
    "a circle": (
        model([helper.make_node("Add", ["x", "z"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]),
        r"nodes Add_0 \(Add\), Neg_1 \(Neg\) read each other's outputs in a circle; the model is damaged",
    ),
    "a node of its own output": (
        model([helper.make_node("Add", ["x", "y"], ["y"], name="a")]),
        r"node a \(Add\) reads its own output; the model is damaged",
    ),
    "a negative depth": (
        model(
            [helper.make_node("OneHot", ["i", "k", "v"], ["y"])],
            [weight("i", [1]), weight("k", -1), weight("v", [0, 1], "float32")],
        ),
        "needs a depth",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_machine_can_hold_is_refused_in_one_sentence(case: str) -> None:
    made, text = REFUSED[case]
    with pytest.raises(ImportModelError, match=text):
        import_onnx(made)


def test_a_hidden_size_that_is_not_the_weights_is_refused() -> None:
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        shapes = {"W": (1, gates * 5, 4), "R": (1, gates * 5, 5)}
        weights = [weight(name, np.ones(shape), "float32") for name, shape in shapes.items()]
        made = model([helper.make_node(op, ["x", "W", "R"], ["y"], hidden_size=2**40)], weights, shape=(3, 1, 4))
        with pytest.raises(ImportModelError, match="hidden_size is 1099511627776, the weights R are for 5"):
            import_onnx(made)


def functions(count: int, calls: int) -> list[onnx.FunctionProto]:
    made = []
    for k in range(count):
        body = [helper.make_node("Neg", ["a"], ["b"])]
        if k < count - 1:
            names = ["a", *(f"t{c}" for c in range(calls - 1)), "b"]
            pairs = itertools.pairwise(names)
            body = [helper.make_node(f"f{k + 1}", [a], [b], domain="own") for a, b in pairs]
        opsets = [helper.make_opsetid("", 19), helper.make_opsetid("own", 1)]
        made.append(helper.make_function("own", f"f{k}", ["a"], ["b"], body, opsets))
    return made


@pytest.mark.parametrize("count, calls, text", [(40, 2, "549,755,813,888 nodes"), (1200, 1, "deeper than 64")])
def test_functions_that_call_each_other_without_end_are_refused(count: int, calls: int, text: str) -> None:
    made = model([helper.make_node("f0", ["x"], ["y"], domain="own")], functions=functions(count, calls))
    with pytest.raises(ImportModelError, match=text):
        import_onnx(made)
    few = model([helper.make_node("f0", ["x"], ["y"], domain="own")], functions=functions(5, 2))
    assert import_onnx(few)["main"].ret_type is not None


MOST = 1 << 24  # numbers in a vector that only the run would bring: the rank of the result


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Tile", ["x", "k"]),
        ("Expand", ["x", "k"]),
        ("Reshape", ["x", "k"]),
        ("ConstantOfShape", ["k"]),
        ("Slice", ["x", "k", "k"]),
    ],
)
def test_a_rank_that_no_tensor_has_is_refused_before_its_dimensions_are_made(op: str, inputs: list[str]) -> None:
    made = model([helper.make_node(op, inputs, ["y"])])
    made.graph.input.append(helper.make_tensor_value_info("k", TensorProto.INT64, [MOST]))
    tracemalloc.start()
    with pytest.raises(ImportModelError, match=op):
        import_onnx(made)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST
