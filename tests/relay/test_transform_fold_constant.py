"""FoldConstant: constants, shape arithmetic, what stays unfolded, and static forms of dynamic operators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from random_graphs import calls_of, check_same, modules

from byoc import relay
from byoc.ir.op import get_op
from byoc.ir.span import Span
from byoc.relay import transform
from byoc.relay.interpreter import evaluate
from byoc.relay.transform.folding_budget import MAX_GROWTH_BYTES


def folded(body, *params):
    return transform.FoldConstant()(relay.IRModule({"main": relay.Function(params, body)}))["main"]


def ints(*values):
    return relay.const(values, "int64")


def test_calls_of_constants_become_constants_with_the_span_of_the_call():
    call = relay.add(relay.const([1.0, 2.0]), relay.const(1.0))
    call.span = Span.named("Add_1")
    body = folded(call).body
    assert isinstance(body, relay.Constant) and body.span == call.span
    np.testing.assert_array_equal(body.data.numpy(), np.array([2, 3], "float32"))


def test_tuples_of_constants_and_their_fields_are_folded():
    parts = relay.split(relay.const(np.arange(6, dtype="float32")), 3)
    body = folded(relay.concatenate([parts[2], parts[0]], 0)).body
    np.testing.assert_array_equal(body.data.numpy(), [4, 5, 0, 1])


def test_a_constant_condition_takes_its_branch():
    x = relay.var("x", shape=(2,))
    assert calls_of(folded(relay.If(relay.const(False), relay.exp(x), relay.tanh(x)), x)) == ["tanh"]


def test_a_constant_bound_by_let_is_used_in_the_body():
    x, v = relay.var("x", shape=(2,)), relay.var("v")
    body = relay.Let(v, relay.add(relay.const(1.0), relay.const(2.0)), relay.multiply(x, relay.negative(v)))
    func = folded(body, x)
    assert calls_of(func) == ["multiply"] and float(func.body.args[1].data.numpy()) == -3.0


def test_the_blow_up_rule_keeps_large_results_of_small_arguments():
    elements = MAX_GROWTH_BYTES // 4
    assert calls_of(folded(relay.repeat(relay.const([1.0]), elements + 1, 0))) == ["repeat"]
    assert calls_of(folded(relay.repeat(relay.const([1.0]), elements, 0))) == []
    big = relay.const(np.zeros(elements * 2, "float32"))
    assert calls_of(folded(relay.negative(big))) == []


def test_operators_with_state_are_not_folded():
    op = get_op("negative")
    op.set_attr("TOpIsStateful", True)
    try:
        assert calls_of(folded(relay.negative(relay.const(1.0)))) == ["negative"]
    finally:
        op.reset_attr("TOpIsStateful")


@pytest.mark.parametrize("attrs, left", [({"Composite": "a"}, 1), ({"Primitive": 1}, 2), ({"Compiler": "a"}, 2)])
def test_composites_are_folded_inside_and_compiled_functions_are_not(attrs, left):
    p = relay.var("p", shape=())
    body = relay.add(p, relay.add(relay.const(1.0), relay.const(1.0)))
    function = relay.Function([p], body, attrs=attrs)
    assert calls_of(folded(relay.Call(function, [relay.const(1.0)]))) == ["add"] * left


def test_shape_of_a_static_input_is_a_constant():
    x = relay.var("x", shape=(2, 3, 4))
    body = folded(relay.shape_of(x, "int64"), x).body
    assert body.data.dtype == "int64" and body.data.numpy().tolist() == [2, 3, 4]


def test_a_known_dimension_of_a_partly_dynamic_shape_is_a_constant():
    x = relay.var("x", shape=(relay.Any("N"), 3, 720, 720))
    body = folded(relay.take(relay.shape_of(x, "int64"), relay.const(1), axis=0), x).body
    assert isinstance(body, relay.Constant) and int(body.data.numpy()) == 3


def test_an_unknown_dimension_stays_computed():
    x = relay.var("x", shape=(relay.Any("N"), 3))
    assert "take" in calls_of(folded(relay.take(relay.shape_of(x, "int64"), relay.const(0), axis=0), x))


def _flatten_like_an_exporter(x, rest):
    """reshape(x, concat(unsqueeze(shape(x)[0]), rest)), as exporters write ``x.view(x.size(0), …)``."""
    first = relay.expand_dims(relay.take(relay.shape_of(x, "int64"), relay.const(0), axis=0), 0)
    return relay.reshape(x, relay.concatenate([first, rest], 0))


@pytest.mark.parametrize("batch", [2, relay.Any("N")])
def test_a_flatten_by_shape_arithmetic_becomes_a_static_reshape(batch):
    x = relay.var("x", shape=(batch, 3, 4))
    func = folded(_flatten_like_an_exporter(x, ints(12)), x)
    assert calls_of(func) == ["reshape"]
    assert func.checked_type.ret_type == relay.TensorType((batch, 12))
    data = np.arange(24, dtype="float32").reshape(2, 3, 4)
    np.testing.assert_array_equal(evaluate(func, [data]), data.reshape(2, 12))


def test_a_size_computed_from_the_batch_becomes_minus_one():
    n = relay.Any("N")
    x = relay.var("x", shape=(n, 3, 4))
    rows = relay.multiply(relay.take(relay.shape_of(x, "int64"), relay.const(0), axis=0), ints(3))
    func = folded(relay.reshape(x, relay.concatenate([relay.reshape(rows, (1,)), ints(4)], 0)), x)
    assert calls_of(func) == ["reshape"] and func.body.attrs["newshape"] == (-1, 4)
    data = np.arange(24, dtype="float32").reshape(2, 3, 4)
    np.testing.assert_array_equal(evaluate(func, [data]), data.reshape(6, 4))


def test_two_unknown_sizes_stay_dynamic():
    x = relay.var("x", shape=(relay.Any("N"), relay.Any("M")))
    shape = relay.shape_of(x, "int64")
    swapped = relay.concatenate([relay.strided_slice(shape, [1], [2]), relay.strided_slice(shape, [0], [1])], 0)
    assert "dyn.reshape" in calls_of(folded(relay.reshape(x, swapped), x))


def test_arithmetic_on_known_dimensions_is_done():
    x = relay.var("x", shape=(relay.Any("N"), 6, 5))
    shape = relay.shape_of(x, "int64")
    six, five = (relay.take(shape, relay.const(i), axis=0) for i in (1, 2))
    half = relay.divide(relay.multiply(six, five), ints(2))
    body = folded(relay.cast(relay.subtract(half, relay.add(six, ints(1))), "int32"), x).body
    assert body.data.dtype == "int32" and body.data.numpy().tolist() == [8]


def test_slices_stacks_and_squeezes_of_shapes_are_followed():
    x = relay.var("x", shape=(relay.Any("N"), 6, 5))
    shape = relay.shape_of(x, "int64")
    pair = relay.stack([relay.strided_slice(shape, [1], [2]), relay.strided_slice(shape, [2], [3])], 0)
    assert folded(relay.squeeze(pair, [1]), x).body.data.numpy().tolist() == [6, 5]


@settings(max_examples=60, deadline=None)
@given(modules())
def test_random_networks_compute_the_same_and_leave_nothing_foldable(mod):
    after = check_same(mod, transform.FoldConstant())
    for node in relay.traverse.post_order(after["main"]):
        if isinstance(node, relay.Call):
            assert not all(isinstance(a, relay.Constant) for a in node.args)


@pytest.mark.slow
def test_100000_calls_are_folded():
    node, x = relay.const(0.0), relay.var("x", shape=())
    one = relay.const(1.0)
    for _ in range(50_000):
        node = relay.Call(get_op("add"), [node, one])
    for _ in range(50_000):
        x = relay.Call(get_op("add"), [x, node])
    func = folded(x, *relay.analysis.free_vars(x))
    assert float(func.body.args[1].data.numpy()) == 50_000.0


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_the_shape_of_a_static_tensor_is_a_constant_of_the_dtype_asked_for(dtype):
    x = relay.var("x", shape=(8, 9, 10))
    body = folded(relay.shape_of(relay.exp(x), dtype), x).body
    assert isinstance(body, relay.Constant) and body.checked_type.dtype == dtype
    assert body.data.numpy().tolist() == [8, 9, 10]


def test_dropout_of_a_constant_stays_a_call():
    data = relay.const(np.arange(4, dtype="float32"))
    body = folded(relay.nn.dropout(data) + relay.const(1.0)).body
    assert calls_of(body) == ["nn.dropout", "add"]
