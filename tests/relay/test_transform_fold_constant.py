"""FoldConstant: constants, shape arithmetic, what stays unfolded, and static forms of dynamic operators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from random_graphs import calls_of, check_same, modules

from byoc import relay
from byoc.ir.op import OPS, get_op, register_op
from byoc.ir.passes.instrument import pass_instrument
from byoc.ir.passes.transform import PassContext, Sequential
from byoc.ir.span import Span
from byoc.ir.virtual_device import VirtualDevice
from byoc.relay import transform
from byoc.relay.interpreter import evaluate
from byoc.relay.transform.simplify.fold_constant import FoldHostConstant
from byoc.relay.transform.simplify.folding_budget import MAX_GROWTH_BYTES
from byoc.runtime.core.device import Device
from byoc.runtime.core.errors import IndexOutsideError
from byoc.runtime.kernels.core.registry import KERNELS, kernel


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


def test_what_was_found_settled_is_folded_once_its_operator_has_a_kernel():
    op = register_op("test.settled", inputs=("data",), rel=lambda types, attrs: types[0], doc="Twice data.")
    module = relay.IRModule({"main": relay.Function([], relay.Call(op, [relay.const([1.0, 2.0])]))})
    for _ in range(2):
        assert calls_of(transform.FoldConstant()(module)["main"]) == ["test.settled"]
    kernel("test.settled")(lambda data: data * 2)
    try:
        body = transform.FoldConstant()(module)["main"].body
    finally:
        del KERNELS["test.settled"]
        OPS.unregister("test.settled")
    np.testing.assert_array_equal(body.data.numpy(), [2, 4])


def test_what_is_settled_for_relays_pass_is_not_for_the_pipelines():
    module = relay.IRModule({"main": relay.Function([], relay.zeros((2,), "float32"))})
    for _ in range(2):
        assert calls_of(transform.FoldConstant()(module)["main"]) == ["zeros"]
    assert isinstance(FoldHostConstant()(module)["main"].body, relay.Constant)


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


def host_folded(body, *params):
    return FoldHostConstant()(relay.IRModule({"main": relay.Function(params, body)}))["main"]


def test_the_pass_asks_for_no_types_and_instruments_count_what_runs():
    counted = []

    @pass_instrument
    class Counter:
        def run_before_pass(self, mod, info):
            counted.append(info.name)

    assert transform.FoldConstant().info.required == ()
    x = relay.var("x", shape=(2,))
    with PassContext(instruments=[Counter()], opt_level=3):
        Sequential([transform.InferType(), transform.FoldConstant(), transform.DeadCodeElimination()])(
            relay.IRModule.from_expr(relay.Function([x], relay.add(x, relay.negative(relay.const(1.0)))))
        )
    assert counted == ["sequential", "InferType", "FoldConstant", "InferType", "InferType", "DeadCodeElimination"]


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float16"])
def test_the_number_of_elements_of_a_static_shape_is_a_constant_of_any_dtype(dtype):
    x = relay.var("x", shape=(3, 4, 5))
    body = folded(relay.ndarray_size(x, dtype), x).body
    assert isinstance(body, relay.Constant) and body.data.dtype == dtype and body.data.numpy() == 60
    sizes = folded(relay.shape_of(x, dtype), x).body
    assert isinstance(sizes, relay.Constant) and sizes.data.dtype == dtype and sizes.data.numpy().tolist() == [3, 4, 5]
    y = relay.var("y", shape=(relay.Any(), 4))
    assert calls_of(folded(relay.ndarray_size(y, dtype), y)) == ["ndarray_size"]


def on_cpu(body):
    return relay.annotation.on_device(body, Device("cpu"), constrain_result=True)


def test_a_constant_on_a_device_counts_as_one_and_takes_its_annotation_to_where_it_is_used():
    x, a, b, c = relay.var("x", shape=(2,)), relay.var("a"), relay.var("b"), relay.var("c")
    one = relay.const([1.0, 2.0])
    body = relay.Let(b, on_cpu(relay.add(a, a)), relay.Let(c, on_cpu(relay.add(b, x)), c))
    func = folded(relay.Let(a, on_cpu(one), body), x)
    assert isinstance(func.body, relay.Let) and func.body.body is func.body.variable
    assert calls_of(func) == ["on_device", "add", "on_device"]
    constant = func.body.value.args[0].args[0].args[0]
    assert constant.data.numpy().tolist() == [2, 4]


def test_what_says_where_a_value_is_stays():
    one = relay.const([1.0, 2.0])
    assert calls_of(folded(on_cpu(one))) == ["on_device"]
    copied = relay.annotation.on_device(relay.op.device_copy(one, Device("cpu"), Device("cuda")), Device("cuda"))
    assert calls_of(folded(copied)) == ["device_copy", "on_device"]


def test_the_device_of_a_function_can_be_set():
    x = relay.var("x", shape=(2,))
    func = relay.Function([x], x)
    func.virtual_device_ = VirtualDevice(Device("cuda"))
    assert func.virtual_device_.device_type == 2
    func.virtual_device_ = Device("cpu")
    assert func.virtual_device_ == VirtualDevice(Device("cpu"))


def test_calls_without_arguments_stay_but_in_the_pipeline():
    made = relay.zeros((2,), "float32")
    assert calls_of(folded(relay.negative(made))) == ["zeros", "negative"]
    assert isinstance(host_folded(relay.negative(made)).body, relay.Constant)


def test_a_primitive_function_is_left():
    y = relay.var("y", shape=(2,))
    inner = relay.Function([y], relay.add(y, relay.negative(relay.const([1.0, 2.0]))), attrs={"Primitive": 1})
    func = folded(relay.Call(inner, [relay.const([1.0, 2.0])]))
    assert isinstance(func.body, relay.Call) and calls_of(func.body.op) == ["negative", "add"]


def test_an_index_out_of_range_is_no_error_but_in_the_pipeline():
    data, at = relay.const(np.arange(3, dtype="float32")), relay.const(np.array([7], "int64"))
    put = relay.scatter_elements(data, at, relay.const(np.ones(1, "float32")))
    assert calls_of(folded(relay.negative(put))) == ["scatter_elements", "negative"]
    with pytest.raises(IndexOutsideError, match="index 7 is outside a dimension of 3"):
        host_folded(relay.negative(put))


def test_calls_that_give_a_sequence_stay():
    made = relay.op.sequence.insert(relay.op.sequence.empty(), relay.const([1.0, 2.0]))
    body = relay.negative(relay.op.sequence.at(made, relay.const(0, "int64")))
    for fold in (folded, host_folded):
        assert calls_of(fold(body)) == ["sequence.empty", "sequence.insert", "sequence.at", "negative"]
