"""Defunctionalization: programs that take and give functions, against what they compute without them."""

from __future__ import annotations

import numpy as np
import pytest

HEAD = '#[version = "0.0.5"]\n'
LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"
MAP = """def @map[A, B](%f: fn(A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) {
    Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)),
    Nil => Nil,
  }
}
"""


def holds_function(relay, ty):
    """True for a type of functions and for one that has it inside."""
    found = []

    class Visitor(relay.TypeVisitor):
        def visit_func_type(self, ftt):
            found.append(ftt)

    Visitor().visit(ty)
    return bool(found)


def assert_first_order(relay, mod):
    """No call that main reaches takes or gives a function."""
    seen = set()
    pending = [mod.get_global_var("main")]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)

        def look(node):
            if isinstance(node, relay.Call):
                assert not any(holds_function(relay, e.checked_type) for e in (node, *node.args)), node
            if isinstance(node, relay.GlobalVar):
                pending.append(node)

        relay.analysis.post_order_visit(mod[name].body, look)


@pytest.fixture
def defunctionalized(tvm, relay):
    """The module of a text, as it is and with a first-order main."""

    def make(text, mod=None):
        mod = mod or tvm.relay.parse(HEAD + text)
        mod = relay.transform.InferType()(mod)
        before = tvm.IRModule(dict(mod.functions.items()), dict(mod.type_definitions.items()))
        mod["main"] = relay.transform.Defunctionalization(mod["main"], mod)
        after = relay.transform.InferType()(mod)
        assert_first_order(relay, after)
        return before, after

    return make


@pytest.fixture
def same(tvm, relay, defunctionalized):
    """Holds both forms of a program to the same result, in the interpreter and the virtual machine."""

    def check(text, *inputs):
        before, after = defunctionalized(text)
        wanted = relay.create_executor("debug", mod=before).evaluate()(*inputs)
        for kind in ("debug", "vm"):
            found = relay.create_executor(kind, mod=after, device=tvm.cpu(), target="llvm").evaluate()(*inputs)
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())
        return after

    return check


def test_a_generic_literal_is_given_to_a_generic_function(same):
    same(
        """def @simple[A, B](%f: fn(A) -> B, %xs: A) -> B { %f(%xs) }
        def @main(%l: Tensor[(5, 5), float32]) -> Tensor[(5, 5), float32] {
          %0 = fn[A](%x: A) -> A { %x };
          @simple(%0, %l)
        }""",
        np.random.default_rng(0).random((5, 5), "float32"),
    )


def to_list(mod, value):
    """A list of the program as one of Python."""
    cons, _ = mod[mod.get_global_type_var("List")].constructors
    found = []
    while value.tag == cons.tag:
        found.append(value.fields[0].numpy())
        value = value.fields[1]
    return found


def to_adt_list(relay, mod, values):
    """A list of Python as one of the program."""
    cons, nil = mod[mod.get_global_type_var("List")].constructors
    made = nil()
    for value in reversed(values):
        made = cons(relay.const(value), made)
    main = mod["main"]
    result = relay.create_executor("debug", mod=mod).evaluate(made)
    mod["main"] = main
    return result


def test_a_global_function_is_mapped_over_a_list(relay, defunctionalized):
    before, after = defunctionalized(
        LIST
        + MAP
        + """def @id[A](%x: A) -> A { %x }
        def @main(%l: List[float32]) -> List[float32] { @map(@id, %l) }"""
    )
    values = np.random.default_rng(1).random(10).astype("float32")
    for mod in (before, after):
        out = relay.create_executor("debug", mod=mod).evaluate()(to_adt_list(relay, mod, values))
        np.testing.assert_array_equal(to_list(mod, out), values)


def test_a_function_that_calls_itself_makes_ever_longer_chains_of_closures(same):
    after = same(
        """def @sum(%f: fn(int32) -> int32, %k: int32) -> int32 {
          if (%k == 0) { %f(0) } else {
            %0 = fn (%n: int32) -> int32 { %f(%n) + %k };
            @sum(%0, %k - 1)
          }
        }
        def @id[A](%x: A) -> A { %x }
        def @main(%n: int32) -> int32 { @sum(@id, %n) }""",
        np.array(10, "int32"),
    )
    closures = after[after.get_global_type_var("T0")]
    assert sorted(len(c.inputs) for c in closures.constructors) == [0, 2]  # @id, and what %f and %k are kept in


def test_the_prelude_s_map_and_fold(tvm, relay, defunctionalized):
    mod = tvm.IRModule()
    prelude = relay.prelude.Prelude(mod)
    elements = relay.TensorType((), "int32")
    a, b, x = relay.var("a", elements), relay.var("b", elements), relay.var("x", elements)
    xs = relay.var("xs", relay.TypeCall(mod.get_global_type_var("List"), [elements]))
    doubled = prelude.map(relay.Function([x], x + x), xs)
    mod["main"] = relay.Function([xs], prelude.foldr(relay.Function([a, b], a - b), relay.const(1), doubled))
    before, after = defunctionalized(None, mod)
    for each in (before, after):
        out = relay.create_executor("debug", mod=each).evaluate()(to_adt_list(relay, each, [1, 2, 3]))
        assert int(out.numpy()) == 2 - (4 - (6 - 1))


def test_closures_are_kept_in_data_tuples_and_branches(same):
    same(
        LIST
        + """def @apply_all(%fs: List[fn(float32) -> float32], %x: float32) -> float32 {
          match (%fs) { Cons(%f, %rest) => @apply_all(%rest, %f(%x)), Nil => %x }
        }
        def @main(%x: float32, %c: bool) -> float32 {
          let %y = %x * 2f;
          let %add = fn (%a: float32) -> float32 { %a + %y };
          let %pair = (%add, fn (%a: float32) -> float32 { %a * %x });
          let %chosen = if (%c) { %pair.0 } else { %pair.1 };
          @apply_all(Cons(%add, Cons(%chosen, Cons(%pair.1, Nil))), %x)
        }""",
        np.float32(3),
        np.array(True),
    )


def test_data_with_a_function_in_a_field_is_made_again(same):
    after = same(
        """type Box[A] { Box(fn(A) -> A, int32), }
        def @run[A](%b: Box[A], %x: A) -> A { match (%b) { Box(%f, %n) => %f(%f(%x)) } }
        def @main(%x: float32) -> float32 { @run(Box(fn (%a: float32) -> float32 { %a + %x }, 3), %x) }""",
        np.float32(2),
    )
    assert "Box_first_order" in [header.name_hint for header in after.type_definitions]


def test_functions_of_functions_and_curried_ones(same):
    same(
        """def @compose[A, B, C](%f: fn(B) -> C, %g: fn(A) -> B) -> fn(A) -> C { fn (%x: A) -> C { %f(%g(%x)) } }
        def @twice[A](%f: fn(A) -> A) -> fn(A) -> A { @compose(%f, %f) }
        def @main(%x: float32, %y: float32) -> float32 {
          let %add = fn (%a: float32) { fn (%b: float32) { %a + %b } };
          let %four = @twice(@twice(%add(%y)));
          %four(%x)
        }""",
        np.float32(1),
        np.float32(10),
    )


def test_a_local_function_that_calls_itself_is_a_closure_that_makes_itself(same):
    same(
        """def @apply(%f: fn(int32) -> int32, %n: int32) -> int32 { %f(%n) }
        def @main(%n: int32, %step: int32) -> int32 {
          let %down = fn (%k: int32) -> int32 { if (%k <= 0) { %k } else { %down(%k - %step) } };
          @apply(%down, %n)
        }""",
        np.array(10, "int32"),
        np.array(3, "int32"),
    )


def test_a_generic_local_function_is_used_at_two_types(same):
    same(
        """def @call[A, B](%f: fn(A) -> B, %x: A) -> B { %f(%x) }
        def @main(%x: float32, %n: int32) -> float32 {
          let %id = fn[A](%a: A) -> A { %a };
          let %m = @call(%id, %n);
          @call(%id, %x) + cast(%m, dtype="float32")
        }""",
        np.float32(1.5),
        np.array(4, "int32"),
    )


def test_a_constructor_is_a_function_too(same):
    same(
        "type Pair { Pair(float32, float32), }\n"
        """def @make(%f: fn(float32, float32) -> Pair, %x: float32) -> Pair { %f(%x, %x) }
        def @main(%x: float32) -> float32 { match (@make(Pair, %x)) { Pair(%a, %b) => %a + %b } }""",
        np.float32(4),
    )


def test_what_the_module_has_stays_and_new_names_are_free(tvm, relay):
    mod = tvm.relay.parse(
        HEAD
        + """type T0 { C, }
        def @apply0(%x: int32) -> int32 { %x }
        def @call(%f: fn(int32) -> int32, %x: int32) -> int32 { %f(%x) }
        def @main(%x: int32) -> int32 { @call(@apply0, %x) }"""
    )
    names = {v.name_hint for v in mod.functions}
    func = relay.transform.Defunctionalization(mod["main"], mod)
    assert names < {v.name_hint for v in mod.functions} and len(mod.type_definitions) == 2
    mod["main"] = func
    assert int(relay.create_executor("debug", mod=mod).evaluate()(np.array(7, "int32")).numpy()) == 7
    text = mod.astext()
    tvm.ir.assert_structural_equal(tvm.relay.parse(text), relay.transform.InferType()(mod))


def test_a_deep_program_needs_no_recursion(tvm, relay):
    x = value = relay.var("x", shape=())
    f = relay.var("f", relay.FuncType([relay.TensorType(())], relay.TensorType(())))
    for _ in range(3000):
        value = f(value)
    a = relay.var("a", shape=())
    mod = tvm.IRModule()
    mod["go"] = relay.Function([f, x], value, relay.TensorType(()))
    y = relay.var("y", shape=())
    mod["main"] = relay.Function([y], mod.get_global_var("go")(relay.Function([a], a), y))
    mod = relay.transform.InferType()(mod)
    func = relay.transform.Defunctionalization(mod["main"], mod)
    assert func.checked_type.ret_type == relay.TensorType(())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main(%f: fn(int32) -> int32) -> int32 { %f(1) }", "the program cannot take functions: parameter f"),
        ("def @main(%x: int32) -> fn(int32) -> int32 { fn (%y: int32) { %x + %y } }", "cannot give a function"),
        ("def @main[A](%x: A) -> A { %x }", "takes no generic function"),
        (
            LIST
            + "def @main(%fs: List[fn(int32) -> int32]) -> int32 { match (%fs) { Cons(%f, _) => %f(1), Nil => 0 } }",
            "cannot take functions",
        ),
    ],
)
def test_what_cannot_be_first_order_is_refused(tvm, relay, text, message):
    mod = relay.transform.InferType()(tvm.relay.parse(HEAD + text))
    with pytest.raises(tvm.TVMError, match=message):
        relay.transform.Defunctionalization(mod["main"], mod)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("let %t = (fn[A](%a: A) -> A { %a }, %x); %t.1", "is generic: Defunctionalization must know every type"),
        ("%x + %free", "%free is bound by nothing"),
        ("@ghost(%x)", "type argument A of .* is not known"),
    ],
)
def test_values_without_one_type_and_free_variables_are_refused(tvm, relay, body, message):
    ghost = "def @ghost[A](%x: int32) -> int32 { %x }\n"
    free = relay.var("free", relay.TensorType((), "int32"))
    mod = tvm.relay.parse(HEAD + ghost + f"def @main(%x: int32, %free: int32) -> int32 {{ {body} }}")
    main = mod["main"]
    func = relay.Function(main.params[:1], relay.bind(main.body, {main.params[1]: free}), main.ret_type)
    with pytest.raises(tvm.TVMError, match=message):
        relay.transform.Defunctionalization(func, mod)


def test_what_is_no_function_is_refused(tvm, relay):
    with pytest.raises(tvm.TVMError, match="takes a function, got Var"):
        relay.transform.Defunctionalization(relay.var("x"), tvm.IRModule())
