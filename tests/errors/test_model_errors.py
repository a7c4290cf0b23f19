"""A bad model, through the public faces: one sentence that names the file or node, and nothing half-written."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.errors import CompileError, ImportModelError, UserError

F32 = TensorProto.FLOAT


def model(nodes, initializers=(), opset=17):
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", F32, [64, 3])],
        [helper.make_tensor_value_info("y", F32, None)],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def good():
    weight = numpy_helper.from_array(np.ones((64, 3), "float32"), "w")
    return model([helper.make_node("Add", ["x", "w"], ["y"], name="plus")], [weight])


def external(location):
    weight = TensorProto(name="w", data_type=F32, dims=[64, 3], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    return model([helper.make_node("Add", ["x", "w"], ["y"], name="plus")], [weight]).SerializeToString()


def unknown_operator():
    return model([helper.make_node("StringNormalizer", ["x"], ["y"], name="text_7")])


def bad_types():
    weight = numpy_helper.from_array(np.ones((5, 7), "float32"), "w")
    return model([helper.make_node("Add", ["x", "w"], ["y"], name="plus")], [weight])


def negative_dimension():
    weight = TensorProto(name="w", data_type=F32, dims=[-1, 3], raw_data=bytes(64 * 3 * 4))
    return model([helper.make_node("Add", ["x", "w"], ["y"], name="plus")], [weight])


CASES = {
    "a negative dimension": (negative_dimension().SerializeToString(), "tensor 'w': a shape has no negative dimension"),
    "not ONNX": (b"hello, this is text\n" * 20, "m.onnx: is not an ONNX model"),
    "another format": (b"PK\x03\x04" + bytes(200), "m.onnx: is not an ONNX model"),
    "empty": (b"", "m.onnx: is empty"),
    "truncated": (good().SerializeToString()[:200], "m.onnx: "),
    "unsupported operator": (unknown_operator().SerializeToString(), "StringNormalizer"),
    "unsupported operator, its node": (unknown_operator().SerializeToString(), "text_7"),
    "too new an opset": (
        model([helper.make_node("Relu", ["x"], ["y"])], opset=99).SerializeToString(),
        "needs ONNX opset 99, supported",
    ),
    "types that do not fit": (bad_types().SerializeToString(), "plus"),
    "external data above": (external("../secret.bin"), "'../secret.bin', outside the model"),
    "external data at an absolute path": (external("/etc/passwd"), "'/etc/passwd'"),
    "missing external data": (external("w.bin"), "need the file 'w.bin' beside the model, which is missing"),
}


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    data, message = CASES[request.param]
    (tmp_path / "secret.bin").write_bytes(bytes(64 * 3 * 4))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(data)
    return folder / "m.onnx", message


def test_compile_raises_one_sentence(case):
    path, message = case
    with pytest.raises(ImportModelError) as caught:
        byoc.compile(path)
    assert isinstance(caught.value, UserError)
    assert message in str(caught.value) and "m.onnx" in str(caught.value)


def test_the_command_line_prints_it_and_writes_nothing(case, capsys, tmp_path, monkeypatch):
    path, message = case
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    assert main(["compile", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("byoc compile: ") and message in captured.err
    assert main(["compile", str(path), "--json"]) == 2
    assert message in json.loads(capsys.readouterr().out)["error"]
    assert list(out.iterdir()) == []
    assert [p.name for p in path.parent.iterdir()] == ["m.onnx"]


def test_an_older_artifact_survives_a_compile_that_fails(capsys, tmp_path):
    model_path, target = tmp_path / "m.onnx", tmp_path / "m.byoc"
    model_path.write_bytes(b"no model")
    target.write_bytes(b"the old artefact")
    assert main(["compile", str(model_path), "-o", str(target)]) == 2
    assert target.read_bytes() == b"the old artefact"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_every_truncation_is_refused(share, tmp_path):
    data = good().SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ImportModelError, match=r"m\.onnx"):
        byoc.compile(tmp_path / "m.onnx")


def test_a_flipped_byte_never_escapes_as_anything_but_a_user_error(tmp_path):
    data = good().SerializeToString()
    rng = np.random.default_rng(0)
    for position in rng.choice(len(data), 60, replace=False):
        broken = bytearray(data)
        broken[position] ^= int(rng.integers(1, 256))
        (tmp_path / "m.onnx").write_bytes(bytes(broken))
        try:
            byoc.import_onnx(tmp_path / "m.onnx")
        except UserError as error:
            assert "m.onnx" in str(error)


def test_a_model_of_another_type_is_refused():
    for thing in (3, None, ["m.onnx"]):
        with pytest.raises(UserError, match="a model is"):
            byoc.compile(thing)


def test_targets_that_are_none_are_refused(tmp_path):
    onnx.save(good(), tmp_path / "m.onnx")
    with pytest.raises(UserError, match=r'targets is empty; name at least the host: targets=\["c"\]'):
        byoc.compile(tmp_path / "m.onnx", targets=[])
    with pytest.raises(UserError, match="no backend is called 'acme'; known: blas, c, int8_npu, json"):
        byoc.compile(tmp_path / "m.onnx", targets=["acme"])


def test_a_graph_refuses_an_input_of_unknown_size_before_anything_is_compiled():
    x = relay.var("x", shape=(relay.Any(), 3))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    with pytest.raises(CompileError, match=r"input x has a dimension of unknown size.*relay.Any\('n'\)"):
        byoc.compile(mod)


def test_a_graph_takes_an_input_of_named_size():
    x = relay.var("x", shape=(relay.Any("n"), 3))
    library = byoc.compile(relay.IRModule.from_expr(relay.Function([x], relay.negative(x))))
    for rows in (2, 5):
        np.testing.assert_array_equal(library.run({"x": np.ones((rows, 3), "float32")})[0], -np.ones((rows, 3)))


def test_a_model_that_onnx_runtime_wrote_for_one_machine_says_how_to_write_it_for_all(tmp_path):
    """Its Conv keeps weights in blocks of the machine's vectors; the size of these stands nowhere in the file."""
    weights = numpy_helper.from_array(np.zeros((32, 32, 3, 3), "float32"), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 8, 8]) for name in "xy"]
    values[1].type.tensor_type.ClearField("shape")
    graph = helper.make_graph([node], "g", values[:1], values[1:], [weights])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "m.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(source.SerializeToString(), options, providers=["CPUExecutionProvider"])
    if not any(n.domain == "com.microsoft.nchwc" for n in onnx.load(tmp_path / "m.onnx").graph.node):
        pytest.skip("ONNX Runtime has no layout of its own on this processor")
    with pytest.raises(ImportModelError, match="operators that are not supported: .*ReorderInput.*ORT_ENABLE_EXTENDED"):
        byoc.import_onnx(tmp_path / "m.onnx")
