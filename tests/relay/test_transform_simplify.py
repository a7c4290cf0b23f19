"""SimplifyExpr, SimplifyInference's norms, CanonicalizeOps, SpecializeShapes and the table of dynamic operators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from random_graphs import calls_of, check_same, flat, modules

from byoc import relay
from byoc.errors import UserError
from byoc.ir.op import OPS, get_op
from byoc.ir.passes.transform import PassContext
from byoc.ir.span import Span, span_names
from byoc.relay import transform
from byoc.relay.analysis import infer_expr
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import structural_equal
from byoc.relay.transform.simplify.expr import SimplifyHostExpr

X = relay.var("x", shape=(2, 3, 4))


def simplified(body, *params):
    mod = transform.InferType()(relay.IRModule({"main": relay.Function(params or (X,), body)}))
    return check_same(mod, transform.SimplifyExpr())["main"]


GONE = {
    "a reshape to the same shape": lambda: relay.reshape(X, (2, -1, 4)),
    "the identity transpose": lambda: relay.transpose(X, (0, 1, -1)),
    "a transpose and its inverse": lambda: relay.transpose(relay.transpose(X, (2, 0, 1)), (1, 2, 0)),
    "a cast to the same dtype": lambda: relay.cast(X, "float32"),
    "times one": lambda: relay.multiply(relay.const(1.0), X),
    "plus zero": lambda: relay.add(X, relay.const(0.0)),
    "plus zeros": lambda: relay.add(X, relay.zeros((3, 4), "float32")),
    "minus zero": lambda: relay.subtract(X, relay.const(0.0)),
    "divided by one": lambda: relay.divide(X, relay.const(1.0)),
    "a concatenation of one": lambda: relay.concatenate([X], 1),
    "a slice of everything": lambda: relay.strided_slice(X, [0, 0, 0], [2, 3, 4]),
    "tiling once": lambda: relay.tile(X, (1, 1, 1)),
    "to the power of one": lambda: relay.power(X, relay.const(1.0)),
    "a field of a tuple": lambda: relay.TupleGetItem(relay.Tuple([relay.exp(X), X]), 1),
    "expand and squeeze": lambda: relay.squeeze(relay.expand_dims(X, 1), [1]),
}


@pytest.mark.parametrize("name", GONE)
def test_what_changes_nothing_is_dropped_even_as_the_result(name):
    assert simplified(GONE[name]()).body is X


KEPT = {
    "a slice backwards": (lambda: relay.strided_slice(X, [1], [-3], [-1]), "strided_slice"),
    "zero minus": (lambda: relay.subtract(relay.const(0.0), X), "subtract"),
    "one over": (lambda: relay.divide(relay.const(1.0), X), "divide"),
    "plus a zero that enlarges": (lambda: relay.add(X, relay.const(np.zeros((5, 2, 3, 4), "float32"))), "add"),
    "times a one that enlarges": (lambda: relay.multiply(X, relay.const(np.ones((2, 1, 1, 1), "float32"))), "multiply"),
    "a real transpose": (lambda: relay.transpose(X, (2, 1, 0)), "transpose"),
    "a square root as a power": (lambda: relay.power(X, relay.const(0.5)), "power"),
    "powers that differ": (lambda: relay.power(X, relay.const(np.array([1, 2, 2, 2], "float32"))), "power"),
    "a square that enlarges": (lambda: relay.power(X, relay.const(np.full((2, 1, 1, 1), 2, "float32"))), "power"),
    "a narrowing cast": (lambda: relay.cast(relay.cast(X, "int8"), "float32"), "cast"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_something_stays(name):
    make, op = KEPT[name]
    assert op in calls_of(simplified(make()))


@pytest.mark.parametrize("exponent, products", [(2.0, 1), (3.0, 2)])
def test_a_small_whole_power_is_a_product(exponent, products):
    main = simplified(relay.power(X, relay.const(exponent)))
    assert calls_of(main) == ["multiply"] * products


def test_a_same_looking_shape_of_unknown_sizes_is_not_taken_for_the_same():
    x, n = relay.var("x", shape=(relay.Any(), 4)), relay.var("n", shape=(2,), dtype="int64")
    mod = relay.IRModule({"main": relay.Function([x, n], relay.reshape(x, n))})
    assert calls_of(transform.SimplifyExpr()(mod)["main"]) == ["dyn.reshape"]


def test_reshapes_in_a_row_are_one_with_both_spans():
    first = relay.reshape(X, (6, 4))
    first.span = Span.named("R1")
    second = relay.reshape(first, (8, 3))
    second.span = Span.named("R2")
    body = simplified(second).body
    assert calls_of(body) == ["reshape"] and span_names(body.span) == ("R1", "R2")


def test_reshapes_around_a_named_size_are_one_if_the_type_stays():
    x = relay.var("x", shape=(relay.Any("N"), 3, 4))
    body = relay.reshape(relay.reshape(x, (0, 12)), (0, 4, 3))
    mod = transform.InferType()(relay.IRModule({"main": relay.Function([x], body)}))
    before = mod["main"].checked_type
    after = transform.SimplifyExpr()(mod)["main"]
    assert after.checked_type == before
    data = np.arange(24, dtype="float32").reshape(2, 3, 4)
    np.testing.assert_array_equal(evaluate(after, [data]), data.reshape(2, 4, 3))


def test_transposes_in_a_row_are_one():
    body = relay.transpose(relay.transpose(X, (2, 0, 1)), (2, 1, 0))
    assert calls_of(simplified(body)) == ["transpose"]


def test_constants_of_a_row_of_sums_are_added():
    body = relay.add(relay.add(X, relay.const(np.ones((4,), "float32"))), relay.const(2.0))
    func = simplified(body)
    assert calls_of(func) == ["add"] and func.body.args[1].data.numpy().tolist() == [3, 3, 3, 3]
    left = SimplifyHostExpr()(relay.IRModule.from_expr(body))  # FoldConstant has a budget, the rule has none
    assert calls_of(left["main"]) == ["add", "add"]
    func = transform.FoldConstant()(left)["main"]
    assert calls_of(func) == ["add"] and func.body.args[1].data.numpy().tolist() == [3, 3, 3, 3]


def test_constants_that_would_grow_are_not_combined():
    tall, wide = relay.const(np.ones((3, 1), "float32")), relay.const(np.ones((1, 4), "float32"))
    assert calls_of(simplified(relay.add(relay.add(X, tall), wide))) == ["add", "add"]


@settings(max_examples=60, deadline=None)
@given(modules())
def test_random_networks_keep_types_and_results(mod):
    once = check_same(mod, transform.SimplifyExpr())
    assert calls_of(check_same(once, transform.SimplifyExpr())["main"]) == calls_of(once["main"])


def test_long_chains_become_one():
    reshape, node = get_op("reshape"), X
    for k in range(5_000):
        node = relay.Call(reshape, [node], reshape.attrs_type((6, 4) if k % 2 else (8, 3)))
    mod = transform.SimplifyExpr()(relay.IRModule({"main": relay.Function([X], node)}))
    assert calls_of(mod["main"]) == ["reshape"]


NORMS = {
    "layer_norm": lambda x, g, b: relay.nn.layer_norm(x, g, b, axis=1),
    "instance_norm": lambda x, g, b: relay.nn.instance_norm(x, g, b, axis=1),
    "group_norm": lambda x, g, b: relay.nn.group_norm(x, g, b, num_groups=2, axis=1),
    "l2_normalize": lambda x, g, b: relay.nn.l2_normalize(x, 1e-5, axis=[1]),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_are_decomposed_unless_they_are_to_be_kept(name):
    x = relay.var("x", shape=(2, 4, 3, 5))
    gamma, beta = (relay.const(np.linspace(lo, 2, 4, dtype="float32")) for lo in (0.5, -1))
    mod = transform.InferType()(relay.IRModule({"main": relay.Function([x], NORMS[name](x, gamma, beta))}))
    assert calls_of(transform.SimplifyInference(decompose_norms=False)(mod)["main"]) == [f"nn.{name}"]
    with PassContext(config={"relay.SimplifyInference.decompose_norms": False}):
        assert calls_of(transform.SimplifyInference()(mod)["main"]) == [f"nn.{name}"]
    after = transform.SimplifyInference()(mod)
    assert f"nn.{name}" not in calls_of(after["main"])
    data = np.random.default_rng(0).standard_normal((2, 4, 3, 5)).astype("float32")
    np.testing.assert_allclose(evaluate(after, [data]), evaluate(mod, [data]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank, axis, steps", [(2, 1, 1), (4, 1, 1), (4, 0, 3)])
def test_batch_norms_in_a_row_are_the_arithmetic_of_relay(rank, axis, steps):
    x = relay.var("x", shape=(10,) * rank)
    gamma, beta, mean, variance = (relay.var(name, shape=(10,)) for name in ("gamma", "beta", "mean", "var"))

    def arithmetic(data):
        scale = relay.const(1.0) / relay.sqrt(variance + relay.const(0.01)) * gamma
        shift = relay.negative(mean) * scale + beta
        if rank - axis - 1:
            scale, shift = (relay.expand_dims(v, axis=1, num_newaxis=rank - axis - 1) for v in (scale, shift))
        return data * scale + shift

    y1 = y2 = x
    for _ in range(steps):
        y1 = relay.nn.batch_norm(y1 + relay.const(1.0), gamma, beta, mean, variance, epsilon=0.01, axis=axis)[0]
        y1 = relay.nn.dropout(y1)
        y2 = arithmetic(y2 + relay.const(1.0))
    after = transform.SimplifyInference()(relay.IRModule.from_expr(y1))["main"].body
    assert structural_equal(after, y2, map_free_vars=True)


def test_dropout_is_its_input():
    dropped = relay.nn.dropout(X, 0.5)
    body = relay.exp(dropped if isinstance(infer_expr(dropped), relay.TensorType) else dropped[0])
    mod = transform.InferType()(relay.IRModule({"main": relay.Function([X], body)}))
    assert calls_of(transform.SimplifyInference()(mod)["main"]) == ["exp"]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_bias_add_is_an_addition(axis):
    bias = relay.const(np.linspace(-1, 1, (2, 3, 4)[axis], dtype="float32"))
    mod = transform.InferType()(relay.IRModule({"main": relay.Function([X], relay.nn.bias_add(X, bias, axis=axis))}))
    assert "nn.bias_add" not in calls_of(check_same(mod, transform.CanonicalizeOps())["main"])


def test_a_free_batch_dimension_is_specialized():
    x = relay.var("x", shape=(relay.Any("N"), 3))
    body = relay.add(relay.reshape(relay.exp(x), (-1, 3)), x)
    mod = transform.InferType()(relay.IRModule({"main": relay.Function([x], body)}))
    after = transform.SpecializeShapes({"N": 2})(mod)["main"]
    assert after.checked_type == relay.FuncType([relay.TensorType((2, 3))], relay.TensorType((2, 3)))
    data = np.ones((2, 3), "float32")
    for a, b in zip(flat(evaluate(mod, [data])), flat(evaluate(after, [data])), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_size_that_is_no_positive_int_is_refused():
    with pytest.raises(UserError, match="'N' is a positive int"):
        transform.SpecializeShapes({"N": 0})


def test_every_dynamic_operator_says_how_it_becomes_static():
    leading = {OPS[name].traits.leading_form.name for name in OPS if OPS[name].traits.leading_form is not None}
    assert len(leading) == 2
    for name in (name for name in OPS if name.startswith("dyn.")):
        form = OPS[name].traits.static_form
        if name in leading:  # made of an operator that says it
            continue
        if form is None:
            assert OPS[name].traits.finds_sizes, name  # it looks at a list of the run; as a constant none is imported
            continue
        assert set(form.attributes.values()) <= set(OPS[form.name].attrs_type.__dataclass_fields__)
