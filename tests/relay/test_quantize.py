"""Quantization after training: histograms, ranges, and functions over bytes against integers computed by numpy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from byoc import relay
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.relay.analysis.operator_calls import calls, op_name
from byoc.relay.expr import Call, Constant, Function, RelayExpr
from byoc.relay.interpreter import evaluate
from byoc.relay.qnn import quantize
from byoc.relay.qnn.passes import NarrowIntegerProducts, QuantizedProducts
from byoc.relay.qnn.quantize.histogram import HALF
from byoc.relay.qnn.quantize.products import COMPUTED, DEPTHWISE, FIRST, KEPT, LAST, NO_SAMPLES, NOT_FINITE
from byoc.relay.transform import FakeQuantizationToInteger, InferType
from byoc.relay.traverse import post_order

RNG = np.random.default_rng(5)


def _seen(*parts: np.ndarray) -> quantize.Histogram:
    seen = quantize.Histogram()
    for part in parts:
        seen.update(part)
    return seen


def _normal(count: int = 20000) -> np.ndarray:
    return np.random.default_rng(count).standard_normal(count).astype("float32")


def _relu(count: int = 20000) -> np.ndarray:
    return np.maximum(_normal(count), 0)


@given(st.lists(st.lists(st.floats(-(2.0**20), 2.0**20, width=32), min_size=1, max_size=30), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_a_histogram_holds_every_value_in_a_bin_as_near_as_its_width(parts):
    values = np.sort(np.concatenate([np.array(p, "float32") for p in parts]))
    seen = _seen(*(np.array(p, "float32") for p in parts))
    middles, counts = seen.bins()
    assert counts.sum() == seen.count == values.size
    np.testing.assert_allclose(np.repeat(middles, counts), values, atol=max(seen.width, 1e-30), rtol=0)
    assert (seen.low, seen.high) == (min(values[0], 0), max(values[-1], 0))


def test_a_histogram_is_fine_enough_for_every_step():
    seen = _seen(np.array([1e-9], "float32"), _normal(), np.array([7.3], "float32"))
    assert seen.width * HALF <= 2 * 7.3 and seen.width * HALF > 7.3


def test_values_that_are_not_finite_are_reported_and_left_out():
    seen = _seen(np.array([1, np.nan, -np.inf, 2], "float32"))
    assert not seen.is_finite and (seen.low, seen.high, seen.count) == (0, 2, 2)
    assert _seen(_normal()).is_finite


@given(st.floats(-(2.0**90), 2.0**90, width=32), st.floats(-(2.0**90), 2.0**90, width=32))
@example(0.0, 2.2574918260272803e-42)  # whose step would be less than a normal float32
def test_rounding_inside_the_range_loses_half_a_step_and_the_zero_point_is_a_byte(a, b):
    affine = quantize.Affine.of(min(a, b), max(a, b))
    assert 0 <= affine.zero_point <= 255 and affine.scale > 0
    inside = np.linspace(min(a, b, 0), max(a, b, 0), 77)
    # the zero point is rounded, so that the range may move by half a step
    assert np.abs(affine.rounded(inside) - inside).max() <= affine.scale * 1.001 or affine.scale == 1.0
    assert affine.rounded(np.zeros(1))[0] == 0


def test_numbers_outside_the_range_saturate():
    affine = quantize.Affine.of(-1.0, 3.0)
    np.testing.assert_allclose(affine.rounded(np.array([-9.0, 9.0])), [-1, 3], atol=affine.scale)


@pytest.mark.parametrize("method", list(quantize.METHODS))
def test_a_tensor_of_zeros_and_one_of_one_number_have_a_range(method):
    assert quantize.choose_range(_seen(np.zeros(9, "float32")), method) == quantize.Affine(1.0, 0)
    affine = quantize.choose_range(_seen(np.full(9, 2.5, "float32")), method)
    np.testing.assert_allclose(affine.rounded(np.array([2.5])), 2.5, rtol=0.01)


@pytest.mark.parametrize("method", list(quantize.METHODS))
def test_what_is_never_negative_has_the_zero_point_0(method):
    assert quantize.choose_range(_seen(_relu()), method).zero_point == 0


def test_minmax_reaches_to_the_ends_and_percentile_leaves_outliers_outside():
    values = np.append(_normal(), np.float32(100))
    full, most = (quantize.choose_range(_seen(values), m) for m in ("minmax", "percentile"))
    assert full.scale == pytest.approx((100 - values.min()) / 255)
    assert most.scale < 10 / 255


@pytest.mark.parametrize("values", [_normal(), _relu(), np.append(_relu(), np.float32(40))], ids=str)
def test_mse_loses_no_more_of_the_squares_than_any_other_method(values):
    def loss(method: str) -> float:
        return float(np.square(quantize.choose_range(_seen(values), method).rounded(values) - values).sum())

    least = loss("mse")
    assert all(least <= loss(method) * 1.02 for method in quantize.METHODS)


def test_entropy_cuts_a_far_outlier():
    values = np.append(_relu(200000), np.float32(60))
    assert quantize.choose_range(_seen(values), "entropy").scale < 0.5 * 60 / 255


def test_entropy_of_few_values_keeps_all():
    seen = _seen(_normal(2000))
    assert quantize.choose_range(seen, "entropy") == quantize.choose_range(seen, "minmax")


def test_entropy_of_many_normal_numbers_loses_little():
    values = _normal(100000)
    affine = quantize.choose_range(_seen(values), "entropy")
    assert np.linalg.norm(affine.rounded(values) - values) < 0.02 * np.linalg.norm(values)


def test_an_unknown_method_is_an_error():
    with pytest.raises(UserError, match="method is one of minmax, percentile, mse, entropy, got 'kl'"):
        quantize.choose_range(_seen(_normal()), "kl")


@pytest.mark.parametrize("axis", [0, 1, 3])
def test_weights_have_a_scale_for_each_output(axis):
    values = RNG.standard_normal((4, 5, 3, 6)).astype("float32") * np.float32(7)
    values[np.index_exp[:] * axis + (1,)] = 0
    whole, scales = quantize.quantize_weights(values, axis)
    along = scales.reshape([-1 if k == axis else 1 for k in range(4)])
    assert whole.dtype == np.int8 and scales.shape == (values.shape[axis],) and scales[1] == 1
    assert np.abs(whole * along - values).max() <= along.max() * 0.5001
    assert set(np.abs(whole).max(tuple(k for k in range(4) if k != axis))) == {0, 127}


def _const(*shape: int) -> Constant:
    return relay.const(RNG.standard_normal(shape).astype("float32") / 4)


def _module(body: RelayExpr) -> IRModule:
    return InferType()(IRModule.from_expr(Function(relay.analysis.free_vars(body), body)))


def _network() -> IRModule:
    """Convolutions around a pool, a residual sum, a depthwise one, and two dense products."""
    x = relay.var("x", shape=(1, 4, 10, 10))
    first = relay.nn.relu(
        relay.nn.bias_add(relay.nn.conv2d(x, _const(8, 4, 3, 3), kernel_size=(3, 3), channels=8), _const(8))
    )
    pooled = relay.nn.max_pool2d(first, (2, 2), (2, 2))
    second = relay.nn.conv2d(pooled, _const(8, 8, 1, 1), kernel_size=(1, 1), channels=8, padding=(1, 1))
    second = relay.strided_slice(second, [0, 0, 1, 1], [1, 8, 5, 5])
    joined = relay.nn.relu(relay.add(pooled, second))
    depth = relay.nn.conv2d(joined, _const(8, 1, 3, 3), kernel_size=(3, 3), channels=8, groups=8)
    hidden = relay.tanh(relay.nn.dense(relay.nn.batch_flatten(depth), _const(9, 32)))
    return _module(relay.nn.dense(hidden, _const(64, 9)))


def _ranges(quantizer: quantize.StaticQuantizer, mod: IRModule, samples) -> dict[RelayExpr, quantize.Affine]:
    probe = _module(relay.Tuple(quantizer.sources))
    order = [mod["main"].params.index(p) for p in probe["main"].params]  # type: ignore[attr-defined]
    seen = [quantize.Histogram() for _ in quantizer.sources]
    for sample in samples:
        for histogram, value in zip(seen, evaluate(probe["main"], [sample[k] for k in order]), strict=True):
            histogram.update(np.asarray(value))
    return {s: quantize.choose_range(h, "minmax") for s, h in zip(quantizer.sources, seen, strict=True)}


def _samples(mod: IRModule, count: int = 3) -> list[list[np.ndarray]]:
    params = mod["main"].params  # type: ignore[attr-defined]
    return [
        [np.random.default_rng(seed).standard_normal(p.checked_type.concrete_shape).astype("float32") for p in params]
        for seed in range(count)
    ]


def _quantized(mod: IRModule, **options) -> tuple[quantize.StaticQuantizer, IRModule]:
    quantizer = quantize.StaticQuantizer(mod["main"], **options)  # type: ignore[arg-type]
    made = quantizer.rewritten(_ranges(quantizer, mod, _samples(mod)))
    return quantizer, InferType()(IRModule.from_expr(made))


def _counts(mod: IRModule) -> Counter[str]:
    return Counter(filter(None, map(op_name, post_order(mod["main"].body))))  # type: ignore[attr-defined]


def test_each_value_has_one_quantize_where_it_is_made_and_pools_take_bytes():
    mod = _network()
    quantizer, made = _quantized(mod)
    assert _counts(made)["qnn.quantize"] == len(quantizer.sources) == 4  # x, first, depthwise, tanh
    (pool,) = (n for n in post_order(made["main"].body) if calls(n, "nn.max_pool2d"))
    assert pool.checked_type.dtype == "uint8"
    (flat,) = (n for n in post_order(made["main"].body) if calls(n, "nn.batch_flatten"))
    assert flat.checked_type.dtype == "uint8"
    assert [str(r) for r in quantizer.reasons.values()] == [str(DEPTHWISE)]


def test_what_elementwise_operators_read_beside_products_is_stored_as_bytes_alone():
    made = _quantized(_network())[1]
    (joined,) = (n for n in post_order(made["main"].body) if calls(n, "add") and n.checked_type.ndim == 4)
    assert calls(joined.args[0], "qnn.dequantize") and calls(joined.args[0].args[0], "nn.max_pool2d")


@pytest.mark.parametrize(
    ("read", "takes_bytes"),
    [
        (lambda h: relay.divide(relay.const(1.0), h), False),
        (lambda h: relay.divide(h, relay.const(3.0)), True),
        (relay.log, False),
        (relay.rsqrt, False),
        (relay.floor, False),
        (lambda h: relay.mod(h, relay.const(0.7)), False),
        (relay.exp, True),
    ],
    ids=["divisor", "dividend", "log", "rsqrt", "floor", "mod", "exp"],
)
def test_what_a_rounding_to_0_or_past_a_step_would_change_wholly_is_read_in_float32(read, takes_bytes):
    x = relay.var("x", shape=(2, 6))
    hidden = relay.nn.relu(relay.nn.dense(x, _const(5, 6)))
    made = _quantized(_module(relay.Tuple([relay.nn.dense(hidden, _const(4, 5)), read(hidden)])))[1]
    reader = made["main"].body.fields[1]
    (operand,) = (a for a in reader.args if not isinstance(a, Constant))
    assert calls(operand, "qnn.dequantize") if takes_bytes else calls(operand, "nn.relu")


def test_a_value_that_a_reduction_reads_too_is_read_in_float32():
    x = relay.var("x", shape=(2, 6))
    hidden = relay.nn.relu(relay.nn.dense(x, _const(5, 6)))
    mod = _module(relay.Tuple([relay.nn.dense(hidden, _const(4, 5)), relay.sum(hidden, axis=1)]))
    made = _quantized(mod)[1]
    (total,) = (n for n in post_order(made["main"].body) if calls(n, "sum"))
    assert calls(total.args[0], "nn.relu")


def test_the_result_is_near_and_integers_compute_what_was_written_down():
    mod = _network()
    made = _quantized(mod)[1]
    whole = NarrowIntegerProducts()(InferType()(QuantizedProducts()(made)))
    products = [n for n in post_order(whole["main"].body) if calls(n, "nn.conv2d", "nn.dense")]
    assert [p.args[0].checked_type.dtype for p in products].count("uint8") == 4
    for sample in _samples(mod, 2):
        want, said, got = (np.asarray(evaluate(m["main"], sample)) for m in (mod, made, whole))
        assert np.linalg.norm(said - want) < 0.03 * np.linalg.norm(want)
        np.testing.assert_allclose(got, said, atol=2e-2 * np.abs(want).max())  # a tie may round the other way


def test_backends_with_quantized_operators_get_theirs_from_the_same_calls():
    made = _quantized(_network())[1]
    turned = FakeQuantizationToInteger(use_qat=True)(made)
    counts = _counts(turned)
    assert (counts["qnn.conv2d"], counts["qnn.dense"], counts["nn.dense"]) == (2, 2, 0)
    for sample in _samples(_network(), 2):
        said, got = (np.asarray(evaluate(m["main"], sample)) for m in (made, turned))
        assert np.linalg.norm(got - said) < 0.03 * np.linalg.norm(said)


def test_the_user_keeps_operators_nodes_and_ends():
    mod = _network()
    main = mod["main"]
    by_name = quantize.StaticQuantizer(main, ["nn.dense"])
    assert Counter(map(op_name, by_name.reasons)) == {"nn.dense": 2, "nn.conv2d": 1}
    assert list(by_name.reasons.values()).count(KEPT) == 2
    ends = quantize.StaticQuantizer(main, ends={0: FIRST, -1: LAST})
    assert list(ends.reasons.values()) == [FIRST, DEPTHWISE, LAST]
    ends.leave(ends.sources[0], NOT_FINITE)
    assert NOT_FINITE in ends.reasons.values()


def _integers(x: np.ndarray, affine: quantize.Affine) -> np.ndarray:
    return np.clip(np.rint(x * (np.float32(1) / np.float32(affine.scale))) + affine.zero_point, 0, 255).astype(int)


PRODUCTS = {
    "dense": (lambda x, w: relay.nn.dense(x, w), (7, 24), (10, 24), 0, "mk,nk->mn"),
    "batch_matmul": (
        lambda x, w: relay.nn.batch_matmul(x, w, transpose_b=False),
        (3, 7, 24),
        (3, 24, 10),
        2,
        "bmk,bkn->bmn",
    ),
    "conv2d": (
        lambda x, w: relay.nn.conv2d(x, w, kernel_size=(1, 1), channels=10),
        (2, 24, 3, 5),
        (10, 24, 1, 1),
        0,
        "bkhw,nkij->bnhw",
    ),
}


@pytest.mark.parametrize("name", list(PRODUCTS))
def test_sums_are_those_of_integers_scaled_by_each_output(name):
    build, data_shape, weight_shape, axis, meaning = PRODUCTS[name]
    weight = RNG.standard_normal(weight_shape).astype("float32")
    mod = _module(build(relay.var("x", shape=data_shape), relay.const(weight)))
    quantizer = quantize.StaticQuantizer(mod["main"])
    affine = quantize.Affine.of(-2.0, 3.0)
    made = IRModule.from_expr(quantizer.rewritten(dict.fromkeys(quantizer.sources, affine)))
    made = NarrowIntegerProducts()(QuantizedProducts()(InferType()(made)))
    x = RNG.standard_normal(data_shape).astype("float32")
    whole, scales = quantize.quantize_weights(weight, axis)
    sums = np.einsum(meaning, _integers(x, affine) - affine.zero_point, whole.astype(int))
    along = scales.reshape(-1, 1, 1) if name == "conv2d" else scales
    expected = sums.astype("float32") * (along.astype("float64") * affine.scale).astype("float32")
    np.testing.assert_array_equal(np.asarray(evaluate(made["main"], [x])), expected)


def test_rows_are_quantized_by_their_own_ranges_when_they_run():
    x, weight = relay.var("x", shape=(4, 24)), RNG.standard_normal((10, 24)).astype("float32")
    mod = _module(relay.nn.dense(x, relay.const(weight)))
    func, reasons = quantize.quantize_dynamic(mod["main"])
    made = InferType()(IRModule.from_expr(func))
    rows = RNG.standard_normal((4, 24)).astype("float32") * np.array([[1e-3], [1], [1e4], [0]], "float32")
    whole, scales = quantize.quantize_weights(weight, 0)
    got = np.asarray(evaluate(made["main"], [rows]))
    for k, row in enumerate(rows):
        affine = quantize.Affine.of(float(row.min()), float(row.max()))
        expected = affine.rounded(row.astype("float64")) @ (whole * scales[:, None]).T
        np.testing.assert_allclose(got[k], expected, atol=2e-3 * max(np.abs(expected).max(), 1e-9))
    assert not reasons and not got[3].any()


def test_dynamic_ranges_are_computed_once_for_all_that_read_a_value_and_others_are_left_with_a_reason():
    x = relay.var("x", shape=(4, 24))
    both = relay.add(relay.nn.dense(x, _const(8, 24)), relay.nn.dense(x, _const(8, 24)))
    scores = relay.nn.batch_matmul(relay.reshape(both, (1, 4, 8)), relay.reshape(both, (1, 4, 8)))
    image = relay.nn.conv2d(relay.var("y", shape=(1, 3, 8, 8)), _const(4, 3, 3, 3), kernel_size=(3, 3), channels=4)
    func, reasons = quantize.quantize_dynamic(_module(relay.Tuple([scores, image]))["main"])
    assert Counter(map(op_name, post_order(func.body)))["min"] == 1
    assert {op_name(c): r for c, r in reasons.items()} == {"nn.batch_matmul": COMPUTED, "nn.conv2d": NO_SAMPLES}


@st.composite
def _graphs(draw: st.DrawFn) -> IRModule:
    """Dense products, elementwise operators, movers and reductions in any order, with sharing."""
    pool: list[RelayExpr] = [relay.var("x", shape=(4, 8))]
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    for _ in range(draw(st.integers(1, 10))):
        a, b = (pool[draw(st.integers(0, len(pool) - 1))] for _ in range(2))
        weight = relay.const(rng.standard_normal((8, 8)).astype("float32") / 3)
        made: tuple[RelayExpr, ...] = (
            relay.nn.dense(a, weight),
            relay.nn.relu(a),
            relay.add(a, b),
            relay.multiply(relay.tanh(a), b),
            relay.reshape(relay.reshape(a, (8, 4)), (4, 8)),
            relay.nn.softmax(a),
            relay.nn.dense(relay.tanh(a), weight),
            relay.strided_slice(relay.concatenate([a, b], 0), [2, 0], [6, 8]),
        )
        pool.append(made[draw(st.integers(0, len(made) - 1))])
    return _module(relay.Tuple(pool[-2:]))


@given(_graphs())
@settings(max_examples=40, deadline=None)
def test_random_graphs_stay_near_however_values_are_shared(mod):
    quantizer, made = _quantized(mod)
    assert _counts(made)["qnn.quantize"] == len(quantizer.sources)
    whole = NarrowIntegerProducts()(InferType()(QuantizedProducts()(made)))
    sample = _samples(mod, 1)[0]
    products = len(quantizer.source_of)
    for want, got in zip(*(evaluate(m["main"], sample) for m in (mod, whole)), strict=True):
        want, got = np.asarray(want), np.asarray(got)
        assert np.linalg.norm(got - want) <= 0.03 * (1 + products) * max(np.linalg.norm(want), 1.0)


def test_an_untyped_weight_that_is_computed_is_left():
    x, w = relay.var("x", shape=(4, 8)), relay.var("w", shape=(3, 8))
    mod = _module(relay.nn.dense(x, w))
    quantizer = quantize.StaticQuantizer(mod["main"])
    assert list(quantizer.reasons.values()) == [COMPUTED] and not quantizer.sources
    assert isinstance(quantizer.rewritten({}).body, Call)
