"""Gradients of operators against differences, and of programs against what they should be."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.annex.gradients.gradient import gradient
from byoc.annex.testing import count_ops
from byoc.annex.testing.gradients import check_grad
from byoc.errors import UserError
from byoc.ir.passes.transform import Sequential
from byoc.relay import transform
from byoc.relay.analysis import infer_function
from byoc.relay.expr import Call, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from byoc.relay.interpreter import evaluate
from byoc.relay.traverse import post_order

MODES = ["higher_order", "first_order"]
RNG = np.random.default_rng(7)


def v(name, *shape):
    return relay.var(name, shape=shape, dtype="float64")


def c(value):
    return relay.const(value, "float64")


def grads_of(func, *inputs, mode="higher_order", mod=None):
    back = infer_function(gradient(func, mod, mode=mode), mod)
    value, grads = evaluate(back, list(inputs), mod=mod)
    return value, grads


def away(*shape):
    """Numbers that are 0.1 apart at least, none of them near 0."""
    count = int(np.prod(shape))
    return (RNG.permutation(count) * 0.1 - count * 0.05 + 0.053).reshape(shape)


# operators ----------------------------------------------------------------------------------------------------------

POSITIVE = ["log", "log2", "log10", "sqrt", "rsqrt", "log1p"]
ANYWHERE = [
    "exp",
    "sigmoid",
    "tanh",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "atan",
    "asinh",
    "erf",
    "abs",
    "negative",
    "copy",
    "ceil",
    "floor",
    "sign",
    "round",
    "trunc",
    "zeros_like",
    "ones_like",
]
WITHIN_ONE = ["asin", "acos", "atanh"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*POSITIVE, *ANYWHERE, *WITHIN_ONE, "acosh"])
def test_functions_of_one_number(name, mode):
    x = v("x", 2, 3)
    data = away(2, 3) + 0.007
    if name in POSITIVE:
        data = np.abs(data) + 0.5
    if name == "acosh":
        data = np.abs(data) + 1.5
    check_grad(Function([x], getattr(relay, name)(x)), [data], mode=mode)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((1, 3), (2, 1)), ((), (2, 2))])
def test_arithmetic_sums_over_what_was_broadcast(name, shapes):
    x, y = v("x", *shapes[0]), v("y", *shapes[1])
    data = [np.abs(away(*s)) + 0.5 + k * 0.03 for k, s in enumerate(shapes)]
    for mode in MODES:
        check_grad(Function([x, y], getattr(relay, name)(x, y)), data, mode=mode)


X = v("x", 2, 3, 4)
ONE_INPUT = {
    "sum": lambda x: relay.sum(x, axis=1),
    "sum of all": lambda x: relay.sum(x),
    "sum, the other axes": lambda x: relay.sum(x, axis=[1], exclude=True, keepdims=True),
    "mean": lambda x: relay.mean(x, axis=[0, 2]),
    "variance": lambda x: relay.variance(x, axis=[1]),
    "unbiased variance": lambda x: relay.variance(x, axis=[0, 2], keepdims=True, unbiased=True),
    "max": lambda x: relay.max(x, axis=2),
    "min": lambda x: relay.min(x, axis=[0, 1], keepdims=True),
    "prod": lambda x: relay.prod(x, axis=[0, 2]),
    "cumsum": lambda x: relay.cumsum(x, axis=1),
    "exclusive cumsum": lambda x: relay.cumsum(x, axis=-1, exclusive=True),
    "flat cumsum": lambda x: relay.cumsum(x),
    "reshape": lambda x: relay.reshape(x, (4, -1)),
    "squeeze": lambda x: relay.squeeze(relay.expand_dims(x, 1, 2), [1]),
    "transpose": lambda x: relay.transpose(x, (2, 0, 1)),
    "transpose of all": lambda x: relay.transpose(x),
    "reverse": lambda x: relay.reverse(x, 1),
    "broadcast_to": lambda x: relay.broadcast_to(x, (5, 2, 3, 4)),
    "broadcast_to_like": lambda x: relay.broadcast_to_like(x, c(np.ones((2, 2, 3, 4)))),
    "collapse_sum_to": lambda x: relay.collapse_sum_to(x, (3, 1)),
    "collapse_sum_like": lambda x: relay.collapse_sum_like(x, c(np.ones((3, 4)))),
    "concatenate": lambda x: relay.concatenate([x, relay.negative(x), c(np.ones((2, 1, 4)))], 1),
    "stack": lambda x: relay.stack([x, relay.negative(x)], 1),
    "split": lambda x: relay.split(x, [1, 3], axis=2)[1],
    "tile": lambda x: relay.tile(x, (2, 1, 1, 3)),
    "repeat": lambda x: relay.repeat(x, 3, 1),
    "pad": lambda x: relay.nn.pad(x, ((1, 0), (0, 2), (1, 1)), 3.0),
    "pad that cuts": lambda x: relay.nn.pad(x, ((-1, 0), (1, -2), (1, 1)), 3.0),
    "clip": lambda x: relay.clip(x, -0.5, 0.5),
    "cast": lambda x: relay.cast(relay.cast(x, "float32"), "float64"),
    "relu": relay.nn.relu,
    "leaky_relu": lambda x: relay.nn.leaky_relu(x, 0.3),
    "softmax": lambda x: relay.nn.softmax(x, axis=1),
    "log_softmax": lambda x: relay.nn.log_softmax(x, axis=-1),
    "batch_flatten": relay.nn.batch_flatten,
    "take along an axis": lambda x: relay.take(x, relay.const([[0, 2], [1, 0]]), axis=1),
    "take beyond the end": lambda x: relay.take(x, relay.const([5, -1]), axis=2, mode="wrap"),
    "take of all": lambda x: relay.take(x, relay.const([0, 5, 5, 23])),
    "gather": lambda x: relay.gather(x, 1, relay.const(np.array([[[0, 1, 2, 0]], [[1, 1, 0, 0]]]))),
    "gather_nd": lambda x: relay.gather_nd(x, relay.const([[0, 1, 1], [2, 0, 0]])),
    "strided_slice": lambda x: relay.strided_slice(x, [0, 1], [2, 3]),
    "strided_slice with steps": lambda x: relay.strided_slice(x, [0, 2, 3], [2, -4, 0], [1, -1, -2]),
    "strided_slice by axes": lambda x: relay.strided_slice(x, [-3], [-1], axes=[2]),
    "strided_slice by sizes": lambda x: relay.strided_slice(x, [1, 0], [1, 2], slice_mode="size"),
    "where": lambda x: relay.where(relay.const(np.arange(4) % 2 == 0), x, relay.negative(x)),
    "checkpoint": lambda x: relay.annotation.checkpoint(relay.multiply(x, x)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", list(ONE_INPUT))
def test_operators_of_one_tensor(name, mode):
    weighed = relay.multiply(ONE_INPUT[name](X), ONE_INPUT[name](relay.sin(X)))
    tolerance = 2e-3 if name == "cast" else 1e-5
    eps = 1e-3 if name == "cast" else 1e-6
    check_grad(Function([X], weighed), [away(2, 3, 4)], mode=mode, atol=tolerance, eps=eps)


def _product(build, *shapes):
    params = [v(f"p{k}", *shape) for k, shape in enumerate(shapes)]
    return Function(params, build(*params)), [RNG.uniform(0.1, 1.0, shape) for shape in shapes]


PRODUCTS = {
    "dense": (relay.nn.dense, (3, 4), (2, 4)),
    "dense of more axes": (relay.nn.dense, (2, 3, 4), (2, 4)),
    **{
        f"matmul {a} {b}": (
            lambda x, y, a=a, b=b: relay.nn.matmul(x, y, transpose_a=a, transpose_b=b),
            (4, 3) if a else (3, 4),
            (2, 4) if b else (4, 2),
        )
        for a in (False, True)
        for b in (False, True)
    },
    **{
        f"batch_matmul {a} {b}": (
            lambda x, y, a=a, b=b: relay.nn.batch_matmul(x, y, transpose_a=a, transpose_b=b),
            (2, 4, 3) if a else (2, 3, 4),
            (2, 2, 4) if b else (2, 4, 2),
        )
        for a in (False, True)
        for b in (False, True)
    },
    "bias_add": (lambda x, y: relay.nn.bias_add(x, y, axis=1), (2, 3, 4), (3,)),
    "prelu": (lambda x, y: relay.nn.prelu(relay.subtract(x, c(0.5)), y, axis=1), (2, 3, 4), (3,)),
    "cross_entropy": (relay.nn.cross_entropy, (3, 4), (3, 4)),
    "cross_entropy_with_logits": (relay.nn.cross_entropy_with_logits, (3, 4), (3, 4)),
    "full": (lambda x: relay.full(relay.sum(x), (2, 3), "float64"), (2,)),
    "arange": (lambda a, s: relay.multiply(relay.arange(a, c(4.0), s, "float64"), c([1.0, 2.0, 3.0, 4.0])), (), ()),
}


@pytest.mark.parametrize("name", [n for n in PRODUCTS if n != "arange"])
def test_operators_of_several_tensors(name):
    build, *shapes = PRODUCTS[name]
    func, data = _product(build, *shapes)
    for mode in MODES:
        check_grad(func, data, mode=mode)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": (1, 1)},
        {"strides": (2, 2), "padding": (0, 1)},
        {"strides": (2, 1), "padding": (1, 0, 0, 2)},
        {"dilation": (2, 1), "padding": (2, 1)},
        {"groups": 2},
    ],
    ids=str,
)
def test_convolution(options):
    x, w = v("x", 1, 2, 5, 6), v("w", 4, 2 // options.get("groups", 1), 3, 2)
    func = Function([x, w], relay.nn.conv2d(x, w, **options))
    data = [RNG.normal(size=(1, 2, 5, 6)), RNG.normal(size=w.checked_type.concrete_shape)]
    check_grad(func, data, mode="first_order", eps=1e-4)


@pytest.mark.parametrize("options", [{}, {"strides": (2, 2), "padding": (1, 1), "output_padding": (1, 1)}], ids=str)
def test_transposed_convolution(options):
    x, w = v("x", 1, 2, 3, 3), v("w", 2, 3, 3, 3)
    func = Function([x, w], relay.nn.conv2d_transpose(x, w, channels=3, kernel_size=(3, 3), **options))
    check_grad(func, [RNG.normal(size=(1, 2, 3, 3)), RNG.normal(size=(2, 3, 3, 3))], mode="first_order", eps=1e-4)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: relay.nn.max_pool2d(x, (2, 2), strides=(2, 2)),
        lambda x: relay.nn.max_pool2d(x, (3, 3), strides=(1, 1), padding=(1, 1)),
        lambda x: relay.nn.avg_pool2d(x, (2, 2), strides=(2, 2)),
        lambda x: relay.nn.avg_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1), count_include_pad=True),
        lambda x: relay.nn.avg_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1)),
        lambda x: relay.nn.max_pool2d(x, (2, 2), dilation=(2, 1), padding=(1, 0)),
        lambda x: relay.nn.avg_pool2d(x, (2, 3), dilation=(2, 1), padding=(1, 0)),
        relay.nn.global_avg_pool2d,
        relay.nn.global_max_pool2d,
        lambda x: relay.nn.upsampling(x, 2, 3),
    ],
)
def test_pools(build):
    x = v("x", 1, 2, 4, 4)
    check_grad(Function([x], relay.multiply(build(x), build(x))), [away(1, 2, 4, 4)], mode="first_order")


def test_layers_of_a_network_against_each_other():
    x, w, b = v("x", 2, 6), v("w", 5, 6), v("b", 5)
    logits = relay.nn.bias_add(relay.nn.dense(x, w), b, axis=-1)
    loss = relay.nn.cross_entropy_with_logits(relay.nn.log_softmax(logits), c(np.eye(5)[[1, 3]]))
    data = [RNG.normal(size=s) for s in [(2, 6), (5, 6), (5,)]]
    for mode in MODES:
        check_grad(Function([x, w, b], loss), data, mode=mode)


# programs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_type_is_that_of_the_result_and_of_the_gradients(mode):
    x = v("x", 10, 10)
    back = infer_function(gradient(Function([x], x), mode=mode))
    t = relay.TensorType((10, 10), "float64")
    assert back.checked_type == relay.FuncType([t], relay.TupleType([t, relay.TupleType([t])]))
    value, (grad,) = evaluate(back, [np.full((10, 10), 3.0)])
    np.testing.assert_array_equal(value, np.full((10, 10), 3.0))
    np.testing.assert_array_equal(grad, np.ones((10, 10)))


def test_a_shared_node_is_not_computed_twice():
    x, y = v("x", 3, 3), v("y", 3, 3)
    product = relay.nn.dense(x, y)
    total = relay.sum(product, keepdims=True)
    back = gradient(Function([x, y], relay.subtract(total, relay.sum(product * product))), mode="first_order")
    assert count_ops(back)["nn.dense"] == 3


@pytest.mark.parametrize("mode", MODES)
def test_inputs_that_count_not_and_twice(mode):
    x, y, z = v("x", 2), v("y", 2), v("z", 2)
    t = Tuple([x, y, z])
    body = relay.multiply(TupleGetItem(t, 0), relay.add(TupleGetItem(t, 0), TupleGetItem(t, 1)))
    _, (gx, gy, gz) = grads_of(Function([x, y, z], body), *np.arange(6.0).reshape(3, 2), mode=mode)
    np.testing.assert_allclose(gx, [2 * 0 + 2, 2 * 1 + 3])
    np.testing.assert_allclose(gy, [0, 1])
    np.testing.assert_array_equal(gz, [0, 0])


def test_the_first_field_of_a_result_counts_or_all():
    x = v("x", 2)
    func = Function([x], Tuple([relay.multiply(x, x), relay.exp(x)]))
    data = np.array([1.0, 2.0])
    (_, second), (grad,) = grads_of(func, data)
    np.testing.assert_allclose(second, np.exp(data))
    np.testing.assert_allclose(grad, 2 * data)
    _, (grad,) = grads_of(func, data, mode="first_order")
    np.testing.assert_allclose(grad, 2 * data + np.exp(data))


def test_branches_give_the_gradient_of_the_one_that_was_taken():
    x, y, cond = v("x", 2), v("y", 2), relay.var("cond", shape=(), dtype="bool")
    func = Function([cond, x, y], If(cond, relay.multiply(x, x), y))
    for flag in (True, False):
        _, (_, gx, gy) = grads_of(func, np.bool_(flag), np.array([2.0, 3.0]), np.array([5.0, 6.0]))
        np.testing.assert_array_equal(gx, [4.0, 6.0] if flag else [0, 0])
        np.testing.assert_array_equal(gy, [0, 0] if flag else [1, 1])
    with pytest.raises(UserError, match="straight-line code, not a If"):
        gradient(func, mode="first_order")


def test_references_carry_gradients():
    x, r, u = v("x", 2), Var("r"), Var("u")
    body = Let(r, RefCreate(x), Let(u, RefWrite(r, relay.add(RefRead(r), RefRead(r))), RefRead(r)))
    value, (grad,) = grads_of(Function([x], body), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(value, [2, 4])
    np.testing.assert_array_equal(grad, [2, 2])


def test_closures_and_recursion():
    f, n, acc = Var("f"), relay.var("n", shape=(), dtype="int32"), v("acc")
    x = v("x")
    step = If(relay.equal(n, relay.const(0)), acc, Call(f, [relay.subtract(n, relay.const(1)), relay.multiply(acc, x)]))
    loop = Function([n, acc], step, relay.TensorType((), "float64"))
    func = Function([x], Let(f, loop, Call(f, [relay.const(5), x])))
    value, (grad,) = grads_of(func, np.float64(1.5))
    np.testing.assert_allclose(value, 1.5**6)
    np.testing.assert_allclose(grad, 6 * 1.5**5)


def test_the_gradient_of_a_gradient():
    x = v("x", 2)
    first = infer_function(gradient(Function([x], relay.multiply(x, relay.multiply(x, x)))))
    y = v("y", 2)
    slope = Function([y], TupleGetItem(TupleGetItem(Call(first, [y]), 1), 0))
    value, (grad,) = grads_of(slope, np.array([2.0, 3.0]))
    np.testing.assert_allclose(value, 3 * np.array([4.0, 9.0]))
    np.testing.assert_allclose(grad, 6 * np.array([2.0, 3.0]))


def test_global_functions_get_gradients_of_their_own():
    mod = relay.IRModule()
    x, y = v("x", 2), v("y", 2)
    double, q = relay.GlobalVar("double"), relay.GlobalVar("q")
    mod[double] = Function([x], relay.add(x, x))
    mod[q] = Function([y], Call(double, [Call(double, [y])]))
    mod = transform.InferType()(mod)
    mod["grad"] = gradient(q, mod)
    mod = transform.InferType()(mod)
    value, (grad,) = evaluate(mod["grad"], [np.array([1.0, 2.0])], mod=mod)
    np.testing.assert_array_equal(value, [4, 8])
    np.testing.assert_array_equal(grad, [4, 4])
    assert "double_grad" in mod
    _, (grad,) = grads_of(mod[q], np.array([1.0, 2.0]), mode="first_order", mod=mod)
    np.testing.assert_array_equal(grad, [4, 4])


@pytest.mark.slow
def test_a_long_chain_has_a_gradient():
    x = v("x", 2)
    body = x
    for _ in range(5000):
        body = relay.multiply(body, c(1.0))
    _, (grad,) = grads_of(Function([x], body), np.array([1.0, 2.0]), mode="first_order")
    np.testing.assert_array_equal(grad, [1, 1])
    _, (grad,) = grads_of(Function([x], body), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(grad, [1, 1])


def test_what_has_no_gradient_is_named():
    x = v("x", 2)
    with pytest.raises(UserError, match="missing gradients: sort"):
        gradient(Function([x], relay.sort(x)))
    with pytest.raises(UserError, match="takes a function, got Var"):
        gradient(x)
    with pytest.raises(UserError, match="unknown mode 'second'"):
        gradient(Function([x], x), mode="second")
    t = relay.var("t", relay.TupleType([relay.TensorType((2,))]))
    with pytest.raises(UserError, match="%t is"):
        gradient(Function([t], TupleGetItem(t, 0)))


def test_a_wrong_gradient_is_found_out():
    relay.op.get("erf").set_attr("FPrimalGradient", lambda orig, grad: [relay.multiply(grad, c(2.0))])
    try:
        x = v("x", 2)
        with pytest.raises(AssertionError):
            check_grad(Function([x], relay.erf(x)))
    finally:
        from byoc.annex.gradients.rules.unary import DERIVATIVES, _rule

        relay.op.get("erf").set_attr("FPrimalGradient", _rule(DERIVATIVES["erf"]))


def test_first_order_gradient_is_a_pass_over_all_functions():
    x = v("x", 2)
    mod = relay.IRModule({"main": Function([x], relay.multiply(x, x)), "other": Function([x], relay.exp(x))})
    after = transform.FirstOrderGradient()(mod)
    _, (grad,) = evaluate(after["main"], [np.array([1.0, 2.0])])
    np.testing.assert_allclose(grad, [2, 4])
    _, (grad,) = evaluate(after["other"], [np.array([1.0, 2.0])])
    np.testing.assert_allclose(grad, np.exp([1.0, 2.0]))


# LazyGradientInit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build, left",
    [
        (lambda x: relay.add(x, relay.zeros_like(x)), {}),
        (lambda x: relay.add(relay.zeros((2, 3), "float64"), x), {}),
        (lambda x: relay.multiply(relay.ones_like(x), x), {}),
        (lambda x: relay.multiply(x, relay.zeros_like(x)), {"zeros_like": 1}),
        (lambda x: relay.add(relay.zeros((4, 2, 3), "float64"), x), {"zeros": 1, "add": 1}),
        (lambda x: relay.add(relay.add(relay.zeros_like(x), relay.zeros_like(x)), x), {}),
        (lambda x: relay.subtract(x, relay.zeros_like(x)), {}),
    ],
)
def test_zeros_that_gradients_begin_with_are_not_added(build, left):
    x = v("x", 2, 3)
    mod = transform.InferType()(relay.IRModule.from_expr(Function([x], build(x))))
    after = transform.LazyGradientInit()(mod)
    assert dict(count_ops(after["main"])) == left and after["main"].checked_type == mod["main"].checked_type
    data = [RNG.normal(size=(2, 3))]
    np.testing.assert_array_equal(evaluate(after, data), evaluate(mod, data))


def test_lazy_initialisation_keeps_what_a_gradient_computes():
    x, y = v("x", 2, 2), v("y", 2, 2)
    back = gradient(Function([x, y], relay.multiply(relay.add(x, y), y)))
    mod = transform.InferType()(relay.IRModule.from_expr(back))
    after = transform.LazyGradientInit()(mod)
    assert after["main"].checked_type == mod["main"].checked_type
    data = [RNG.normal(size=(2, 2)) for _ in range(2)]
    for a, b in zip(evaluate(after, data)[1], evaluate(mod, data)[1], strict=True):
        np.testing.assert_allclose(a, b)


def checkpointed(body, *params):
    """The gradient of a checkpoint, its closures and references evaluated away."""
    func = infer_function(Function(params, relay.annotation.checkpoint(body)))
    mod = relay.IRModule.from_expr(gradient(func))
    steps = [transform.PartialEvaluate(), transform.DeadCodeElimination(inline_once=True, ignore_impurity=True)]
    return Sequential(steps)(mod)["main"]


def test_the_way_back_computes_the_operands_of_a_checkpoint_again():
    x, y, z, w = params = [relay.var(n, shape=(2,)) for n in "xyzw"]
    made = checkpointed(relay.multiply(relay.add(x, y), relay.add(z, w)), *params)
    bound, node = [], made.body
    while isinstance(node, relay.Let):
        bound.append(node.value.op.name)
        node = node.body
    assert bound == ["multiply", "ones_like", "add", "add", "add", "add"]
    assert [a.op.name for a in made.body.value.args] == ["add", "add"], "the forward part keeps its own operands"
    assert made.body.value.args[0] not in list(post_order(made.body.body)), "which the way back does not read"
    arrays = [np.full(2, v, "float32") for v in (1, 2, 3, 4)]
    value, grads = evaluate(made, arrays)
    np.testing.assert_array_equal(value, [21, 21])
    assert [g.tolist() for g in grads] == [[7, 7], [7, 7], [3, 3], [3, 3]]


def test_a_checkpoint_of_a_tuple_and_one_inside_another_have_the_same_gradients_as_without():
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    mark = relay.annotation.checkpoint

    def loss(keep):
        pair = keep(relay.Tuple([relay.exp(keep(relay.multiply(x, y))), relay.tanh(y)]))
        return Function([x, y], relay.subtract(relay.TupleGetItem(pair, 0), relay.TupleGetItem(pair, 1)))

    arrays = [np.array([0.5, -1, 2], "float32"), np.array([1, 0.25, -0.5], "float32")]
    found, want = (evaluate(infer_function(gradient(loss(keep))), arrays) for keep in (mark, lambda e: e))
    np.testing.assert_allclose(found[0], want[0], rtol=1e-6)
    np.testing.assert_allclose(found[1], want[1], rtol=1e-6)
