"""What the importer says of models that it cannot take: one case for each message."""

import os
import re
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx import from_onnx, import_onnx

F32 = TensorProto.FLOAT


def model(nodes, inputs=(("x", [2, 3]),), outputs=("y",), initializers=(), opset=17, **extra) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, F32, s) for n, s in inputs],
        [helper.make_tensor_value_info(n, F32, None) for n in outputs],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **extra)


def relu() -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"], name="r")])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match=r"none\.onnx: there is no such file"):
        import_onnx(tmp_path / "none.onnx")


def test_a_folder_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="is a folder"):
        import_onnx(str(tmp_path))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"")
    with pytest.raises(ImportModelError, match=r"m\.onnx: is empty"):
        import_onnx(path)


@pytest.mark.parametrize("data", [b"hello, text\n" * 9, b"\x89PNG\r\n\x1a\n" + bytes(40), b"PK\x03\x04" + bytes(99)])
def test_a_file_that_is_not_onnx_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(ImportModelError, match=r"m\.onnx: is not an ONNX model"):
        import_onnx(path)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_refused(share: float, tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((64, 3), "float32"), "w")
    whole = model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", [64, 3])], initializers=[weight])
    data = whole.SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ImportModelError, match=r"m\.onnx: .*truncated"):
        import_onnx(path)


def test_bytes_and_protos_are_models_and_other_things_are_not() -> None:
    assert len(import_onnx(relu().SerializeToString())["main"].params) == 1
    assert len(import_onnx(relu())["main"].params) == 1
    with pytest.raises(ImportModelError, match="a model is a path, bytes or an onnx.ModelProto, got int"):
        import_onnx(3)  # type: ignore[arg-type]


def test_an_empty_graph_is_refused() -> None:
    with pytest.raises(ImportModelError, match="the graph is empty"):
        import_onnx(model([], outputs=[]))


def test_a_graph_without_outputs_is_refused() -> None:
    with pytest.raises(ImportModelError, match="the graph has no output"):
        import_onnx(model([helper.make_node("Relu", ["x"], ["y"])], outputs=[]))


def test_a_newer_opset_is_refused() -> None:
    with pytest.raises(ImportModelError, match="needs ONNX opset 99, supported are 1 to"):
        import_onnx(model([helper.make_node("Relu", ["x"], ["y"])], opset=99))


def test_all_unsupported_operators_are_named_at_once() -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="first", domain="acme"),
        helper.make_node("SoftmaxZero", ["a", "a"], ["b"], name="second"),
        helper.make_node("Frobnicate", ["b"], ["y"], name="third", domain="acme"),
    ]
    broken = model(nodes)
    broken.opset_import.append(helper.make_opsetid("acme", 3))
    with pytest.raises(ImportModelError) as caught:
        import_onnx(broken)
    text = str(caught.value)
    assert "Frobnicate (domain acme, opset 3) at nodes first, third" in text
    assert "SoftmaxZero (domain ai.onnx, opset 17) at node second" in text


def test_an_undefined_value_is_named() -> None:
    with pytest.raises(ImportModelError, match=r"node r \(Relu\) reads 'ghost', which is neither an input"):
        import_onnx(model([helper.make_node("Relu", ["ghost"], ["y"], name="r")]))


def test_an_output_that_no_node_makes_is_named() -> None:
    with pytest.raises(ImportModelError, match="no node makes the output 'z'"):
        import_onnx(model([helper.make_node("Relu", ["x"], ["y"])], outputs=["z"]))


def test_types_that_do_not_fit_name_the_node() -> None:
    weight = numpy_helper.from_array(np.ones((4, 5), "float32"), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], name="plus")]
    with pytest.raises(ImportModelError, match="plus"):
        import_onnx(model(nodes, initializers=[weight]))


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(ImportModelError, match=r"node c \(Concat\): the attribute 'axis' is missing"):
        import_onnx(model([helper.make_node("Concat", ["x", "x"], ["y"], name="c")]))


def test_an_attribute_of_the_wrong_type_is_named() -> None:
    with pytest.raises(ImportModelError, match="the attribute 'axis' is of type INT, got STRING"):
        import_onnx(model([helper.make_node("Concat", ["x", "x"], ["y"], name="c", axis="one")]))


def test_a_missing_input_is_named() -> None:
    with pytest.raises(ImportModelError, match=r"node a \(Add\): input 1 is missing"):
        import_onnx(model([helper.make_node("Add", ["x", ""], ["y"], name="a")]))


def test_an_element_type_that_we_do_not_have_is_named() -> None:
    odd = relu()
    odd.graph.input[0].type.tensor_type.elem_type = TensorProto.COMPLEX64
    with pytest.raises(ImportModelError, match="input 'x' has the element type COMPLEX64, which is not supported"):
        import_onnx(odd)


def test_an_input_without_a_shape_asks_for_one() -> None:
    shapeless = relu()
    shapeless.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ImportModelError, match=r"input 'x' has no shape; give one: shapes="):
        import_onnx(shapeless)
    assert import_onnx(shapeless, shapes={"x": [2, "n"]})["main"].params[0].checked_type.shape[0] == 2


def test_shapes_for_an_unknown_input_are_refused() -> None:
    with pytest.raises(ImportModelError, match="shapes= names 'nope', which is not an input; the inputs are 'x'"):
        import_onnx(relu(), shapes={"nope": [1]})


def test_shapes_of_another_rank_are_refused() -> None:
    with pytest.raises(ImportModelError, match="input 'x' has 2 dimensions, shapes= gives 3"):
        import_onnx(relu(), shapes={"x": [1, 2, 3]})


def test_one_free_dimension_cannot_have_two_sizes() -> None:
    two = model([helper.make_node("Add", ["a", "b"], ["y"])], [("a", ["n", 3]), ("b", ["n", 3])])
    with pytest.raises(ImportModelError, match="gives the dimension 'n' both 5 and 4"):
        import_onnx(two, shapes={"a": [4, 3], "b": [5, 3]})


def test_data_that_do_not_fill_their_shape_are_refused() -> None:
    weight = numpy_helper.from_array(np.ones(3, "float32"), "w")
    weight.dims[0] = 1 << 40
    with pytest.raises(ImportModelError, match="tensor 'w': its data do not fit its shape"):
        import_onnx(model([helper.make_node("Add", ["x", "w"], ["y"])], initializers=[weight]))


def test_a_function_that_calls_itself_is_refused() -> None:
    body = helper.make_function(
        "acme",
        "loop",
        ["a"],
        ["b"],
        [helper.make_node("loop", ["a"], ["b"], domain="acme")],
        [helper.make_opsetid("acme", 1)],
    )
    endless = model([helper.make_node("loop", ["x"], ["y"], name="l", domain="acme")], functions=[body])
    endless.opset_import.append(helper.make_opsetid("acme", 1))
    with pytest.raises(ImportModelError, match="the function loop calls itself"):
        import_onnx(endless)


def test_a_name_that_is_not_text_is_refused() -> None:
    data = relu().SerializeToString().replace(b"Relu", b"Re\xff\xfe")
    with pytest.raises(ImportModelError, match="has a name that is not UTF-8 text"):
        import_onnx(data)


def test_a_range_without_end_is_refused_before_memory_is_taken() -> None:
    bounds = [numpy_helper.from_array(np.array(v, "int64"), n) for n, v in (("a", 0), ("b", 1 << 60), ("c", 1))]
    with pytest.raises(ImportModelError, match=r"node r \(Range\): \d+ elements are more than"):
        import_onnx(model([helper.make_node("Range", ["a", "b", "c"], ["y"], name="r")], initializers=bounds))


def test_a_picture_without_end_is_refused_before_memory_is_taken() -> None:
    scales = numpy_helper.from_array(np.array([1, 1e12], "float32"), "s")
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], name="r", mode="linear")]
    with pytest.raises(ImportModelError, match=r"node r \(Resize\): a dimension of 3 cannot be resized"):
        import_onnx(model(nodes, initializers=[scales]))


def test_inputs_that_onnx_does_not_allow_name_the_node() -> None:
    bounds = [numpy_helper.from_array(np.array(v, "int64"), n) for n, v in (("a", 0), ("b", 4), ("c", 0))]
    with pytest.raises(ImportModelError, match=r"node r \(Range\) has inputs or attributes that ONNX does not allow"):
        import_onnx(model([helper.make_node("Range", ["a", "b", "c"], ["y"], name="r")], initializers=bounds))


@pytest.mark.parametrize(
    "op, indices, rest",
    [
        ("Gather", [5, 0], []),
        ("GatherElements", [[0, -6, 1]], []),
        ("GatherND", [[0, 3]], []),
        ("ScatterElements", [[7, 0, 0]], ["u"]),
        ("ScatterND", [[0, 0], [-6, 1]], ["v"]),
    ],
)
def test_a_constant_index_outside_its_dimension_is_refused(op: str, indices: list, rest: list[str]) -> None:
    constants = {"i": np.array(indices), "u": np.ones((1, 3), "float32"), "v": np.ones(2, "float32")}
    made = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    bad = model([helper.make_node(op, ["x", "i", *rest], ["y"], name="n")], inputs=[("x", [5, 3])], initializers=made)
    with pytest.raises(ImportModelError, match=rf"node n \({op}\): index -?\d is outside a dimension of [53]; use one"):
        import_onnx(bad)


def external(tmp_path: Path, location: str, write: bool = True, size: int = 24, **entries: str) -> Path:
    """A model in ``tmp_path/model`` whose weight f32[2, 3] is said to stand at *location*."""
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    weight = TensorProto(name="w", data_type=F32, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=value)
    path = folder / "m.onnx"
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    path.write_bytes(model(nodes, initializers=[weight]).SerializeToString())
    if write:
        (folder / location).write_bytes(np.arange(size // 4, dtype="float32").tobytes())
    return path


def test_external_data_beside_the_model_are_read(tmp_path: Path) -> None:
    path = external(tmp_path, "w.bin", size=32, offset="8", length="24")
    constant = import_onnx(path)["main"].body.args[1]
    np.testing.assert_array_equal(constant.data.numpy(), np.arange(2, 8, dtype="float32").reshape(2, 3))


def test_external_data_above_the_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    with pytest.raises(ImportModelError, match=r"external data of 'w' point to '\.\./secret\.bin', outside the model"):
        import_onnx(external(tmp_path, "../secret.bin", write=False))


def test_external_data_at_an_absolute_path_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(24))
    for location in (str(secret), "C:\\secret.bin", "\\\\host\\share\\secret.bin"):
        with pytest.raises(ImportModelError, match="point to the absolute path"):
            import_onnx(external(tmp_path, location, write=False))


def test_external_data_behind_a_link_that_leads_out_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    path = external(tmp_path, "link.bin", write=False)
    os.symlink(tmp_path / "secret.bin", path.parent / "link.bin")
    with pytest.raises(ImportModelError, match="'link.bin', outside the model's folder"):
        import_onnx(path)


def test_missing_external_data_are_named(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="need the file 'w.bin' beside the model, which is missing"):
        import_onnx(external(tmp_path, "w.bin", write=False))


def test_external_data_that_are_too_short_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="w.bin has 20 bytes where 24 are needed"):
        import_onnx(external(tmp_path, "w.bin", size=20))


def test_external_data_of_another_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="needs 24 bytes, its entry says 12"):
        import_onnx(external(tmp_path, "w.bin", length="12"))


def test_external_data_with_an_odd_offset_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="the entry 'offset' is a number of bytes, got '-4'"):
        import_onnx(external(tmp_path, "w.bin", offset="-4"))


def test_external_data_of_a_model_without_a_folder_are_refused(tmp_path: Path) -> None:
    data = external(tmp_path, "w.bin").read_bytes()
    with pytest.raises(ImportModelError, match="the model was not given as one: give its path"):
        import_onnx(data)


def test_an_opset_that_is_given_counts() -> None:
    with pytest.raises(ImportModelError, match="needs ONNX opset 0"):
        from_onnx(relu(), opset=0)


BRANCH = "{ y = If (c) <then_branch = t () => (float[2] v) %s, else_branch = e () => (float[2] w) { w = Relu (x) }> }"
MADE_TWICE = {
    "in a branch": (BRANCH % "{ v = Relu (x) v = Neg (x) }", "makes 'v', which something before it makes too"),
    "over an initialiser of a branch": (
        BRANCH.replace("float[2] v)", "float[2] v) <float[2] k = {1, 2}>") % "{ k = Relu (x) v = Neg (k) }",
        "makes 'k', which something before it makes too",
    ),
    "in a function": (
        '{ y = f.F (x) } <domain: "f", opset_import: ["" : 17]> F (a) => (b) { b = Relu (a) b = Neg (a) }',
        "the function F: node Neg_1 makes 'b', which something before it makes too",
    ),
    "by a branch less than its If has": (
        (BRANCH % "{ v = Relu (x) }").replace("y = If", "y, z = If"),
        "(If) has 2 outputs, and a branch of it makes 1",
    ),
    "from a function's missing inputs": (
        '{ y = f.F (x, x) } <domain: "f", opset_import: ["" : 17]> F (a) => (b) { b = Relu (a) }',
        "the function has 1 inputs, and is called with 2",
    ),
    "from a function's missing outputs": (
        '{ y, z = f.F (x) } <domain: "f", opset_import: ["" : 17]> F (a) => (b) { b = Relu (a) }',
        "the function has 1 outputs, and is called with 2",
    ),
}


@pytest.mark.parametrize("name", MADE_TWICE)
def test_names_inside_of_branches_and_functions_are_looked_at_as_those_of_the_graph(name: str) -> None:
    body, sentence = MADE_TWICE[name]
    header = '<ir_version: 8, opset_import: ["" : 17, "f" : 1]>'
    found = onnx.parser.parse_model(f"{header} g (float[2] x, bool c) => (float[2] y) {body}")
    with pytest.raises(ImportModelError, match=re.escape(sentence)):
        import_onnx(found)


def _field(number: int, data: bytes) -> bytes:
    """One field of a protobuf message whose data have a length."""
    size, length = len(data), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


@pytest.mark.parametrize("depth", [60, 1000])
def test_branches_nested_deeper_than_protobuf_reads_are_no_damaged_file(depth: int, tmp_path: Path) -> None:
    graph = relu().graph.SerializeToString()
    for _ in range(depth):
        branch = _field(1, b"then_branch") + _field(6, graph)  # an attribute; its graph
        graph = _field(1, _field(4, b"If") + _field(5, branch))
    path = tmp_path / "deep.onnx"
    path.write_bytes(b"\x08\x08" + _field(7, graph))
    with pytest.raises(
        ImportModelError, match=r"deep\.onnx: its sub-graphs are nested deeper than .*; flatten the model"
    ):
        import_onnx(path)
