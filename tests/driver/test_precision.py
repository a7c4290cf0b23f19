"""Precision by choice: what ``precision="bf16"`` changes, what it leaves, and what the plan says about it."""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest

import byoc
from byoc import relay
from byoc.annex import testing
from byoc.cli.main import main
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.driver.narrow_products import NarrowProducts
from byoc.driver.precision import PrecisionOutcome, ProductPrecision, with_precision
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.partition.plan.plan import Plan
from byoc.partition.plan.planner import make_plan
from byoc.relay.bind import module_with_params
from byoc.relay.expr import Constant, Function
from byoc.relay.transform import InferType
from byoc.runtime import load

pytestmark = pytest.mark.needs_cc


@pytest.fixture
def bf16():
    """Skips where the processor would gain nothing."""
    if "dot_bf16" not in find_compiler().machine.dots:
        pytest.skip("the compiler's target has no instruction for products of bfloat16")


def _const(*shape: int) -> relay.Constant:
    return relay.const(np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32") / 8)


def _module() -> IRModule:
    """A convolution, a depthwise one, and a product, with a value that two kinds of reader take."""
    x = relay.var("x", shape=(1, 16, 12, 12))
    first = relay.nn.relu(relay.nn.conv2d(x, _const(32, 16, 3, 3), padding=(1, 1), kernel_size=(3, 3), channels=32))
    second = relay.nn.conv2d(first, _const(32, 32, 1, 1), kernel_size=(1, 1), channels=32)
    third = relay.add(first, second)
    depth = relay.nn.conv2d(third, _const(32, 1, 3, 3), kernel_size=(3, 3), channels=32, groups=32)
    flat = relay.nn.batch_flatten(depth)
    return IRModule.from_expr(Function([x], relay.nn.dense(flat, _const(10, 3200))))


def _places(library) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for d in Plan.from_json(library.report["plan"]).decisions:
        if d.precision:
            found.setdefault(d.operator, []).append(d.place)
    return found


def test_products_run_in_bfloat16_and_the_plan_says_which_do_not_and_why(bf16):
    library = byoc.compile(_module(), precision="bf16")
    assert _places(library) == {
        "nn.conv2d": [
            "place c/bf16",
            "place c/bf16",
            "place c/f32: its sum runs over no axis whose numbers could be taken two at a time",
        ],
        "nn.dense": ["place c/bf16"],
    }
    text = str(Plan.from_json(library.report["plan"]))
    assert "place c/bf16" in text and "place c/f32: its sum" in text


def test_the_result_is_that_of_float32_within_the_rounding_of_bfloat16(bf16):
    x = np.random.default_rng(3).standard_normal((1, 16, 12, 12)).astype("float32")
    full, half = (byoc.compile(_module(), precision=p)(x) for p in ("f32", "bf16"))
    assert full.dtype == half.dtype == np.float32
    assert 0 < np.abs(full - half).max() < 3e-2 * np.abs(full).max()


def test_float32_is_what_nobody_asked_to_change(bf16):
    library = byoc.compile(_module())
    assert _places(library) == {}
    assert "bfloat16" not in json.dumps(library.graph_json) and "b16" not in _source(library)


def _source(library) -> str:
    return "".join(m.get_source() for m in library.module.imports)


@pytest.mark.parametrize("kept", ["nn.conv2d", "nn.dense"])
def test_what_the_user_keeps_stays_in_float32(bf16, kept):
    places = _places(byoc.compile(_module(), precision="bf16", keep_f32=[kept]))
    assert set(places.pop(kept)) == {"place c/f32: the user keeps it in f32"}
    assert all("place c/bf16" in found for found in places.values())


def test_a_name_that_the_model_lacks_is_an_error_that_offers_the_nearest():
    with pytest.raises(UserError, match=r"keep_f32: no operator or ONNX node .* 'nn.conv2'; the nearest: nn.conv2d"):
        byoc.compile(_module(), precision="bf16", keep_f32=["nn.conv2"])


def test_a_precision_that_is_none_is_an_error():
    with pytest.raises(UserError, match="precision is one of f32, bf16.*, got 'f16'"):
        byoc.compile(_module(), precision="f16")


def test_keep_f32_is_a_list():
    with pytest.raises(UserError, match=r"write keep_f32=\['nn.dense'\]"):
        ProductPrecision.of("bf16", "nn.dense")


def test_a_processor_without_the_instruction_computes_in_float32(monkeypatch):
    monkeypatch.setattr("byoc.driver.narrow_products.DOT", "dot_of_another_processor")
    places = _places(byoc.compile(_module(), precision="bf16"))
    assert {p for found in places.values() for p in found} == {
        "place c/f32: this processor has no instruction for products of bfloat16"
    }


def test_a_value_that_products_and_elementwise_operators_read_is_stored_once(bf16):
    library = byoc.compile(_module(), precision="bf16")
    shapes, dtypes = (library.graph_json["attrs"][key][1] for key in ("shape", "dltype"))
    stored = [d for s, d in zip(shapes, dtypes, strict=True) if s == [1, 12, 12, 32]]
    assert stored.count("bfloat16") == 1


@pytest.mark.parametrize(
    ("reader", "stored"),
    [
        (lambda x: relay.greater(x, relay.const(300.0)), "float32"),
        (lambda x: relay.cast(x, "int32"), "float32"),
        (lambda x: relay.ceil(x), "float32"),
        (lambda x: relay.mod(x, relay.const(0.7)), "float32"),
        (lambda x: relay.multiply(x, relay.const(3.0)), "bfloat16"),
        (lambda x: relay.divide(relay.const(3.0), x), "bfloat16"),
    ],
    ids=["compared", "cast to integers", "made whole", "what a quotient leaves", "multiplied", "a divisor"],
)
def test_a_value_is_stored_in_bfloat16_only_where_its_readers_make_floats(reader, stored):
    x = relay.var("x", shape=(4, 32))
    value = relay.floor(x)
    body = relay.Tuple([relay.nn.dense(value, _const(16, 32)), reader(value)])
    mod = InferType()(IRModule.from_expr(Function([x], body)))
    narrow = NarrowProducts(ProductPrecision.of("bf16", ()), machine=Machine(64, 24, 32, frozenset(["dot_bf16"])))
    (rewrite,) = narrow.passes()
    product, read = InferType()(rewrite(mod))["main"].body.fields
    assert [o.precision for o in narrow.outcomes] == ["bf16"]
    assert product.args[0].checked_type.dtype == "bfloat16"
    source = next(a for a in read.args if not isinstance(a, Constant))
    assert (source.op.name, source.checked_type.dtype) == (("cast" if stored == "bfloat16" else "floor"), "float32")


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_products_that_a_target_is_given_in_float32_are_told(precision, tmp_path, capsys, small_onnx):
    """bf16 and int8 are for the host: what is left of it takes them, and the report says what did not."""
    count = sum(node.op_type in ("Conv", "Gemm", "MatMul") for node in onnx.load(small_onnx).graph.node)
    found = byoc.compile(small_onnx, ["json", "c"], precision=precision).report["float32_products"]
    said = f"{precision}: {count} products are given to json in f32: {precision} is for the host's products"
    assert count and found["targets"] == {"json": count} and found["text"].startswith(said)
    output = str(tmp_path / "m.byoc")
    assert main(["compile", str(small_onnx), "-t", "json", "--precision", precision, "-o", output]) == 0
    assert said in capsys.readouterr().out
    assert "float32_products" not in byoc.compile(small_onnx, ["json", "c"]).report
    assert "float32_products" not in byoc.compile(small_onnx, ["c"], precision=precision).report


def test_operators_on_sequences_are_no_products():
    text = """<ir_version: 9, opset_import: ["" : 17]> g (seq(float[4, 32]) q, int64 k, float[32, 16] w)
        => (float[4, 16] y) { x = SequenceAt(q, k) y = MatMul(x, w) }"""
    mod = byoc.import_onnx(onnx.parser.parse_model(text))
    narrow = NarrowProducts(ProductPrecision.of("bf16", ()), machine=Machine(64, 24, 32, frozenset(["dot_bf16"])))
    (rewrite,) = narrow.passes()
    rewrite(InferType()(mod))
    assert [o.precision for o in narrow.outcomes] == ["bf16"]


def test_a_plan_with_precisions_survives_json():
    plan = make_plan(_module(), [])
    nodes = next(d for d in plan.decisions if d.operator == "nn.dense").nodes
    chosen = with_precision(plan, [PrecisionOutcome("nn.dense", nodes, "f32", "because")])
    back = Plan.from_json(json.dumps(chosen.to_json()))
    assert back == chosen and [d.place for d in back.decisions if d.precision] == ["place c/f32: because"]


def test_an_artefact_keeps_its_precision(bf16, tmp_path):
    library = byoc.compile(_module(), precision="bf16")
    library.save(tmp_path / "model.byoc")
    x = np.ones((1, 16, 12, 12), "float32")
    again = load(tmp_path / "model.byoc")
    np.testing.assert_array_equal(again(x), library(x))
    assert _places(again) == _places(library)


@pytest.mark.parametrize("network", [pytest.param("resnet", marks=pytest.mark.slow), "mobilenet"])
def test_a_network_answers_as_in_float32(bf16, network):
    make = getattr(testing, network).get_workload
    mod, params = make(batch_size=1, num_classes=10, image_shape=(3, 32, 32))
    mod = module_with_params(mod, params)
    full, half = (byoc.compile(mod, precision=p) for p in ("f32", "bf16"))
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((1, 3, 32, 32)).astype("float32")
        want, got = full(x), half(x)
        assert np.abs(want - got).max() < 3e-2 * np.abs(want).max()
        assert want.argmax() == got.argmax()


def test_the_command_line_takes_the_precision(bf16, tmp_path, capsys, small_onnx):
    output = tmp_path / "model.byoc"
    assert main(["compile", str(small_onnx), "-o", str(output), "--precision", "bf16"]) == 0
    assert "place c/bf16" in capsys.readouterr().out
    assert main(["compile", str(small_onnx), "-o", str(output), "--precision", "bf16", "--keep-f32", "product"]) == 0
    assert "place c/f32: the user keeps it in f32" in capsys.readouterr().out


@pytest.fixture
def quantized_onnx(tmp_path):
    """A dense layer between QuantizeLinear and DequantizeLinear, and one without."""
    onnx = pytest.importorskip("onnx")
    helper, rng = onnx.helper, np.random.default_rng(0)
    numbers = {
        "s": np.float32(0.02),
        "z": np.uint8(117),
        "t": np.float32(0.004),
        "w": rng.integers(-127, 128, (20, 8)),
        "r": np.float32(0.3),
        "y": np.uint8(100),
        "v": rng.standard_normal((8, 5)).astype("float32"),
        "u": np.int8(0),
    }
    numbers["w"] = numbers["w"].astype("int8")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "t", "u"], ["wd"]),
        helper.make_node("MatMul", ["xd", "wd"], ["p"], name="quantized"),
        helper.make_node("QuantizeLinear", ["p", "r", "y"], ["pq"]),
        helper.make_node("DequantizeLinear", ["pq", "r", "y"], ["pd"]),
        helper.make_node("MatMul", ["pd", "v"], ["o"], name="plain"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [9, 20])],
        [helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, [9, 5])],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in numbers.items()],
    )
    path = tmp_path / "quantized.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_what_a_model_quantizes_computes_on_integers_where_int8_is_asked_for(quantized_onnx):
    full, whole = (byoc.compile(quantized_onnx, precision=p) for p in ("f32", "int8"))
    assert _places(full) == {}
    assert _places(whole) == {
        "nn.dense": ["place c/int8", "place c/f32: the model does not quantize its operands, or it is depthwise"]
    }
    x = np.random.default_rng(1).standard_normal((9, 20)).astype("float32")
    np.testing.assert_allclose(whole(x), full(x), rtol=1e-5, atol=1e-5)
    assert re.search("dot_u8s8|_tile_dpb[us]{2}d", _source(whole))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_integer_operators_run_on_bytes_whatever_the_precision(tmp_path, dtype):
    onnx = pytest.importorskip("onnx")
    helper, rng = onnx.helper, np.random.default_rng(0)
    weight = rng.integers(-128, 128, (70, 33)).astype("int8")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b", "az"], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [13, 70])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [13, 33])],
        [onnx.numpy_helper.from_array(weight, "b"), onnx.numpy_helper.from_array(np.array(5, dtype), "az")],
    )
    path = tmp_path / "integers.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    library = byoc.compile(path)
    limits = np.iinfo(dtype)
    a = np.where(rng.random((13, 70)) < 0.5, limits.max, rng.integers(limits.min, limits.max, (13, 70))).astype(dtype)
    np.testing.assert_array_equal(library(a), (a.astype("int32") - 5) @ weight.astype("int32"))
    assert re.search("dot_u8s8|_tile_dpb[us]{2}d", _source(library))


@pytest.fixture
def small_onnx(tmp_path):
    """A model of one product, node ``product``."""
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((8, 4)).astype("float32"), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 4])],
        [weight],
    )
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path
