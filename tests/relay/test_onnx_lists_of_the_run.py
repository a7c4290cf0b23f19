"""Axes, bounds, lengths and scales as inputs of the run, against ONNX Runtime, and what is wrong with them."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_single_node import assert_like_onnx_runtime, feeds_of, ours, single_node

import byoc
from byoc.errors import UserError
from byoc.relay.frontend.onnx import import_onnx

RNG = np.random.default_rng(5)
DATA = RNG.standard_normal((2, 3, 4)).astype("float32")
POSITIVE = (RNG.random((2, 3, 4)) + 0.5).astype("float32")


def i64(*values: int) -> np.ndarray:
    return np.array(values, "int64")


def check(op: str, opset: int, inputs: list[np.ndarray | None], outputs: int = 1, **attrs: object) -> None:
    assert_like_onnx_runtime(single_node(op, opset, inputs, outputs=outputs, **attrs), feeds_of(inputs))


REDUCTIONS = ["Sum", "Prod", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(0,), (-1,), (1, 0), (0, 1, 2), ()], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_over_axes_of_the_run_is_that_of_onnx_runtime(
    name: str, axes: tuple[int, ...], keepdims: int
) -> None:
    check(f"Reduce{name}", 18, [POSITIVE, i64(*axes)], keepdims=keepdims)


@pytest.mark.parametrize("name", ["Sum", "SumSquare", "Max"])
@pytest.mark.parametrize("axes", [(), (1,)], ids=str)
def test_no_axis_can_mean_that_nothing_is_reduced(axes: tuple[int, ...], name: str) -> None:
    model = single_node(f"Reduce{name}", 18, [DATA, i64(0)], noop_with_empty_axes=1)
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "count"
    (found,) = ours(model, {"x0": DATA, "x1": i64(*axes)})
    each = DATA * DATA if name == "SumSquare" else DATA
    reduced = each.max(1, keepdims=True) if name == "Max" else each.sum(1, keepdims=True)
    np.testing.assert_allclose(found, reduced if axes else each, rtol=1e-5)


@pytest.mark.parametrize("backwards, exclusive", list(itertools.product([0, 1], repeat=2)))
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_running_sum_goes_along_the_axis_of_the_run(axis: int, backwards: int, exclusive: int) -> None:
    check("CumSum", 14, [DATA, np.array(axis, "int64")], reverse=backwards, exclusive=exclusive)


SLICES = [
    (i64(1), i64(9), i64(-1), None),
    (i64(-9, 3), i64(-1, 0), i64(2, 1), i64(1, -1)),
    (i64(2**62), i64(-(2**62)), i64(2), i64(-2)),
    (i64(1, 0, 2), i64(2, 3, 4), None, i64(1, 2, 1)),
    (i64(5), i64(7), i64(0), i64(3)),
]


@pytest.mark.parametrize("lists", SLICES)
def test_a_slice_takes_all_its_lists_from_the_run(lists: tuple[np.ndarray | None, ...]) -> None:
    check("Slice", 13, [DATA, *lists])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads, axes", [((1, 2), (1,)), ((0, 1, 2, 0), (-1, 0)), ((-1, 1, 0, 1), (2, 1))], ids=str)
def test_a_pad_takes_pads_and_axes_from_the_run(pads: tuple[int, ...], axes: tuple[int, ...], mode: str) -> None:
    fill = np.array(1.5, "float32") if mode == "constant" else None
    check("Pad", 19, [DATA, i64(*pads), fill, i64(*axes)], mode=mode)


def test_parts_squeezes_and_hot_rows_are_of_the_sizes_of_the_run() -> None:
    check("Split", 18, [DATA, i64(1, 0, 3)], outputs=3, axis=2)
    check("Squeeze", 13, [DATA[:1, :, :1], i64(-1, 0)])
    check("Unsqueeze", 13, [DATA, i64(-1, 0, 2)])
    check("OneHot", 11, [i64(0, -1, 7, 2), i64(3), np.array([0, 5], "float32")], axis=0)


RESIZES = [
    ("nearest", {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    ("linear", {}),
    ("linear", {"coordinate_transformation_mode": "align_corners"}),
    ("cubic", {"exclude_outside": 1, "cubic_coeff_a": -0.5}),
    ("linear", {"antialias": 1}),
]


@pytest.mark.parametrize("mode, attrs", RESIZES, ids=str)
@pytest.mark.parametrize("scales", [(1, 1, 2, 0.5), (1, 1, 0.5, 1)], ids=str)
def test_an_image_is_resized_by_scales_of_the_run(scales: tuple[float, ...], mode: str, attrs: dict) -> None:
    image = RNG.standard_normal((1, 2, 4, 6)).astype("float32")
    check("Resize", 19, [image, None, np.array(scales, "float32")], mode=mode, **attrs)


def test_a_region_and_an_aspect_ratio_are_those_of_the_run() -> None:
    image = RNG.standard_normal((1, 1, 4, 6)).astype("float32")
    region = np.array([0, 0, 0.2, 0.4, 1, 1, 0.9, 1.15], "float32")
    attrs = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    check("Resize", 19, [image, region, None, i64(1, 1, 3, 5)], **attrs)
    check("Resize", 19, [image, None, None, i64(7, 8)], axes=[2, 3], keep_aspect_ratio_policy="not_larger")


@pytest.mark.parametrize("length", [4, 7, 9])
def test_a_transform_has_the_axis_and_the_length_of_the_run(length: int) -> None:
    signal = RNG.standard_normal((2, 7, 3, 1)).astype("float32")
    model = single_node("DFT", 20, [signal, np.array(length, "int64"), np.array(1, "int64")], onesided=1)
    (found,) = ours(model, feeds_of([signal, np.array(length, "int64"), np.array(1, "int64")]))
    wanted = np.fft.rfft(signal[..., 0], length, axis=1)
    np.testing.assert_allclose(found, np.stack([wanted.real, wanted.imag], -1), rtol=1e-4, atol=1e-4)


def test_a_random_mask_keeps_its_share_and_scales_what_it_keeps() -> None:
    ones = np.ones((100, 100), "float32")
    inputs = [ones, np.array(0.25, "float32"), np.array(True)]
    model = single_node("Dropout", 13, inputs, outputs=2, seed=3)
    data, mask = ours(model, feeds_of(inputs))
    assert abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_allclose(data, np.where(mask, np.float32(4 / 3), 0), rtol=1e-6)
    data, mask = ours(model, {**feeds_of(inputs), "x2": np.array(False)})
    assert mask.all() and (data == 1).all()


WRONG = [
    ("ReduceSum", [DATA, i64(3)], "axis 3 is outside 3 dimensions; give one from -3 to 2"),
    ("CumSum", [DATA, np.array(-4, "int64")], "axis -4 is outside 3 dimensions"),
    ("Squeeze", [DATA, i64(1)], "axis 1 has the size 3, and only one of size 1 is dropped"),
    ("Unsqueeze", [DATA, i64(0, 0)], r"axes \[0, 0\] name a dimension twice"),
    ("Slice", [DATA, i64(0), i64(1), i64(0), i64(0)], "a step of 0 does not move"),
    ("Slice", [DATA, i64(0), i64(1), i64(7)], "axis 7 is outside 3 dimensions"),
    ("Pad", [DATA, i64(-2, -2), None, i64(1)], "pads cut 4 elements of the 3 of dimension 1"),
    ("Split", [DATA, i64(1, 2)], r"the parts \[1, 2\] do not add up to the size 2 of axis 0"),
    ("OneHot", [i64(1), i64(-1), np.zeros(2, "float32")], "depth is a whole number from 0 on, got -1"),
    ("Resize", [DATA, None, np.array([1, 1, 0], "float32")], "scales must be positive"),
    ("Resize", [DATA, None, np.array([1, 1, 1e9], "float32")], "a dimension of 4 cannot be resized to 4000000000"),
]


@pytest.mark.parametrize("op, inputs, sentence", WRONG, ids=lambda v: v if isinstance(v, str) else "")
def test_a_list_that_does_not_fit_is_a_sentence(op: str, inputs: list[np.ndarray | None], sentence: str) -> None:
    model = single_node(op, 19 if op in ("Pad", "Resize") else 13, inputs, outputs=2 if op == "Split" else 1)
    with pytest.raises(UserError, match=f"node node \\({op}\\).*{sentence}"):
        ours(model, feeds_of(inputs))


def test_a_rank_that_only_the_run_knows_is_decided_by_it() -> None:
    model = single_node("ReduceSum", 13, [DATA, i64(0)], keepdims=0)
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "count"
    for axes in ((0,), (2, 0), (0, 1, 2)):
        (found,) = ours(model, {"x0": DATA, "x1": i64(*axes)})
        np.testing.assert_allclose(found, DATA.sum(axes), rtol=1e-5, atol=1e-6)


def test_constant_lists_make_the_operators_that_they_made() -> None:
    for op, lists in (("ReduceSum", [i64(1)]), ("Slice", [i64(0), i64(1), i64(1)]), ("Squeeze", [i64(0)])):
        text = str(import_onnx(single_node(op, 13, [DATA[:1]], lists)))
        assert "dyn." not in text, text


def test_a_squeeze_without_axes_drops_each_size_that_is_1_in_the_run() -> None:
    data = RNG.standard_normal((3, 1, 4)).astype("float32")
    model = single_node("Squeeze", 13, [data], free=True)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    for given in (data, data[:1], data[:, :, :1], data[:1, :, :1]):
        (found,) = ours(model, {"x0": given})
        np.testing.assert_array_equal(found, np.squeeze(given), strict=True)


def test_a_scan_of_opset_8_goes_over_each_entry_of_the_batch() -> None:
    model = onnx.parser.parse_model("""<ir_version: 4, opset_import: ["" : 8]>
    g (float[3, 2] s, float[3, 4, 2] x, float[3, 4, 1] v) => (float[3, 2] y, float[3, 4, 2] z) {
      y, z = Scan<num_scan_inputs = 2, directions = [1, 0],
                  body = b (float[2] a, float[2] c, float[1] d) => (float[2] e, float[2] f) {
        h = Mul(c, d)
        e = Add(a, h)
        f = Mul(e, c)
      }>("", s, x, v)
    }""")
    shapes = {"s": (3, 2), "x": (3, 4, 2), "v": (3, 4, 1)}
    assert_like_onnx_runtime(model, {n: RNG.standard_normal(d).astype("float32") for n, d in shapes.items()})


@pytest.mark.parametrize(
    "opset, sizes", [(17, (3, 9, 0)), pytest.param(18, (3, 9, 11, 0), marks=pytest.mark.newer_onnxruntime)]
)
def test_a_free_axis_is_split_into_equal_parts_as_onnxruntime_splits_it(opset, sizes):
    parts = ", num_outputs = 3" if opset >= 18 else ""
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[B, N] x) '
        "=> (float[B, P] a, float[B, Q] b, float[B, R] c) "
        f"{{ d, e, f = Split<axis = 1{parts}>(x)\n a = Relu(d)\n b = Exp(e)\n c = Neg(f) }}"
    )
    library = byoc.compile(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in sizes:
        x = np.linspace(-1, 1, 2 * size, dtype="float32").reshape(2, size)
        for got, want in zip(library.run({"x": x}), session.run(None, {"x": x}), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-6)
    with pytest.raises(UserError, match="Split_0 .Split.: the parts .* do not add up to the size 1 of axis 1"):
        library.run({"x": np.ones((2, 1), "float32")})
