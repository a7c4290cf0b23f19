"""In the graph language: casts, layout transforms and copies, with the numbers as they were."""

import random

import numpy as np
import pytest

from byoc import relay
from byoc.errors import PartitionError
from byoc.partition.calls import calls_of
from byoc.partition.place import Place
from byoc.partition.places.relay_casts import insert_relay_casts
from byoc.relay import op
from byoc.relay.expr import Call, Constant, Tuple
from byoc.relay.interpreter import evaluate
from byoc.relay.traverse import post_order

RNG = np.random.default_rng(5)


def typed(params, body):
    return relay.transform.InferType()(relay.IRModule.from_expr(relay.Function(params, body)))["main"]


def constant(*shape):
    return relay.const(RNG.standard_normal(shape).astype("float32"))


def conv2d(data, weight, **attrs):
    return op.nn.conv2d(data, weight, padding=(1, 1), kernel_size=(3, 3), channels=8, **attrs)


def count(func, name):
    return sum(isinstance(n, Call) and getattr(n.op, "name", "") == name for n in post_order(func.body))


def run(func, *arrays):
    found = evaluate(func, list(arrays))
    return [np.asarray(f, dtype="float32") for f in (found if isinstance(found, list) else [found])]


def placed(func, choose):
    return {call: place for call in calls_of(func) if (place := choose(call)) is not None}


def assert_same(func, made, *arrays, tolerance=0.0):
    assert [p.type_annotation for p in made.params] == [p.type_annotation for p in func.params]
    assert made.body.checked_type == func.body.checked_type
    for a, b in zip(run(func, *arrays), run(made, *arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(a).max())))


def network():
    """A residual block: two convolutions with bias, an addition, a pool."""
    x, w, b = relay.var("x", shape=(1, 8, 6, 6)), constant(8, 8, 3, 3), constant(8)
    y = op.nn.relu(op.nn.bias_add(conv2d(x, w), b))
    return typed([x], op.nn.global_avg_pool2d(op.add(y, conv2d(y, w))))


X = RNG.standard_normal((1, 8, 6, 6)).astype("float32")


def test_channels_last_convolutions_have_two_transforms_and_constants_have_none():
    func = network()
    here = placed(func, lambda c: Place("host", "any", "NHWC" if c.op.name == "nn.conv2d" else "any"))
    made = insert_relay_casts(func, here)
    assert count(made.function, "layout_transform") == made.casting.report().count("layout") == 2  # in, and out
    assert count(made.function, "transpose") == count(made.function, "expand_dims") == 0  # weights were turned now
    assert_same(func, made.function, X, tolerance=1e-5)


def test_what_is_pinned_as_the_model_has_it_costs_transforms_around_it():
    func = network()
    here = placed(func, lambda c: Place("host", "any", "NHWC" if c.op.name == "nn.conv2d" else "NCHW"))
    made = insert_relay_casts(func, here)
    assert count(made.function, "layout_transform") == made.casting.report().count("layout") == 4
    assert_same(func, made.function, X, tolerance=1e-5)


def test_a_single_convolution_is_surrounded_and_inverse_transforms_do_not_meet():
    x, w = relay.var("x", shape=(1, 8, 6, 6)), constant(8, 8, 3, 3)
    func = typed([x], conv2d(conv2d(x, w), w))
    made = insert_relay_casts(func, placed(func, lambda c: Place("host", "any", "NHWC")))
    assert count(made.function, "layout_transform") == 2
    assert_same(func, made.function, X, tolerance=1e-5)


@pytest.mark.parametrize(
    "into",
    [
        lambda x: op.transpose(x, (0, 3, 1, 2)),
        lambda x: op.layout_transform(x, "NHWC", "NCHW"),
    ],
    ids=["transpose", "layout_transform"],
)
def test_a_transform_that_undoes_one_of_the_model_is_cancelled(into):
    x, w = relay.var("x", shape=(1, 6, 6, 8)), constant(8, 8, 3, 3)
    func = typed([x], conv2d(into(x), w))
    made = insert_relay_casts(
        func, placed(func, lambda c: Place("host", "any", "NHWC" if c.op.name == "nn.conv2d" else "NCHW"))
    )
    assert made.cancelled == 1 and made.casting.report().count("layout") == 2
    assert count(made.function, "layout_transform") == 1 and count(made.function, "transpose") == 0
    values = RNG.standard_normal((1, 6, 6, 8)).astype("float32")
    assert_same(func, made.function, values, tolerance=1e-5)
    swapped = typed([x], conv2d(op.transpose(x, (0, 3, 2, 1)), w))  # moves more than the layout
    made = insert_relay_casts(
        swapped, placed(swapped, lambda c: Place("host", "any", "NHWC" if c.op.name == "nn.conv2d" else "NCHW"))
    )
    assert made.cancelled == 0
    assert_same(swapped, made.function, values, tolerance=1e-5)


def test_three_readers_share_one_transform():
    x, w = relay.var("x", shape=(1, 8, 6, 6)), constant(8, 8, 3, 3)
    y = op.tanh(x)
    func = typed([x], Tuple([conv2d(y, w), conv2d(y, w), conv2d(y, w)]))
    made = insert_relay_casts(
        func, placed(func, lambda c: Place("host", "any", "NHWC" if c.op.name == "nn.conv2d" else "NCHW"))
    )
    assert count(made.function, "layout_transform") == 1 + 3
    assert_same(func, made.function, X, tolerance=1e-5)


def test_half_precision_is_cast_once_in_and_once_out():
    func = network()
    made = insert_relay_casts(func, placed(func, lambda c: Place("host", "fp16")))
    assert count(made.function, "cast") == made.casting.report().count("precision") == 2
    dtypes = {
        n.checked_type.dtype
        for n in post_order(made.function.body)
        if isinstance(n, Call) and n.args and n.op.name != "cast"
    }
    assert dtypes == {"float16"}
    assert {n.checked_type.dtype for n in post_order(made.function.body) if isinstance(n, Constant)} == {"float16"}
    assert_same(func, made.function, X, tolerance=1e-2)


def test_a_weight_that_two_operators_share_is_cast_to_one_constant():
    func = network()
    made = insert_relay_casts(func, placed(func, lambda c: Place("host", "fp16", "NHWC")))
    weights = [n for n in post_order(made.function.body) if isinstance(n, Constant) and n.checked_type.ndim == 4]
    assert len({id(w) for w in weights}) == 1 and weights[0].checked_type.dtype == "float16"
    assert made.casting.report().count("precision", once=True) == 2  # the weights and the bias
    assert_same(func, made.function, X, tolerance=1e-2)


def test_integers_keep_their_precision_and_a_cast_to_float_is_to_the_places():
    x, i = relay.var("x", shape=(5, 4)), relay.var("i", shape=(3,), dtype="int64")
    taken = op.take(x, i, axis=0)
    func = typed([x, i], op.multiply(taken, op.expand_dims(op.cast(i, "float32"), 1)))
    made = insert_relay_casts(func, placed(func, lambda c: Place("host", "fp16")))
    assert count(made.function, "cast") == 3  # x to half, the model's own, the result back
    values = RNG.standard_normal((5, 4)).astype("float32")
    assert_same(func, made.function, values, np.array([4, 0, 2]), tolerance=2e-3)


def test_tuples_split_and_concatenate():
    x = relay.var("x", shape=(1, 8, 6, 6))
    parts = op.split(op.tanh(x), 2, axis=1)
    func = typed([x], op.concatenate([op.nn.relu(parts[1]), op.sigmoid(parts[0]), parts[1]], axis=1))
    here = placed(func, lambda c: Place("host", "fp16", "NHWC") if c.op.name != "sigmoid" else Place("host"))
    made = insert_relay_casts(func, here)
    assert_same(func, made.function, X, tolerance=4e-3)
    made.casting.check()


def test_random_functions_at_random_places_give_the_same_numbers():
    rng = random.Random(3)
    layouts = set()
    for _ in range(25):
        x, w = relay.var("x", shape=(1, 8, 6, 6)), constant(8, 8, 3, 3)
        values = [x]
        for _ in range(rng.randint(2, 7)):
            a, b = rng.choice(values[-3:]), rng.choice(values[-3:])
            values.append(
                rng.choice(
                    (
                        lambda: op.tanh(conv2d(a, w)),
                        lambda: op.add(a, b),
                        lambda: op.nn.relu(a),
                        lambda: op.nn.max_pool2d(a, (3, 3), padding=(1, 1)),
                        lambda: op.maximum(a, b),
                    )
                )()
            )
        func = typed([x], Tuple([values[-1], values[len(values) // 2]]))
        choices = {}

        def choose(call):
            return choices.setdefault(
                call,
                rng.choice(
                    (
                        None,
                        Place("host"),
                        Place("opencl", "fp16", "NHWC"),
                        Place("opencl", "any", "any"),
                        Place("cuda", "float", "NHWC"),
                        Place("cuda", "fp16", "any"),
                    )
                ),
            )

        made = insert_relay_casts(func, placed(func, choose), copies=True)
        made.casting.check()
        report = made.casting.report()
        assert count(made.function, "layout_transform") == report.count("layout")
        assert count(made.function, "device_copy") == report.count("target")
        assert count(made.function, "cast") == report.count("precision")
        layouts.update(c.kind for c in made.casting.casts)
        assert_same(func, made.function, X, tolerance=3e-2)
    assert layouts == {"target", "precision", "layout"}


def test_a_function_at_home_stays_as_it_was():
    func = network()
    for places in ({}, placed(func, lambda c: Place("host"))):
        made = insert_relay_casts(func, places)
        assert made.casting.casts == () and relay.structural_equal(made.function, func)


def test_copies_are_written_where_they_are_asked_for():
    func = network()
    here = placed(func, lambda c: Place("opencl") if c.op.name == "nn.conv2d" else None)
    made = insert_relay_casts(func, here, copies=True)
    assert count(made.function, "device_copy") == made.casting.report().count("target") == 4
    assert count(insert_relay_casts(func, here).function, "device_copy") == 0
    assert_same(func, made.function, X)


def test_what_cannot_be_placed_is_refused_with_its_name():
    x = relay.var("x", shape=(2, 3))
    func = typed([x], op.tanh(x))
    with pytest.raises(PartitionError, match="quantize the model first"):
        insert_relay_casts(func, placed(func, lambda c: Place("host", "int8")))
    with pytest.raises(PartitionError, match="leave such layouts to the backend"):
        insert_relay_casts(func, placed(func, lambda c: Place("opencl", "float", "ImageDefault")))
    branch = typed([x], relay.If(relay.const(True), op.tanh(x), op.abs(x)))
    with pytest.raises(PartitionError, match="this function has a If"):
        insert_relay_casts(branch, {})
