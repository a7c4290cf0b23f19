"""Regions through XNNPACK: what is taken and in which layout, the numbers, the file that is written, the artefact."""

import sys

import numpy as np
import pytest
from library_runs import run_without_the_compiler

import byoc
from byoc import relay
from byoc.contract import get_backend
from byoc.contrib import flatbuffer, tflite
from byoc.contrib.xnnpack.module import XnnpackModule, left_to_litert
from byoc.errors import UserError
from byoc.relay.interpreter import evaluate
from byoc.runtime.core.errors import ArtifactError

pytestmark = pytest.mark.needs_cc


@pytest.fixture
def litert():
    return pytest.importorskip("ai_edge_litert.interpreter")


def const(rng, *shape):
    return relay.const(rng.standard_normal(shape).astype("float32"))


def network():
    """Padding of each kind: SAME, of a convolution alone, behind a relu; depthwise; bias by add; what only moves."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 3, 17, 16))
    y = relay.nn.conv2d(x, const(rng, 8, 3, 3, 3), strides=(2, 2), padding=(1, 1), channels=8, kernel_size=(3, 3))
    y = relay.nn.relu(relay.nn.bias_add(y, const(rng, 8)))
    y = relay.nn.max_pool2d(y, (3, 3), (2, 2), padding=(1, 1))
    z = relay.nn.conv2d(
        y, const(rng, 8, 1, 3, 3), padding=(2, 2), dilation=(2, 2), groups=8, channels=8, kernel_size=(3, 3)
    )
    z = relay.clip(relay.add(z, const(rng, 8, 1, 1)), -1.0, 3.5)
    z = relay.concatenate([y, relay.sigmoid(z)], axis=1)
    flat = relay.nn.batch_flatten(relay.nn.avg_pool2d(z, (2, 2), (2, 2)))
    dense = relay.nn.bias_add(relay.nn.dense(flat, const(rng, 6, 64)), const(rng, 6))
    body = relay.Tuple([relay.nn.softmax(dense), relay.strided_slice(z, [0, 1], [1, 7], axes=[0, 1]), y])
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], body)))


def data(seed=1):
    return np.random.default_rng(seed).standard_normal((1, 3, 17, 16)).astype("float32")


def check(found, mod, array):
    for one, other in zip(found, evaluate(mod, [array]), strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-4, atol=1e-5)


def module_of(library):
    (module,) = (m for m in library.module.imports if m.type_key == "xnnpack")
    return module


def test_a_network_becomes_one_region_that_xnnpack_runs_whole(litert):
    mod = network()
    library = byoc.compile(mod, ["xnnpack", "c"])
    assert "1 regions" in library.report["plan_text"].splitlines()[0]
    assert not [d for d in library.report["plan"]["decisions"] if d["target"] is None]
    (model,) = module_of(library).models.values()
    assert left_to_litert(model) is None
    for seed in (1, 2):
        check(library.run({"x": data(seed)}), mod, data(seed))


def test_the_artefact_runs_in_a_process_without_the_compiler(litert, tmp_path):
    mod = network()
    check(run_without_the_compiler(byoc.compile(mod, ["xnnpack", "c"]), data(), tmp_path), mod, data())


@pytest.mark.parametrize(
    "build, why",
    [
        (lambda x: relay.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1)), "padding [1, 1, 1, 1]"),
        (lambda x: relay.nn.avg_pool2d(x, (3, 3), (3, 3), ceil_mode=True), "a last window partly outside"),
        (lambda x: relay.nn.softmax(x, axis=2), "the last axis"),
        (lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), 1.0), "zeros around"),
        (lambda x: relay.strided_slice(x, [0], [4], [2], axes=[1]), "stride 2"),
        (lambda x: relay.sort(x), "got sort"),
        (lambda x: relay.cast(x, "float64"), "float32"),
    ],
)
def test_what_is_refused_has_its_reason(litert, build, why):
    x = relay.var("x", shape=(1, 4, 10, 10))
    plan = byoc.plan(byoc.IRModule.from_expr(relay.Function([x], build(x))), ["xnnpack", "c"])
    assert not plan.regions and why in str(plan)


@pytest.mark.parametrize(
    "build, size, taken",
    [  # LiteRT's mean counts no padding, be it called SAME
        (lambda x: relay.nn.avg_pool2d(x, (3, 3), padding=(1, 1), count_include_pad=True), 8, True),
        (lambda x: relay.nn.avg_pool2d(x, (3, 3), (2, 2), padding=(1, 1), count_include_pad=True), 9, True),
        (lambda x: relay.nn.avg_pool2d(x, (3, 3), padding=(1, 1)), 8, True),
        (lambda x: relay.nn.avg_pool2d(relay.nn.relu(x), (3, 3), (2, 2), padding=(1, 1)), 8, False),
        (lambda x: relay.nn.max_pool2d(relay.nn.relu(x), (3, 3), (2, 2), padding=(1, 1)), 8, True),
        (lambda x: relay.nn.max_pool2d(relay.nn.relu(x), (2, 2), (2, 2), padding=(2, 2)), 8, False),  # of nothing: -inf
    ],
)
def test_padding_counts_where_onnx_counts_it(litert, build, size, taken):
    x = relay.var("x", shape=(1, 4, size, size))
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], build(x))))
    library = byoc.compile(mod, ["xnnpack", "c"])
    places = {d["operator"]: d["target"] for d in library.report["plan"]["decisions"] if "pool" in d["operator"]}
    assert set(places.values()) == ({"xnnpack"} if taken else {None})
    array = np.random.default_rng(0).standard_normal((1, 4, size, size)).astype("float32")
    check(library.run({"x": array}), relay.transform.InferType()(byoc.IRModule.from_expr(tupled(mod))), array)


def tupled(mod):
    main = mod["main"]
    return relay.Function(main.params, relay.Tuple([main.body]))


def test_free_sizes_are_refused_and_run_on_the_host():
    x = relay.var("x", shape=(relay.Any(name="n"), 4))
    plan = byoc.plan(byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))), ["xnnpack", "c"])
    assert not plan.regions and "known when it is compiled" in str(plan)


def test_what_litert_would_compute_itself_is_found(litert):
    model = tflite.Model()
    x = model.tensor([2, 3])
    widths, value = model.constant(np.ones((2, 2), "int32")), model.constant(np.array(7, "float32"))
    padded = model.add(tflite.Code.PADV2, [x, widths, value], [4, 5], (tflite.BuiltinOptions.PADV2, {}))
    assert left_to_litert(model.encoded([x], [padded])) == "PADV2"
    assert left_to_litert(model.encoded([x], [model.add(tflite.Code.RELU, [padded], [4, 5])])) == "PADV2"


def test_without_the_library_one_plans_and_compiles_for_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    assert "pip install ai-edge-litert" in get_backend("xnnpack").unavailable()
    library = byoc.compile(network(), ["xnnpack", "c"])
    library.save(tmp_path / "m.byoc")
    with pytest.raises(UserError, match="pip install ai-edge-litert"):
        library.run({"x": data()})


def test_a_damaged_module_is_refused():
    members = module_of(byoc.compile(network(), ["xnnpack", "c"])).save()
    assert XnnpackModule.load(members).save() == members
    (name,) = (n for n in members if n.endswith(".tflite"))
    with pytest.raises(ArtifactError):
        XnnpackModule.load({**members, name: members[name][:-1] + b"x"})


def test_tables_are_read_back_by_the_readers_of_flatbuffers():
    pytest.importorskip("flatbuffers")
    from flatbuffers import encode, number_types, packer, table

    deep = {0: "name", 3: flatbuffer.Vector("i", [5, -6]), 4: flatbuffer.Number("?", True)}
    parts = flatbuffer.Tables([{}, {1: flatbuffer.Data(b"sixteen bytes on", 16), 2: flatbuffer.Number("b", -3)}, deep])
    content = flatbuffer.encoded({0: flatbuffer.Number("I", 3), 2: parts}, b"TEST")
    root = table.Table(content, encode.Get(packer.uoffset, content, 0))
    assert content[4:8] == b"TEST" and root.Get(number_types.Uint32Flags, root.Pos + root.Offset(4)) == 3
    assert root.Offset(6) == 0 and root.VectorLen(root.Offset(8)) == 3
    begin = root.Vector(root.Offset(8))
    empty, second, third = (table.Table(content, root.Indirect(begin + 4 * k)) for k in range(3))
    assert empty.Offset(4) == 0 and second.Get(number_types.Int8Flags, second.Pos + second.Offset(8)) == -3
    at = second.Vector(second.Offset(6))
    assert at % 16 == 0 and content[at : at + 16] == b"sixteen bytes on"
    assert third.String(third.Pos + third.Offset(4)) == b"name"
    numbers = third.Vector(third.Offset(10))
    assert np.frombuffer(content, "<i4", third.VectorLen(third.Offset(10)), numbers).tolist() == [5, -6]
    assert third.Get(number_types.BoolFlags, third.Pos + third.Offset(12)) is True


def test_the_numbers_of_the_schema_are_those_of_litert():
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    assert all(getattr(schema.BuiltinOperator, code.name) == code for code in tflite.Code)
    known = {name.removesuffix("Options").upper(): n for name, n in vars(schema.BuiltinOptions).items()}
    assert all(known[options.name.replace("_", "")] == options for options in tflite.BuiltinOptions)
    assert {name.lower(): n for name, n in vars(schema.TensorType).items()}.items() >= tflite.TYPES.items()


@pytest.mark.slow
def test_the_backend_is_certified(litert):
    found = byoc.testing.certify("xnnpack")
    assert found.ok, str(found)
    assert {"nn.conv2d", "nn.dense", "xnnpack.conv2d_bias", "xnnpack.relu_max_pool2d"} <= set(found.covered)
