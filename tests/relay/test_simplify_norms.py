"""A layer norm that is written out becomes one operator, in every form that exporters write, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_numbers, run_passes, typed
from random_graphs import calls_of

from byoc import relay
from byoc.relay.transform.simplify.expr import SimplifyHostExpr


def vector(seed):
    return relay.const(np.random.default_rng(seed).standard_normal(8).astype("float32"))


def number(value):
    return relay.const(np.float32(value))


def written(x, square, root, axis=-1, scaled=True, keepdims=True):
    centred = relay.subtract(x, relay.mean(x, axis=axis, keepdims=keepdims))
    squared = relay.multiply(centred, centred) if square == "product" else relay.power(centred, number(2))
    spread = relay.add(relay.mean(squared, axis=axis, keepdims=True), number(1e-5))
    if root == "quotient":
        y = relay.divide(centred, relay.sqrt(spread))
    else:
        y = relay.multiply(relay.rsqrt(spread), centred)
    return relay.add(relay.multiply(vector(0), y), vector(1)) if scaled else y


def simplified(body, x):
    before = typed(relay.Function([x], body))
    after = run_passes(before, SimplifyHostExpr())
    assert_same_numbers(before, after)
    return after


X = relay.var("x", shape=(3, 5, 8))


@pytest.mark.parametrize("square", ["product", "power"])
@pytest.mark.parametrize("root", ["quotient", "inverse"])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_layer_norm_that_is_written_out_is_one_operator(square, root, scaled):
    after = simplified(written(X, square, root, scaled=scaled), X)
    assert calls_of(after) == ["nn.layer_norm"]
    attrs = after.body.attrs
    assert (attrs["scale"], attrs["center"]) == (scaled, scaled) and attrs["epsilon"] == pytest.approx(1e-5)


def test_a_norm_over_another_axis_or_of_other_data_stays_written_out():
    assert "nn.layer_norm" not in calls_of(simplified(written(X, "product", "inverse", axis=1), X))
    other = relay.subtract(X, relay.mean(relay.abs(X), axis=-1, keepdims=True))
    spread = relay.add(relay.mean(relay.multiply(other, other), axis=-1, keepdims=True), number(1e-5))
    assert "nn.layer_norm" not in calls_of(simplified(relay.multiply(other, relay.rsqrt(spread)), X))


def test_a_shift_before_a_scale_is_not_taken_for_one_after_it():
    y = written(X, "product", "inverse", scaled=False)
    after = simplified(relay.multiply(relay.add(y, vector(1)), vector(0)), X)
    assert calls_of(after) == ["nn.layer_norm", "multiply"]
