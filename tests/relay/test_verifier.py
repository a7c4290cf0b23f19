"""The verifier: each law broken once by a pass, which is named with what it broke and where."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import TypeInferenceError, UserError
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import FORMS, PassInfo, PassOrderError
from byoc.ir.passes.transform import ModulePass, PassContext, Sequential, module_pass
from byoc.ir.passes.verification import VerificationError
from byoc.ir.span import SourceName, Span
from byoc.relay import transform
from byoc.relay.expr import Call, Let
from byoc.relay.op.annotation import compiler_begin, compiler_end
from byoc.relay.verify.verifier import verify

NODE = Span(SourceName("Relu_3"), 0, 0, 0, 0)


def model():
    x = relay.var("x", shape=(2, 3))
    return transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))))


def breaking(make, **info):
    """A module pass Breaker that gives what *make* does of main."""

    def run(mod, ctx):
        result = mod.shallow_copy()
        result["main"] = make(mod["main"])
        return result

    return ModulePass(run, PassInfo("Breaker", **info))


def verified(step, mod=None, **config):
    with PassContext(config={"byoc.verify": True, **config}):
        return step(mod if mod is not None else model())


def over(func, body):
    return relay.Function(func.params, body)


def untyped(func, body):
    body._checked_type = None
    return over(func, body)


def relu(arg):
    return Call(Op.get("nn.relu"), [arg], None, span=NODE)


def bound_twice(func):
    x = func.params[0]
    v = relay.var("v", shape=(2, 3))
    return over(func, Let(v, relu(x), Let(v, relu(v), v)))


def out_of_scope(func):
    x = func.params[0]
    v = relay.var("v", shape=(2, 3))
    return over(func, relay.add(Let(v, relu(x), v), relu(v)))


def of_itself(func):
    v = relay.var("v", shape=(2, 3))
    return over(func, Let(v, relu(v), v))


def from_a_branch(func):
    """A node that both branches share is evaluated above them, where the let of one is unknown."""
    x = func.params[0]
    v = relay.var("v", shape=(2, 3))
    shared = relu(v)
    cond = relay.const(np.array(True))
    return over(func, relay.If(cond, Let(v, x, shared), relay.add(shared, x)))


def wrong_type(func):
    call = relu(func.params[0])
    call._checked_type = relay.TensorType((3, 2), "float32")
    return over(func, call)


def wrong_shapes(func):
    return over(func, Call(Op.get("add"), [func.params[0], relay.const(np.zeros((4,), "float32"))], span=NODE))


def too_many(func):
    return over(func, Call(Op.get("nn.relu"), [*func.params, *func.params], span=NODE))


def unknown_operator(func):
    return over(func, Call(Op("nn.relux"), func.params, span=NODE))


def unknown_function(func):
    return over(func, Call(relay.GlobalVar("gone"), func.params, span=NODE))


def arity_of_a_function(func):
    y, z = relay.var("y", shape=(2, 3)), relay.var("z", shape=(2, 3))
    return over(func, Call(relay.Function([y, z], relay.add(y, z)), func.params, span=NODE))


def wrong_field(func):
    return over(func, relay.expr.TupleGetItem(relay.Tuple([func.params[0]]), 1))


def not_convex(func):
    x = func.params[0]
    inner = compiler_begin(x, "acme")
    first = relu(inner)
    outside = relay.exp(compiler_end(first, "acme"))
    return over(func, compiler_end(relay.add(first, compiler_begin(outside, "acme")), "acme"))


def declared(func):
    return relay.Function(func.params, func.body, relay.TensorType((3, 2)))


def inner(declared_as, returns):
    p = relay.var("p", shape=declared_as)
    return relay.Function([p], relu(p), relay.TensorType(returns))


CASES = {
    "a variable that nothing binds": (
        lambda f: over(f, relu(relay.var("w", shape=(2, 3)))),
        "%w is used by nn.relu (node Relu_3) in @main, and nothing binds it",
    ),
    "the whole function is a free variable": (
        lambda f: over(f, relay.var("w", shape=(2, 3))),
        "%w is used by @main itself, and nothing binds it",
    ),
    "a let binds a variable again": (bound_twice, "%v is bound twice, the second time by a Let in @main"),
    "a parameter stands twice": (
        lambda f: relay.Function([*f.params, *f.params], f.body),
        "%x is bound twice, the second time by a function in @main",
    ),
    "a use outside of the let": (
        out_of_scope,
        "%v is used outside of its scope, by nn.relu (node Relu_3) in @main",
    ),
    "a value that reads its own name": (of_itself, "%v is used outside of its scope"),
    "a shared node under the let of one branch": (from_a_branch, "%v is used outside of its scope"),
    "a type that is another": (
        wrong_type,
        "nn.relu (node Relu_3) in @main has the type Tensor[(3, 2), float32], and inference finds Tensor[(2, 3), "
        "float32]",
    ),
    "types that do not fit": (wrong_shapes, "the types in @main do not fit: add: "),
    "an argument too many": (too_many, "nn.relu (node Relu_3) in @main: it takes 1 arguments, and 2 are given"),
    "an operator that is not registered": (
        unknown_operator,
        "nn.relux (node Relu_3) in @main: no operator of this name is registered",
    ),
    "a function that is not there": (
        unknown_function,
        "a call of @gone (node Relu_3) in @main: the module has no function of this name",
    ),
    "a function with too few arguments": (arity_of_a_function, "it takes 2 arguments, and 1 are given"),
    "a field that is not there": (wrong_field, "takes field 1 of ("),
    "a region that is left and entered again": (not_convex, "is not convex"),
    "a function that returns another type than it declares": (
        declared,
        "a function in @main returns Tensor[(2, 3), float32], and is declared to return Tensor[(3, 2), float32]",
    ),
    "a function inside that does": (
        lambda f: over(f, Call(inner((2, 3), (3, 2)), [f.body])),
        "a function in @main returns Tensor[(2, 3), float32], and is declared to return Tensor[(3, 2), float32]",
    ),
    "an argument of another type than the parameter": (
        lambda f: over(f, Call(inner((3, 2), (3, 2)), [f.body])),
        "a call of a function in @main: %p is Tensor[(3, 2), float32], and Tensor[(2, 3), float32] is given",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_law_that_a_pass_breaks_is_reported_with_its_name_and_place(name):
    make, problem = CASES[name]
    with pytest.raises(VerificationError) as error:
        verified(breaking(make))
    assert str(error.value).startswith("the pass Breaker broke the module: ") and problem in str(error.value)
    assert "\n" not in str(error.value)


def test_without_the_option_nobody_looks(monkeypatch):
    monkeypatch.delenv("BYOC_VERIFY", raising=False)
    breaking(bound_twice)(model())
    monkeypatch.setenv("BYOC_VERIFY", "1")
    with pytest.raises(VerificationError):
        breaking(bound_twice)(model())
    with PassContext(config={"byoc.verify": False}):
        breaking(bound_twice)(model())


def test_who_was_given_a_broken_module_is_not_to_blame():
    with PassContext(config={"byoc.verify": False}):
        broken = breaking(bound_twice)(model())
    same = ModulePass(lambda mod, ctx: mod, PassInfo("Same", ends=()))
    assert verified(same, broken) is broken


def test_a_pass_that_writes_into_the_module_that_it_is_given_is_to_blame_for_it():
    def writes(mod, ctx):
        mod["main"] = bound_twice(mod["main"])
        return mod

    with pytest.raises(VerificationError, match="the pass Writer broke the module: %v is bound twice"):
        verified(ModulePass(writes, PassInfo("Writer")))


def test_a_function_pass_is_blamed_for_a_type_that_it_declares_and_does_not_return():
    step = transform.function_pass(lambda func, mod, ctx: declared(func), opt_level=0, name="Mine")
    with pytest.raises(VerificationError, match="the pass Mine broke the module: .* is declared to return"):
        verified(step)


def test_a_function_pass_is_blamed_for_types_that_do_not_fit_and_not_the_inference_in_it():
    step = transform.function_pass(lambda func, mod, ctx: wrong_shapes(func), opt_level=0, name="Mine")
    with pytest.raises(VerificationError, match="the pass Mine broke the module: the types in @main do not fit: add"):
        verified(step)
    with PassContext(config={"byoc.verify": False}), pytest.raises(TypeInferenceError):
        step(model())


def test_a_sequence_is_its_passes():
    with pytest.raises(VerificationError, match="the pass Breaker broke"):
        verified(Sequential([transform.InferType(), breaking(bound_twice), transform.InferType()], name="all"))


def test_a_pass_inside_a_pass_is_part_of_it():
    def run(mod, ctx):
        broken = breaking(lambda f: over(f, relu(relay.var("w", shape=(2, 3)))))(mod)
        result = broken.shallow_copy()
        result["main"] = mod["main"]
        return result

    verified(ModulePass(run, PassInfo("Outer", ends=())))


def test_a_region_that_calls_its_caller_is_found():
    def run(mod, ctx):
        result = mod.shallow_copy()
        x = relay.var("x", shape=(2, 3))
        main, region = mod.get_global_var("main"), relay.GlobalVar("acme_0")
        body = relay.Function([x], main(x), relay.TensorType((2, 3), "float32"))
        result[region] = body.with_attr({"Compiler": "acme", "global_symbol": "acme_0"})
        y = relay.var("y", shape=(2, 3))
        result[main] = relay.Function([y], region(y), relay.TensorType((2, 3), "float32"))
        return result

    with pytest.raises(VerificationError, match="the region @acme_0 reads what is computed after it: it calls @main"):
        verified(ModulePass(run, PassInfo("Outliner")))


def test_two_regions_of_one_symbol_are_found():
    def run(mod, ctx):
        result = mod.shallow_copy()
        for name in ("first", "second"):
            x = relay.var("x", shape=(2, 3))
            func = relay.Function([x], relay.nn.relu(x))
            result[relay.GlobalVar(name)] = func.with_attr({"Compiler": "acme", "global_symbol": "acme_0"})
        return result

    with pytest.raises(VerificationError, match="the regions @first and @second have the same symbol acme_0"):
        verified(ModulePass(run, PassInfo("Outliner")))


def test_closures_and_functions_that_call_themselves_keep_the_laws():
    x, y, f = relay.var("x", shape=(2,)), relay.var("y", shape=(2,)), relay.var("f")
    closure = relay.Function([y], relay.add(x, y))
    assert verify(relay.IRModule.from_expr(relay.Function([x], Let(f, closure, f(x))))).problem is None
    again = relay.Function([y], f(y), relay.TensorType((2,), "float32"))
    assert verify(relay.IRModule.from_expr(relay.Function([x], Let(f, again, f(x))))).problem is None


def test_a_long_chain_is_verified_without_recursion():
    x = relay.var("x", shape=(2,))
    body, lets = x, []
    for k in range(20000):
        v = relay.var(f"v{k}", shape=(2,))
        lets.append((v, relay.negative(body)))
        body = v
    for var, value in reversed(lets):
        body = Let(var, value, body)
    assert verify(relay.IRModule.from_expr(relay.Function([x], body))).problem is None


# what passes state --------------------------------------------------------------------------------------------------


def test_a_form_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(UserError, match="needs of the pass P: .*'type'; the nearest: typed"):
        PassInfo("P", needs=["type"])


def test_a_pass_after_one_that_ends_what_it_needs_is_refused():
    steps = Sequential([transform.FuseOps(0), transform.ChannelsLast()])
    with pytest.raises(PassOrderError, match="ChannelsLast needs the form unfused .* FuseOps before it ends"):
        steps(model())
    Sequential([transform.FuseOps(0), transform.DefuseOps(), transform.ChannelsLast()])
    with PassContext(disabled_pass=["FuseOps"]):
        steps(model())


def test_a_pass_of_which_nothing_is_known_may_have_given_anything():
    anything = module_pass(lambda mod, ctx: mod, opt_level=0, name="anything")
    with PassContext(config={"byoc.verify": False}):
        Sequential([transform.FuseOps(0), anything, transform.ChannelsLast()])(model())


def test_what_a_pass_needs_is_looked_for():
    with pytest.raises(
        PassOrderError, match="the pass JoinGroups needs the form fused .* which the module that it was given lac"
    ):
        verified(transform.JoinGroups())


def test_what_a_pass_states_to_give_or_to_keep_is_looked_for():
    with pytest.raises(VerificationError, match="Breaker broke the module: it states to give the form fused"):
        verified(breaking(lambda f: f, gives=["fused"]))
    lets = breaking(lambda f: over(f, Let(v := relay.var("v", shape=(2, 3)), relu(f.params[0]), v)), ends=["typed"])
    with pytest.raises(VerificationError, match="it ended the form graph_normal_form .* which it does not state"):
        verified(lets)


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_distinguished(name):
    mod = model()
    broken = {
        "typed": lambda: relay.IRModule({"main": over(mod["main"], relu(mod["main"].params[0]))}),
        "graph_normal_form": lambda: transform.ToANormalForm()(mod),
        "a_normal_form": lambda: relay.IRModule({"main": over(mod["main"], relu(relu(mod["main"].params[0])))}),
        "unfused": lambda: transform.FuseOps(0)(mod),
        "fused": lambda: mod,
        "no_region_marks": lambda: relay.IRModule({"main": over(mod["main"], compiler_begin(mod["main"].body, "a"))}),
        "no_device_marks": lambda: relay.IRModule(
            {"main": over(mod["main"], relay.annotation.on_device(mod["main"].body, "cpu"))}
        ),
    }
    assert name not in verify(broken[name]()).forms
    good = transform.FuseOps(0)(mod) if name == "fused" else mod
    assert name in verify(good).forms
