"""Resize of every element type is ONNX's: weighted sums in floating point, integers rounded and kept in their limits.

Where they differ the reference is followed: ONNX Runtime cuts linear sums of integers off instead of rounding them,
keeps antialiased int8 above 0, clips between the axes, and has no cubic of integers. For ``pytorch_half_pixel`` to one
element both the specification and ONNX Runtime take place 0, which the reference does not.
"""

import itertools
from collections.abc import Callable

import ml_dtypes  # noqa: F401 - names bfloat16 to numpy
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import byoc
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

SHAPES = [(6,), (4, 5), (2, 4, 5), (1, 2, 4, 5), (1, 1, 3, 2, 4)]
COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-6}


def model(x: np.ndarray, sizes: list[int], roi: list[float] | None = None, opset: int = 19, **attrs) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    weights = [numpy_helper.from_array(np.array(sizes, "int64"), "sizes")]
    if roi is not None:
        weights.append(numpy_helper.from_array(np.array(roi, "float32"), "roi"))
    node = helper.make_node("Resize", ["x", "roi" if roi is not None else "", "", "sizes"], ["y"], **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def data(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype in FLOATS:
        return rng.normal(size=shape).astype(dtype)
    limits = np.iinfo(dtype)
    bound = 2**16  # the reference's cubic weights have seven digits
    return rng.integers(max(limits.min, -bound), min(limits.max, bound), shape, endpoint=True).astype(dtype)


def interpreted(made: onnx.ModelProto) -> Callable[[np.ndarray], np.ndarray]:
    """The model run by the numpy kernels."""
    return lambda x: evaluate(import_onnx(made), [x])


def assert_is_reference(got: np.ndarray, x: np.ndarray, exact: np.ndarray) -> None:
    """*got* is *exact*, what the reference gives for float64, as elements of the type of *x*."""
    assert (got.dtype, got.shape) == (x.dtype, exact.shape)
    scale = np.abs(x.astype("float64")).max(initial=1.0)
    if x.dtype.name in FLOATS:
        np.testing.assert_allclose(got.astype("float64"), exact, rtol=0, atol=TOLERANCE[x.dtype.name] * scale * 4)
        return
    limits = np.iinfo(x.dtype)
    exact = np.clip(exact, limits.min, limits.max)
    # half a unit of rounding, and float32's or float64's own (the reference computes weights in it)
    assert (np.abs(got.astype("float64") - exact) <= 0.501 + 3e-6 * scale).all()


# by cubic interpolation what overflows most easily and every float; the other integers round as these do
ASKED_ALONE = {"int16", "uint16", "uint32", "int64", "uint64"}
TYPED = [
    pytest.param(dtype, mode, marks=[pytest.mark.slow] if mode == "cubic" and dtype in ASKED_ALONE else [])
    for mode in ("nearest", "linear", "cubic")
    for dtype in (*INTEGERS, *FLOATS)
]


@pytest.mark.parametrize("dtype, mode", TYPED)
def test_resize_is_the_reference_for_every_element_type(dtype: str, mode: str) -> None:
    rng = np.random.default_rng(3)
    switches = [(0, 0)] if mode == "nearest" else [(0, 0), (0, 1), (1, 0), (1, 1)]
    cases = itertools.product(SHAPES, COORDINATES, switches, (False, True))
    for shape, coordinates, (antialias, exclude), shrinks in list(cases)[:: 1 if dtype in ("uint8", "int32") else 3]:
        axes = list(range(max(0, len(shape) - 2), len(shape)))
        sizes = [max(2, s // 2) if shrinks else 2 * s - 1 for s in shape[axes[0] :]]
        attrs = dict(mode=mode, coordinate_transformation_mode=coordinates, axes=axes)
        if mode != "nearest":
            attrs |= dict(antialias=antialias, exclude_outside=exclude)
        x = data(rng, dtype, shape)
        exact = ReferenceEvaluator(model(x.astype("float64"), sizes, **attrs)).run(None, {"x": x.astype("float64")})[0]
        assert_is_reference(evaluate(import_onnx(model(x, sizes, **attrs)), [x]), x, exact)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_what_lies_outside_of_the_crop_takes_the_extrapolation_value(dtype: str, mode: str) -> None:
    x = data(np.random.default_rng(4), dtype, (4, 5))
    attrs = dict(mode=mode, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0)
    roi = [-0.3, 0.2, 0.9, 1.4]
    wide = x.astype("float64")
    exact = ReferenceEvaluator(model(wide, [7, 3], roi, **attrs)).run(None, {"x": wide})[0]
    assert (exact == 7).any()
    assert_is_reference(evaluate(import_onnx(model(x, [7, 3], roi, **attrs)), [x]), x, exact)


@pytest.mark.needs_cc
@pytest.mark.parametrize("target", ["c", "json", pytest.param("opencl", marks=pytest.mark.needs_opencl)])
@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_every_generator_resizes_integers_as_the_reference(target: str, dtype: str) -> None:
    x = data(np.random.default_rng(5), dtype, (1, 2, 4, 5))
    wide = x.astype("float64")
    for mode, sizes in (("linear", [1, 2, 7, 3]), ("cubic", [1, 2, 3, 9])):
        exact = ReferenceEvaluator(model(wide, sizes, mode=mode)).run(None, {"x": wide})[0]
        assert_is_reference(byoc.compile(model(x, sizes, mode=mode), targets=[target, "c"])(x), x, exact)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_linear_resize_of_integers_is_within_one_of_onnxruntime(dtype: str) -> None:
    x = data(np.random.default_rng(6), dtype, (1, 3, 8, 9))
    if dtype == "int32":
        x = x % 1000
    for coordinates, sizes in itertools.product(COORDINATES, ([1, 3, 15, 20], [1, 3, 5, 4])):
        made = model(x, sizes, mode="linear", coordinate_transformation_mode=coordinates)
        want = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})[0]
        assert np.abs(evaluate(import_onnx(made), [x]).astype("int64") - want).max() <= 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("sizes", [[1, 1, 8, 20], [1, 1, 7, 19], [1, 1, 4, 13]])
def test_what_is_not_finite_reaches_no_further_than_in_onnxruntime(value: float, sizes: list[int]) -> None:
    x = np.random.default_rng(7).normal(size=(1, 1, 8, 10)).astype("float32")
    x[0, 0, 0, 0] = value
    for coordinates in COORDINATES:
        made = model(x, sizes, mode="linear", coordinate_transformation_mode=coordinates)
        want = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})[0]
        got = evaluate(import_onnx(made), [x])
        assert not (~np.isfinite(got) & np.isfinite(want)).any()
        np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-4, atol=1e-5)


@pytest.mark.needs_cc
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_sizes_known_at_run_time_give_the_same(mode: str) -> None:
    rng = np.random.default_rng(8)
    for dtype, run in (("uint8", byoc.compile), ("int32", interpreted), ("float32", interpreted)):
        x = data(rng, dtype, (1, 2, 4, 5))
        made = model(x, [1, 2, 7, 3], mode=mode)
        made.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "h"
        exact = ReferenceEvaluator(made).run(None, {"x": x.astype("float64")})[0]
        assert_is_reference(run(made)(x), x, exact)
    x = np.full((1, 1, 4, 5), 2.0, "float32")
    x[0, 0, 0, 0] = np.nan
    made = model(x, [1, 1, 7, 5], mode=mode)
    made.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "h"
    assert np.isfinite(interpreted(made)(x)[0, 0, :, 1:]).all()
