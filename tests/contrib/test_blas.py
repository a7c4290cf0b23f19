"""The vendor's backend in one file: what it takes, what it fuses, and the right numbers."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.partition.plan.plan import Plan
from byoc.relay.interpreter import evaluate


def model(dtype="float32"):
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(5, 8), dtype=dtype)
    weights = [relay.const(rng.standard_normal(s).astype(dtype)) for s in ((16, 8), (16,), (4, 16), (4,))]
    hidden = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, weights[0]), weights[1]))
    out = relay.tanh(relay.add(relay.nn.dense(hidden, weights[2]), weights[3]))
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], out)))


@pytest.mark.needs_cc
def test_dense_layers_go_to_the_library_with_what_it_fuses():
    mod = model()
    library = byoc.compile(mod, targets=["blas", "c"])
    graphs = [m for m in library.module.imports if m.type_key == "json"]
    kernels = [n["name"] for m in graphs for g in m.graphs.values() for n in g["nodes"] if n["op"] == "kernel"]
    assert kernels == ["blas.dense_bias_relu", "blas.dense_bias"]
    data = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")
    np.testing.assert_allclose(library(data), evaluate(mod, [data]), rtol=1e-5, atol=1e-6)


def test_what_it_refuses_is_said_in_the_words_of_its_constraints():
    library = byoc.compile(model(), targets=["blas", "c"])
    text = str(Plan.from_json(library.report["plan"]))
    assert "blas: the library has dense layers (with bias, with bias and relu) and batched products, got tanh" in text


@pytest.mark.needs_cc
def test_a_value_that_a_match_reads_twice_reaches_the_kernel_twice():
    x, c = relay.var("x", shape=(3, 4)), relay.var("c", shape=(3,))
    for bias_first in (False, True):
        product = relay.nn.dense(x, x)
        out = relay.nn.relu(relay.add(c, product) if bias_first else relay.nn.bias_add(product, c))
        mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x, c], out)))
        library = byoc.compile(mod, targets=["blas", "c"])
        kernels = [
            n["name"]
            for m in library.module.imports
            if m.type_key == "json"
            for g in m.graphs.values()
            for n in g["nodes"]
            if n["op"] == "kernel"
        ]
        assert kernels == ["blas.dense_bias_relu"]
        rng = np.random.default_rng(2)
        arrays = [rng.standard_normal(s).astype("float32") for s in ((3, 4), (3,))]
        np.testing.assert_allclose(library(*arrays), evaluate(mod, arrays), rtol=1e-5, atol=1e-6)
