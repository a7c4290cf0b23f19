"""Objects as JSON: there and back structurally equal with sharing kept, in TVM's layout; what older TVM wrote."""

import json

import numpy as np
import pytest

from byoc import relay
from byoc.annex.node_json import load_json, save_json
from byoc.errors import ParseError, UserError
from byoc.ir.attrs import DictAttrs
from byoc.ir.env_func import EnvFunc
from byoc.ir.module import IRModule
from byoc.ir.registry import GLOBAL_FUNCTIONS, register_func
from byoc.ir.size_var import SizeVar, Var
from byoc.ir.types import GlobalTypeVar, IncompleteType, TypeCall, TypeKind, TypeRelation, TypeVar
from byoc.relay.transform import InferType


def same(node):
    back = load_json(save_json(node))
    relay.assert_structural_equal(back, node, map_free_vars=True)
    return back


x, y = relay.var("x", shape=(2, relay.Any(), 3)), relay.var("y", relay.TensorType((3,), "float32"))
a = TypeVar("a")
TYPES = [
    relay.TensorType((1, relay.Any(), relay.Any("n")), "int8"),
    relay.TensorType((), "bool"),
    relay.TupleType([relay.scalar_type("float32"), relay.TupleType([])]),
    relay.RefType(relay.scalar_type("int32")),
    relay.FuncType([a], a, [a]),
    relay.FuncType([relay.scalar_type("int32")], relay.TupleType([])),
    TypeCall(GlobalTypeVar("List"), [relay.scalar_type("int32")]),
]
EXPRESSIONS = [
    relay.const(np.arange(6, dtype="float32").reshape(2, 3)),
    relay.const(True),
    relay.Tuple([x, y]),
    x,
    relay.Var("untyped"),
    relay.Function([x, y], relay.add(x, y)),
    relay.TupleGetItem(relay.Tuple([x, y]), 1),
    relay.Let(y, relay.const([1.0, 2.0, 3.0]), y),
    relay.If(relay.const(True), x, relay.negative(x)),
    relay.op.get("log"),
    relay.RefWrite(relay.RefCreate(y), relay.RefRead(relay.RefCreate(y))),
    relay.nn.conv2d(relay.var("d", shape=(1, 3, 8, 8)), relay.var("w"), padding=(1, 2, 3, 4), channels=4, groups=1),
    relay.clip(x, -1.5, float("inf")),
    relay.reshape(x, (0, -1)),
    relay.mean(x, axis=[0, 2], keepdims=True),
    relay.split(y, 3).astuple(),
    relay.GlobalVar("f")(x),
]


@pytest.mark.parametrize("ty", TYPES, ids=str)
def test_types_come_back(ty):
    if isinstance(ty, TypeCall):
        back = load_json(save_json(ty))
        assert (back.func.name_hint, back.func.kind, back.args) == ("List", TypeKind.AdtHandle, ty.args)
    else:
        assert load_json(save_json(ty)) == ty


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=lambda e: type(e).__name__)
def test_expressions_come_back(expr):
    same(expr)


def test_a_global_name_comes_back_by_its_name():
    assert load_json(save_json(relay.GlobalVar("main"))).name_hint == "main"


def test_sharing_types_and_spans_are_kept():
    shared = relay.exp(relay.var("z", shape=(2,)))
    shared.span = relay.Span(relay.SourceName("net.onnx"), 3, 4, 5, 6)
    mod = InferType()(IRModule.from_expr(relay.multiply(shared, shared)))
    back = same(mod)["main"]
    assert back.body.args[0] is back.body.args[1] and back.body.args[0].args[0] is back.params[0]
    assert back.body.args[0].span == shared.span and back.body.checked_type == relay.TensorType((2,))
    assert back.ret_type == relay.TensorType((2,)) and back.checked_type == mod["main"].checked_type


def test_a_module_comes_back_with_its_functions_attributes_and_names():
    f = relay.GlobalVar("f")
    region = relay.Function([y], relay.exp(y)).with_attr({"Compiler": "acme", "Primitive": 1, "scales": [0.5, 1.0]})
    mod = IRModule({f: region, relay.GlobalVar("main"): relay.Function([x], f(x))}).with_attr("origin", "here")
    back = same(mod)
    assert back["main"].body.op is back.get_global_var("f") and dict(back.attrs) == {"origin": "here"}
    assert dict(back["f"].attrs) == {"Compiler": "acme", "Primitive": 1, "scales": (0.5, 1.0)}


def test_algebraic_data_comes_back():
    mod = relay.fromtext(
        """#[version = "0.0.5"]
        type Tree[A] { Leaf, Node(A, Tree[A]), }
        def @first(%t: Tree[int32]) -> int32 { match? (%t) { Node(%v, _) => %v, } }
        """
    )
    back = same(mod)
    header, *constructors = back.get_type("Tree")
    assert [c.name_hint for c in constructors] == ["Leaf", "Node"] and constructors[1].belong_to is header
    match = back["first"].body
    assert match.clauses[0].lhs.constructor is constructors[1] and match.complete is False
    assert [c.tag for c in constructors] == [c.tag for c in mod.get_type("Tree")[1:]]


def test_relations_name_their_function():
    register_func("test.node_json.relation", lambda: None)
    try:
        relation = TypeRelation(EnvFunc.get("test.node_json.relation"), [a, a], 1, None)
        back = load_json(save_json(relation))
        assert back.func is EnvFunc.get("test.node_json.relation") and (len(back.args), back.num_inputs) == (2, 1)
    finally:
        GLOBAL_FUNCTIONS.unregister("test.node_json.relation")


def test_attributes_lists_mappings_and_sizes_come_back():
    attrs = relay.nn.max_pool2d(x, (2, 3), ceil_mode=True).attrs
    assert load_json(save_json(attrs)) == attrs and load_json(save_json(DictAttrs({"a": None}))) == {"a": None}
    values = {"k": [1, 2.5, "word", True, None, (relay.Any("n"),)], "empty": []}
    back = load_json(save_json(values))
    assert back == {"k": (1, 2.5, "word", True, None, (relay.Any("n"),)), "empty": ()} and back["k"][3] is True
    assert type(load_json(save_json(SizeVar("n")))) is SizeVar
    assert load_json(save_json(Var("m", "int64"))).dtype == "int64"


def test_the_layout_is_that_of_tvm():
    data = json.loads(save_json(relay.Tuple([relay.GlobalVar("g"), relay.const(1.0)])))
    keys = [node["type_key"] for node in data["nodes"]]
    assert data["root"] == 1 and keys[:4] == ["", "relay.Tuple", "Array", "GlobalVar"] and "relay.Constant" in keys
    assert data["nodes"][1]["attrs"] == {"_checked_type_": "0", "fields": "2", "span": "0", "virtual_device_": "0"}
    assert data["nodes"][2]["data"] == [3, keys.index("relay.Constant")] and len(data["b64ndarrays"]) == 1
    name = data["nodes"][int(data["nodes"][3]["attrs"]["name_hint"])]
    assert name == {"type_key": "runtime.String", "repr_str": "g"}


@pytest.mark.slow
def test_a_chain_of_100_000_calls_comes_back():
    body = x
    for _ in range(100_000):
        body = relay.negative(body)
    back, count = load_json(save_json(body)), 0
    while isinstance(back, relay.Call):
        back, count = back.args[0], count + 1
    assert count == 100_000 and back.name_hint == "x"


def formerly(*nodes, root=1):
    """What TVM 0.6 wrote: a node that is nothing, then *nodes*."""
    return load_json(
        json.dumps(
            {"root": root, "nodes": [{"type_key": ""}, *nodes], "attrs": {"tvm_version": "0.6.0"}, "b64ndarrays": []}
        )
    )


def test_what_tvm_0_6_wrote_can_be_read():
    size = {"type_key": "Variable", "attrs": {"dtype": "int32", "name": "in0", "span": "0"}}
    for key, cls in (("relay.TypeVar", TypeVar), ("relay.GlobalTypeVar", GlobalTypeVar)):
        found = formerly({"type_key": key, "attrs": {"kind": "0", "span": "0", "var": "2"}}, size)
        assert type(found) is cls and found.name_hint == "in0"
    var = {"_checked_type_": "0", "span": "0", "type_annotation": "3", "vid": "2"}
    found = formerly(
        {"type_key": "relay.Var", "attrs": var},
        {"type_key": "relay.Id", "attrs": {"name_hint": "a3"}},
        {"type_key": "relay.TensorType", "attrs": {"dtype": "float32", "shape": "4", "span": "0"}},
        {"type_key": "Array", "data": [5, 6]},
        *[{"type_key": "IntImm", "attrs": {"dtype": "int32", "value": value, "span": "0"}} for value in ("16", "8")],
    )
    assert (found.name_hint, found.type_annotation) == ("a3", relay.TensorType((16, 8)))
    unknown = formerly({"type_key": "relay.IncompleteType", "attrs": {"kind": "0", "span": "0"}})
    assert isinstance(unknown, IncompleteType)
    parts = {"arg_types": "2", "ret_type": "3", "span": "0", "type_constraints": "2", "type_params": "2"}
    func = formerly(
        {"type_key": "relay.FuncType", "attrs": parts},
        {"type_key": "Array"},
        {"type_key": "relay.TupleType", "attrs": {"fields": "2", "span": "0"}},
    )
    assert func == relay.FuncType([], relay.TupleType([]))
    for key in ("relay.GlobalVar", "GlobalVar"):
        attrs = {"_checked_type_": "0", "name_hint": "x", "span": "0"}
        assert formerly({"type_key": key, "attrs": attrs}).name_hint == "x"
    assert formerly({"type_key": "relay.Op", "global_key": "nn.conv2d"}) is relay.op.get("nn.conv2d")
    assert isinstance(formerly(size), Var) and formerly(size).name == "in0"
    assert isinstance(formerly({**size, "type_key": "SizeVar"}), SizeVar)
    named = formerly({"type_key": "StrMap", "keys": ["z", "x"], "data": [2, 2]}, size)
    assert list(named) == ["z", "x"] and named["z"] is named["x"]
    empty = {
        "functions": "0",
        "global_type_var_map_": "0",
        "global_var_map_": "0",
        "source_map": "0",
        "type_definitions": "0",
    }
    assert not formerly({"type_key": "IRModule", "attrs": empty}).attrs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not what tvm.ir.save_json writes"),
        ("{}", "not what tvm.ir.save_json writes"),
        ('{"root": 5, "nodes": [{"type_key": ""}]}', "there is no node 5"),
        ('{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "tir.For"}]}', "no object called 'tir.For'"),
        ('{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Array", "data": [1]}]}', "made of itself"),
    ],
)
def test_another_text_is_one_sentence(text, message):
    with pytest.raises(ParseError, match=message):
        load_json(text)


def test_what_has_no_json_is_refused():
    with pytest.raises(UserError, match="save_json writes expressions, types"):
        save_json(object())
