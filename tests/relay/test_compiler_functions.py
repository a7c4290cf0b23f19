"""Compiler functions outlined, inlined and marked; calibration data of the regions of a module."""

import numpy as np
import pytest

from byoc import relay
from byoc.annex.analysis.calibration import get_calibration_data
from byoc.errors import PartitionError, UserError
from byoc.ir.module import IRModule
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import assert_structural_equal
from byoc.relay.transform import InferType
from byoc.relay.transform.cut.compiler_functions import (
    InlineCompilerFunctionsBoundTo,
    InlineComposites,
    MarkCompilerFunctionsAsExtern,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
)

SHAPE = (2, 3)


def region(compiler, symbol, build):
    x = relay.var("x", shape=SHAPE)
    return relay.Function([x], build(x), attrs={"Compiler": compiler, "global_symbol": symbol, "Primitive": 1})


def with_literals(first="acme_0", second="other_0"):
    """exp by acme, then tanh by another, called as literals."""
    a = relay.var("a", shape=SHAPE)
    inner = relay.Call(region("acme", first, relay.exp), [a])
    outer = relay.Call(region("other", second, relay.tanh), [inner])
    return InferType()(IRModule.from_expr(relay.Function([a], outer)))


def test_functions_of_the_filter_become_global_under_their_symbol():
    mod = OutlineCompilerFunctionsWithExistingGlobalSymbols("acme")(with_literals())
    assert sorted(v.name_hint for v in mod.get_global_vars()) == ["acme_0", "main"]
    call = mod["main"].body
    assert isinstance(call.op, relay.Function) and call.args[0].op is mod.get_global_var("acme_0")
    x = np.ones(SHAPE, "float32")
    np.testing.assert_array_equal(evaluate(mod, [x]), evaluate(with_literals(), [x]))


def test_without_a_filter_all_are_outlined():
    mod = OutlineCompilerFunctionsWithExistingGlobalSymbols()(with_literals())
    assert sorted(v.name_hint for v in mod.get_global_vars()) == ["acme_0", "main", "other_0"]


def test_a_symbol_that_two_functions_have_is_refused():
    with pytest.raises(PartitionError, match="global_symbol 'acme_0'"):
        OutlineCompilerFunctionsWithExistingGlobalSymbols()(with_literals("acme_0", "acme_0"))
    with pytest.raises(PartitionError, match="global_symbol 'main'"):
        OutlineCompilerFunctionsWithExistingGlobalSymbols()(with_literals("main"))


def test_inlining_is_the_inverse_and_dissolves_composites():
    def build(x):
        y = relay.var("y", shape=SHAPE)
        return relay.Call(relay.Function([y], relay.exp(y), attrs={"Composite": "acme.exp"}), [relay.negative(x)])

    a = relay.var("a", shape=SHAPE)
    main = relay.Function([a], relay.add(a, relay.Call(region("acme", "acme_0", build), [a])))
    mod = OutlineCompilerFunctionsWithExistingGlobalSymbols()(InferType()(IRModule.from_expr(main)))
    plain = InlineCompilerFunctionsBoundTo([mod.get_global_var("acme_0"), "gone"])(mod)
    expected = IRModule.from_expr(relay.Function([a], relay.add(a, relay.exp(relay.negative(a)))))
    assert_structural_equal(plain, InferType()(expected))
    assert InlineCompilerFunctionsBoundTo([])(mod)["main"].body.args[1].op.name_hint == "acme_0"


@pytest.mark.parametrize(("target", "is_inlined"), [("acme", True), ("other", False)])
def test_composites_are_inlined_in_the_functions_of_one_compiler(target, is_inlined):
    def build(composite):
        def body(x):
            y = relay.var("y", shape=SHAPE)
            inner = relay.Function([y], relay.exp(y), attrs={"Composite": "acme.exp"})
            return relay.Call(inner, [relay.negative(x)]) if composite else relay.exp(relay.negative(x))

        a = relay.var("a", shape=SHAPE)
        main = relay.Function([a], relay.add(a, relay.Call(region("acme", "acme_0", body), [a])))
        return OutlineCompilerFunctionsWithExistingGlobalSymbols()(InferType()(IRModule.from_expr(main)))

    assert_structural_equal(InlineComposites(target)(build(True)), build(not is_inlined))


def test_extern_is_all_that_is_left_of_the_attributes():
    mod = OutlineCompilerFunctionsWithExistingGlobalSymbols()(with_literals())
    marked = MarkCompilerFunctionsAsExtern("acme")(mod)
    assert dict(marked["acme_0"].attrs) == {"Extern": 1}
    assert marked["other_0"].attrs["Compiler"] == "other"
    assert dict(mod["acme_0"].attrs)["Compiler"] == "acme"  # the module that was given is as it was


def test_calibration_gives_what_enters_and_leaves_each_region():
    mod = OutlineCompilerFunctionsWithExistingGlobalSymbols()(with_literals())
    x = np.arange(6, dtype="float32").reshape(SHAPE) / 6
    found = get_calibration_data(mod, {"a": x})
    assert [var.name_hint for var in found] == ["acme_0", "other_0"]
    acme, other = found.values()
    np.testing.assert_array_equal(acme["inputs"][0].numpy(), x)
    np.testing.assert_allclose(acme["outputs"][0].numpy(), np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(other["inputs"][0].numpy(), acme["outputs"][0].numpy())
    np.testing.assert_allclose(other["outputs"][0].numpy(), np.tanh(np.exp(x)), rtol=1e-6)


def test_calibration_flattens_tuples_and_refuses_a_region_that_is_called_twice():
    a = relay.var("a", shape=SHAPE)
    pair = region("acme", "acme_0", lambda x: relay.Tuple([x, relay.negative(x)]))
    var = relay.GlobalVar("acme_0")
    once = IRModule({var: pair, "main": relay.Function([a], relay.TupleGetItem(relay.Call(var, [a]), 1))})
    (data,) = get_calibration_data(InferType()(once), {"a": np.ones(SHAPE, "float32")}).values()
    assert [array.numpy()[0, 0] for array in data["outputs"]] == [1, -1] and len(data["inputs"]) == 1
    body = relay.Tuple([relay.Call(var, [a]), relay.Call(var, [relay.exp(a)])])
    twice = InferType()(IRModule({var: pair, "main": relay.Function([a], body)}))
    with pytest.raises(UserError, match="acme_0 is called more than once"):
        get_calibration_data(twice, {"a": np.ones(SHAPE, "float32")})


def test_a_global_name_is_called_as_a_function():
    a = relay.var("a", shape=SHAPE)
    call = relay.GlobalVar("f")(a, a)
    assert isinstance(call, relay.Call) and call.op.name_hint == "f" and call.args == (a, a)


def literal(symbol, op=relay.exp):
    y = relay.var("y", shape=(4,))
    return relay.Function([y], op(y), attrs={"Compiler": "x", "global_symbol": symbol, "Primitive": 1})


def test_a_literal_that_a_let_binds_is_outlined_and_equal_ones_share_a_symbol():
    x, f = relay.var("x", shape=(4,)), relay.var("f")
    body = relay.Let(f, literal("g"), relay.Call(f, [relay.Call(f, [relay.Call(literal("g"), [x])])]))
    after = OutlineCompilerFunctionsWithExistingGlobalSymbols("x")(relay.IRModule.from_expr(relay.Function([x], body)))
    assert sorted(var.name_hint for var in after.functions) == ["g", "main"]
    call = after["main"].body
    for _ in range(3):
        assert isinstance(call.op, relay.GlobalVar) and call.op.name_hint == "g"
        call = call.args[0]
    assert call.name_hint == "x"


def test_different_literals_with_one_symbol_are_refused_bound_or_not():
    x, f = relay.var("x", shape=(4,)), relay.var("f")
    body = relay.Let(f, literal("g"), relay.Call(f, [relay.Call(literal("g", relay.tanh), [x])]))
    with pytest.raises(PartitionError, match="two functions have the global_symbol 'g'"):
        OutlineCompilerFunctionsWithExistingGlobalSymbols("x")(relay.IRModule.from_expr(relay.Function([x], body)))


def test_a_let_of_another_compiler_stays():
    x, f = relay.var("x", shape=(4,)), relay.var("f")
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Let(f, literal("g"), relay.Call(f, [x]))))
    after = OutlineCompilerFunctionsWithExistingGlobalSymbols("y")(mod)
    assert isinstance(after["main"].body, relay.Let) and len(after.functions) == 1
