"""ToANormalForm, ToBasicBlockNormalForm, LambdaLift, EtaExpand and Inline: text to text, and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from random_graphs import check_same, modules

from byoc import relay
from byoc.errors import TypeInferenceError
from byoc.relay import transform
from byoc.relay.analysis import check_basic_block_normal_form
from byoc.relay.expr import Call, Function, GlobalVar, If, Let, Var
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import assert_structural_equal
from byoc.relay.traverse import post_order

HEAD = '#[version = "0.0.5"]\n'


def parsed(text):
    return transform.InferType()(relay.fromtext(HEAD + text))


def run(expr, *passes):
    """*expr* after *passes*: its body again, where it was no function."""
    mod = transform.Sequential([transform.InferType(), *passes, transform.InferType()])(relay.IRModule.from_expr(expr))
    return mod["main"] if isinstance(expr, Function) else mod["main"].body


def check_text(before, after, *passes):
    with transform.PassContext(opt_level=4):
        got = transform.InferType()(transform.Sequential(passes)(parsed(before)))
    assert_structural_equal(got, parsed(after), map_free_vars=True)
    return got


def test_an_incomplete_annotation_is_filled_by_type_inference():
    a = Var("a", relay.IncompleteType())
    assert isinstance(a.type_annotation, relay.IncompleteType)
    body = run(Let(a, relay.const(2), a))
    assert body.variable.type_annotation == relay.TensorType((), "int32")
    assert_structural_equal(run(relay.const(2), transform.ToANormalForm()), body)


# ToANormalForm ------------------------------------------------------------------------------------------------------


def test_operands_are_bound_in_the_order_of_evaluation_constants_too():
    x, y, z = relay.const(1), relay.const(2), relay.const(3)
    got = run(relay.add(x, relay.multiply(y, z)), transform.ToANormalForm())
    a, b, c, d, e = (Var(n) for n in "abcde")
    want = e
    for var, value in reversed([(a, x), (b, y), (c, z), (d, relay.multiply(b, c)), (e, relay.add(a, d))]):
        want = Let(var, value, want)
    assert_structural_equal(got, run(want))
    assert evaluate(got) == 7


def test_each_branch_binds_what_it_alone_needs():
    got = run(If(relay.const(True), relay.const(2), relay.const(3)), transform.ToANormalForm())
    a, b, c, d = (Var(n) for n in "abcd")
    branches = If(c, Let(a, relay.const(2), a), Let(b, relay.const(3), b))
    assert_structural_equal(got, run(Let(c, relay.const(True), Let(d, branches, d))))


def test_the_bindings_of_a_let_used_as_an_operand_move_out():
    x, c = Var("x"), relay.const(1)
    let = Let(x, relay.add(c, c), x)
    got = run(relay.multiply(let, let), transform.ToANormalForm())
    v0, v1, v2 = (Var(n) for n in ("v0", "v1", "v2"))
    want = Let(v0, c, Let(x, relay.add(v0, v0), Let(v1, x, Let(v2, relay.multiply(v1, v1), v2))))
    assert_structural_equal(got, run(want))


def test_a_primitive_function_is_bound_as_it_is():
    p = relay.var("p", shape=(2,))
    unit = Function([p], relay.exp(relay.negative(p))).with_attr("Primitive", 1)
    x = relay.var("x", shape=(2,))
    got = run(Function([x], Call(unit, [x])), transform.ToANormalForm())
    assert isinstance(got.body, Let) and got.body.value.attrs["Primitive"] == 1
    assert not any(isinstance(node, Let) for node in post_order(got.body.value))


def test_recursion_keeps_its_name():
    text = """def @main(%n: int32) -> int32 {
      let %loop = fn (%i: int32, %s: int32) -> int32 {
        if (equal(%i, 0)) { %s } else { %loop(subtract(%i, 1), add(%s, %i)) }
      };
      %loop(%n, 0)
    }"""
    mod = parsed(text)
    after = transform.InferType()(transform.ToANormalForm()(mod))
    assert evaluate(after, [np.int32(10)]) == 55
    again = transform.ToGraphNormalForm()(after)
    assert evaluate(again, [np.int32(10)]) == 55


@settings(max_examples=30, deadline=None)
@given(modules())
def test_a_normal_form_and_back_is_the_same_graph(mod):
    anf = check_same(mod, transform.Sequential([transform.ToANormalForm(), transform.InferType()]))
    body = anf["main"].body
    while isinstance(body, Let):
        assert not any(isinstance(c, (Call, relay.Tuple)) for c in getattr(body.value, "args", ()))
        body = body.body
    assert isinstance(body, Var)
    assert_structural_equal(transform.ToGraphNormalForm()(anf), mod)


@pytest.mark.slow
def test_100000_calls_are_bound():
    x = relay.var("x", shape=(2,))
    body = x
    for _ in range(100_000):
        body = relay.nn.relu(body)
    got = transform.ToANormalFormExpr(Function([x], body))
    count, body = 0, got.body
    while isinstance(body, Let):
        count, body = count + 1, body.body
    assert count == 100_000


# ToBasicBlockNormalForm ---------------------------------------------------------------------------------------------


def test_a_graph_without_scopes_is_left_alone():
    x = relay.const(1)
    y = relay.add(x, x)
    body = relay.add(y, y)
    assert_structural_equal(run(Function([], body), transform.ToBasicBlockNormalForm()).body, run(body))


BLOCKS = {
    "one if": (
        """def @main(%x: float32) {
             %0 = equal(%x, 2f); %1 = add(%x, 1f); if (%0) { multiply(%1, 2f) } else { multiply(%1, 1f) } }""",
        """def @main(%x: float32) {
             let %v = add(%x, 1f); if (equal(%x, 2f)) { multiply(%v, 2f) } else { multiply(%v, 1f) } }""",
    ),
    "nested ifs": (
        """def @main(%x: bool, %y: float32, %z: float32) {
             %0 = add(%z, %z); %1 = add(%y, %y);
             if (%x) { if (True) { add(%0, %1) } else { add(3f, %1) } } else { if (False) { %0 } else { 1f } } }""",
        """def @main(%x: bool, %y: float32, %z: float32) {
             let %z2 = add(%z, %z);
             if (%x) { let %y2 = add(%y, %y); if (True) { add(%z2, %y2) } else { add(3f, %y2) } }
             else { if (False) { %z2 } else { 1f } } }""",
    ),
    "a function": (
        """def @main(%x: float32) {
             %0 = exp(%x); let %f = fn (%y: float32) { multiply(%0, %y) }; %1 = %f(%x); add(%1, %0) }""",
        """def @main(%x: float32) {
             let %e = exp(%x); let %f = fn (%y: float32) { multiply(%e, %y) }; add(%f(%x), %e) }""",
    ),
}


@pytest.mark.parametrize("case", ["one if", "nested ifs"])
def test_what_branches_share_is_bound_above_them(case):
    got = check_text(*BLOCKS[case], transform.ToBasicBlockNormalForm())
    assert check_basic_block_normal_form(got["main"])
    with pytest.raises(TypeInferenceError, match="not in basic block normal form"):
        check_basic_block_normal_form(parsed(BLOCKS[case][0])["main"])
    again = transform.ToBasicBlockNormalForm()(got)
    assert_structural_equal(again, got)


def test_shared_work_runs_once_in_either_branch():
    before = parsed(BLOCKS["one if"][0])
    after = transform.InferType()(transform.ToBasicBlockNormalForm()(before))
    for value in (2.0, 5.0):
        np.testing.assert_allclose(evaluate(after, [np.float32(value)]), evaluate(before, [np.float32(value)]))


# LambdaLift ---------------------------------------------------------------------------------------------------------


def test_a_called_literal_becomes_a_global_function():
    x2, y2 = relay.var("x2", shape=(10, 5)), relay.var("y2", shape=(1, 5))
    x1, y1 = relay.var("x1", shape=(10, 5)), relay.var("y1", shape=(1, 5))
    inner = Function([x2, y2], relay.add(x2, y2))
    mod = relay.IRModule({"main": Function([x1, y1], Call(inner, [x1, y1]))})
    new = transform.InferType()(transform.LambdaLift()(mod))
    assert len(mod.functions) == 1 and len(new.functions) == 2
    assert isinstance(new["main"].body.op, GlobalVar)
    np.testing.assert_allclose(evaluate(new, [np.ones((10, 5), "float32"), np.ones((1, 5), "float32")]), 2)


def test_captured_variables_become_parameters_of_a_closure():
    mod = parsed("""def @main(%x: float32, %y: float32) {
        let %f = fn (%a: float32) { multiply(%a, %y) }; add(%f(%x), %f(%y)) }""")
    new = transform.InferType()(transform.LambdaLift()(mod))
    (lifted,) = [v for v in new.get_global_vars() if v.name_hint != "main"]
    closure = new[lifted]
    assert closure.attrs["Closure"] == 1 and [p.name_hint for p in closure.params] == ["y"]
    assert closure.params[0] is not mod["main"].params[1]
    assert evaluate(new, [np.float32(2), np.float32(3)]) == 15


def test_a_recursive_function_calls_its_global_name():
    mod = parsed("""def @main(%n: int32, %step: int32) -> int32 {
      let %loop = fn (%i: int32, %s: int32) -> int32 {
        if (equal(%i, 0)) { %s } else { %loop(subtract(%i, 1), add(%s, %step)) }
      };
      %loop(%n, 0)
    }""")
    new = transform.InferType()(transform.LambdaLift()(mod))
    assert len(new.functions) == 2
    assert evaluate(new, [np.int32(10), np.int32(3)]) == 30


def test_equal_functions_are_lifted_once_and_names_do_not_change():
    text = """def @main(%x: float32) {
       let %f = fn (%a: float32) { exp(%a) }; let %g = fn (%b: float32) { exp(%b) }; add(%f(%x), %g(%x)) }"""
    first, second = (transform.LambdaLift()(parsed(text)) for _ in range(2))
    assert len(first.functions) == 2
    assert [v.name_hint for v in first] == [v.name_hint for v in second]


def test_units_and_functions_of_other_compilers_are_not_lifted():
    p = relay.var("p", shape=(2,))
    unit = Function([p], relay.exp(p)).with_attr("Primitive", 1)
    x = relay.var("x", shape=(2,))
    other = Function([x], Call(Function([p], relay.exp(p)), [x])).with_attr("Compiler", "acme")
    mod = relay.IRModule({"main": Function([x], Call(unit, [x])), "acme_0": other})
    assert len(transform.LambdaLift()(mod).functions) == 2


# EtaExpand ----------------------------------------------------------------------------------------------------------


def test_a_global_function_used_as_a_value_becomes_a_literal():
    check_text(
        "def @aux(%x: int32) -> int32 { %x }\n def @main() -> fn (int32) -> int32 { @aux }",
        """def @aux(%x: int32) -> int32 { %x }
           def @main() -> fn (int32) -> int32 { fn (%x: int32) -> int32 { @aux(%x) } }""",
        transform.EtaExpand(expand_global_var=True),
    )


def test_what_eta_expand_makes_has_its_type():
    mod = parsed("def @aux(%x: int32) -> int32 { %x }\n def @main() { @aux }")
    new = transform.EtaExpand(expand_global_var=True)(mod)["main"]
    number = relay.TensorType((), "int32")
    assert new.ret_type == new.body.checked_type == relay.FuncType([number], number)


def test_a_function_that_is_called_directly_is_not_expanded():
    text = "def @aux(%x: int32) -> int32 { %x }\n def @main(%y: int32) { @aux(%y) }"
    check_text(text, text, transform.EtaExpand(expand_constructor=True, expand_global_var=True))


def test_a_constructor_used_as_a_value_becomes_a_generic_literal():
    mod = relay.IRModule()
    a, list_ = relay.TypeVar("A"), relay.GlobalTypeVar("List")
    cons = relay.Constructor("Cons", [a, list_(a)], list_)
    nil = relay.Constructor("Nil", [], list_)
    mod[list_] = relay.TypeData(list_, [a], [cons, nil])
    f = relay.var("f")
    mod["main"] = Function([], Let(f, cons, Call(f, [relay.const(1), Call(nil, [])])))
    kept = transform.EtaExpand(expand_global_var=True)(mod)["main"].body
    assert kept.value is cons
    new = transform.EtaExpand(expand_constructor=True)(mod)["main"].body
    assert isinstance(new.value, Function) and [p.name_hint for p in new.value.type_params] == ["A"]
    assert new.value.body.op is cons and len(new.value.params) == 2


# Inline -------------------------------------------------------------------------------------------------------------


def inlined(mod):
    return transform.InferType()(transform.Inline()(mod))


def marked(mod, *names):
    for name in names:
        mod[name] = mod[name].with_attr("Inline", 1)
    return mod


CHAIN = """def @g2(%a: Tensor[(3, 5), float32]) { exp(%a) }
  def @g1(%a: Tensor[(3, 5), float32], %b: Tensor[(3, 5), float32]) { subtract(%a, @g2(%b)) }
  def @g11(%a: Tensor[(3, 5), float32]) { negative(%a) }
  def @main(%x: Tensor[(3, 5), float32], %y: Tensor[(3, 5), float32]) { add(@g1(%x, %y), @g11(%x)) }"""


def test_leaves_that_are_marked_are_inlined_and_leave_the_module():
    after = inlined(marked(parsed(CHAIN), "g2", "g11"))
    assert_structural_equal(
        after,
        parsed(
            """def @g1(%a: Tensor[(3, 5), float32], %b: Tensor[(3, 5), float32]) { subtract(%a, exp(%b)) }
           def @main(%x: Tensor[(3, 5), float32], %y: Tensor[(3, 5), float32]) { add(@g1(%x, %y), negative(%x)) }"""
        ),
    )


def test_several_levels_are_inlined():
    mod = marked(parsed(CHAIN), "g1", "g2", "g11")
    after = inlined(mod)
    assert [v.name_hint for v in after] == ["main"]
    assert_structural_equal(
        after,
        parsed(
            """def @main(%x: Tensor[(3, 5), float32], %y: Tensor[(3, 5), float32]) {
             add(subtract(%x, exp(%y)), negative(%x)) }"""
        ),
    )
    assert len(mod.functions) == 4


def test_a_marked_function_that_calls_one_which_is_not_marked_stays():
    mod = marked(parsed(CHAIN), "g1", "g11")
    after = inlined(mod)
    assert sorted(v.name_hint for v in after) == ["g1", "g2", "main"]


def test_the_function_of_another_compiler_is_inlined_as_a_literal():
    mod = marked(parsed(CHAIN), "g11")
    mod["g11"] = mod["g11"].with_attr("Compiler", "acme")
    after = inlined(mod)
    (call,) = [n for n in post_order(after["main"]) if isinstance(n, Call) and isinstance(n.op, Function)]
    assert call.op.attrs["Compiler"] == "acme" and call.op.attrs["Inline"] == 1
    assert "g11" not in after


def test_recursive_functions_and_entries_stay():
    text = """def @sum_up(%i: int32) -> int32 {
                if (equal(%i, 0)) { 0 } else { add(%i, @sum_up(subtract(%i, 1))) } }
              def @main(%x: int32) -> int32 { @sum_up(%x) }
              def @entry(%x: int32) -> int32 { negative(%x) }"""
    mod = marked(parsed(text), "sum_up", "entry", "main")
    assert_structural_equal(transform.Inline()(mod), mod)


def test_mutually_recursive_functions_stay():
    text = """def @even(%i: int32) -> bool { if (equal(%i, 0)) { True } else { @odd(subtract(%i, 1)) } }
              def @odd(%i: int32) -> bool { if (equal(%i, 0)) { False } else { @even(subtract(%i, 1)) } }
              def @main(%x: int32) -> bool { @even(%x) }"""
    mod = marked(parsed(text), "even", "odd")
    after = inlined(mod)
    assert_structural_equal(after, mod)
    assert bool(evaluate(after, [np.int32(6)])) is True


def test_a_name_that_is_a_value_becomes_a_literal_and_each_use_its_own_copy():
    text = """def @g(%a: float32) { let %b = exp(%a); add(%b, %b) }
              def @main(%c: bool, %x: float32) { %0 = if (%c) { @g } else { @g }; add(%0(%x), @g(%x)) }"""
    mod = marked(parsed(text), "g")
    after = inlined(mod)
    assert [v.name_hint for v in after] == ["main"]
    bound = [n.variable for n in post_order(after["main"]) if isinstance(n, Let)]
    assert len(bound) == len(set(bound)) == 2
    data = [np.bool_(True), np.float32(0.5)]
    np.testing.assert_allclose(evaluate(after, data), evaluate(mod, data))


def test_inlining_is_known_as_InlineGlobals():
    assert transform.Inline().info.name == "InlineGlobals"
    assert [
        p().info.name for p in (transform.ToANormalForm, transform.ToBasicBlockNormalForm, transform.LambdaLift)
    ] == ["ToANormalForm", "ToBasicBlockNormalForm", "LambdaLift"]
