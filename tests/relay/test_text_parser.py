"""What the parser reads, and what it says about text that it cannot read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from byoc import relay
from byoc.errors import ParseError
from byoc.relay.text.op_calls import attributes_of

HEAD = '#[version = "0.0.5"]\n'


def test_a_text_becomes_the_graph_that_the_builders_make() -> None:
    mod = relay.parse(
        HEAD
        + """
        def @main(%x: Tensor[(1, 3), float32], %y: Tensor[(1, 3), float32]) {
          %0 = add(%x, %y);   // a comment
          %1 = exp(%0) /* another /* nested */ one */;
          %2 = (%0, %1);
          clip(%2.1, a_min=0f, a_max=6)
        }"""
    )
    x, y = relay.var("x", shape=(1, 3)), relay.var("y", shape=(1, 3))
    s = relay.add(x, y)
    pair = relay.Tuple([s, relay.exp(s)])
    expected = relay.Function([x, y], relay.clip(relay.TupleGetItem(pair, 1), 0.0, 6.0))
    relay.assert_structural_equal(mod, relay.transform.InferType()(relay.IRModule.from_expr(expected)))
    clip = mod["main"].body
    assert clip.attrs.a_max == 6.0 and isinstance(clip.attrs.a_max, float)


def test_infix_operators_bind_as_in_arithmetic() -> None:
    free = "free_var %a: float32;\nfree_var %b: float32;\n"
    infix = relay.parse_expr(free + "%a - %b - %a * (%b + -2f) < %a")
    calls = relay.parse_expr(free + "less(subtract(subtract(%a, %b), multiply(%a, add(%b, -2f))), %a)")
    assert relay.structural_equal(infix, calls, map_free_vars=True)


def test_a_let_binds_in_what_follows_and_a_sequence_binds_nothing() -> None:
    f = relay.parse_expr("fn (%r: ref(float32)) { ref_write(%r, 1f); let %v: float32 = ref_read(%r); (%v, %v) }")
    assert isinstance(f.body, relay.Let) and f.body.variable.name_hint == "_"
    inner = f.body.body
    assert isinstance(inner, relay.Let) and inner.body.fields[0] is inner.variable is inner.body.fields[1]


def test_an_inner_variable_hides_an_outer_one_of_the_same_name() -> None:
    f = relay.parse_expr("fn (%x: float32) { %0 = fn (%x: int32) { %x }; %1 = (%x, %0); let %x = %1; %x }")
    outer, inner = f.params[0], f.body.value.fields[1]
    assert f.body.value.fields[0] is outer
    assert inner.body is inner.params[0] is not outer
    assert f.body.body is f.body.variable


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("1", "int32", 1),
        ("-1", "int32", -1),
        ("2i64", "int64", 2),
        ("3u8", "uint8", 3),
        ("1.5", "float32", 1.5),
        ("1f", "float32", 1),
        ("1e-3f64", "float64", 1e-3),
        ("2f16", "float16", 2),
        ("True", "bool", True),
    ],
)
def test_a_literal_is_a_scalar_constant(text: str, dtype: str, value: float) -> None:
    constant = relay.parse_expr(text)
    assert constant.data.dtype == dtype and constant.data.shape == ()
    assert constant.data.numpy() == np.asarray(value, dtype)


def test_tensors_may_come_from_outside_the_text() -> None:
    table = {"relay.Constant": [relay.const([1.0, 2.0]), np.arange(3)]}
    mod = relay.parse("(meta[relay.Constant][0], meta[relay.Constant][1])", "from_string", None, table)
    first, second = mod["main"].body.fields
    assert first.data.numpy().tolist() == [1.0, 2.0] and second.data.numpy().tolist() == [0, 1, 2]


def test_functions_may_call_each_other_and_those_of_a_given_module() -> None:
    given = relay.parse("def @h(%x: float32) { %x }")
    mod = relay.parse("def @f(%x: float32) { @g(%x) } def @g(%x: float32) { @h(%x) }", init_module=given)
    assert [v.name_hint for v in mod.get_global_vars()] == ["h", "f", "g"]
    assert mod["f"].body.op is mod.get_global_var("g")
    assert mod["g"].body.op is given.get_global_var("h")
    assert len(given) == 1


def test_fromtext_reads_a_module_and_parse_expr_its_only_function() -> None:
    text = HEAD + "def @main(%x: float32) { %x }"
    assert isinstance(relay.fromtext(text), relay.IRModule)
    assert isinstance(relay.parse_expr(text), relay.Function)
    with pytest.raises(ParseError, match="found 2 functions"):
        relay.parse_expr("def @a() { 1 } def @b() { 2 }")


BAD = {
    "": "1:1: expected an expression, found the end of the text",
    "add(1f, %x)": "1:9: the variable %x is not defined here",
    "%0": "1:1: %0 is used before it is bound",
    "%0 = 1; %0 = 2; %0": "1:9: %0 is bound twice",
    "ad(1f, 2f)": "1:1: no operator is called 'ad'; did you mean add",
    "clip(1f, a_mn=1f)": "1:1: clip has no attribute 'a_mn'; did you mean a_min",
    'clip(1f, a_min="low", a_max=1f)': "1:1: the attribute a_min of clip is float, got 'low'",
    "clip(1f, a_min=1f, a_min=1f)": "1:20: the attribute a_min is given twice",
    "exp(1f, a=1)": "1:1: exp takes no attributes, got a",
    '(fn () { 1 })(a=1, attrs_type_key="NoAttrs")': "no class of attributes is called 'NoAttrs'",
    "fn (%x: Tensor[(1), float3]) { %x }": "1:21: unknown type 'float3'; did you mean float32",
    "fn (%x: Tensor[(-1), int8]) { %x }": "1:17: expected a dimension: a number, ? or ?name, found '-'",
    "fn (%x: Tensor[(1.5), int8]) { %x }": "1:17: a dimension is a whole number, got 1.5",
    "fn (%x, %x) { %x }": "1:9: two parameters are called %x",
    "fn (%x { %x }": "1:8: expected ',' or ')', found '{'",
    "fn (%x) { %x": "1:13: expected ';' or '}', found the end of the text",
    "fn (%x) { %x } 1": "1:16: expected the end of the text, found '1'",
    "if (True) { 1 }": "1:16: expected 'else', found the end of the text",
    "ref_write(1)": "1:1: ref_write takes 2 expressions, got 1",
    "let x = 1; 2": "1:5: expected a variable, such as %x, found 'x'",
    "@g(1f)": "1:1: the function @g is not defined",
    "def @f() { @h() }": "1:12: the function @h is not defined; known: f",
    "def @f() { 1 } def @f() { 2 }": "1:20: the function @f is defined twice",
    "def @f() { 1 } 2": "1:16: expected 'def', 'type' or the end of the text, found '2'",
    "meta[relay.Constant][0]": "1:1: meta[relay.Constant][0] is not in the metadata, which has 0 of relay.Constant",
    "300u8": "1:1: 300 does not fit uint8",
    "1.5i8": "1:1: 1.5 is not a whole number, as int8 needs",
    "1f8": "1:1: unknown ending 'f8' of a number",
    "1 $": "1:3: unexpected character '$'",
    "%é": "1:1: a name is expected after %",
    '"abc': "1:1: this string does not end on its line",
    '"\\q"(1)': "1:1: not a valid string",
    "/* never": "1:1: this comment has no end",
    "1 /* span=a:1 */": "1:3: not a span: 'a:1'",
    "1 /* span=a b */": "1:3: not a span: 'a b'",
    '#[version = "0.1"] 1': "1:3: version '0.1' of the text format cannot be read",
    "#[colour = 1] 1": "1:3: expected version or attrs, found 'colour'",
    "fn (Composite=) { 1 }": "1:15: expected the value of an attribute",
    "fn (%x: " + "(" * 300 + ") { %x }": "types and attribute values nest at most 200 deep",
    "1\n#[metadata]\n[": "line 3: the metadata section is not JSON: Expecting value",
    "1\n#[metadata]\n[]": "line 2: the metadata section must map names to lists of tensors",
    '1\n#[metadata]\n{"relay.Constant": [3]}': "meta[relay.Constant][0] must be a JSON object, got int",
    '1\n#[metadata]\n{"relay.Constant": [{"shape": []}]}': "meta[relay.Constant][0] is damaged: 'dtype' is missing",
    '1\n#[metadata]\n{"relay.Constant": [{"dtype": "int8", "shape": [2], "data": "AA=="}]}': (
        "damaged: 1 bytes of data, 2 expected for int8[2]"
    ),
    '1\n#[metadata]\n{"relay.Constant": [{"dtype": "int8", "shape": [-2], "data": ""}]}': "negative dimension",
}


@pytest.mark.parametrize("text", BAD)
def test_unreadable_text_is_refused_with_place_and_reason(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        relay.parse(text)
    assert BAD[text] in str(caught.value)


def test_an_error_shows_the_line_and_points_at_the_column() -> None:
    with pytest.raises(ParseError) as caught:
        relay.parse("def @main(%x: float32) {\n  %0 = exp(%x);\n  add(%0, %y)\n}", "model.txt")
    assert str(caught.value).splitlines() == [
        "model.txt:3:11: the variable %y is not defined here; did you mean %x?",
        "    add(%0, %y)",
        "            ^",
    ]
    assert (caught.value.line, caught.value.column) == (3, 11)


def test_a_variable_is_unknown_after_the_function_that_binds_it() -> None:
    with pytest.raises(ParseError, match="the variable %p is not defined here"):
        relay.parse("fn (%x) { %0 = fn (%p) { %p }; (%0, %p) }")


def test_expressions_may_nest_without_limit() -> None:
    depth = 30_000
    expr = relay.parse_expr("exp(" * depth + "1f" + ")" * depth)
    count = 0
    while isinstance(expr, relay.Call):
        expr, count = expr.args[0], count + 1
    assert count == depth


def test_an_attribute_without_a_default_must_be_given() -> None:
    @dataclasses.dataclass(frozen=True)
    class AxisAttrs(relay.Attrs):
        axis: int

    op = relay.Op("only.here")
    op.attrs_type = AxisAttrs
    assert attributes_of(op, {"axis": True}) == AxisAttrs(1)
    with pytest.raises(ParseError, match="only.here needs the attribute axis"):
        attributes_of(op, {})
