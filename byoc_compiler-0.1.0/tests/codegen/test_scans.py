"""Running sums and products as generated code: any length of the axis, both targets, and C to take away."""

import numpy as np
import pytest
from exported import KIND_NAMES, KINDS, agree, build, export, make_model, numbers, oracle, run
from onnx import helper

import byoc
from byoc import relay
from byoc.ir.types import Any, TensorType

pytestmark = pytest.mark.needs_cc
SIZES = (1, 31, 32, 33, 1024, 1025, 2100)  # in one block, and in blocks of blocks


def _compiled(data, shape, targets=("c",), scan=relay.cumsum, **attrs):
    x = relay.var("x", TensorType(shape, str(data.dtype)))
    library = byoc.compile(byoc.IRModule.from_expr(relay.Function([x], scan(x, **attrs))), list(targets))
    assert not library.report.get("host_fallbacks")
    return library.run({"x": data})[0]


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_a_running_sum_of_integers_is_exact_at_every_length(size, exclusive):
    data = np.random.default_rng(size).integers(-9, 10, (2, size, 3)).astype("int64")
    expected = np.cumsum(data, 1) - (data if exclusive else 0)
    np.testing.assert_array_equal(_compiled(data, data.shape, axis=1, exclusive=exclusive), expected)


def test_the_length_may_be_known_only_when_the_model_runs():
    for size in (0, 1, 40, 5000):
        data = np.random.default_rng(size).integers(-9, 10, (3, size)).astype("int32")
        np.testing.assert_array_equal(_compiled(data, (3, Any("n")), axis=1), np.cumsum(data, 1))


def test_a_long_sum_of_floats_is_nearer_than_term_by_term():
    data = np.random.default_rng(0).random(200_000, "float32")
    exact = np.cumsum(data, dtype="float64")
    error, plain = (np.abs(found - exact).max() for found in (_compiled(data, data.shape, axis=0), np.cumsum(data)))
    assert error < plain / 4


def test_a_running_product_flattens_without_an_axis():
    data = np.random.default_rng(0).uniform(0.98, 1.02, (9, 8)).astype("float32")
    found = _compiled(data, data.shape, scan=relay.cumprod)
    np.testing.assert_allclose(found, np.cumprod(data), rtol=1e-5)


@pytest.mark.needs_opencl
def test_opencl_has_running_sums_too():
    data = np.random.default_rng(0).integers(-9, 10, (4, 1100)).astype("int32")
    np.testing.assert_array_equal(_compiled(data, data.shape, ("opencl", "c"), axis=1), np.cumsum(data, 1))


@pytest.mark.parametrize("options", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("attrs", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
def test_cumsum_is_exported(attrs, options, tmp_path):
    node = helper.make_node("CumSum", ["x", "axis"], ["y"], **attrs)
    model = make_model([node], [("x", "f4", (3, 70))], [("y", "f4", (3, 70))], {"axis": np.array(1)})
    export(model, tmp_path, **options)
    build(tmp_path, options.get("portable", False))
    x = numbers(3, 70)
    expected = oracle(model, [x])
    agree(run(tmp_path, [x], expected).values(), expected)
