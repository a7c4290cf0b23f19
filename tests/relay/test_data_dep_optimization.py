"""Optimisations that change parameters with the program, and the sparse ones that say what is not here."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import calls_of

from byoc import relay
from byoc.annex.data_dep_optimization import bsr_conv2d, bsr_dense, simplify_fc_transpose
from byoc.errors import UserError
from byoc.relay import transform
from byoc.relay.interpreter import evaluate
from byoc.runtime.core.ndarray import NDArray


def network():
    data, w1, w2 = relay.var("data", shape=(1, 8)), relay.var("w1", shape=(8, 6)), relay.var("w2", shape=(6, 4))
    y = relay.nn.relu(relay.nn.dense(relay.nn.relu(data), relay.transpose(w1, axes=[1, 0])))
    y = relay.nn.dense(y, relay.transpose(w2, axes=[1, 0]))
    return relay.Function(relay.analysis.free_vars(y), y)


def values():
    rng = np.random.default_rng(0)
    return {name: rng.uniform(-1, 1, shape).astype("float32") for name, shape in (("w1", (8, 6)), ("w2", (6, 4)))}


def test_transposed_weights_become_parameters_of_their_own():
    func, params = network(), {name: NDArray(v) for name, v in values().items()}
    x = np.linspace(-1, 1, 8, dtype="float32").reshape(1, 8)
    before = evaluate(func, {"data": x, **values()})
    new, new_params = simplify_fc_transpose.convert(func, params)
    assert new_params is params and sorted(params) == ["w1.T", "w2.T"]
    assert calls_of(new) == ["nn.relu", "nn.dense", "nn.relu", "nn.dense"]
    np.testing.assert_allclose(evaluate(new, {"data": x, **params}), before, rtol=1e-6)


def test_a_weight_that_is_read_both_ways_keeps_both():
    x, w = relay.var("x", shape=(2, 4)), relay.var("w", shape=(4, 4))
    func = relay.Function([x, w], relay.nn.dense(relay.nn.dense(x, relay.transpose(w, axes=[1, 0])), w))
    new, params = simplify_fc_transpose.convert(func, {"w": NDArray(np.eye(4, dtype="float32"))})
    assert [p.name_hint for p in new.params] == ["x", "w", "w.T"] and sorted(params) == ["w", "w.T"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: transform.DenseToSparse(["w"], [(4, 4)]),
        lambda: transform.Conv2dToSparse(["w"], [(4, 4)], "NHWC", 3),
        lambda: transform.Conv2dToSparse2("NHWC", 3, (1, 1), 0.5),
        lambda: bsr_dense.convert(network(), {}, (1, 1), 0.5),
        lambda: bsr_conv2d.convert(network(), {}, (1, 1), 0.5),
    ],
)
def test_sparse_products_are_refused_in_one_sentence(call):
    with pytest.raises(UserError, match="no block-sparse products"):
        call()
