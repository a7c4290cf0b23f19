"""``byoc lint``: every node that is not supported, what is tied to the host, free sizes, numpy kernels, advice."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.driver.models.advice import RULES

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
MODELS = ROOT.parent / "shared" / "models"


def model(nodes, inputs, outputs, constants=()):
    def typed(values):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in values.items()]

    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", typed(inputs), typed(outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs, [output], f"{operator.lower()}_of_{output}", **attributes)


@pytest.mark.parametrize("name, sizes", [("face_rfb_320", {}), ("mnist", {}), ("style_candy", {"None": 1})])
def test_a_model_from_the_field_compiles_with_its_free_sizes_given(name, sizes, capsys):
    path = MODELS / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    assert main(["lint", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["ok"] and shown["unsupported"] == shown["numpy"] == shown["advice"] == []
    assert {size: len(places) for size, places in shown["free_sizes"].items()} == sizes
    assert shown["places"] == {"host": shown["operators"]}


def test_all_that_is_not_supported_is_named_not_only_the_first():
    nodes = [
        node("Relu", ["x"], "a"),
        node("Blur", ["a"], "b"),  # two of an operator that nobody has, whose results have no type
        node("Exp", ["b"], "unseen"),
        node("Sharpen", ["x"], "c"),
        node("Dropout", ["a", "ratio", "training"], "d"),  # refused by its converter
        node("Tanh", ["d"], "e"),
        node("Squeeze", ["e", "bad_axes"], "f"),  # refused for its attributes, behind a refused one
        node("Neg", ["e"], "g"),
    ]
    outputs = {"unseen": None, "c": None, "f": [3, 4], "g": [3, 4]}
    constants = {"ratio": np.float32(1.5), "training": True, "bad_axes": np.array([0])}
    found = byoc.lint(model(nodes, {"x": [3, 4]}, outputs, constants))
    assert not found.ok
    shown = {u.node: (u.operator, u.domain, u.version) for u in found.unsupported}
    assert shown == {
        "blur_of_b": ("Blur", "ai.onnx", 18),
        "sharpen_of_c": ("Sharpen", "ai.onnx", 18),
        "dropout_of_d": ("Dropout", "ai.onnx", 18),
        "squeeze_of_f": ("Squeeze", "ai.onnx", 18),
    }
    reasons = {u.node: u.reason for u in found.unsupported}
    assert "register a converter" in reasons["blur_of_b"] and "a ratio is in [0, 1)" in reasons["dropout_of_d"]
    assert found.unseen == 1 and found.operators == 2  # Tanh and Neg are left; nobody reads what Relu gives
    assert "nodes behind them were not looked at" in str(found) and "does not compile as it is" in str(found)


def test_the_exit_code_says_that_something_is_not_supported(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    onnx.save_model(model([node("Blur", ["x"], "y")], {"x": [3]}, {"y": [3]}), path)
    assert main(["lint", str(path)]) == 2
    out = capsys.readouterr().out
    assert "Blur (domain ai.onnx, opset 18) at blur_of_y: the operator is not supported" in out
    assert main(["lint", str(tmp_path / "none.onnx")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_what_ties_a_model_to_the_host_is_reported_by_operator_and_node(capsys):
    assert main(["lint", str(DIGITS), "-t", "int8_npu"]) == 0
    out = capsys.readouterr().out
    assert "tied to the host, as int8_npu would have it:" in out
    assert "nn.softmax (node_softmax): int8_npu: " in out and "batch: axis 0 of image" in out


def test_what_runs_on_numpy_kernels_is_reported():
    x = relay.var("x", shape=(3, 5))
    found = byoc.lint(byoc.IRModule.from_expr(relay.Function([x], relay.exp(relay.trilu(x, relay.const(0, "int32"))))))
    library = byoc.compile(
        byoc.IRModule.from_expr(relay.Function([x], relay.exp(relay.trilu(x, relay.const(0, "int32"))))), targets="c"
    )
    assert [kept.reason for kept in found.numpy] == list(library.report["host_fallbacks"].values())
    assert found.numpy
    for kept in found.numpy:
        assert "trilu" in kept.operator and kept.reason in str(found)


def convolved(weights, image=16, groups=1):
    x = relay.var("x", shape=(1, weights[1] * groups, image, image))
    w = relay.const(np.ones(weights, "float32"))
    padding = tuple(k // 2 for k in weights[2:])
    arguments = {"kernel_size": weights[2:], "padding": padding, "groups": groups, "channels": weights[0]}
    return relay.nn.conv2d(x, w, **arguments)


def chain(*steps, shape=(1, 8, 16, 16)):
    value = relay.var("x", shape=shape)
    for step in steps:
        value = step(value)
    return value


def transposed(x):
    return relay.transpose(x, (0, 1, 3, 2))


CASES = {  # for each rule what it is about, and the nearest that is well
    "large_kernel": (lambda: convolved((8, 8, 5, 5)), lambda: convolved((8, 8, 5, 1))),
    "channels": (lambda: convolved((6, 8, 3, 3)), lambda: convolved((8, 3, 3, 3))),
    "depthwise": (lambda: convolved((256, 256, 3, 3)), lambda: convolved((256, 256, 1, 1))),
    "pointwise": (lambda: chain(lambda x: relay.exp(x) * x), lambda: chain(relay.nn.relu, relay.nn.max_pool2d)),
    "reshaping": (lambda: chain(transposed, relay.nn.relu), lambda: chain(relay.nn.relu)),
    "joining": (lambda: chain(lambda x: relay.concatenate([x, relay.nn.relu(x)], 1)), lambda: chain(relay.nn.relu)),
    "global_pooling": (lambda: chain(relay.nn.global_avg_pool2d), lambda: chain(relay.nn.avg_pool2d)),
    "wide_reduction": (
        lambda: chain(lambda x: relay.sum(x, axis=1), shape=(1, 8, 256, 256)),
        lambda: chain(lambda x: relay.sum(x, axis=1), shape=(1, 8, 64, 64)),
    ),
    "small_region": (
        lambda: chain(relay.nn.relu, shape=(1, 4)),
        lambda: convolved((256, 256, 3, 3), image=128),
    ),
}


def codes(value):
    free = [v for v in relay.analysis.free_vars(value)]
    return {shown.code for shown in byoc.lint(byoc.IRModule.from_expr(relay.Function(free, value)), "opencl").advice}


def test_every_rule_has_a_case():
    assert set(CASES) == {*(rule.code for rule in RULES), "small_region"}


@pytest.mark.needs_opencl
@pytest.mark.parametrize("code", CASES)
def test_a_rule_of_advice_is_met_and_not_met(code):
    met, well = CASES[code]
    assert code in codes(met())
    assert code not in codes(well())


def test_without_an_accelerator_there_is_no_advice():
    assert byoc.lint(DIGITS).advice == ()


CONTROLLED = {
    "branches": (
        "g (float[N, 4] x, bool b) => (float[N, 4] y) { y = If (b) <then_branch = t () => (a) { a = Exp (x) }, "
        "else_branch = e () => (c) { c = Neg (x) }> }",
        [],
    ),
    "a sequence": (
        "g (float[N, 4] x) => (float[] y) { s = SplitToSequence <axis = 0> (x) y = ConcatFromSequence <axis = 1> (s) }",
        [],
    ),
    "an optional": (
        "g (optional(float[N]) x, float[M] z) => (bool h, float[M] y) { h = OptionalHasElement (x) y = Exp (z) }",
        [],
    ),
    "numpy in a branch": (
        "g (float[N] x, bool b) => (float[] y) { y = If (b) <then_branch = t () => (a) { a = Unique (x) }, "
        "else_branch = e () => (c) { n = Neg (x) c = Unique (n) }> }",
        ["unique"],
    ),
}


@pytest.mark.parametrize("name", CONTROLLED)
def test_what_compiles_with_control_flow_is_not_said_not_to(name):
    text, numpy = CONTROLLED[name]
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>\n' + text)
    byoc.compile(model)
    found = byoc.lint(model)
    assert found.ok and not found.uncompiled and found.free_sizes
    assert all(any(o in kept.operator for kept in found.numpy) for o in numpy) and bool(numpy) == bool(found.numpy)
