"""Literals, spans, attributes that map variables, and names, as Relay has them."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "text, dtype",
    [
        ("2147483647", "int32"),
        ("2147483648", "int64"),
        ("-2147483648", "int32"),
        ("-2147483649", "int64"),
        ("5i64", "int64"),
        ("65504f16", "float16"),
        ("3.4028234663852886e+38f32", "float32"),
        ("1.5", "float32"),
    ],
)
def test_a_literal_has_the_dtype_of_its_ending_or_the_one_that_holds_it(tvm, text, dtype):
    assert tvm.relay.parse_expr(text).data.dtype == dtype


@pytest.mark.parametrize(
    "text", ["3.40283e+38f32", "-3.40283e+38f32", "65505f16", "-65505f16", "2147483648i32", "1e400f64"]
)
def test_a_literal_that_does_not_fit_its_dtype_is_an_error(tvm, text):
    with pytest.raises(tvm.error.DiagnosticError, match="does not fit"):
        tvm.relay.parse_expr(text)


def test_a_span_may_have_no_source_and_survives_json_and_text(tvm):
    from tvm import relay

    span = relay.Span(None, 1, 2, 3, 4)
    assert span.source_name is None and (span.line, span.end_line, span.column, span.end_column) == (1, 2, 3, 4)
    assert str(span) == ":1:3" and span.same_as(span) and span == relay.Span(None, 1, 2, 3, 4)
    assert tvm.ir.load_json(tvm.ir.save_json(span)) == span
    x = relay.var("x", shape=(2,))
    func = relay.Function([x], relay.Call(relay.op.get("nn.relu"), [x], span=span))
    assert relay.parse_expr(func.astext()).body.span == span
    named = relay.Span(relay.SourceName("a"), 1, 1, 1, 2)
    both = relay.SequentialSpan((named, span))
    assert tvm.ir.load_json(tvm.ir.save_json(both)) == both and both.same_as(both)


def test_type_relations_are_equal_where_their_attributes_are(tvm):
    from tvm import relay

    func = tvm.ir.EnvFunc.get("tvm.relay.type_relation.Broadcast")
    types = [relay.TensorType((1, 2)), relay.TensorType((1, 2))]

    def relation(padding):
        return relay.TypeRelation(func, types, 1, tvm.ir.make_node("attrs.TestAttrs", name="attr", padding=padding))

    assert relation((3, 4)) == relation((3, 4)) and hash(relation((3, 4))) == hash(relation((3, 4)))
    assert relation((3, 4)) != relation((3, 4, 4)) and relation((3, 4)) != relay.TypeRelation(func, types, 1, None)
    assert tvm.ir.structural_equal(relation((3, 4)), relation((3, 4)))


@pytest.mark.parametrize("key", [lambda var: var, lambda var: var.vid], ids=["variable", "identity"])
def test_attributes_that_map_parameters_are_compared_with_parameters_paired(tvm, key):
    from tvm import relay

    def func(first, second, which):
        a, b = relay.var(first, shape=(2,)), relay.var(second, shape=(2,))
        return relay.Function([a, b], relay.add(a, b)).with_attr("order", {key((a, b)[which]): 7, "size": [1, 2]})

    one, same, other = func("a", "b", 0), func("x", "y", 0), func("a", "b", 1)
    assert tvm.ir.structural_equal(one, same) and tvm.ir.structural_hash(one) == tvm.ir.structural_hash(same)
    assert not tvm.ir.structural_equal(one, other) and tvm.ir.structural_hash(one) != tvm.ir.structural_hash(other)


@pytest.mark.parametrize(
    "function, given, message",
    [
        ("to_c_constant_style", "x", "Constant not TVM prefixed"),
        ("to_c_variable_style", "x", "Variable not TVM prefixed"),
        ("to_c_function_style", "x", "Function not TVM prefixed"),
        ("prefix_name", [""], "Name segment is empty"),
        ("prefix_name", "", "Name is empty"),
        ("prefix_name", [], "Name segments empty"),
        ("prefix_generated_name", [""], "Name segment is empty"),
        ("prefix_generated_name", "", "Name is empty"),
        ("sanitize_name", "", "Name is empty"),
    ],
)
def test_names_that_cannot_be_transformed_are_refused_in_relay_s_words(tvm, function, given, message):
    from tvm.relay.backend import name_transforms

    with pytest.raises(ValueError, match=message):
        getattr(name_transforms, function)(given)


def test_the_name_of_a_module_is_in_ascii(tvm):
    from tvm.relay.backend.utils import mangle_module_name

    assert mangle_module_name("net") == "tvmgen_net" and mangle_module_name(None) == "tvmgen"
    with pytest.raises(ValueError, match="ASCII"):
        mangle_module_name("\u0394")


def test_a_size_that_is_a_variable_stands_in_the_metadata(tvm):
    from tvm import relay, te

    n = te.size_var("n")
    x, y = relay.var("x", shape=(n, 10)), relay.var("y", shape=(te.var("m"), n))
    func = relay.Function([x, y], relay.Tuple([x, y]))
    text = func.astext()
    assert "Tensor[(meta[tir.SizeVar][0], 10), float32]" in text and "meta[tir.Var][0]" in text and "type_key" in text
    assert "meta[tir.SizeVar][0]" in str(func) and "type_key" not in str(func)
    again = relay.parse_expr(text)
    tvm.ir.assert_structural_equal(again, func)
    assert type(again.params[0].type_annotation.shape[0]) is type(n)
    with pytest.raises(tvm.error.DiagnosticError, match="a dimension is a size of the metadata"):
        relay.parse(
            '#[version = "0.0.5"]\ndef @main(%x: Tensor[(meta[relay.Constant][0]), float32]) { %x }\n'
            '#[metadata]\n{"relay.Constant": [{"dtype": "int8", "shape": [1], "data": "AA=="}]}'
        )
