"""Details of Relay's text that its users' programs and tests rely on."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import UserError
from byoc.relay.op.attributes.convolution import DenseAttrs
from byoc.relay.text import parse_untyped

HEAD = '#[version = "0.0.5"]\n'
X, Y = relay.var("x"), relay.var("y")


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("1 * 1 + 1 < 1 == 1", "(((1 * 1) + 1) < 1) == 1"),
        ("1 == 1 < 1 + 1 * 1", "1 == (1 < (1 + (1 * 1)))"),
        ("1 - 2 - 3", "(1 - 2) - 3"),
    ],
)
def test_infix_operators_bind_as_in_relay(text: str, grouped: str) -> None:
    relay.assert_structural_equal(relay.parse_expr(text), relay.parse_expr(grouped))


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("--10", 10, "int32"),
        ("---10", -10, "int32"),
        ("-42i", -42, "int32"),
        ("-05", -5, "int32"),
        ("9223372036854775807i64", 2**63 - 1, "int64"),
        ("1E+1f", 10, "float32"),
        ("2f16", 2, "float16"),
    ],
)
def test_numbers_have_signs_and_endings(text: str, value: float, dtype: str) -> None:
    constant = relay.parse_expr(text)
    assert constant.data.numpy() == value and constant.data.dtype == dtype


def test_a_sign_before_an_expression_is_an_operator() -> None:
    relay.assert_structural_equal(relay.parse_expr("fn (%x) { -%x }"), relay.Function([X], relay.negative(X)))


def test_arguments_stand_before_the_function_that_is_called() -> None:
    call = relay.Call(relay.Function([X], X), [relay.Call(relay.Function([Y], Y), [relay.const(1)])])
    assert call.astext() == HEAD + "%0 = fn (%y) {\n  %y\n};\n%1 = %0(1);\n%2 = fn (%x) {\n  %x\n};\n%2(%1)"
    assert str(call) == call.astext().removeprefix(HEAD)


def test_a_name_that_begins_with_a_digit_is_a_name_with_v() -> None:
    one, other = relay.var("1", shape=(2,)), relay.var("v1", shape=(2,))
    func = relay.Function([one, other], relay.add(one, other))
    assert "%v1" in one.astext() and "add(%v1, %v1#1)" in func.astext()
    assert [p.name_hint for p in relay.parse_expr(func.astext()).params] == ["1", "v1"]


def test_names_may_hold_slashes() -> None:
    relay.assert_structural_equal(relay.parse_expr("fn (%base/x) { %base/x }"), relay.Function([X], X))


def test_an_attribute_that_is_none_is_printed_as_none() -> None:
    func = relay.Function([X], X).with_attr("Some", None)
    assert "Some=None" in func.astext()
    relay.assert_structural_equal(relay.parse_expr(func.astext()), func)
    relay.assert_structural_equal(relay.parse_expr(func.astext().replace("None", "(nullptr)")), func)


def test_a_call_of_a_function_carries_attributes_with_their_class() -> None:
    func = relay.Function([X], relay.Call(relay.Function([Y], Y), [X], DenseAttrs(units=3)))
    text = func.astext()
    assert 'units=3, attrs_type_key="relay.attrs.DenseAttrs"' in text
    again = relay.parse_expr(text)
    assert again.body.attrs == DenseAttrs(units=3)
    relay.assert_structural_equal(again, func)


def test_attributes_may_come_from_the_metadata() -> None:
    text = HEAD + "def @main(%x: Tensor[(2, 4), float32]) { nn.dense(%x, %x, meta[relay.attrs.DenseAttrs][0]) }"
    mod = relay.parse(text, init_meta_table={"relay.attrs.DenseAttrs": [DenseAttrs(units=2)]})
    assert mod["main"].body.attrs == DenseAttrs(units=2)
    with pytest.raises(UserError, match="an expression is expected"):
        parse_untyped("meta[A][0]", init_meta_table={"A": [DenseAttrs(units=2)]})


def test_modules_come_back_typed_and_expressions_do_not() -> None:
    mod = relay.fromtext(HEAD + "def @main(%x: Tensor[(2), float32]) { exp(%x) }")
    assert mod["main"].checked_type == relay.FuncType([relay.TensorType([2])], relay.TensorType([2]))
    assert relay.parse_expr("fn (%x: int32) { %x }").checked_type_ is None


def test_the_items_of_a_modules_mappings_may_be_indexed() -> None:
    mod = relay.parse(HEAD + "type Box[A] { Make(A), }\ndef @main() { 1 }")
    header, data = mod.type_definitions.items()[0]
    assert header.name_hint == "Box" and len(data.constructors) == 1
    assert mod.functions.items()[0][0].name_hint == "main"


def test_spans_are_the_places_in_the_modules_own_text() -> None:
    x = relay.var("x", shape=(3, 4))
    body = relay.Let(relay.var("y"), relay.exp(relay.clip(x, -np.inf, np.inf)), x)  # the defaults of clip
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], body)))
    placed = relay.transform.AnnotateSpans()(mod)
    relay.assert_structural_equal(placed, mod)
    lines = mod.astext().splitlines()
    clip = placed["main"].body.value.args[0]
    assert clip.span.source_name.name == "GeneratedSource"
    line, start, end = clip.span.line, clip.span.column, clip.span.end_column
    assert lines[line - 1][start - 1 : end - 1] == "clip(%x)"
    assert placed["main"].span.line == 2 and placed["main"].body.span.line == line + 1


@pytest.mark.parametrize("dtype", ["int8x4", "uint1", "uint1x4", "float16x4", "boolx2"])
def test_types_may_name_vectors(dtype: str) -> None:
    func = relay.parse_expr(f"fn (%x: Tensor[(3), {dtype}], %y: {dtype}) {{ %x }}")
    assert func.params[0].type_annotation == relay.TensorType([3], dtype)
    relay.assert_structural_equal(relay.parse_expr(func.astext()), func)


@pytest.mark.parametrize("name, dtype", [("int", "int32"), ("float", "float32"), ("uint", "uint32"), ("uint1", "bool")])
def test_other_names_of_dtypes_are_read_as_what_they_mean(name: str, dtype: str) -> None:
    func = relay.parse_expr(f"fn (%x: {name}, %y: Tensor[(3), {name}]) {{ %x }}")
    assert [p.type_annotation.dtype for p in func.params] == [dtype, dtype]
    assert relay.TensorType((), name) == relay.TensorType((), dtype)


def test_what_has_no_default_in_relay_is_always_written():
    x = relay.var("x", shape=(1, 1))
    for call, text in ((relay.transpose(x), "axes=None"), (relay.reshape(x, ()), "newshape=[]")):
        written = relay.Function([x], call).astext()
        again = parse_untyped(written)["main"]
        assert text in written and again.body.attrs == call.attrs
