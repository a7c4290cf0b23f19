"""The text of data types, generic functions and matches, both ways."""

from __future__ import annotations

import pytest

from byoc import relay
from byoc.errors import ParseError, TypeInferenceError, UserError
from byoc.relay.text import parse_untyped

HEAD = '#[version = "0.0.5"]\n'
LIST = """type List[A] {
  Cons(A, List[A]),
  Nil,
}
"""
LENGTH = """
def @length[A](%xs: List[A]) -> int32 {
  match (%xs) {
    Cons(_, %rest: List[A]) => {
      %0 = @length(%rest) /* ty=int32 */;
      add(1 /* ty=int32 */, %0) /* ty=int32 */
    },
    Nil => {
      0 /* ty=int32 */
    },
  }
}
"""


def test_a_typed_module_with_a_generic_function_prints_as_it_was_written() -> None:
    mod = relay.parse(HEAD + LIST + LENGTH)
    assert mod.astext() == HEAD + LIST + LENGTH
    assert mod["length"].ret_type == relay.TensorType((), "int32")


@pytest.mark.parametrize("keyword", ["match", "match?"])
def test_a_match_is_the_one_that_the_constructors_make(keyword: str) -> None:
    mod = relay.IRModule()
    header, a = relay.GlobalTypeVar("List"), relay.TypeVar("A")
    cons = relay.Constructor("Cons", [a, header(a)], header)
    nil = relay.Constructor("Nil", [], header)
    mod[header] = relay.TypeData(header, [a], [cons, nil])
    name, b = relay.GlobalVar("length"), relay.TypeVar("B")
    xs, rest = relay.Var("xs", header(b)), relay.Var("rest")
    more = relay.add(relay.const(1), relay.Call(name, [rest]))
    clauses = [
        relay.Clause(relay.PatternConstructor(cons, [relay.PatternWildcard(), relay.PatternVar(rest)]), more),
        relay.Clause(relay.PatternConstructor(nil, []), relay.const(0)),
    ]
    body = relay.Match(xs, clauses, keyword == "match")
    mod[name] = relay.Function([xs], body, relay.TensorType((), "int32"), [b])
    text = (
        HEAD
        + LIST
        + "def @length[A](%xs: List[A]) -> int32 { "
        + keyword
        + """ (%xs) {
        Cons(_, %rest : List[A]) => { 1 + @length(%rest) },
        Nil => 0
    } }"""
    )
    parsed, built = relay.parse(text), relay.transform.InferType()(mod)
    relay.assert_structural_equal(parsed, built)
    assert relay.structural_hash(parsed) == relay.structural_hash(built)
    assert parsed["length"].body.complete is (keyword == "match")


def test_a_constructor_that_is_not_called_is_a_function() -> None:
    main = "def @main[A]() -> fn (A, List[A]) -> List[A] {\n  Cons\n}"
    text = str(relay.parse(HEAD + LIST + main))
    assert LIST.strip() in text and main in text


def test_patterns_nest_in_tuples_and_constructors() -> None:
    mod = relay.parse(
        HEAD
        + LIST
        + """
        def @first(%p: (List[int32], int32)) -> int32 {
          match? (%p) { (Cons(%a, Cons(_, Nil)), _) => %a, (%rest, %n) => %n }
        }"""
    )
    outer = mod["first"].body.clauses[0].lhs
    assert isinstance(outer, relay.PatternTuple)
    inner = outer.patterns[0].patterns[1]
    assert inner.constructor.name_hint == "Cons" and isinstance(inner.patterns[1], relay.PatternConstructor)
    relay.assert_structural_equal(relay.parse(mod.astext()), mod)


def test_data_types_may_be_empty_external_and_defined_after_their_use() -> None:
    mod = relay.parse(HEAD + "type Uses { Use(Later[], Gone[int8]), }\ntype Later { }\nextern type Gone[A]\n")
    assert {h.name_hint: len(d.constructors) for h, d in mod.type_definitions.items()} == {
        "Uses": 1,
        "Later": 0,
        "Gone": 0,
    }
    relay.assert_structural_equal(relay.parse(mod.astext()), mod)


def test_type_parameters_of_one_name_are_distinguished() -> None:
    outer, inner = relay.TypeVar("A"), relay.TypeVar("A")
    y = relay.Var("y", inner)
    closure = relay.Function([y], relay.Tuple([y, relay.Var("x", outer)]), None, [inner])
    x = closure.body.fields[1]
    func = relay.Function([x], closure, None, [outer])
    assert "fn [A1](%y: A1)" in func.astext()
    relay.assert_structural_equal(relay.parse_expr(func.astext()), func)


def test_type_arguments_are_written_where_inference_was_not() -> None:
    text = HEAD + "def @id[A](%x: A) -> A { %x } def @main() { @id[int32](1) }"
    assert "@id[int32](1)" in str(parse_untyped(text))
    typed = relay.parse(text)
    assert "@id(1 /* ty=int32 */)" in str(typed)
    assert typed["main"].body.type_args == (relay.TensorType((), "int32"),)


def test_types_of_every_kind_are_read_back() -> None:
    text = "fn (%x: fn [B](B, (int8,), ()) -> ref(Tensor[(2, ?), float16]), %y: (?, int8x4), %z: uint1x4) {\n  %x\n}"
    assert relay.parse_expr(text).astext() == HEAD + text


BAD = {
    LIST + LIST: "the type List is defined twice",
    LIST + "type Other { Nil }": "the constructor Nil is defined twice",
    "type Same { A, A }": "the constructor A is defined twice",
    "def @f(%x: Lst[int8]) { %x }": "unknown type 'Lst'",
    LIST + "def @f(%x: List[int8]) { match (%x) { Cns(_, _) => 1 } }": "did you mean Cons",
    LIST + "def @f(%x: List[int8]) { match (%x) { 1 => 1 } }": "expected a pattern",
    LIST + "def @f(%x: List[int8]) { match (%x) { Cons(%h, _) => 1, Nil => %h } }": "%h is not defined here",
    "extern T": "expected 'type', found 'T'",
    "def @f[A: Sort](%x: A) { %x }": "unknown kind 'Sort'",
    "def @f[A](%x: A) { 1 } def @g(%x: A) { 1 }": "unknown type 'A'",
}


@pytest.mark.parametrize("text", BAD)
def test_wrong_definitions_are_refused_with_their_reason(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        relay.parse(HEAD + text)
    assert BAD[text] in str(caught.value)


def test_types_that_do_not_fit_are_refused_when_a_module_is_read() -> None:
    with pytest.raises(TypeInferenceError):
        relay.parse(HEAD + LIST + "def @f() -> List[int8] { Cons(1f, Nil) }")
    with pytest.raises(UserError, match="unknown dtype"):
        relay.TensorType((), "int8x")
