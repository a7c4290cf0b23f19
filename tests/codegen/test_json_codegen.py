"""The JSON graph: Relay's layout, the published schema, and the engine that runs it."""

import json

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import byoc
from byoc import relay
from byoc.codegen.json.backend import JsonBackend, compile_functions
from byoc.codegen.json.serialize import JSONSerializer, schema
from byoc.errors import CompileError
from byoc.ir.op import OPS, get_op
from byoc.relay.analysis import infer_function
from byoc.relay.interpreter import evaluate
from byoc.runtime.core.errors import ArtifactError, KernelError, UserError
from byoc.runtime.json.attributes import (
    SEQUENCES_OF_ONE,
    decode_attribute,
    decode_attributes,
    encode_attribute,
    sequences_of_one,
)
from byoc.runtime.json.module import JsonModule
from byoc.runtime.json.table import KernelTable
from byoc.runtime.kernels import KERNELS


def conv_function():
    x = relay.var("x", shape=(1, 3, 8, 8))
    w = relay.const(np.ones((4, 3, 3, 3), "float32"))
    conv = relay.nn.conv2d(x, w, padding=(1, 1), channels=4, kernel_size=(3, 3))
    left, right = relay.split(relay.nn.relu(conv), 2, axis=1)
    return infer_function(relay.Function([x], relay.concatenate((right, left), axis=1)))


def test_the_layout_is_that_of_relay():
    graph = JSONSerializer("json_0").serialize(conv_function())
    nodes = graph["nodes"]
    assert [(n["op"], n["name"]) for n in nodes] == [
        ("input", "x"),
        ("const", "json_0_const_0"),
        ("kernel", "nn.conv2d"),
        ("kernel", "nn.relu"),
        ("kernel", "split"),
        ("kernel", "concatenate"),
    ]
    assert nodes[0] == {"op": "input", "name": "x", "attrs": {"shape": [[[1, 3, 8, 8]]], "dtype": [["float32"]]}}
    conv = nodes[2]["attrs"]
    assert nodes[2]["inputs"] == [[0, 0, 0], [1, 0, 0]]
    assert (conv["num_inputs"], conv["num_outputs"]) == ("2", "1")
    assert conv["strides"] == [["1", "1"]]
    assert conv["padding"] == [["1", "1", "1", "1"]]
    assert conv["groups"] == [["1"]]
    assert conv["data_layout"] == [["NCHW"]]
    assert conv["out_dtype"] == [[""]]
    assert nodes[4]["attrs"]["shape"] == [[[1, 2, 8, 8], [1, 2, 8, 8]]]
    assert nodes[4]["attrs"]["dtype"] == [["float32", "float32"]]
    assert nodes[5]["inputs"] == [[4, 1, 0], [4, 0, 0]]
    assert graph["arg_nodes"] == [0, 1]
    assert graph["heads"] == [[5, 0, 0]]
    assert graph["node_row_ptr"] == [0, 1, 2, 3, 4, 6, 7]


def test_the_published_schema_accepts_it_and_refuses_what_it_does_not_know():
    graph = JSONSerializer("json_0").serialize(conv_function())
    validator = jsonschema.Draft202012Validator(schema())
    validator.validate(graph)
    graph["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(graph)


def test_a_composite_is_one_node_named_after_it_with_its_pattern():
    x, w = relay.var("x", shape=(2, 4)), relay.var("w", shape=(3, 4))
    p, q = relay.var("p"), relay.var("q")
    inner = relay.Function(
        [p, q],
        relay.nn.relu(relay.nn.dense(p, q)),
        attrs={"Composite": "acme.dense_relu", "PartitionedFromPattern": "nn.dense_nn.relu_"},
    )
    func = infer_function(relay.Function([x, w], relay.Call(inner, [x, w])))
    serializer = JSONSerializer("s", lambda composite: {"activation": "relu", "units": 3})
    node = serializer.serialize(func)["nodes"][2]
    assert (node["op"], node["name"]) == ("kernel", "acme.dense_relu")
    assert node["attrs"]["PartitionedFromPattern"] == [["nn.dense_nn.relu_"]]
    assert (node["attrs"]["activation"], node["attrs"]["units"]) == ([["relu"]], [["3"]])


def test_the_engine_computes_what_the_interpreter_does_also_after_loading():
    func = conv_function()
    module = compile_functions({"f": func})
    module.initialize("f", [module.constant_arrays[n] for n in module.constants()["f"]])
    data = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype("float32")
    out = byoc.runtime.empty((1, 4, 8, 8))
    module["f"](byoc.runtime.NDArray(data), out)
    np.testing.assert_allclose(out.numpy(), evaluate(func, [data]), rtol=1e-6)
    again = JsonModule.load(module.save())
    again.initialize("f", [module.constant_arrays[n] for n in again.constants()["f"]])
    out2 = byoc.runtime.empty((1, 4, 8, 8))
    again["f"](byoc.runtime.NDArray(data), out2)
    np.testing.assert_array_equal(out.numpy(), out2.numpy())
    assert (again["get_symbol"](), again["get_const_vars"]()) == ("f", ["f_const_0"])


def test_one_module_holds_several_symbols_and_the_same_bytes_come_out_twice():
    first = compile_functions({"f": conv_function(), "g": conv_function()})
    assert first.symbols == ("f", "g")
    assert first.save() == compile_functions({"f": conv_function(), "g": conv_function()}).save()
    assert json.loads(first.save()["g.json"])["symbol"] == "g"


def test_a_vendor_gives_its_own_kernels():
    table = KernelTable("test_vendor")
    seen = []

    @table.kernel("nn.relu")
    def relu(data, *, slope: float = 0.0):
        seen.append(slope)
        return np.maximum(data, 0)

    x = relay.var("x", shape=(3,))
    func = infer_function(relay.Function([x], relay.nn.relu(x)))
    module = compile_functions({"f": func}, table="test_vendor")
    assert module.call("f", [np.array([-1, 0, 2], "float32")])[0].tolist() == [0, 0, 2]
    assert seen == [0.0]
    with pytest.raises(KernelError, match="the kernel table 'test_vendor' has no kernel 'exp'"):
        compile_functions({"f": infer_function(relay.Function([x], relay.exp(x)))}, table="test_vendor")
    with pytest.raises(KernelError, match="no kernel table is called 'nowhere'"):
        compile_functions({"f": func}, table="nowhere")


def test_a_symbol_without_its_constants_is_not_run():
    module = compile_functions({"f": conv_function()})
    with pytest.raises(UserError, match="its constants were not given"):
        module.call("f", [np.zeros((1, 3, 8, 8), "float32")])


def test_a_broken_graph_is_refused():
    members = dict(compile_functions({"f": conv_function()}).save())
    empty, nonsense = {**members, "f.json": b"{}"}, {**members, "f.json": b"nonsense"}
    for damaged in (empty, nonsense, {"engine.json": members["engine.json"]}):
        with pytest.raises(ArtifactError):
            JsonModule.load(damaged)


def test_control_flow_has_no_place_in_a_json_graph():
    x, c = relay.var("x", shape=(3,)), relay.var("c", shape=(), dtype="bool")
    func = infer_function(relay.Function([x, c], relay.If(c, x, x)))
    with pytest.raises(CompileError, match="s: a If has no place in a JSON graph"):
        JSONSerializer("s").serialize(func)


def test_the_backend_says_why_it_refuses():
    x = relay.var("x", relay.TensorType((relay.Any(), 3)))
    call = relay.nn.relu(x)
    infer_function(relay.Function([x], call))
    verdict = JsonBackend().supports(call)
    assert not verdict
    assert "whose dimensions are numbers or named sizes, got Tensor[(?, 3), float32]" in str(verdict)


def test_attributes_have_relays_texts():
    assert encode_attribute(0.1) == [["0.10000000000000001"]]
    assert encode_attribute((1.0, 1e-5, float("inf"))) == [["1", "1.0000000000000001e-05", "inf"]]
    assert encode_attribute(None) == encode_attribute("") == [[""]]
    assert encode_attribute(()) == [[]]
    assert encode_attribute((True, False)) == [["1", "0"]]


NUMBERS = {"int": st.integers(-(10**12), 10**12), "float": st.floats(allow_nan=False), "bool": st.booleans()}
NUMBERS["str"] = st.text(max_size=8)


UNIONS = ["int | tuple[int, ...] | None", "None | tuple[int, ...] | int", "int | tuple[int, int] | None"]
KINDS = st.sampled_from(sorted(NUMBERS))


@given(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), NUMBERS[kind], st.lists(NUMBERS[kind]))))
def test_every_attribute_type_comes_back(case):
    kind, scalar, items = case
    assert decode_attribute(encode_attribute(scalar), kind) == scalar
    assert decode_attribute(encode_attribute(tuple(items)), f"tuple[{kind}, ...]") == tuple(items)
    nested = (tuple(items), (scalar,))
    assert decode_attribute(encode_attribute(nested), f"tuple[tuple[{kind}, ...], ...]") == nested
    assert decode_attribute(encode_attribute(None), f"{kind} | None") is None


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.tuples(
            st.none() | st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=2).map(tuple), st.sampled_from(UNIONS)
        ),
    ),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([*UNIONS, "int", "tuple[int, ...]", "str | None"])),
)
def test_a_union_of_a_number_and_a_sequence_keeps_what_was_given(attrs, reference):
    values = {name: value for name, (value, _) in attrs.items()}
    texts = {name: encode_attribute(value) for name, value in values.items()}
    marked = sequences_of_one(values, reference)
    if marked is not None:
        texts[SEQUENCES_OF_ONE] = encode_attribute(marked)
    annotations = {name: annotation for name, (_, annotation) in attrs.items()}
    assert decode_attributes(texts, annotations, reference) == values


def test_of_a_union_of_numbers_the_one_that_fits_is_taken():
    assert decode_attribute([["1.5"]], "int | float") == 1.5
    with pytest.raises(KernelError, match="'x' is not of type int"):
        decode_attribute([["x"]], "int | float")


def test_every_attribute_of_every_operator_is_read_back_as_its_kernel_takes_it():
    seen = set()
    for name in OPS:
        op = get_op(name)
        kernel = KERNELS.get(op.kernel)
        if kernel is None or op.attrs_type is None:
            continue
        for sample in op.samples:
            attrs = op.attrs_type(**sample.attrs).as_dict()
            for key, annotation in kernel.attributes.items():
                value = attrs[key]
                # a kernel that takes a sequence is given a lone number as a sequence of one
                lone = annotation.startswith("tuple[") and not isinstance(value, tuple) and value is not None
                expected = (value,) if lone else value
                assert decode_attribute(encode_attribute(value), annotation) == expected, (name, key)
                seen.add(annotation)
    assert {"int", "float", "bool", "str", "tuple[int, ...]", "tuple[int, ...] | None"} <= seen


@pytest.mark.parametrize(("sections", "shapes"), [(2, [(3, 1), (3, 1)]), ((2,), [(2, 2), (1, 2)]), ((), [(3, 2)])])
def test_a_number_of_sections_and_one_index_stay_apart_in_json_text(sections, shapes):
    x = relay.var("x", shape=(3, 2))
    axis = 1 if isinstance(sections, int) else 0
    parts = relay.split(x, sections, axis=axis)
    module = compile_functions({"f": infer_function(relay.Function([x], parts.astuple()))})
    node = module.graphs["f"]["nodes"][-1]
    assert node["attrs"]["indices_or_sections"] == [[str(n) for n in ([sections] if axis else sections)]]
    data = np.arange(6, dtype="float32").reshape(3, 2)
    outputs = JsonModule.load(module.save()).call("f", [data])
    assert [o.shape for o in outputs] == shapes
    np.testing.assert_array_equal(np.concatenate(outputs, axis), data)


def scaled(name):
    """A composite of ``name`` that is ``relu(p + c)``, and the function ``composite(x) * composite(y)``."""
    p, x, y = relay.var("p", shape=(2,)), relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    body = relay.nn.relu(relay.add(p, relay.const(np.array([1, 2], "float32"))))
    composite = relay.Function([p], body, attrs={"Composite": name, "PartitionedFromPattern": "add_nn.relu_"})
    product = relay.multiply(relay.Call(composite, [x]), relay.Call(composite, [y]))
    return infer_function(relay.Function([x, y], product))


def computed(module, *inputs):
    module.initialize("f", [module.constant_arrays[n] for n in module.constants()["f"]])
    out = byoc.runtime.empty((2,))
    module["f"](*map(byoc.runtime.NDArray, inputs), out)
    return out.numpy().tolist()


X, Y = np.array([1, -5], "float32"), np.array([3, 4], "float32")


def test_a_kernel_of_a_composite_gets_the_constants_of_its_body_after_its_arguments():
    table = KernelTable("test_composite_constants")
    table.kernel("acme.add_relu")(lambda data, bias: np.maximum(data + bias, 0))
    table.kernel("multiply")(lambda lhs, rhs: lhs * rhs)
    module = compile_functions({"f": scaled("acme.add_relu")}, "test_composite_constants")
    assert module.constants() == {"f": ("f_const_0",)}
    assert computed(module, X, Y) == [2 * 4, 0]


@pytest.mark.parametrize("kernel", [lambda x, a, b: x * a + b, lambda x, both: x * both + both])
def test_a_constant_that_a_composite_reads_twice_is_given_as_often_as_its_kernel_takes_it(kernel):
    table = KernelTable("test_shared_constants")
    table.kernel("acme.scaled")(kernel)
    row = relay.const(np.float32([2, 3]))
    p, x = relay.var("p", shape=(2,)), relay.var("x", shape=(2,))
    composite = relay.Function([p], relay.add(relay.multiply(p, row), row), attrs={"Composite": "acme.scaled"})
    function = infer_function(relay.Function([x], relay.Call(composite, [x]), attrs={"global_symbol": "f"}))
    module = compile_functions({"f": function}, "test_shared_constants")
    assert computed(module, np.float32([1, 2])) == [4, 9]


def test_by_default_the_constants_of_a_composite_are_not_in_the_graph_as_in_relay():
    graph = JSONSerializer("f").serialize(scaled("acme.add_relu"))
    assert [node["op"] for node in graph["nodes"]] == ["input", "input", "kernel", "kernel", "kernel"]


def test_a_composite_without_a_kernel_is_entered_at_each_of_its_calls():
    assert computed(compile_functions({"f": scaled("acme.add_relu")}), X, Y) == [2 * 4, 0]
    assert computed(compile_functions({"f": scaled("acme.add_relu")}), Y, np.zeros(2, "float32")) == [4, 6 * 2]
