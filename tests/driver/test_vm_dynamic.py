"""Operators on inputs of unknown size, on the virtual machine and the interpreter, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.driver.vm import compile_module
from byoc.errors import InputError
from byoc.relay.analysis import infer_module
from byoc.relay.interpreter import evaluate
from byoc.runtime import cpu
from byoc.runtime.core.container import ADT
from byoc.runtime.vm import VirtualMachine

RNG = np.random.default_rng(7)


def data(*shape, dtype="float32"):
    return RNG.uniform(0.1, 1, shape).astype(dtype)


def unknown(name, rank, dtype="float32"):
    return relay.var(name, shape=[relay.Any()] * rank, dtype=dtype)


def sized(name, *shape, dtype="float32"):
    return relay.var(name, shape=[relay.Any() if d is None else d for d in shape], dtype=dtype)


def check(params, body, inputs, *expected):
    """Both executors give *expected*: arrays, or shapes alone."""
    body = body.astuple() if isinstance(body, relay.TupleWrapper) else body
    mod = relay.IRModule.from_expr(relay.Function(params, body))
    for found in (VirtualMachine(compile_module(mod), cpu()).run(*inputs), evaluate(infer_module(mod), inputs)):
        values = list(found) if isinstance(found, (ADT, list)) else [found]
        assert len(values) == len(expected)
        for value, wanted in zip(values, expected, strict=True):
            array = np.asarray(value)
            if isinstance(wanted, tuple):
                assert array.shape == wanted
            else:
                np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("left", "right", "a", "b"),
    [
        ((None,), (3, 2), (1,), (3, 2)),
        ((None, 2), (1, 2), (4, 2), (1, 2)),
        ((None, 2), (3, None), (1, 2), (3, 1)),
        ((None,), (None,), (2,), (1,)),
        ((3, None), (None,), (3, 4), (4,)),
    ],
)
@pytest.mark.parametrize("name", ["add", "multiply", "power", "maximum", "less", "divide"])
def test_binary_operators_broadcast_what_they_meet(name, left, right, a, b):
    x, y, u, v = sized("x", *left), sized("y", *right), data(*a), data(*b)
    check([x, y], getattr(relay, name)(x, y), [u, v], getattr(np, name)(u, v))


UNARY = {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "negative": np.negative,
    "tanh": np.tanh,
    "floor": np.floor,
    "abs": np.abs,
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
    "copy": np.copy,
    "batch_flatten": lambda a: a.reshape(3, 4),
    "shape_of": np.shape,
    "ndarray_size": np.size,
    "nn.relu": lambda a: np.maximum(a, 0),
    "transpose": np.transpose,
    "argwhere": np.argwhere,
}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_operators_of_one_input(name):
    x, a = unknown("x", 2), data(3, 4)
    make = {"nn.relu": relay.nn.relu, "batch_flatten": relay.nn.batch_flatten}.get(name) or getattr(relay, name)
    check([x], make(x), [a], np.asarray(UNARY[name](a)))


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "prod", "argmax", "argmin", "variance", "all"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, keepdims):
    dtype = "bool" if name == "all" else "float32"
    x, a = unknown("x", 3, dtype), data(2, 3, 4) > 0.5 if name == "all" else data(2, 3, 4)
    function = {"variance": np.var}.get(name) or getattr(np, name)
    check([x], getattr(relay, name)(x, 1, keepdims), [a], function(a, axis=1, keepdims=keepdims))


@pytest.mark.parametrize(
    ("newshape", "shape", "expected"),
    [
        ((1, -1), (2, 3, 4), (1, 24)),
        ((0, -1), (2, 3, 4), (2, 12)),
        ((0, -2), (2, 3, 4), (2, 3, 4)),
        ((-4, 2, -1, -2), (6, 3, 4), (2, 3, 3, 4)),
        ((-4, -1, 2, -3), (6, 3, 4), (3, 2, 12)),
        ((-4, -1, 2, -3), (0, 3, 4), (0, 2, 12)),
        ((-3, -2), (2, 3, 4), (6, 4)),
    ],
)
def test_reshapes(newshape, shape, expected):
    x, a = unknown("x", 3), data(*shape)
    check([x], relay.reshape(x, newshape), [a], a.reshape(expected))


def test_reshapes_after_one_another():
    x, a = unknown("x", 2), data(8, 16)
    check([x], relay.reshape(relay.reshape(x, (-1, 4)), (0, 2, -1)), [a], a.reshape(32, 2, 2))


A3, B2 = data(2, 3, 4), data(5, 6)
IMAGE = data(1, 3, 8, 8)


def movement():
    """Name, parameters, result, inputs and what is expected."""
    x, y, one = unknown("x", 3), unknown("y", 2), unknown("one", 1)
    axis, reps = sized("axis", dtype="int64"), sized("reps", 2, dtype="int64")
    begin, end = sized("begin", 3, dtype="int64"), sized("end", 3, dtype="int64")
    width = sized("width", 3, 2, dtype="int64")
    index, flag, k = unknown("index", 1, "int32"), unknown("flag", 1, "bool"), sized("k", dtype="int32")
    yield "concatenate", [y], relay.concatenate([y, y], axis=0), [B2], [np.concatenate([B2, B2])]
    yield "stack", [y], relay.stack([y, y], axis=1), [B2], [np.stack([B2, B2], 1)]
    yield "split", [y], relay.split(y, 3, -1), [B2], np.split(B2, 3, -1)
    yield "split at", [y], relay.split(y, (2, 4), -1), [B2], np.split(B2, (2, 4), -1)
    yield "tile", [x], relay.tile(x, (3, 2, 1)), [A3], [np.tile(A3, (3, 2, 1))]
    yield "tile by data", [x, reps], relay.tile(x, reps), [A3, np.array([3, 2])], [np.tile(A3, (3, 2))]
    yield "repeat", [y], relay.repeat(y, 2, 0), [B2], [np.repeat(B2, 2, 0)]
    yield "expand_dims", [y], relay.expand_dims(y, 1, 2), [B2], [B2[:, None, None]]
    yield "expand_dims by data", [y, axis], relay.expand_dims(y, axis), [B2, np.array(1)], [B2[:, None]]
    yield "squeeze", [x], relay.squeeze(x, [0]), [A3[:1]], [A3[0]]
    yield "reshape_like", [x, y], relay.reshape_like(x, y), [A3, data(4, 6)], [A3.reshape(4, 6)]
    yield "take", [y, index], relay.take(y, index, axis=1), [B2, np.array([0, 2], "int32")], [B2[:, [0, 2]]]
    yield "where", [flag, one], relay.where(flag, one, one), [np.array([True, False]), data(2)], [(2,)]
    yield "slice", [x], relay.strided_slice(x, [0, 0, 1], [1, 3, 4], [1, 2, 2]), [A3], [A3[:1, :3:2, 1:4:2]]
    yield "slice of axes", [x], relay.strided_slice(x, [0, 0], [5, -1], [1, 2], axes=[0, 2]), [A3], [A3[:, :, :-1:2]]
    sliced = relay.strided_slice(x, begin, end)
    yield "slice by data", [x, begin, end], sliced, [A3, np.array([0, 1, 2]), np.array([1, 3, 4])], [A3[:1, 1:3, 2:4]]
    yield "pad", [x], relay.nn.pad(x, ((0, 0), (1, 1), (2, 2))), [A3], [np.pad(A3, ((0, 0), (1, 1), (2, 2)))]
    widths = np.array([[0, 0], [1, 1], [2, 2]])
    yield "pad by data", [x, width], relay.nn.pad(x, width), [A3, widths], [np.pad(A3, widths)]
    yield "sort", [y], relay.sort(y), [B2], [np.sort(B2)]
    yield "argsort", [y], relay.argsort(y, dtype="int32"), [B2], [np.argsort(B2)]
    yield "topk", [y], relay.topk(y, 2), [B2], [-np.sort(-B2)[:, :2], np.argsort(-B2)[:, :2]]
    best = relay.topk(y, k, ret_type="indices")
    yield "topk by data", [y, k], best, [B2, np.array(3, "int32")], [np.argsort(-B2)[:, :3]]
    yield "cumsum", [y], relay.cumsum(y, 1), [B2], [np.cumsum(B2, 1)]
    yield (
        "one_hot",
        [index],
        relay.one_hot(index, relay.const(1.0), relay.const(0.0), 3, -1, "float32"),
        [np.array([1, 2, 0], "int32")],
        [np.eye(3)[[1, 2, 0]]],
    )
    hot = relay.one_hot(index, relay.const(1.0), relay.const(0.0), k, -1, "float32")
    yield "one_hot by data", [index, k], hot, [np.array([1, 0], "int32"), np.array(4, "int32")], [np.eye(4)[[1, 0]]]
    yield "arange", [k], relay.arange(k, dtype="int32"), [np.array(5, "int32")], [np.arange(5)]
    filled = relay.full(relay.const(3.0), relay.reshape(k, (1,)), "float32")
    yield "full", [k], filled, [np.array(4, "int32")], [np.full(4, 3.0)]
    yield "layout_transform", [x], relay.layout_transform(x, "NCW", "NWC"), [A3], [A3.transpose(0, 2, 1)]
    yield "clip", [y], relay.clip(y, 0.2, 0.4), [B2], [np.clip(B2, np.float32(0.2), np.float32(0.4))]
    yield "cast", [y], relay.cast(y, "int32"), [B2], [B2.astype("int32")]
    yield (
        "gather_nd",
        [y, sized("at", 2, None, dtype="int64")],
        None,
        [B2, np.array([[0, 1], [2, 3]])],
        [B2[[0, 1], [2, 3]]],
    )


MOVEMENT = list(movement())


@pytest.mark.parametrize("case", MOVEMENT, ids=[case[0] for case in MOVEMENT])
def test_operators_that_move_and_choose(case):
    _, params, body, inputs, expected = case
    check(params, relay.gather_nd(*params) if body is None else body, inputs, *expected)


def windows():
    """Parameters, result, inputs and the shape of the result."""
    x, k = sized("x", None, 3, None, None), sized("k", 4, 3, 3, 3)
    conv = relay.nn.conv2d(x, k, (2, 2), (1, 1), kernel_size=(3, 3))
    yield "conv2d", [x, k], conv, [IMAGE, data(4, 3, 3, 3)], (1, 4, 4, 4)
    t = sized("t", 3, 4, 3, 3)
    up = relay.nn.conv2d_transpose(x, t, (2, 2), (1, 1), kernel_size=(3, 3), channels=4, output_padding=(1, 1))
    yield "conv2d_transpose", [x, t], up, [IMAGE, data(3, 4, 3, 3)], (1, 4, 16, 16)
    for name in ("max_pool2d", "avg_pool2d"):
        pooled = getattr(relay.nn, name)(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
        yield name, [x], pooled, [IMAGE], (1, 3, 4, 4)
    yield "global_avg_pool2d", [x], relay.nn.global_avg_pool2d(x), [IMAGE], (1, 3, 1, 1)
    c = [sized(name, 3) for name in "abcd"]
    given = [IMAGE, *[data(3) + 1 for _ in c]]
    yield "batch_norm", [x, *c], relay.nn.batch_norm(x, *c)[0], given, (1, 3, 8, 8)
    yield "bias_add", [x, c[0]], relay.nn.bias_add(x, c[0]), given[:2], (1, 3, 8, 8)
    yield "resize2d", [x], relay.image.resize2d(x, (4, 4)), [IMAGE], (1, 3, 4, 4)


WINDOWS = list(windows())


@pytest.mark.parametrize("case", WINDOWS, ids=[case[0] for case in WINDOWS])
def test_operators_of_windows_and_channels(case):
    _, params, body, inputs, shape = case
    check(params, body, inputs, shape)
    static = [relay.var(p.name_hint, shape=a.shape, dtype=str(a.dtype)) for p, a in zip(params, inputs, strict=True)]
    bound = relay.bind(relay.Function(params, body), dict(zip(params, static, strict=True)))
    known = evaluate(infer_module(relay.IRModule.from_expr(relay.Function(static, bound.body))), inputs)
    check(params, body, inputs, known)  # what is computed where the sizes are known


@pytest.mark.parametrize("sizes", [((None, 2), (None, 2)), ((None, None), (3, 2)), ((4, None), (3, None))])
def test_products(sizes):
    x, w, a, b = sized("x", *sizes[0]), sized("w", *sizes[1]), data(4, 2), data(3, 2)
    check([x, w], relay.nn.dense(x, w), [a, b], a @ b.T)
    p, q, c, d = unknown("p", 3), unknown("q", 3), data(2, 3, 4), data(2, 5, 4)
    check([p, q], relay.nn.batch_matmul(p, q), [c, d], c @ d.transpose(0, 2, 1))


def test_a_softmax_of_unknown_length():
    x, a = unknown("x", 2), data(2, 3)
    check([x], relay.nn.softmax(x), [a], np.exp(a) / np.exp(a).sum(1, keepdims=True))


def test_what_is_unique_is_as_long_as_it_turns_out():
    x = unknown("x", 1, "int32")
    found, _, _, count = relay.unique(x, is_sorted=True)
    kept = relay.strided_slice(found, [0], count, slice_mode="size")
    check([x], kept, [np.array([3, 1, 3, 2], "int32")], np.array([1, 2, 3]))


def test_a_tuple_of_unknown_sizes_goes_in():
    pair = relay.TensorType((relay.Any(), 2))
    t, y = relay.var("t", relay.TupleType([pair, pair])), sized("y", None, 2)
    body = relay.concatenate([relay.TupleGetItem(t, 0), relay.TupleGetItem(t, 1)], axis=0) * relay.const(2.0) + y
    a, b, c = data(2, 2), data(3, 2), data(5, 2)
    check([t, y], body, [[a, b], c], 2 * np.concatenate([a, b]) + c)


def test_a_size_that_does_not_fit_is_found_when_it_is_met():
    x, y = unknown("x", 2), sized("y", 3, 2)
    mod = relay.IRModule.from_expr(relay.Function([x, y], relay.add(x, y)))
    with pytest.raises(ValueError, match="could not be broadcast|do not broadcast|expected shape"):
        VirtualMachine(compile_module(mod), cpu()).run(data(2, 2), data(3, 2))
    with pytest.raises(InputError, match=r"input 'y': expected shape \[3, 2\], got \[2, 2\]"):
        VirtualMachine(compile_module(mod), cpu()).run(data(2, 2), data(2, 2))


def test_a_loop_collects_what_it_counts():
    i, so_far = sized("i", dtype="int32"), sized("so_far", None, 1, dtype="int32")
    collect = relay.var("collect")
    more = relay.concatenate([so_far, relay.reshape(i, (1, 1))], axis=0)
    again = relay.Call(collect, [relay.add(i, relay.const(1)), more])
    body = relay.If(relay.less(i, relay.const(10)), again, so_far)
    loop = relay.Function([i, so_far], body, relay.TensorType((relay.Any(), 1), "int32"))
    start = sized("start", dtype="int32")
    first = relay.const(np.full((1, 1), -1, "int32"))
    call = relay.Let(collect, loop, relay.Call(collect, [start, first]))
    check([start], call, [np.array(0, "int32")], np.arange(-1, 10).reshape(-1, 1))
