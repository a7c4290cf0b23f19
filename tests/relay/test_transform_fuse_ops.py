"""FuseOps: which calls share a primitive function, its parameters, spans, convexity, and DefuseOps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from random_graphs import calls_of, check_same, modules, names_in

from byoc import relay
from byoc.ir.op import get_op
from byoc.ir.passes.transform import PassContext
from byoc.ir.span import Span, span_names
from byoc.ir.target import Target
from byoc.relay import transform
from byoc.relay.analysis import infer_expr
from byoc.relay.structure.structural import structural_equal
from byoc.relay.transform.fuse.fuse_ops import FuseHostOps
from byoc.relay.traverse import post_order


def fused(body, *params, level=2):
    mod = relay.IRModule({"main": relay.Function(params, body)})
    return check_same(mod, transform.FuseOps(level))["main"]


def kernels(func):
    """The primitive functions that are called, with the operators inside each, in order."""
    found = []
    for node in post_order(func):
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            found.append(calls_of(node.op))
    return found


def test_an_elementwise_chain_is_one_function():
    x = relay.var("x", shape=(4, 4))
    assert kernels(fused(relay.exp(relay.tanh(relay.add(x, relay.const(1.0)))), x)) == [["add", "tanh", "exp"]]


def test_a_product_takes_its_elementwise_tail_but_not_a_second_product():
    x, w = relay.var("x", shape=(4, 4)), relay.var("w", shape=(4, 4))
    first = relay.tanh(relay.nn.dense(x, w))
    assert kernels(fused(relay.nn.dense(first, w), x, w)) == [["nn.dense", "tanh"], ["nn.dense"]]


def test_a_product_does_not_take_an_injective_tail():
    x, w = relay.var("x", shape=(4, 4)), relay.var("w", shape=(4, 4))
    body = relay.transpose(relay.tanh(relay.nn.dense(x, w)), (1, 0))
    assert kernels(fused(body, x, w)) == [["nn.dense", "tanh"], ["transpose"]]


def test_a_reduction_takes_its_elementwise_head_and_no_tail():
    x = relay.var("x", shape=(4, 4))
    assert kernels(fused(relay.exp(relay.sum(relay.tanh(x), axis=1)), x)) == [["tanh", "sum"], ["exp"]]


def test_a_diamond_is_fused_whole():
    x = relay.var("x", shape=(4, 4))
    top = relay.tanh(x)
    assert kernels(fused(relay.add(relay.exp(top), relay.abs(top)), x)) == [["tanh", "exp", "abs", "add"]]


def test_a_residual_around_a_product_keeps_the_group_convex():
    x, w = relay.var("x", shape=(4, 4)), relay.var("w", shape=(4, 4))
    top = relay.tanh(x)
    body = relay.add(top, relay.nn.dense(top, w))
    assert kernels(fused(body, x, w)) == [["tanh"], ["nn.dense", "add"]]


def test_concatenate_takes_in_its_injective_fields():
    x = relay.var("x", shape=(4, 4))
    body = relay.exp(relay.concatenate([relay.tanh(x), relay.abs(x)], 0))
    assert kernels(fused(body, x)) == [["tanh", "abs", "concatenate", "exp"]]


def test_a_tuple_as_result_stays_outside():
    x = relay.var("x", shape=(4, 4))
    func = fused(relay.Tuple([relay.tanh(x), relay.exp(x)]), x)
    assert isinstance(func.body, relay.Tuple) and kernels(func) == [["tanh"], ["exp"]]


def test_a_value_used_twice_apart_is_computed_once():
    x = relay.var("x", shape=(4, 4))
    top = relay.tanh(x)
    func = fused(relay.Tuple([relay.exp(top), relay.sum(top, axis=0)]), x)
    assert kernels(func) == [["tanh"], ["exp"], ["sum"]]


def test_parameters_are_named_in_the_order_of_their_use_and_scalars_stay_inside():
    x = relay.var("x", shape=(4, 4))
    big = relay.const(np.ones((4, 4), "float32"))
    func = fused(relay.multiply(relay.add(big, relay.tanh(x)), relay.const(2.0)), x)
    call = func.body
    assert [p.name_hint for p in call.op.params] == ["p0", "p1"]
    assert call.args[0] is big and call.args[1] is func.params[0]
    assert dict(call.op.attrs) == {"Primitive": 1}


def test_a_function_that_only_reshapes_says_so():
    x = relay.var("x", shape=(4, 4))
    attrs = dict(fused(relay.expand_dims(relay.reshape(x, (2, 8)), 0), x).body.op.attrs)
    assert attrs == {"Primitive": 1, "relay.reshape_only": 1}


def test_level_0_gives_each_call_its_own_function():
    x = relay.var("x", shape=(4, 4))
    assert kernels(fused(relay.exp(relay.tanh(x)), x, level=0)) == [["tanh"], ["exp"]]


def test_the_level_comes_from_the_context():
    x = relay.var("x", shape=(4, 4))
    mod = relay.IRModule({"main": relay.Function([x], relay.exp(relay.tanh(x)))})
    with PassContext(opt_level=0):
        assert len(kernels(transform.FuseOps()(mod)["main"])) == 2


def test_function_and_call_carry_the_spans_of_their_nodes():
    x = relay.var("x", shape=(4, 4))
    inner = relay.tanh(x)
    inner.span = Span.named("Tanh_1")
    outer = relay.exp(inner)
    outer.span = Span.named("Exp_2")
    call = fused(outer, x).body
    assert span_names(call.span) == span_names(call.op.span) == ("Tanh_1", "Exp_2")


def test_composites_and_global_functions_are_left_as_they_are():
    x, p, q = (relay.var(n, shape=(4, 4)) for n in "xpq")
    composite = relay.Function([p], relay.tanh(relay.exp(p)), attrs={"Composite": "acme.f"})
    region = relay.GlobalVar("region")
    mod = relay.IRModule({region: relay.Function([q], relay.abs(q), attrs={"Compiler": "acme"})})
    mod["main"] = relay.Function([x], relay.exp(relay.Call(region, [relay.Call(composite, [relay.tanh(x)])])))
    after = check_same(mod, transform.FuseOps(2))
    called = [n.op for n in post_order(after["main"]) if isinstance(n, relay.Call)]
    assert composite in called and region in called
    assert after[region] is mod[region]
    assert ["tanh"] in kernels(after["main"]) and ["exp"] in kernels(after["main"])


def test_what_has_no_known_shape_is_not_fused():
    x = relay.var("x", shape=(relay.Any(), 4))
    mod = relay.IRModule({"main": relay.Function([x], relay.exp(relay.tanh(x)))})
    assert kernels(FuseHostOps()(mod)["main"]) == [["tanh"], ["exp"]]


def test_named_sizes_are_fused():
    x = relay.var("x", shape=(relay.Any("N"), 4))
    mod = relay.IRModule({"main": relay.Function([x], relay.exp(relay.tanh(x)))})
    assert kernels(transform.FuseOps(2)(mod)["main"]) == [["tanh", "exp"]]


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_no_function_grows_beyond_the_configured_depth(limit):
    x = relay.var("x", shape=(4, 4))
    node = x
    for _ in range(20):
        node = relay.tanh(node)
    mod = relay.IRModule({"main": relay.Function([x], node)})
    with PassContext(config={"relay.FuseOps.max_depth": limit}):
        sizes = [len(k) for k in kernels(transform.FuseOps(2)(mod)["main"])]
    assert sum(sizes) == 20 and max(sizes) == limit


def test_a_projection_of_an_argument_stays_outside():
    t = relay.var("t", relay.TupleType([relay.TensorType((4, 4)), relay.TensorType((4, 4))]))
    body = relay.exp(relay.tanh(relay.TupleGetItem(t, 1)))
    mod = relay.IRModule({"main": relay.Function([t], body)})
    func = transform.FuseOps(2)(mod)["main"]
    assert isinstance(func.body.args[0], relay.TupleGetItem) and kernels(func) == [["tanh", "exp"]]


@settings(max_examples=60, deadline=None)
@given(modules())
def test_random_networks_compute_the_same_and_every_call_is_inside_one_function(mod):
    after = check_same(mod, transform.FuseOps(2))
    for node in post_order(after["main"], lambda e: () if _is_primitive(e) else relay.traverse.children(e)):
        assert not (isinstance(node, relay.Call) and isinstance(node.op, relay.Op))
    back = check_same(after, transform.DefuseOps())
    assert sorted(calls_of(back["main"])) == sorted(calls_of(mod["main"]))
    assert names_in(mod) <= names_in(after)


def _is_primitive(expr):
    return isinstance(expr, relay.Function) and "Primitive" in expr.attrs


@settings(max_examples=30, deadline=None)
@given(modules())
def test_fusing_twice_gives_the_same_groups(mod):
    once = transform.FuseOps(2)(mod)
    assert kernels(transform.FuseOps(2)(mod)["main"]) == kernels(once["main"])


@pytest.mark.parametrize("shape", ["chain", "every node uses the input", "nested skips"])
def test_large_graphs_take_linear_time(shape):
    x = relay.var("x", shape=(2,))
    node, kept = x, []
    for _ in range(30_000 if shape == "chain" else 10_000):
        args = [node, x] if shape == "every node uses the input" else [node]
        node = relay.Call(get_op("add" if len(args) == 2 else "negative"), args)
        kept.append(node)
    for skip in reversed(kept) if shape == "nested skips" else ():
        node = relay.Call(get_op("add"), [node, skip])
    func = transform.fuse_function(relay.Function([x], node))
    assert infer_expr(func).ret_type == relay.TensorType((2,))


def test_a_softmax_takes_its_elementwise_tail():
    x = relay.var("x", shape=(4, 16))
    assert kernels(fused(relay.cast(relay.nn.softmax(x), "float16"), x)) == [["nn.softmax", "cast"]]


def dynamic_chain(*dims):
    x = relay.var("x", shape=dims)
    return relay.Function([x], relay.exp(relay.add(relay.add(x, x), relay.tanh(x))))


def primitives(func):
    return [n.op for n in post_order(func.body) if isinstance(n, relay.Call) and isinstance(n.op, relay.Function)]


def test_values_of_unknown_size_fuse_but_not_in_the_pipeline():
    mod = relay.IRModule.from_expr(dynamic_chain(relay.Any(), relay.Any()))
    assert len(primitives(transform.FuseOps(2)(mod)["main"])) == 1
    assert len(primitives(FuseHostOps()(mod)["main"])) == 4, "no code can be generated for them"


def sum_of(count, shape=(4,)):
    xs = [relay.var(f"x{k}", shape=shape) for k in range(count)]
    total = xs[0]
    for x in xs[1:]:
        total = relay.add(total, x)
    return relay.IRModule.from_expr(relay.Function(xs, total))


@pytest.mark.parametrize(
    "target, limit", [("opencl", 128), ("metal", 31), ("llvm", 0), ("opencl -max_function_args=8", 8)]
)
def test_no_function_has_more_arguments_than_the_target_allows(target, limit):
    mod = sum_of(140)
    with Target(target):
        made = primitives(transform.FuseOps(2)(mod)["main"])
    counts = [len(f.params) for f in made]
    assert (len(counts) == 1) if not limit else (max(counts) == limit - 1 and len(counts) > 1), counts


def test_an_argument_of_unknown_size_takes_its_sizes_and_strides_too():
    mod = sum_of(12, (relay.Any(), 3))  # an argument takes 1 + 1 + 2, an output 1 + 1
    with Target("opencl -max_function_args=20"):
        made = primitives(transform.FuseOps(2)(mod)["main"])
    assert max(len(f.params) for f in made) == (20 - 2) // 4


def test_every_called_literal_is_inlined_by_defuse():
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    plain = relay.Function([y], relay.exp(y))
    inner = relay.Call(plain.with_attr("Composite", "a"), [x])
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Call(plain, [inner])))
    want = relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.exp(x))))
    assert structural_equal(transform.DefuseOps()(mod)["main"], transform.InferType()(want)["main"])
