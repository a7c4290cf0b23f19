"""What the printer writes, against texts written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import UserError
from byoc.relay.text.spelling import scalar_text, span_text, value_text
from byoc.relay.text.type_text import type_text


def lines(node: object, **options: bool) -> list[str]:
    text = relay.astext(node, **options)
    assert text.startswith('#[version = "0.0.5"]\n')
    return text.splitlines()[1:]


def test_a_shared_call_is_bound_once_and_the_last_call_stands_inline() -> None:
    x = relay.var("x", shape=(1, 3))
    e = relay.exp(x)
    mod = relay.IRModule.from_expr(relay.Function([x], relay.add(e, e), relay.TensorType((1, 3))))
    assert lines(mod) == [
        "def @main(%x: Tensor[(1, 3), float32]) -> Tensor[(1, 3), float32] {",
        "  %0 = exp(%x);",
        "  add(%0, %0)",
        "}",
    ]


def test_attributes_at_their_defaults_are_left_out() -> None:
    x = relay.var("x", shape=(2,))
    assert lines(relay.clip(x, 0, 6))[-1] == "clip(%x, a_min=0f, a_max=6f)"


def test_a_composite_function_shows_its_attributes_after_its_parameters() -> None:
    p = relay.var("p", shape=(2,))
    inner = relay.Function([p], relay.exp(p), attrs={"Composite": "acme.exp", "PartitionedFromPattern": "exp_"})
    x = relay.var("x", shape=(2,))
    assert lines(relay.Function([x], inner(x))) == [
        "fn (%x: Tensor[(2), float32]) {",
        '  %0 = fn (%p: Tensor[(2), float32], Composite="acme.exp", PartitionedFromPattern="exp_") {',
        "    exp(%p)",
        "  };",
        "  %0(%x)",
        "}",
    ]


def test_lets_ifs_tuples_references_and_global_calls_have_relays_form() -> None:
    c, r, t = relay.var("c", "bool"), relay.var("r"), relay.var("t")
    fetch = relay.RefRead(r)
    branch = relay.If(c, relay.TupleGetItem(t, 0), fetch)
    body = relay.Let(r, relay.RefCreate(relay.const(1.5)), relay.Let(t, relay.Tuple([relay.const(2)]), branch))
    call = relay.Call(relay.GlobalVar("g"), [relay.Tuple([]), relay.RefWrite(relay.var("q"), relay.const(True))])
    assert lines(relay.Function([c], body)) == [
        "fn (%c: bool) {",
        "  let %r = ref(1.5f);",
        "  let %t = (2,);",
        "  if (%c) {",
        "    %t.0",
        "  } else {",
        "    ref_read(%r)",
        "  }",
        "}",
    ]
    assert lines(call) == ["free_var %q;", "%0 = ();", "%1 = ref_write(%q, True);", "@g(%0, %1)"]


def test_variables_of_one_name_are_distinguished_only_where_both_are_in_scope() -> None:
    outer, inner, again = (relay.var("x", shape=(2,)) for _ in range(3))
    f = relay.Function([inner], relay.add(inner, outer))
    g = relay.Function([again], relay.exp(again))
    text = "\n".join(lines(relay.Function([outer], relay.Call(g, [relay.Call(f, [outer])]))))
    assert "fn (%x#1: Tensor[(2), float32]) {\n    add(%x#1, %x)" in text
    assert "fn (%x#1: Tensor[(2), float32]) {\n    exp(%x#1)" in text


@pytest.mark.parametrize(
    ("ty", "text"),
    [
        (relay.TensorType(()), "float32"),
        (relay.TensorType((1,), "int8"), "Tensor[(1), int8]"),
        (relay.TensorType((relay.Any(), relay.Any("N"), 2)), "Tensor[(?, ?N, 2), float32]"),
        (relay.TensorType((relay.Any("a b"),)), 'Tensor[(?"a b"), float32]'),
        (relay.TupleType([]), "()"),
        (relay.TupleType([relay.TensorType((), "bool")]), "(bool,)"),
        (relay.FuncType([relay.TensorType(())], relay.TupleType([])), "fn (float32) -> ()"),
        (relay.RefType(relay.TensorType((), "int64")), "ref(int64)"),
    ],
)
def test_types_have_relays_spelling(ty: relay.Type, text: str) -> None:
    assert type_text(ty) == text == relay.astext(ty)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1f"),
        (1e-5, "float32", "1e-05f"),
        (-0.0, "float32", "-0f"),
        (2.0, "float64", "2f64"),
        (0.1, "float16", "0.1f16"),
        (7, "int32", "7"),
        (-7, "int64", "-7i64"),
        (255, "uint8", "255u8"),
        (True, "bool", "True"),
        (float("inf"), "float32", None),
        (float("nan"), "float64", None),
    ],
)
def test_a_scalar_has_a_literal_where_it_can_be_exact(value: float, dtype: str, text: str | None) -> None:
    assert scalar_text(np.asarray(value, dtype), dtype) == text


def test_attribute_values_are_written_by_their_class() -> None:
    value = [1, -2.0, 1e-5, True, None, 'a"b', (), {"k": [float("inf")]}]
    assert value_text(value) == '[1, -2f, 1e-05f, True, None, "a\\"b", [], {"k": [inf]}]'
    assert value_text(object()) == '"<a object>"'


def test_spans_are_comments_that_nothing_in_a_name_can_end() -> None:
    assert span_text(relay.Span.named("/conv1/Conv_12")) == " /* span=/conv1/Conv_12 */"
    assert span_text(relay.Span(relay.SourceName("a.py"), 3, 0, 7, 0)) == " /* span=a.py:3:7 */"
    assert span_text(relay.Span.named('*/ "x')) == ' /* span="*\\/ \\"x" */'
    both = relay.SequentialSpan((relay.Span.named("a"), relay.Span.named("b")))
    assert span_text(both) == " /* span=a + b */"


def test_without_metadata_neither_tensors_nor_spans_are_shown() -> None:
    e = relay.add(relay.var("x", shape=(2,)), relay.const([1.0, 2.0]))
    e.span = relay.Span.named("node")
    shown = lines(e, show_meta_data=False)
    assert shown[-2] == "add(%x, meta[relay.Constant][0])"
    assert shown[-1].startswith("/* meta data omitted.")
    assert "add(%x, meta[relay.Constant][0]) /* span=node */" in lines(e)
    assert '{"relay.Constant": [' in lines(e)


def test_one_array_is_stored_once_however_many_constants_hold_it() -> None:
    data = relay.const([1.0, 2.0]).data
    e = relay.add(relay.Constant(data), relay.add(relay.Constant(data), relay.const([1.0, 2.0])))
    text = relay.astext(e)
    assert text.count('"data"') == 2
    assert "add(meta[relay.Constant][0], meta[relay.Constant][1])" in text


def test_inferred_types_of_calls_and_constants_are_comments() -> None:
    one = relay.const(1)
    assert lines(relay.add(one, one)) == ["add(1, 1)"]
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.add(one, one)))
    assert lines(mod)[1] == "  add(1 /* ty=int32 */, 1 /* ty=int32 */) /* ty=int32 */"
    assert str(mod).count("/* ty=int32 */") == 3


def test_an_annotation_of_ones_own_stands_in_place_of_the_types() -> None:
    x = relay.var("x", shape=(2,))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.exp(x)))
    shown = relay.astext(mod, annotate=lambda e: " /* here */" if isinstance(e, relay.Call) else "")
    assert "  exp(%x) /* here */\n" in shown and "ty=" not in shown


def test_what_is_neither_module_nor_expression_nor_type_has_no_text() -> None:
    with pytest.raises(UserError, match="only modules, expressions and types have a text form, got int"):
        relay.astext(3)


def test_numbers_restart_with_each_global_function() -> None:
    mod = relay.IRModule()
    for name in ("f", "g h"):
        x = relay.var("x", shape=(2,))
        mod[name] = relay.Function([x], relay.exp(relay.exp(x)))
    text = mod.astext()
    assert text.count("%0 = exp(%x);") == 2
    assert 'def @"g h"(' in text
