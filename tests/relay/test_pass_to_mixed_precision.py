"""ToMixedPrecision: what is always, never and as its inputs are in float16; casts once; results close to float32's."""

import numpy as np
import pytest

from byoc import relay
from byoc.annex.testing import TempOpAttr, count_ops
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import PassContext
from byoc.relay.interpreter import evaluate
from byoc.relay.transform import InferType
from byoc.relay.transform.to_mixed_precision import ToMixedPrecision

RNG = np.random.default_rng(0)
HALF = "float16"
KEY = "FTVMMixedPrecisionConversionType"


def module(body):
    return InferType()(IRModule.from_expr(body))


def lowered(body, dtype=HALF, mode=0):
    return ToMixedPrecision(dtype, mode)(module(body))


def equal(found, expected):
    relay.assert_structural_equal(found, module(expected), map_free_vars=True)


def close(body, **shapes):
    before, after = module(body), lowered(body)
    inputs = {name: RNG.normal(size=shape).astype("float32") / 4 for name, shape in shapes.items()}
    found = evaluate(after, inputs).astype("float32")
    np.testing.assert_allclose(found, evaluate(before, inputs), rtol=0.01, atol=0.01)


def variables():
    return relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))


def conv(x, w, **options):
    return relay.nn.conv2d(x, w, padding=(1, 1), **options)


def half_conv(x, w):
    return conv(relay.cast(x, HALF), relay.cast(w, HALF), out_dtype=HALF)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_convolution_is_always_lowered(dtype):
    x, w = variables()
    found = lowered(conv(x, w, out_dtype="float32"), dtype)
    equal(found, conv(relay.cast(x, dtype), relay.cast(w, dtype), out_dtype=dtype))
    assert found["main"].ret_type.dtype == dtype and found["main"].params[0].checked_type.dtype == "float32"


def test_a_convolution_gives_the_numbers_of_float32():
    close(conv(*variables()), x=(1, 3, 8, 8), w=(4, 3, 3, 3))


def test_a_softmax_is_never_lowered_and_needs_one_cast():
    x, w = variables()
    equal(lowered(relay.nn.softmax(conv(x, w))), relay.nn.softmax(relay.cast(half_conv(x, w), "float32")))
    equal(lowered(relay.nn.softmax(x)), relay.nn.softmax(x))


def test_what_follows_takes_variables_and_constants_along():
    x, w = variables()
    bias = relay.var("b", shape=(4,))
    found = lowered(relay.nn.relu(relay.nn.bias_add(conv(x, w), bias)))
    equal(found, relay.nn.relu(relay.nn.bias_add(half_conv(x, w), relay.cast(bias, HALF))))


def test_what_follows_one_full_input_is_full():
    x, w = variables()
    low = conv(x, w)
    full = relay.cast(half_conv(x, w), "float32")
    equal(lowered(relay.add(low, relay.nn.softmax(low))), relay.add(full, relay.nn.softmax(full)))


def test_casts_are_made_once():
    x, w = relay.var("x", shape=(2, 4)), relay.var("w", shape=(4, 4))
    soft = relay.nn.softmax(x)
    assert "cast" not in count_ops(lowered(relay.add(relay.nn.softmax(soft), relay.exp(soft)))["main"])
    shared = lowered(relay.nn.dense(relay.nn.dense(x, w), w))
    assert count_ops(shared["main"]) == {"cast": 2, "nn.dense": 2}


def test_tuples_and_integers():
    x, y, w = relay.var("x", shape=(2, 4)), relay.var("y", shape=(2, 4)), relay.var("w", shape=(4, 4))
    close(relay.concatenate([relay.nn.dense(x, w), relay.exp(y)], axis=0), x=(2, 4), y=(2, 4), w=(4, 4))
    part = relay.split(relay.nn.dense(x, w), 2, axis=1)
    assert lowered(relay.add(part[0], part[1]))["main"].ret_type.dtype == HALF
    index = relay.var("i", shape=(2,), dtype="int32")
    equal(lowered(relay.take(x, index, axis=0)), relay.take(relay.cast(x, HALF), index, axis=0))


def test_new_numbers_are_of_the_lower_dtype_and_other_casts_stay():
    x = relay.var("x", shape=(2,))
    equal(lowered(relay.add(relay.zeros((2,), "float32"), x)), relay.add(relay.zeros((2,), HALF), relay.cast(x, HALF)))
    assert lowered(relay.cast(x, "int8"))["main"].ret_type.dtype == "int8"


def test_the_result_keeps_its_dtype_on_request():
    x, w = variables()
    with PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        equal(lowered(conv(x, w)), relay.cast(half_conv(x, w), "float32"))
        found = lowered(relay.Tuple([conv(x, w), x]))
    assert [field.dtype for field in found["main"].ret_type.fields] == ["float32", "float32"]


def test_branches_and_bound_values_keep_their_types():
    x, w, kept = relay.var("x", shape=(2, 4)), relay.var("w", shape=(4, 4)), relay.var("kept", shape=(2, 4))
    flag = relay.var("flag", shape=(), dtype="bool")
    body = relay.Let(kept, relay.nn.dense(x, w), relay.If(flag, relay.nn.dense(kept, w), kept))
    before, after = module(body), lowered(body)
    arrays = {name: RNG.normal(size=shape).astype("float32") for name, shape in (("x", (2, 4)), ("w", (4, 4)))}
    for choice in (True, False):
        inputs = {**arrays, "flag": np.array(choice)}
        found = evaluate(after, inputs).astype("float32")
        np.testing.assert_allclose(found, evaluate(before, inputs), rtol=0.02, atol=0.02)


def test_an_operator_can_be_given_another_rule():
    x, w = variables()
    with TempOpAttr("nn.conv2d", KEY, lambda call, dtype: [2, "float32", "float32"]):
        equal(lowered(conv(x, w)), conv(x, w))
    with TempOpAttr("nn.conv2d", KEY, lambda call, dtype: [0, "float32", dtype]):
        summed = conv(relay.cast(x, HALF), relay.cast(w, HALF), out_dtype="float32")
        equal(lowered(conv(x, w)), relay.cast(summed, HALF))


def test_an_operator_without_a_rule_is_refused_warned_of_or_left():
    x = relay.var("x", shape=(2,))
    with pytest.raises(UserError, match="operator tan has no rule"):
        lowered(relay.tan(x))
    with pytest.warns(UserWarning, match="operator tan has no rule"):
        equal(lowered(relay.tan(x), mode=1), relay.tan(x))
    equal(lowered(relay.tan(x), mode=2), relay.tan(x))
    for arguments in (("float16", 3), ("int8", 0)):
        with pytest.raises(UserError):
            ToMixedPrecision(*arguments)
