"""DeadCodeElimination, EliminateCommonSubexpr and RemoveUnusedFunctions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from random_graphs import calls_of, check_same, flat, inputs_of, modules, names_in

from byoc import relay
from byoc.errors import UserError
from byoc.ir.op import get_op
from byoc.ir.passes.instrument import pass_instrument
from byoc.ir.passes.transform import PassContext
from byoc.ir.span import Span, span_names
from byoc.ir.virtual_device import VirtualDevice
from byoc.relay import transform
from byoc.relay.interpreter import evaluate
from byoc.relay.transform.simplify.dead_code import EliminateHostDeadCode
from byoc.relay.traverse import post_order
from byoc.runtime.core.device import Device

X = relay.var("x", shape=(4,))


def main(body, *params):
    return relay.IRModule({"main": relay.Function(params or (X,), body)})


def dead(body):
    return transform.DeadCodeElimination()(main(body))["main"]


def test_a_binding_that_nothing_reads_is_dropped_with_what_only_it_reads():
    a, b = relay.var("a"), relay.var("b")
    body = relay.Let(a, relay.exp(X), relay.Let(b, relay.tanh(a), relay.negative(X)))
    assert calls_of(dead(body)) == ["negative"]


def test_a_binding_that_is_read_stays():
    a = relay.var("a")
    assert calls_of(dead(relay.Let(a, relay.exp(X), relay.negative(a)))) == ["exp", "negative"]


def test_the_unused_fields_of_a_bound_tuple_die():
    t = relay.var("t")
    body = relay.Let(t, relay.Tuple([relay.exp(X), relay.tanh(X)]), relay.TupleGetItem(t, 1))
    assert calls_of(EliminateHostDeadCode()(main(body))["main"]) == ["tanh"]
    assert calls_of(dead(body)) == ["exp", "tanh"], "Relay's pass leaves projections alone"
    pair = relay.Tuple([relay.exp(X), X])
    assert isinstance(dead(relay.TupleGetItem(pair, 0)).body, relay.TupleGetItem)


def test_a_binding_dies_though_its_value_is_read_elsewhere():
    a, b, d = relay.var("a"), relay.var("b"), relay.var("d")
    body = relay.Let(b, relay.exp(X), relay.Let(d, relay.tanh(b), relay.Let(a, b, d)))
    after = dead(body).body
    assert [let.variable.name_hint for let in (after, after.body)] == ["b", "d"] and after.body.body is d


def test_all_functions_lose_their_dead_code_and_no_types_are_inferred_behind_it():
    mod = main(X)
    for key in ("SkipOptimization", "plain"):
        y, z = relay.var("y", shape=(4,)), relay.var("z")
        mod[key] = relay.Function([y], relay.Let(z, relay.exp(y), y)).with_attr(key, 1)
    counted = []

    @pass_instrument
    class Counter:
        def run_before_pass(self, mod, info):
            counted.append(info.name)

    step = transform.DeadCodeElimination()
    assert step.info.required == ("InferType",)
    with PassContext(instruments=[Counter()]):
        after = step(transform.InferType()(mod))
    assert counted == ["InferType", "DeadCodeElimination"]
    assert all(not calls_of(after[key]) for key in ("SkipOptimization", "plain"))


def test_memory_is_made_without_effect_and_freed_with_one():
    core = relay.IRModule()
    core.import_from_std("core.rly")
    head = """#[version = "0.0.5"]
    def @main() -> int32 {
      let %size: int64 = cast(1024, dtype="int64");
      let %alignment: int64 = cast(64, dtype="int64");
    """
    make = "memory.alloc_storage(%size, meta[relay.Constant][0], %alignment, virtual_device=meta[VirtualDevice][0])"
    metatable = {"VirtualDevice": [VirtualDevice(Device("cpu"))], "relay.Constant": [relay.const([1024], "int64")]}

    def program(rest):
        return relay.parse(head + rest + "0 }", "text", core, metatable)

    unused = transform.DeadCodeElimination()(program(f"let %s = {make};"))["main"]
    assert calls_of(unused) == []
    freed = program(f"let %s = {make}; let %k = memory.kill(%s);")["main"]
    storage = next(n for n in post_order(freed) if isinstance(n, relay.Let) and n.variable.name_hint == "s")
    assert repr(storage.value.checked_type) in ("Storage[]", "Storage")
    text = (
        f"let %s = {make}; let %t = memory.alloc_tensor(%s, 0i64, meta[relay.Constant][0], "
        'const_shape=meta[relay.Constant][0], assert_shape=[], dtype="int8"); let %k = memory.kill(%t);'
    )
    lets = [n for n in post_order(program(text)["main"]) if isinstance(n, relay.Let)]
    tensor = next(let for let in lets if let.variable.name_hint == "t")
    assert tensor.value.checked_type == relay.TensorType((1024,), "int8")
    kept = transform.DeadCodeElimination(inline_once=True)(relay.IRModule({"main": freed}, core.type_definitions))
    assert calls_of(kept["main"]) == ["cast", "cast", "memory.alloc_storage", "memory.kill"]
    assert isinstance(kept["main"].body, relay.Let) and not isinstance(kept["main"].body.body, relay.Let)


def test_writes_to_references_stay_in_their_order():
    r, u, v = relay.var("r"), relay.var("u"), relay.var("v")
    body = relay.Let(u, relay.RefWrite(r, relay.exp(X)), relay.Let(v, relay.exp(X), relay.RefRead(r)))
    body = relay.Let(r, relay.RefCreate(X), body)
    mod = main(body)
    after = transform.DeadCodeElimination()(mod)
    data = [np.arange(4, dtype="float32")]
    np.testing.assert_array_equal(evaluate(after, data), np.exp(data[0]))
    assert calls_of(after["main"]) == ["exp"]


def test_a_read_before_a_write_is_not_moved_behind_it():
    r, t, u = relay.var("r"), relay.var("t"), relay.var("u")
    body = relay.Let(u, relay.RefWrite(r, relay.negative(X)), relay.TupleGetItem(t, 0))
    body = relay.Let(r, relay.RefCreate(X), relay.Let(t, relay.Tuple([relay.RefRead(r), X]), body))
    data = [np.ones(4, "float32")]
    np.testing.assert_array_equal(evaluate(transform.DeadCodeElimination()(main(body)), data), data[0])


def test_a_call_of_a_function_that_writes_stays():
    r, f, u, p = relay.var("r"), relay.var("f"), relay.var("u"), relay.var("p", shape=(4,))
    writer = relay.Function([p], relay.RefWrite(r, p))
    body = relay.Let(f, writer, relay.Let(u, relay.Call(f, [relay.negative(X)]), relay.RefRead(r)))
    data = [np.ones(4, "float32")]
    mod = main(relay.Let(r, relay.RefCreate(X), body))
    np.testing.assert_array_equal(evaluate(transform.DeadCodeElimination()(mod), data), -data[0])


@pytest.mark.parametrize("writes", [True, False])
def test_a_call_of_a_global_function_stays_only_if_it_may_act(writes):
    r, p, u = relay.var("r"), relay.var("p", shape=(4,)), relay.var("u")
    inner = relay.Let(r, relay.RefCreate(p), relay.RefWrite(r, p) if writes else p)
    callee = relay.GlobalVar("callee")
    mod = relay.IRModule({callee: relay.Function([p], inner)})
    mod["main"] = relay.Function([X], relay.Let(u, relay.Call(callee, [X]), X))
    body = transform.DeadCodeElimination()(mod)["main"].body
    assert isinstance(body, relay.Let) == writes


@pytest.mark.slow
def test_100000_unused_bindings_are_dropped():
    body = X
    for k in range(100_000):
        body = relay.Let(relay.var(f"v{k}"), relay.Call(get_op("negative"), [X]), body)
    assert dead(body).body is X


@settings(max_examples=40, deadline=None)
@given(modules())
def test_dead_code_of_random_networks_changes_no_result(mod):
    check_same(mod, transform.DeadCodeElimination())


def common(body, *params, fskip=None):
    return check_same(transform.InferType()(main(body, *params)), transform.EliminateCommonSubexpr(fskip))["main"]


def test_equal_calls_are_one_and_carry_both_spans():
    first, second = relay.exp(X), relay.exp(X)
    first.span, second.span = Span.named("E1"), Span.named("E2")
    func = common(relay.add(first, second))
    assert calls_of(func) == ["exp", "add"]
    assert span_names(func.body.args[0].span) == ("E1", "E2")


def test_equal_constants_make_calls_equal():
    func = common(relay.add(relay.multiply(X, relay.const(2.0)), relay.multiply(X, relay.const(2.0))))
    assert calls_of(func) == ["multiply", "add"]


def test_other_attributes_arguments_or_dtypes_are_not_equal():
    a = relay.Tuple([relay.sum(X, axis=0), relay.sum(X, axis=0, keepdims=True)])
    assert len(calls_of(common(a))) == 2
    b = relay.Tuple([relay.multiply(X, relay.const(0.0)), relay.multiply(X, relay.const(-0.0))])
    assert len(calls_of(common(b))) == 2


def test_projections_of_equal_tuples_are_one():
    parts = [relay.split(X, 2)[1] for _ in range(2)]
    assert calls_of(common(relay.add(*parts))) == ["split", "add"]


def test_fskip_keeps_nodes_apart():
    def skip(e):
        return isinstance(e, relay.Call) and e.op.name == "exp"

    assert calls_of(common(relay.add(relay.exp(X), relay.exp(X)), fskip=skip)) == ["exp", "exp", "add"]


def test_random_numbers_are_never_the_same():
    op = get_op("negative")
    op.set_attr("TOpIsStateful", True)
    try:
        assert calls_of(common(relay.add(relay.negative(X), relay.negative(X)))) == ["negative", "negative", "add"]
    finally:
        op.reset_attr("TOpIsStateful")


def test_functions_share_nothing_with_each_other():
    p, q = relay.var("p", shape=(4,)), relay.var("q", shape=(4,))
    f = relay.Function([p], relay.exp(p), attrs={"Composite": "a"})
    g = relay.Function([q], relay.add(relay.exp(q), relay.exp(q)))
    func = common(relay.add(relay.Call(f, [X]), relay.Call(g, [X])))
    assert sorted(calls_of(func)) == ["add", "add", "exp", "exp"]


@settings(max_examples=60, deadline=None)
@given(modules())
def test_common_subexpressions_of_random_networks_change_no_result(mod):
    after = check_same(mod, transform.EliminateCommonSubexpr())
    assert len(calls_of(after["main"])) <= len(calls_of(mod["main"]))
    assert names_in(after) == names_in(mod)
    assert calls_of(check_same(after, transform.EliminateCommonSubexpr())["main"]) == calls_of(after["main"])


@pytest.mark.slow
def test_100000_calls_are_halved():
    node = X
    for _ in range(33_334):
        left, right = (relay.Call(get_op("negative"), [node]) for _ in range(2))
        node = relay.Call(get_op("add"), [left, right])
    func = transform.EliminateCommonSubexpr()(main(node))["main"]
    assert len(calls_of(func)) == 2 * 33_334


def chain_of_functions():
    names = [relay.GlobalVar(n) for n in ("used", "helper", "unused")]
    params = [relay.var("p", shape=(4,)) for _ in names]
    mod = relay.IRModule({names[1]: relay.Function([params[1]], relay.exp(params[1]))})
    mod[names[0]] = relay.Function([params[0]], relay.Call(names[1], [params[0]]))
    mod[names[2]] = relay.Function([params[2]], relay.Call(names[1], [params[2]]))
    mod["main"] = relay.Function([X], relay.Call(names[0], [X]))
    return transform.InferType()(mod)


def test_functions_that_main_does_not_reach_are_removed():
    mod = chain_of_functions()
    after = transform.RemoveUnusedFunctions()(mod)
    assert [v.name_hint for v in after] == ["helper", "used", "main"]
    for a, b in zip(flat(evaluate(mod, inputs_of(mod))), flat(evaluate(after, inputs_of(after))), strict=True):
        np.testing.assert_array_equal(a, b)


def test_other_entries_can_be_named():
    after = transform.RemoveUnusedFunctions(["unused"])(chain_of_functions())
    assert [v.name_hint for v in after] == ["helper", "unused"]


def test_an_unknown_entry_is_refused():
    with pytest.raises(UserError, match="no function 'nowhere'"):
        transform.RemoveUnusedFunctions(["nowhere"])(chain_of_functions())
