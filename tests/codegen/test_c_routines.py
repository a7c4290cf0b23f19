"""Operators that are routines in C: bit for bit what the numpy kernel gives, over random calls, and its errors.

The calls of a sweep are compiled into one library with every warning an error. Of a NaN that is computed only that it
is one is compared: which of two is kept is nobody's promise.
"""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.backend import CBackend, lower_to_c, no_code_reason
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.support import PREAMBLE
from byoc.codegen.c.whole.unit import Units
from byoc.errors import UnsupportedError
from byoc.ir.types import Any, TensorType, tensor_types
from byoc.relay.analysis import free_vars
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.run_time.leading import LeadingOrderAttrs, leading_order
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.errors import IndexOutsideError
from byoc.runtime.kernels.core.registry import get_kernel

pytestmark = pytest.mark.needs_cc
WARNINGS = ("-Wall", "-Wextra", "-Wdiscarded-qualifiers", "-Wcast-qual", "-Werror", "-O1")
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SMALL = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2"]
DTYPES = ["bool", "float32", "float64", "float16", "bfloat16", *INTEGERS, *SMALL]
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
CALLS = 35
MODES = ["update", "add", "mul", "min", "max", "mean"]
WITHOUT_MEAN = ("bool", "int4", "uint4", "int2")


def elements(rng, shape, dtype):
    """Random numbers with many ties, some calls with infinities, NaNs and both zeros, or the type's extremes."""
    kind, target = int(rng.integers(3)), numpy_dtype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "float" in dtype:
        numbers = rng.standard_normal(shape) if kind else rng.integers(-3, 4, shape).astype("float64")
        chosen = rng.integers(0, 12, shape) if kind < 2 else np.full(shape, 11)
        return np.where(chosen < 6, SPECIAL[chosen % 6], numbers).astype("float32").astype(target)
    if kind or dtype in SMALL:
        return rng.integers(0 if dtype.startswith("u") else -2, 2, shape).astype(target)
    limits = np.iinfo(target)
    return rng.integers(limits.min, limits.max, shape, dtype=target, endpoint=True)


def ordering(rng):
    """A call that sorts or ranks, and its array."""
    shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 5, 17, 40, 130], int(rng.integers(1, 4))))
    axis, ascends = int(rng.integers(-len(shape), len(shape))), bool(rng.integers(2))
    data = elements(rng, shape, dtype := str(rng.choice(DTYPES)))
    x, places = relay.var("x", shape=shape, dtype=dtype), str(rng.choice(["int32", "int64"]))
    kind = str(rng.choice(["topk", "argsort", "sort"]))
    if kind == "argsort":
        return relay.argsort(x, axis, ascends, places), [data]
    if kind == "sort":
        return relay.sort(x, axis, ascends), [data]
    returned = str(rng.choice(["both", "values", "indices"]))
    k = int(rng.integers(-1, shape[axis] + 1))
    call = relay.topk(x, k, axis, returned, ascends, places)
    return (call.tuple_value if returned == "both" else call), [data]


def scatter_nd(rng):
    """A call with positions that repeat and count from both ends, and its arrays."""
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 17], int(rng.integers(1, 4))))
    dtype, indices = str(rng.choice(DTYPES)), str(rng.choice(["int32", "int64", "uint8"]))
    axes = int(rng.integers(1, len(shape) + 1))
    places = tuple(int(n) for n in rng.integers(0, 7, int(rng.integers(0, 3))))
    least = [0 if indices == "uint8" else -size for size in shape]
    index = np.stack([rng.integers(low, size, places) for low, size in zip(least, shape[:axes], strict=False)])
    given = [elements(rng, shape, dtype), index.astype(indices), elements(rng, (*places, *shape[axes:]), dtype)]
    return relay.scatter_nd(*variables(given, dtype), mode_of(rng, dtype)), given


def scatter_elements(rng):
    """As :func:`scatter_nd`, along an axis."""
    shape = [int(n) for n in rng.choice([1, 2, 3, 5, 17], int(rng.integers(1, 4)))]
    dtype, axis = str(rng.choice(DTYPES)), int(rng.integers(-len(shape), len(shape)))
    counts = [int(rng.integers(0, n + 1)) for n in shape]
    counts[axis] = int(rng.integers(0, 2 * shape[axis] + 2))
    index = rng.integers(-shape[axis], shape[axis], counts)
    given = [elements(rng, tuple(shape), dtype), index, elements(rng, tuple(counts), dtype)]
    return relay.scatter_elements(*variables(given, dtype), axis, mode_of(rng, dtype)), given


def mode_of(rng, dtype):
    """A reduction that *dtype* has in C."""
    return str(rng.choice(MODES[:-1] if dtype in WITHOUT_MEAN else MODES))


def finding(rng):
    """A call that finds places, or as many of the first in order as an input says, and its arrays."""
    shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 17, 130, 200], int(rng.integers(1, 4))))
    data = elements(rng, shape, dtype := str(rng.choice(DTYPES)))
    x = relay.var("x", shape=shape, dtype=dtype)
    if rng.integers(2):
        return make_call("dyn.leading_places", [x]), [data]
    axis, every = int(rng.integers(-len(shape), len(shape))), bool(rng.integers(2))
    returned = str(rng.choice(["both", "values", "indices"]))
    attrs = LeadingOrderAttrs(0, axis, returned, bool(rng.integers(2)), str(rng.choice(["int32", "int64"])), every)
    number = np.array(rng.integers(0, shape[axis] + 1), str(rng.choice(["int32", "int64"])))
    number = number.reshape([1] if rng.integers(2) else [])
    k = relay.var("k", shape=number.shape, dtype=str(number.dtype))
    return leading_order(x, k, attrs).tuple_value, [data, number]


def variables(given, dtype):
    data, index, updates = given
    return [
        relay.var("data", shape=data.shape, dtype=dtype),
        relay.var("indices", shape=index.shape, dtype=str(index.dtype)),
        relay.var("updates", shape=updates.shape, dtype=dtype),
    ]


def function_of(call):
    function = infer_function(Function(free_vars(call), call))
    assert no_code_reason(function) is None
    return function


def wanted(call, given):
    result = get_kernel(call.op.name)(*given, **(call.attrs.as_dict() if call.attrs else {}))
    return list(result) if isinstance(result, tuple) else [result]


def outputs_of(call):
    return [np.zeros(t.shape, numpy_dtype(t.dtype)) for t in tensor_types(call.checked_type)]


def in_front(results):
    """What stands at the front of results, whose shape is the last of them; the rest is not defined."""
    *parts, shape = results
    return [*(part.reshape(-1)[: int(np.prod(shape))].reshape(shape) for part in parts), shape]


def same(got, want):
    """Whether two arrays hold the same bits, but for those of NaNs; small integers are compared as numbers."""
    assert got.shape == want.shape and got.dtype == want.dtype
    if got.dtype.isbuiltin != 1:
        got, want = got.astype("float32"), want.astype("float32")
    if got.dtype.kind != "f":
        return np.array_equal(got, want)
    signs = np.signbit(got) == np.signbit(want)
    return np.array_equal(got, want, equal_nan=True) and bool((signs | np.isnan(got)).all())


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 8))])
@pytest.mark.parametrize("make", [ordering, scatter_nd, scatter_elements, finding])
def test_random_calls_give_what_the_numpy_kernels_give(make, seed):
    rng = np.random.default_rng(seed)
    cases = {f"case_{k}": make(rng) for k in range(CALLS)}
    functions = {symbol: function_of(call) for symbol, (call, _) in cases.items()}
    module = CBackend().compile_functions(functions, {"flags": WARNINGS})
    for symbol, (call, given) in cases.items():
        outputs = outputs_of(functions[symbol].body)
        module[symbol](*given, *outputs)
        found = outputs if make is not finding else in_front(outputs)
        right = wanted(call, given) if make is not finding else in_front(wanted(call, given))
        for got, want in zip(found, right, strict=True):
            what = (call.op.name, call.attrs, [(a.shape, str(a.dtype)) for a in given])
            assert same(got, want), (what, given, got, want)


def test_long_rows_of_every_kind_of_order_are_sorted_as_numpy_sorts_them():
    """Ascending, descending, constant and random rows, of lengths around the runs that are merged."""
    rng = np.random.default_rng(3)
    calls = []
    for length in (15, 16, 17, 31, 33, 64, 1000):
        rows = [np.arange(length), np.arange(length)[::-1], np.zeros(length), rng.integers(0, 9, length)]
        data = np.stack([*rows, rng.standard_normal(length)]).astype("float32")
        x = relay.var("x", shape=data.shape)
        few = relay.topk(x, max(1, length // 8)).tuple_value
        orders = (relay.argsort(x), relay.argsort(x, is_ascend=False), relay.topk(x, length - 1).tuple_value, few)
        calls += [(call, data) for call in orders]
    functions = {f"order_{k}": function_of(call) for k, (call, _) in enumerate(calls)}
    module = CBackend().compile_functions(functions, {})
    for (symbol, function), (call, data) in zip(functions.items(), calls, strict=True):
        outputs = outputs_of(function.body)
        module[symbol](data, *outputs)
        for got, want in zip(outputs, wanted(call, [data]), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        (
            lambda: relay.scatter_nd(*variables([np.zeros((4, 3)), np.zeros((2, 1), "int64"), np.zeros(1)], "float32")),
            lambda: [np.zeros((4, 3), "float32"), np.array([[1], [3]]), np.ones(1, "float32")],
            "scatter_nd along axis 1: index 3 is outside a dimension of 3; give indices from -3 to 2",
        ),
        (
            lambda: relay.scatter_nd(
                *variables([np.zeros((0, 3)), np.zeros((1, 2), "int64"), np.zeros((2, 3))], "int8")
            ),
            lambda: [np.zeros((0, 3), "int8"), np.array([[0, 0]]), np.ones((2, 3), "int8")],
            "scatter_nd along axis 0: index 0 is outside a dimension of 0; it has no element that could be taken",
        ),
        (
            lambda: relay.scatter_elements(*variables([np.zeros(5), np.zeros(3, "int32"), np.zeros(3)], "float64")),
            lambda: [np.zeros(5), np.array([0, -9, -6], "int32"), np.ones(3)],
            "scatter_elements along axis 0: index -6 is outside a dimension of 5; give indices from -5 to 4",
        ),
    ],
)
def test_an_index_that_is_outside_is_the_error_of_the_numpy_kernel(call, given, message):
    made = call()
    with pytest.raises(IndexOutsideError) as native:
        CBackend().compile_functions({"f": function_of(made)}, {})["f"](*given(), *outputs_of(made))
    with pytest.raises(IndexOutsideError) as numpys:
        get_kernel(made.op.name)(*given(), **made.attrs.as_dict())
    assert str(native.value) == str(numpys.value) == message


def test_more_elements_than_a_free_axis_has_are_refused_when_it_runs():
    x = relay.var("x", TensorType((2, Any("n"))))
    function = function_of(relay.topk(x, 3).tuple_value)
    module = CBackend().compile_functions({"f": function}, {})
    values, places = np.zeros((2, 3), "float32"), np.zeros((2, 3), "int32")
    data = np.arange(10, dtype="float32").reshape(2, 5)
    module["f"](data, values, places)
    np.testing.assert_array_equal(places, [[4, 3, 2]] * 2)
    with pytest.raises(IndexOutsideError, match=r"topk: k, length along axis 1: 3 is outside a dimension of 2"):
        module["f"](data[:, :2].copy(), values, places)


def test_updates_over_more_rows_than_a_free_axis_has_are_refused_when_it_runs():
    data, counts = relay.var("data", TensorType((Any("n"), 4))), TensorType((2, 3), "int64")
    updates = relay.var("updates", TensorType((2, 3)))
    function = function_of(relay.scatter_elements(data, relay.var("indices", counts), updates, 1))
    module = CBackend().compile_functions({"f": function}, {})
    index, ones = np.array([[0, 1, 2], [3, -1, 0]]), np.ones((2, 3), "float32")
    result = np.zeros((3, 4), "float32")
    module["f"](np.zeros((3, 4), "float32"), index, ones, result)
    np.testing.assert_array_equal(result, [[1, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]])
    with pytest.raises(IndexOutsideError, match=r"length along axis 0: 2 is outside a dimension of 1"):
        module["f"](np.zeros((1, 4), "float32"), index, ones, result[:1].copy())


def test_updates_that_are_not_as_many_as_their_places_are_refused_when_it_runs():
    data, indices = (
        relay.var("data", TensorType((Any("r"), 2))),
        relay.var("indices", TensorType((1, Any("n")), "int64")),
    )
    function = function_of(relay.scatter_nd(data, indices, relay.var("updates", TensorType((Any("m"), Any("w"))))))
    module = CBackend().compile_functions({"f": function}, {})
    zeros, result = np.zeros((4, 2), "float32"), np.zeros((4, 2), "float32")
    module["f"](zeros, np.array([[2, 0, 2]]), np.array([[1, 2], [3, 4], [5, 6]], "float32"), result)
    np.testing.assert_array_equal(result, [[3, 4], [0, 0], [5, 6], [0, 0]])
    for count, shape, message in (
        (2, (3, 2), "updates, length along axis 0: 3 is outside a dimension of 2"),
        (3, (2, 2), "places of updates, length along axis 0: 3 is outside a dimension of 2"),
        (2, (2, 5), "updates, length along axis 1: 5 is outside a dimension of 2"),
        (2, (2, 0), "places of updates, length along axis 1: 2 is outside a dimension of 0"),
    ):
        with pytest.raises(IndexOutsideError, match=message):
            module["f"](zeros, np.zeros((1, count), "int64"), np.ones(shape, "float32"), result)


def test_what_a_routine_does_not_take_is_refused_with_the_reason():
    given = [np.zeros(4), np.zeros((1, 3), "int64"), np.zeros(3)]
    call = relay.scatter_nd(*variables(given, "bool"), "mean")
    function = infer_function(Function(free_vars(call), call))
    assert no_code_reason(function) == "scatter_nd has no routine in C for the mean of bool"
    with pytest.raises(UnsupportedError, match="f: scatter_nd has no routine in C for the mean of bool"):
        lower_to_c(function, "f")


def test_a_function_stands_once_in_a_source_whatever_the_sizes_of_its_calls():
    calls = {f"f{n}": relay.topk(relay.var("x", shape=(n, 40)), n).tuple_value for n in (2, 3, 4)}
    more = {"g": relay.topk(relay.var("x", shape=(2, 40), dtype="int8"), 2).tuple_value}
    functions = {symbol: function_of(call) for symbol, call in (calls | more).items()}
    text = CBackend().compile_functions(functions, {}).get_source()
    assert text.count("static void select_rows_float32_int32(") == 1
    assert text.count("static void select_rows_int8_int32(") == text.count("ranked_sink(Ranked *heap") == 1


@pytest.mark.parametrize("name", ["topk", "argsort", "scatter_nd", "scatter_elements"])
def test_the_text_of_a_routine_is_what_was_read_and_approved(name, golden):
    data, rows = relay.var("data", TensorType((Any("n"), 6), "float32")), TensorType((1, 3), "int64")
    calls = {
        "topk": lambda: relay.topk(data, 4, axis=0).tuple_value,
        "argsort": lambda: relay.argsort(relay.var("data", shape=(5, 6), dtype="float16"), is_ascend=False),
        "scatter_nd": lambda: relay.scatter_nd(data, relay.var("indices", rows), relay.var("updates", shape=(3, 6))),
        "scatter_elements": lambda: relay.scatter_elements(
            data, relay.var("indices", rows), relay.var("updates", shape=(1, 3)), 1, "add"
        ),
    }
    (call,) = Units(Machine(64, 24)).calls(lower_to_c(function_of(calls[name]()), "f"))
    text = call.unit.source().removeprefix(PREAMBLE)
    golden(f"c/routine_{name}.c", text.replace(call.unit.name, f"{name}_HASH"))
