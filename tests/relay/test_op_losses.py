"""Losses against their formulas, and nll_loss against numbers that PyTorch 2 gives for the same seeds."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import TypeInferenceError
from byoc.relay.analysis.type_infer import infer_expr
from byoc.runtime.kernels import get_kernel

SCORES = (np.arange(12, dtype="float32").reshape(4, 3) - 5) / 4
WEIGHTS = np.array([0.5, 1.0, 2.0], "float32")
TARGETS = np.array([2, 0, 1, 2], "int32")


def test_cross_entropy_is_its_formula():
    x = np.random.default_rng(0).uniform(0.1, 1, (4, 3))
    y = np.eye(3)[[0, 2, 1, 1]]
    want = -np.log(x[np.arange(4), [0, 2, 1, 1]]).mean()
    np.testing.assert_allclose(get_kernel("nn.cross_entropy")(x, y), want)
    np.testing.assert_allclose(get_kernel("nn.cross_entropy_with_logits")(np.log(x), y), want)
    call = relay.nn.cross_entropy(relay.var("x", shape=(4, 3)), relay.var("y", shape=(4, 3)))
    assert infer_expr(call) == relay.TensorType(())


@pytest.mark.parametrize(
    "reduction, ignore, want",
    [
        ("mean", -100, -0.3181818),
        ("sum", -100, -1.75),
        ("none", -100, [1.5, 0.25, -0.5, -3.0]),
        ("mean", 2, -0.16666667),
        ("none", 2, [0.0, 0.25, -0.5, 0.0]),
    ],
)
def test_nll_loss_is_pytorchs(reduction, ignore, want):
    got = get_kernel("nn.nll_loss")(SCORES, TARGETS, WEIGHTS, reduction=reduction, ignore_index=ignore)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_nll_loss_over_pixels_is_that_over_rows():
    rng = np.random.default_rng(1)
    scores, targets = rng.standard_normal((2, 3, 4, 5)), rng.integers(0, 3, (2, 4, 5))
    rows = np.moveaxis(scores, 1, -1).reshape(-1, 3)
    kernel = get_kernel("nn.nll_loss")
    got = kernel(scores, targets, WEIGHTS.astype("float64"))
    np.testing.assert_allclose(got, kernel(rows, targets.reshape(-1), WEIGHTS.astype("float64")))


def test_the_type_of_nll_loss_follows_its_reduction():
    scores, targets = relay.var("s", shape=(2, 3, 4)), relay.var("t", shape=(2, 4), dtype="int32")
    weights = relay.var("w", shape=(3,))
    assert infer_expr(relay.nn.nll_loss(scores, targets, weights)) == relay.TensorType(())
    call = relay.nn.nll_loss(scores, targets, weights, "none")
    assert infer_expr(call) == relay.TensorType((2, 4)) and call.attrs.ignore_index == -100
    with pytest.raises(TypeInferenceError, match="reduction is one of mean, sum, none"):
        infer_expr(relay.nn.nll_loss(scores, targets, weights, "median"))
