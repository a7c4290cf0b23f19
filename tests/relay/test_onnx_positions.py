"""Unique, TensorScatter, DeformConv, Det, CumProd against ONNX Runtime, and where that lacks them ONNX's reference."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_single_node import assert_like_onnx_runtime, feeds_of, ours, single_node

from byoc.errors import ImportModelError

RNG = np.random.default_rng(5)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
def test_distinct_elements_are_those_of_onnx_runtime(dtype: str, axis: int | None, is_sorted: int, free: bool) -> None:
    data = RNG.integers(0, 2, (5, 6, 2)).astype(dtype)
    attrs = {} if axis is None else {"axis": axis}
    model = single_node("Unique", 11, [data], outputs=4, sorted=is_sorted, free=free, **attrs)
    assert_like_onnx_runtime(model, {"x0": data})


def by_definition(cache: np.ndarray, update: np.ndarray, writes: np.ndarray, axis: int, mode: str) -> np.ndarray:
    """ONNX's pseudo code of TensorScatter."""
    present = cache.copy()
    axis %= cache.ndim
    for prefix in np.ndindex(cache.shape[:axis]):
        for step in range(update.shape[axis]):
            place = writes[prefix[0]] + step
            present[(*prefix, place % cache.shape[axis] if mode == "circular" else place)] = update[(*prefix, step)]
    return present


@pytest.mark.parametrize("mode, writes", [("linear", [0, 4, 2]), ("circular", [6, 5, 0]), ("circular", [13, 7, 1])])
@pytest.mark.parametrize("axis", [-2, 1, 3])
def test_an_update_is_written_into_the_cache(axis: int, mode: str, writes: list[int]) -> None:
    sizes, updates = [3, 2, 4, 5], [3, 2, 4, 5]
    sizes[axis], updates[axis] = 7, 3
    inputs = [f32(*sizes), f32(*updates), np.array(writes, "int64")]
    (got,) = ours(single_node("TensorScatter", 24, inputs, axis=axis, mode=mode), feeds_of(inputs))
    np.testing.assert_array_equal(got, by_definition(*inputs, axis, mode))


@pytest.mark.parametrize("count", [3, 7])
def test_an_update_without_places_is_written_to_the_front(count: int) -> None:
    inputs = [f32(2, 7, 4), f32(2, count, 4)]
    (got,) = ours(single_node("TensorScatter", 24, inputs), feeds_of(inputs))
    np.testing.assert_array_equal(got, by_definition(*inputs, np.zeros(2, int), -2, "linear"))


@pytest.mark.parametrize("first", [5, -1])
def test_an_update_that_ends_behind_the_cache_is_an_error(first: int) -> None:
    inputs = [f32(1, 7, 4), f32(1, 3, 4), np.array([first], "int64")]
    with pytest.raises(Exception, match=rf"node node \(TensorScatter\).*{first}"):
        ours(single_node("TensorScatter", 24, inputs), feeds_of(inputs))
    with pytest.raises(ImportModelError, match="does not fit a cache of 7"):
        ours(single_node("TensorScatter", 24, [f32(1, 7, 4), f32(1, 8, 4)]), {})


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "data, weight, attrs",
    [
        ((2, 4, 6, 7), (6, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 4, 8, 7), (4, 2, 2, 3), {"group": 2, "offset_group": 2, "strides": [2, 1]}),
        ((1, 2, 9, 8), (3, 2, 3, 2), {"dilations": [2, 1], "pads": [0, 1, 2, 0]}),
    ],
)
@pytest.mark.newer_onnxruntime
def test_a_deformable_convolution_is_that_of_onnx_runtime(
    data: tuple[int, ...], weight: tuple[int, ...], attrs: dict, masked: bool
) -> None:
    kernel, strides = weight[2:], attrs.get("strides", [1, 1])
    pads, dilations = attrs.get("pads", [0] * 4), attrs.get("dilations", [1, 1])
    out = [
        (data[k + 2] + pads[k] + pads[k + 2] - (kernel[k] - 1) * dilations[k] - 1) // strides[k] + 1 for k in range(2)
    ]
    taps = attrs.get("offset_group", 1) * kernel[0] * kernel[1]
    inputs = [f32(*data), f32(*weight), f32(data[0], 2 * taps, *out) * 2, f32(weight[0])]
    if masked:
        inputs.append(f32(data[0], taps, *out))
    assert_like_onnx_runtime(single_node("DeformConv", 19, inputs, **attrs), feeds_of(inputs))


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 5, 5), (3, 1, 1)])
def test_determinants_are_those_of_onnx_runtime(shape: tuple[int, ...]) -> None:
    inputs = [f32(*shape)]
    assert_like_onnx_runtime(single_node("Det", 11, inputs), feeds_of(inputs))


@pytest.mark.parametrize("exclusive, reverse", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_running_products_are_those_of_onnxs_reference(exclusive: int, reverse: int) -> None:
    """ONNX Runtime does not have CumProd yet."""
    if onnx.defs.onnx_opset_version() < 26:
        pytest.skip("this onnx has no CumProd")
    model = single_node(
        "CumProd", 26, [f32(3, 40)], [np.array(-1, "int64")], exclusive=exclusive, reverse=reverse, free=True
    )
    feeds = {"x0": f32(3, 40)}
    np.testing.assert_allclose(ours(model, feeds)[0], ReferenceEvaluator(model).run(None, feeds)[0], rtol=1e-5)
