"""A model over a free batch that is computed item by item: which programs can be, what then runs, and what stays."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc import relay
from byoc.codegen.c import backend, item_loop
from byoc.codegen.kernel.batch_items import item_program
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.program import Group, Program
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis.module_types import infer_function
from byoc.runtime.core.errors import IndexOutsideError
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.te import Size, compute, placeholder

N = Any("N")
TABLE = np.ones((9, 3), "float32")
SIDE, CHANNELS = 104, 24  # a value between two convolutions takes 1 MiB


def program(make, *shapes):
    """The Program of what *make* gives for inputs of *shapes*."""
    inputs = [relay.var(f"x{k}", TensorType(shape)) for k, shape in enumerate(shapes)]
    return lower_function(infer_function(relay.Function(inputs, make(*inputs))), "f")


OF_ITEMS = {
    "pointwise": (lambda x: relay.exp(x), (N, 4)),
    "broadcast": (lambda x, y: relay.add(x, y), (N, 3, 4), (3, 1)),
    "softmax of rows": (lambda x: relay.nn.softmax(x, axis=-1), (N, 4)),
    "convolution": (lambda x, w: relay.nn.conv2d(x, w, padding=(1, 1)), (N, 3, 8, 8), (4, 3, 3, 3)),
    "dense": (lambda x, w: relay.nn.dense(x, w), (N, 8), (4, 8)),
    "product of each": (lambda x, y: relay.nn.batch_matmul(x, y), (N, 4, 8), (N, 5, 8)),
    "view": (lambda x: relay.reshape(x, (0, 12)), (N, 3, 4)),
    "reversed channels": (lambda x: relay.reverse(x, 1), (N, 3, 4)),
    "scan of a row": (lambda x: relay.sum(relay.exp(x), axis=1), (N, 4)),
    "gathered rows of a table": (lambda i: relay.take(relay.const(TABLE), relay.cast(i, "int32"), axis=0), (N, 4)),
}
OF_A_BATCH = {
    "softmax over the batch": (lambda x: relay.nn.softmax(x, axis=0), (N, 4)),
    "mean of the batch": (lambda x: relay.subtract(x, relay.mean(x, axis=0, keepdims=True)), (N, 4)),
    "reversed batch": (lambda x: relay.add(x, relay.reverse(x, 0)), (N, 4)),
    "everybody's product": (lambda x: relay.nn.dense(x, x), (N, 4)),
    "transposed": (lambda x: relay.transpose(x, (1, 0)), (N, 4)),
    "the first item": (lambda x: relay.add(x, relay.take(x, relay.const(0, "int64"), axis=0)), (N, 4)),
    "sums so far": (lambda x: relay.cumsum(x, axis=0), (N, 4)),
}


@pytest.mark.parametrize("name", OF_ITEMS)
def test_a_program_whose_items_need_themselves_alone_becomes_that_of_one(name):
    make, *shapes = OF_ITEMS[name]
    found = item_program(program(make, *shapes), Size("N"))
    assert found is not None and found.batch == Size("N")
    tensors = [*found.inputs, *(s for g in found.groups for s in g.stages)]
    assert all(isinstance(d, int) for t in tensors for d in t.shape)
    assert found.signature.size_names == ("N",)


@pytest.mark.parametrize("name", OF_A_BATCH)
def test_a_program_whose_items_need_others_does_not(name):
    make, *shapes = OF_A_BATCH[name]
    assert item_program(program(make, *shapes), Size("N")) is None


def test_a_program_in_which_an_items_number_is_a_value_does_not():
    source = placeholder((Size("N"), 4), "float32", "x")
    stage = compute((Size("N"), 4), lambda n, j: source[n, j] * n.astype("float32"), name="counted")
    assert item_program(_program_of(source, stage), Size("N")) is None


def _program_of(source, stage):
    spec = TensorSpec("x", ("N", 4), "float32")
    return Program("f", Signature("f", (spec,), (spec,)), (source,), (), (stage,), (Group("g", (), (stage,)),))


def test_a_program_that_knows_no_batch_stays_as_it_is():
    made = program(lambda x: relay.exp(x), (3, 4))
    assert item_program(made, Size("N")) is made


def network(mixing=False, batch="N"):
    """Three convolutions, a bias that is made of the input's shape, two outputs, one of which is an input."""
    rng = np.random.default_rng(7)
    weights = [rng.standard_normal((CHANNELS, c, 3, 3)).astype("float32") / 12 for c in (3, CHANNELS, CHANNELS)]
    arrays = [numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(weights)]
    numbers = {"zero": [0], "last": [2], "end": [4]}
    arrays += [numpy_helper.from_array(np.array(v, "int64"), n) for n, v in numbers.items()]
    arrays.append(numpy_helper.from_array(np.array([CHANNELS, 1, 1], "int64"), "of_bias"))
    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["c0"], name="Conv_0", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], name="Relu_0"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], name="Conv_1", pads=[1, 1, 1, 1]),
        helper.make_node("Shape", ["image"], ["shape"], name="Shape_0"),
        helper.make_node("Slice", ["shape", "last", "end"], ["sides"], name="Slice_0"),
        helper.make_node("Cast", ["sides"], ["lengths"], name="Cast_0", to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["lengths", "zero"], ["length"], name="ReduceSum_0", keepdims=0),
        helper.make_node("Expand", ["length", "of_bias"], ["bias"], name="Expand_0"),
        helper.make_node("Add", ["c1", "bias"], ["b1"], name="Add_0"),
        helper.make_node("Conv", ["b1", "w2"], ["c2"], name="Conv_2", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r0"], ["sum"], name="Add_1"),
        helper.make_node("GlobalAveragePool", ["sum"], ["pooled"], name="Pool_0"),
        helper.make_node("Flatten", ["pooled"], ["features"], name="Flatten_0"),
        helper.make_node("Identity", ["scale"], ["scale_again"], name="Identity_0"),
        helper.make_node("Mul", ["features", "scale"], ["scaled"], name="Mul_0"),
    ]
    if mixing:
        nodes.append(helper.make_node("Softmax", ["scaled"], ["result"], name="Softmax_0", axis=0))
    else:
        nodes.append(helper.make_node("Softmax", ["scaled"], ["result"], name="Softmax_0", axis=1))
    inputs = [
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 3, SIDE, SIDE]),
        helper.make_tensor_value_info("scale", TensorProto.FLOAT, [batch, 1]),
    ]
    outputs = [
        helper.make_tensor_value_info("result", TensorProto.FLOAT, [batch, CHANNELS]),
        helper.make_tensor_value_info("scale_again", TensorProto.FLOAT, [batch, 1]),
        helper.make_tensor_value_info("sum", TensorProto.FLOAT, [batch, CHANNELS, SIDE, SIDE]),
    ]
    graph = helper.make_graph(nodes, "network", inputs, outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def images(count):
    rng = np.random.default_rng(count)
    image = rng.standard_normal((count, 3, SIDE, SIDE)).astype("float32")
    return [image, rng.standard_normal((count, 1)).astype("float32")]


def expected(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(("image", "scale"), inputs, strict=True)))


def arrays_of(results):
    return [np.asarray(r) for r in results]


def check(results, wanted):
    for found, want in zip(arrays_of(results), wanted, strict=True):
        assert found.shape == want.shape
        if want.size:
            assert np.abs(found - want).max() <= 1e-4 * max(np.ptp(want), 1e-6)


def test_a_network_is_computed_item_by_item_with_the_numbers_of_onnx_runtime():
    model = network()
    library = byoc.compile(model)
    assert library.report["item_by_item"] == "N"
    for count in (1, 3, 2):
        check(library(*images(count)), expected(model, images(count)))
    assert [r.shape for r in arrays_of(library(*images(0)))] == [(0, CHANNELS), (0, 1), (0, CHANNELS, SIDE, SIDE)]


def test_by_whatever_way_it_runs_the_bits_are_those_of_single_items():
    library = byoc.compile(network())
    inputs = images(3)
    together = arrays_of(library(*inputs))
    for k in range(3):
        for whole, one in zip(together, arrays_of(library(*(i[k : k + 1] for i in inputs))), strict=True):
            assert np.array_equal(whole[k : k + 1], one)
    graph = library.graph_executor()
    for name, value in zip(("image", "scale"), inputs, strict=True):
        graph.set_input(name, value)
    graph.run()
    for k, whole in enumerate(together):
        assert np.array_equal(graph.get_output(k).numpy(), whole)
    for threads in (1, 3):
        library.threads = threads
        for whole, found in zip(together, arrays_of(library(*inputs)), strict=True):
            assert np.array_equal(whole, found)


def test_a_saved_one_does_so_in_a_new_process(tmp_path):
    library = byoc.compile(network())
    library.save(tmp_path / "items.byoc")
    np.savez(tmp_path / "inputs.npz", *images(2))
    source = (
        "import numpy as np, sys\nfrom byoc.runtime import load\n"
        "inputs = np.load(sys.argv[2])\nlibrary = load(sys.argv[1])\n"
        "results = library(*(inputs[k] for k in inputs.files))\n"
        "np.savez(sys.argv[3], *[np.asarray(r) for r in results])\n"
        "assert 'byoc.relay' not in sys.modules\n"
    )
    files = [tmp_path / "items.byoc", tmp_path / "inputs.npz", tmp_path / "results.npz"]
    subprocess.run([sys.executable, "-c", source, *map(str, files)], check=True, timeout=300)
    with np.load(files[2]) as results:
        for name, want in zip(results.files, arrays_of(library(*images(2))), strict=True):
            assert np.array_equal(results[name], want)


def test_a_batch_of_a_number_is_computed_so_too():
    model = network(batch=3)
    library = byoc.compile(model)
    assert library.report["item_by_item"] == "3"
    check(library(*images(3)), expected(model, images(3)))
    for found, want in zip(arrays_of(library(*images(3))), arrays_of(byoc.compile(network())(*images(3))), strict=True):
        assert np.array_equal(found, want)


@pytest.mark.parametrize("batch", ["N", 3])
def test_a_network_that_mixes_its_items_runs_on_whole_batches(batch):
    model = network(mixing=True, batch=batch)
    library = byoc.compile(model)
    assert "item_by_item" not in library.report
    check(library(*images(3)), expected(model, images(3)))


def test_small_items_and_products_of_few_rows_run_on_whole_batches():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 512])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 512])
    weights = numpy_helper.from_array(np.eye(512, dtype="float32"), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "rows", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    library = byoc.compile(model)
    assert "item_by_item" not in library.report
    given = np.random.default_rng(0).standard_normal((5, 512)).astype("float32")
    assert np.array_equal(np.asarray(library(given)), given)


OF_THREE = {
    "a weight of three rows": (lambda x: relay.add(x, relay.const(np.ones((3, 4), "float32"))), (3, 4)),
    "a scale of three channels": (lambda x, s: relay.multiply(x, s), (3, 4, 3), (3,)),
    "its transpose": (lambda x: relay.add(x, relay.transpose(x, (1, 0))), (3, 3)),
    "weights of three rows": (lambda x, w: relay.nn.dense(x, w), (3, 4), (3, 4)),
    "a shape in which items lie in others": (
        lambda x: relay.reshape(relay.nn.softmax(relay.reshape(x, (4, 3)), axis=1), (3, 4)),
        (3, 4),
    ),
    "an item before": (lambda x: relay.nn.pad(x, ((1, -1), (0, 0))), (3, 4)),
}


@pytest.mark.parametrize("name", OF_THREE)
def test_what_has_as_many_rows_as_the_batch_is_not_taken_for_its_items(name):
    make, *shapes = OF_THREE[name]
    assert item_program(program(make, *shapes), 3) is None


@pytest.fixture
def any_size(monkeypatch):
    """Items of any size are computed one by one, where they can be."""
    for name, value in (("LEAST_BYTES", 0), ("LEAST_OPERATIONS", 0), ("WEIGHTS_SHARE", float("inf"))):
        monkeypatch.setattr(item_loop, name, value)
    monkeypatch.setattr(backend, "LARGE_VALUE", 0)


def parsed(inputs, body, outputs):
    text = f'<ir_version: 8, opset_import: ["": 18]> g ({inputs}) => ({outputs}) {{ {body} }}'
    return onnx.parser.parse_model(text)


SMALL = {
    "shared values, outputs twice, inputs as outputs": (
        "float[N,4] x, float[5,4] w",
        "e = Exp(w) t = Transpose<perm=[1,0]>(e) m = MatMul(x, t) y = Softmax<axis=1>(m) "
        "a = Identity(w) b = Identity(y) c = Identity(x) d = Identity(t)",
        "float[N,5] y, float[5,4] a, float[N,5] b, float[N,4] c, float[4,5] d",
    ),
    "the size as a number": (
        "float[N,4] x, float[N,1] z",
        "s = Shape<start=0, end=1>(x) f = Cast<to=1>(s) e = Exp(x) q = Div(e, f) y = Softmax<axis=1>(q) v = Mul(y, z)",
        "float[N,4] q, float[N,4] v",
    ),
    "places in the batch and back": (
        "float[N,3,4] x, float[N,1,1] z",
        "t = Transpose<perm=[1,0,2]>(x) r = Softmax<axis=2>(t) u = Transpose<perm=[1,0,2]>(r) y = Mul(u, z)",
        "float[N,3,4] y",
    ),
}


@pytest.mark.parametrize("batch", ["N", "3"])
@pytest.mark.parametrize("name", SMALL)
def test_small_items_have_the_numbers_of_onnx_runtime(name, batch, any_size):
    inputs, body, outputs = (text.replace("[N", f"[{batch}") for text in SMALL[name])
    model = parsed(inputs, body, outputs)
    library = byoc.compile(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(5)
    for count in (3,) if batch == "3" else (4, 1, 3):
        shapes = {i.name: [count if d == "N" else d for d in i.shape] for i in session.get_inputs()}
        given = {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
        for threads in (1, 3):
            library.threads = threads
            for found, want in zip(results_of(library, given), session.run(None, given), strict=True):
                assert found.shape == want.shape
                np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def results_of(library, given):
    results = library(*given.values())
    return arrays_of(results if isinstance(results, list) else [results])


@pytest.mark.parametrize("threads", [1, 3])
def test_an_index_outside_is_refused_in_any_item(threads, any_size):
    table = numpy_helper.from_array(TABLE, "table")
    model = parsed("int64[N,2] i", "y = Gather<axis=0>(table, i)", "float[N,2,3] y")
    model.graph.initializer.append(table)
    model.graph.node[0].name = "Rows"
    library = byoc.compile(model)
    assert library.report["item_by_item"] == "N"
    library.threads = threads
    for item in range(3):
        indices = np.zeros((3, 2), "int64")
        indices[item, 1] = 9
        with pytest.raises(IndexOutsideError, match="node Rows .* index 9 is outside a dimension of 9"):
            library(indices)
        executor = library.graph_executor()
        executor.set_input("i", indices)
        with pytest.raises(IndexOutsideError, match="node Rows "):
            executor.run()
    assert np.array_equal(np.asarray(library(indices * 0)), np.ones((3, 2, 3), "float32"))


def test_weights_that_are_inputs_are_weights_too(any_size, monkeypatch):
    monkeypatch.setattr(item_loop, "WEIGHTS_SHARE", 0.25)
    rows = parsed("float[N,64] x, float[64,64] w", "y = MatMul(x, w)", "float[N,64] y")
    assert "item_by_item" not in byoc.compile(rows).report
    images = parsed("float[N,2,16,16] x, float[2,2,3,3] w", "y = Conv(x, w)", "float[N,2,14,14] y")
    assert byoc.compile(images).report["item_by_item"] == "N"


def test_weights_that_are_inputs_make_no_item_large(any_size, monkeypatch):
    model = parsed("float[N,20,64] x, float[64,64] w", "y = MatMul(x, w)", "float[N,20,64] y")
    of_an_item = 2 * 20 * 64 * 4
    monkeypatch.setattr(item_loop, "LEAST_BYTES", of_an_item)
    assert byoc.compile(model).report["item_by_item"] == "N"
    monkeypatch.setattr(item_loop, "LEAST_BYTES", of_an_item + 1)
    assert "item_by_item" not in byoc.compile(model).report
