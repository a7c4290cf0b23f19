"""Small facts of Relay's nodes, types and text that its own tests rest on."""

from __future__ import annotations

import pytest

from byoc import relay
from byoc.ir import IRModule, SourceName
from byoc.ir.types import FuncType, TensorType, TupleType, TypeVar
from byoc.relay.analysis.module_types import infer_type_local
from byoc.relay.structure.structural import structural_equal

VERSION = '#[version = "0.0.5"]\n'


def test_a_let_names_its_variable_var():
    x = relay.var("x")
    assert relay.Let(x, relay.const(1), x).var is x


def test_identities_and_sources_answer_to_same_as():
    x = relay.var("x")
    assert x.vid.same_as(x.vid)
    assert not x.vid.same_as(relay.var("x").vid)
    assert SourceName("a").same_as(SourceName("a"))
    assert not SourceName("a").same_as(SourceName("b"))


def test_a_type_has_no_span():
    assert TensorType((1,)).span is None


@pytest.mark.parametrize(("short", "full"), [("float", "float32"), ("int", "int32"), ("uint", "uint32")])
def test_a_dtype_without_width_has_32_bits(short, full):
    assert TensorType((), short) == TensorType((), full)


def test_a_constant_takes_its_dtype_from_a_tensor_type():
    assert relay.const(1, TensorType((), "int64")).data.dtype == "int64"


def test_a_lone_constant_is_printed_without_a_type():
    assert relay.const(42, "int16").astext() == VERSION + "42i16"


def test_annotate_reaches_every_function_of_a_module():
    x = relay.var("x", shape=(2,))
    mod = relay.transform.InferType()(IRModule.from_expr(relay.Function([x], relay.exp(x))))
    text = mod.astext(annotate=lambda node: " /* call */" if isinstance(node, relay.Call) else "")
    assert "exp(%x) /* call */" in text and "ty=" not in text


def test_a_let_that_is_an_argument_stands_in_parentheses_and_is_read_back():
    x, v = relay.var("x", "float32"), relay.var("v")
    inner = relay.Let(v, x, v)
    func = relay.Function([x], relay.add(inner, inner))
    text = func.astext()
    assert text.count("{") == 1 and "%0 = (\n" in text
    assert structural_equal(relay.parse_expr(text), func)


def test_local_inference_keeps_the_type_that_unification_found():
    a = TypeVar("a")
    x, name = relay.Var("x", a), relay.Var("id")
    body = relay.Let(name, relay.Function([x], x, a, [a]), relay.Tuple([name(relay.const(1)), name(relay.Tuple([]))]))
    expected = TupleType([TensorType((), "int32"), TupleType([])])
    assert infer_type_local(body) == expected
    assert body.checked_type == expected


def test_a_generic_function_may_be_returned_where_one_of_its_forms_is_declared():
    a, b = TypeVar("a"), TypeVar("b")
    x = relay.Var("x", a)
    nested = relay.Function([], relay.Function([x], x, a, [a]), FuncType([b], b), [b])
    assert infer_type_local(nested) == FuncType([], FuncType([b], b), [b])
