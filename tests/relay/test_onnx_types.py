"""Operators over all element types that their schemas allow give what ONNX Runtime or ONNX's reference gives.

A small part by default, the whole in the slow run, by the numpy kernels and for some cases by every generator. Where
the oracles leave a case open or are wrong, it stands in :data:`OPEN` with the reason.
"""

from collections import Counter

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_type_sweep import Case, build, cases, differences, expected, flat

import byoc
from byoc.errors import ByocError, KernelError
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

# (operator, or operator.parameter; element types or "", values or "") -> why what we give may be neither oracle's
OPEN: dict[tuple[str, str, str], str] = {
    ("AveragePool", "", "edges"): "the reference leaves a NaN in a window out of the mean",
    ("CastLike", "", ""): "a float beyond an integer's limits is undefined (see kernels.elementwise.cast)",
    ("Cast", "", ""): "a float beyond an integer's limits is undefined (see kernels.elementwise.cast)",
    (
        "DFT.T1",
        "",
        "edges",
    ): "how far a NaN or an infinity spreads, and what 1e30 leaves of the others, is the method's",
    ("DequantizeLinear", "int32", "edges"): "the oracles' difference to the zero point wraps around",
    ("DynamicQuantizeLinear", "", "edges"): "an infinity by an infinite scale is undefined as an integer",
    ("Gemm", "int32 int64 uint32 uint64", "edges"): "the reference computes integers in floating point",
    (
        "GridSample.T2",
        "",
        "edges",
    ): "ONNX Runtime takes a NaN or an infinity as -1, with padding by zeros, too; the reference takes none",
    ("GridSample.T2", "bfloat16", "plain"): "the reference computes places in bfloat16",
    ("GroupNormalization", "", "edges"): "a variance beyond the floats",
    ("InstanceNormalization", "", "edges"): "a variance beyond the floats",
    ("LRN", "", "edges"): "a sum of squares beyond the floats",
    ("LayerNormalization", "", "edges"): "a variance beyond the floats",
    ("LayerNormalization", "bfloat16 float16", ""): "the reference's statistics are not float32",
    ("LogSoftmax", "", "edges"): "the oracles differ on what is infinite",
    ("LpNormalization", "bfloat16", ""): "the reference's sum of bfloat16 is less than one of its parts",
    ("LpPool", "", "edges"): "the reference leaves a NaN in a window out",
    ("MaxPool", "", "edges"): "a NaN wins here, as in ReduceMax; the oracles leave it out",
    ("MaxPool", "bfloat16", "plain"): "the reference's places of the largest are outside of the data",
    (
        "OneHot",
        "uint64 float64",
        "plain",
    ): "indices are cast to int64 before use; the reference compares them as they are",
    ("OneHot", "uint64 float64 float16 float32 bfloat16", "edges"): "the reference multiplies by the other value",
    ("Pow", "int32 int64", "edges"): "an integer power that float64 does not hold is undefined",
    ("Pow", "bfloat16", ""): "the reference computes powers of bfloat16 in another type",
    ("QLinearConv", "", "edges"): "a scale that is no number",
    ("QLinearMatMul", "", ""): "a scale that is no number, or whose rounding in bfloat16 is open",
    ("QuantizeLinear", "", ""): "a NaN, or a scale of 0, as an integer is undefined",
    ("ReduceL1", "", "edges"): "sums beyond the integers",
    ("ReduceL2", "", "edges"): "sums beyond the integers",
    ("PRelu", "bfloat16", "edges"): "the reference multiplies what is not negative by an infinite slope, too",
    ("ReduceMean", "int64 uint64", "edges"): "sums beyond what float64 holds",
    ("ReduceMean", "uint32", "edges"): "the reference's sum wraps around",
    ("ReduceProd", "", "edges"): "products beyond the integers",
    ("ReduceSumSquare", "", ""): "the reference widens the type of integers; sums beyond the integers",
    ("Resize", "", ""): "has a test of its own, test_onnx_resize",
    ("Upsample", "", ""): "has a test of its own, test_onnx_resize",
    (
        "STFT.T1",
        "",
        "edges",
    ): "how far a NaN or an infinity spreads, and what 1e30 leaves of the others, is the method's",
    ("STFT.T1", "bfloat16", "plain"): "the reference rounds each sample by its weight to bfloat16",
    ("ScatterElements", "", "edges"): "a NaN wins max and min here",
    ("ScatterND", "", "edges"): "a NaN wins max and min here",
    ("TopK", "bfloat16", "edges"): "NumPy does not sort a NaN of bfloat16; here it is the largest, as one of float32",
    (
        "Unique.T",
        "bfloat16 float16",
        "edges",
    ): "the reference does not sort a NaN of 16 bits; ONNX Runtime takes it as equal to what it is compared with",
}


def is_open(case: Case) -> bool:
    return any(
        op in (case.op, f"{case.op}.{case.parameter}")
        and (not dtypes or case.dtype in dtypes.split())
        and values in ("", case.values)
        for op, dtypes, values in OPEN
    )


def interpreted(model: onnx.ModelProto, arrays: list[np.ndarray]) -> list[np.ndarray]:
    got = evaluate(import_onnx(model), arrays)
    return arrays_of(model, got)


def arrays_of(model: onnx.ModelProto, got: object) -> list[np.ndarray]:
    """The outputs as arrays, as :func:`flat` gives them."""
    return flat(got if len(model.graph.output) > 1 and isinstance(got, (list, tuple)) else [got])


def compiled_for(*targets: str):
    def run(model: onnx.ModelProto, arrays: list[np.ndarray]) -> list[np.ndarray]:
        got = byoc.compile(model, targets=list(targets))(*arrays)
        return arrays_of(model, got)

    return run


def wrong_of(chosen: list[Case], run=interpreted) -> tuple[list[str], Counter[str]]:
    """What is neither oracle's, as text, and how many cases were compared, refused, or had no oracle."""
    wrong, counts = [], Counter()
    for case in chosen:
        made = None if is_open(case) else build(case)
        if made is None:
            continue
        model, arrays = made
        known = {i.name for i in model.graph.initializer}
        try:
            got = run(model, [a for a, v in zip(arrays, model.graph.input, strict=True) if v.name not in known])
        except ByocError:
            counts["refused"] += 1
            continue
        right = expected(model, arrays)
        texts = {who: differences(got, want) for who, want in right.items()}
        counts["compared" if texts else "no oracle"] += 1
        if texts and all(texts.values()):
            wrong.append(f"{case}: {texts}")
    return wrong, counts


def test_a_sample_of_operators_and_types_is_right() -> None:
    wrong, counts = wrong_of(list(cases())[::150])
    assert wrong == []
    assert counts["compared"] > 60


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_operator_and_type_is_right(part: int) -> None:
    wrong, _ = wrong_of(list(cases())[part::8])
    assert wrong == []


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.parametrize("targets", ["c", "json,c", pytest.param("opencl,c", marks=pytest.mark.needs_opencl)])
def test_generated_code_is_right_for_a_sample_of_operators_and_types(targets: str) -> None:
    wrong, _ = wrong_of(list(cases())[5::211], compiled_for(*targets.split(",")))
    assert wrong == []


@pytest.mark.parametrize("test, length", [("test_split_to_sequence_1", 3), ("test_split_to_sequence_2", 2)])
def test_sequences_are_compared_element_by_element(test: str, length: int) -> None:
    case = Case(test, "SplitToSequence", "T", "int32", "plain")
    model, arrays = build(case)
    known = {i.name for i in model.graph.initializer}
    got = interpreted(model, [a for a, v in zip(arrays, model.graph.input, strict=True) if v.name not in known])
    assert (got[0], len(got)) == (length, 1 + length)
    for want in expected(model, arrays).values():
        assert differences(got, want) == []
        assert differences(got[:-1], want)
        assert differences([*got[:-1], got[-1] + 1], want)
    assert wrong_of([case]) == ([], Counter(compared=1))


def one_node(op: str, inputs: list[np.ndarray], outputs: int = 1, opset: int = 17, **attrs) -> onnx.ModelProto:
    make = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op, [f"x{k}" for k in range(len(inputs))], [f"y{k}" for k in range(outputs)], **attrs)],
        "g",
        [make(f"x{k}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in enumerate(inputs)],
        [onnx.ValueInfoProto(name=f"y{k}") for k in range(outputs)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


FOUND = [
    ("Shrink", [np.array([-7, -1, 1, 7], "int32")], {"bias": 1.5, "lambd": 1.5}, [-5, 0, 0, 5]),
    (
        "ReduceMean",
        [np.array([[2**31 - 1, 2**31 - 1], [-7, 0]], "int32")],
        {"axes": [1], "keepdims": 0},
        [2**31 - 1, -3],
    ),
    (
        "ReduceLogSumExp",
        [np.array([[np.inf, 1], [-np.inf, -np.inf], [5, -np.inf]], "float32")],
        {"axes": [1], "keepdims": 0},
        [np.inf, -np.inf, 5],
    ),
    (  # reflected to half a pixel outside: the infinity and the NaN behind the corner have no part
        "GridSample",
        [
            np.array([[[[0.25, -0.25], [np.inf, np.nan], [-1, 0.75]]]], "float32"),
            np.array([[[[-5, -5], [5, 5]]]], "float32"),
        ],
        {"padding_mode": "reflection"},
        [[[[0.25, 0.75]]]],
    ),
    *(  # an infinity is outside; ONNX Runtime takes it as -1
        (
            "GridSample",
            [
                np.arange(6, dtype="float32").reshape(1, 1, 3, 2),
                np.array([[[[0, -np.inf], [np.inf, 0], [np.inf, np.inf], [0, 0]]]], "float32"),
            ],
            {"padding_mode": padding, "mode": mode},
            [[[[*outside, middle]]]],
        )
        for padding, outside in (("zeros", [0, 0, 0]), ("border", [0.5, 3, 5]))
        for mode, middle in (("bilinear", 2.5), ("bicubic", 2.5 if padding == "border" else 2.96875))
    ),
    ("MatMul", [np.array([[2**63 + 5, 3]], "uint64"), np.array([[1], [2]], "uint64")], {}, [[2**63 + 11]]),
]


@pytest.mark.parametrize(
    "run",
    [
        interpreted,
        pytest.param(compiled_for("c"), marks=pytest.mark.needs_cc),
        pytest.param(compiled_for("opencl", "c"), marks=[pytest.mark.needs_cc, pytest.mark.needs_opencl]),
    ],
    ids=["numpy", "c", "opencl"],
)
@pytest.mark.parametrize("op, inputs, attrs, want", FOUND, ids=[f[0] for f in FOUND])
def test_what_the_sweep_found_is_right(run, op: str, inputs: list, attrs: dict, want: list) -> None:
    (got,) = run(one_node(op, inputs, opset=13 if op.startswith("Reduce") else 17, **attrs), inputs)
    np.testing.assert_array_equal(got, np.array(want, inputs[0].dtype))


def test_the_frames_of_bfloat16_are_rounded_once() -> None:
    """What OPEN says of STFT: the float64 result of the same samples and weights, rounded."""
    rng = np.random.default_rng(3)
    signal, window = (rng.normal(size=shape).astype(ml_dtypes.bfloat16) for shape in ((1, 32, 1), (16,)))
    model = one_node("STFT", [signal, np.array(8), window], opset=17, onesided=1)
    model.graph.initializer.append(numpy_helper.from_array(np.array(8), "x1"))
    (got,) = interpreted(model, [signal, window])
    frames = np.lib.stride_tricks.sliding_window_view(signal[0, :, 0].astype(float), 16)[::8]
    want = np.fft.rfft(frames * window.astype(float))
    exact = np.stack([want.real, want.imag], -1)[None]
    np.testing.assert_allclose(got.astype(float), exact, rtol=2**-8, atol=1e-6)


def test_bfloat16_is_rounded_by_the_numpy_kernels() -> None:
    x = np.array([0.25, -1.5, 2.5], ml_dtypes.bfloat16)
    for op, want in (("Floor", [0, -2, 2]), ("Ceil", [1, -1, 3]), ("Round", [0, -2, 2])):
        np.testing.assert_array_equal(interpreted(one_node(op, [x], opset=22), [x])[0].astype("float32"), want)


@pytest.mark.parametrize("step", [0.0, np.nan])
def test_a_range_without_end_is_refused_when_it_runs(step: float) -> None:
    ends = [np.array(v, "float32") for v in (0, 1, step)]
    with pytest.raises(KernelError, match="arange: from 0.0 to 1.0 by .* are not finitely many numbers"):
        interpreted(one_node("Range", ends, opset=11), ends)


def test_the_statistics_of_a_layer_norm_of_float64_are_float32() -> None:
    x, scale = np.random.default_rng(0).normal(size=(3, 4)), np.ones(4)
    made = one_node("LayerNormalization", [x, scale], outputs=3)
    assert [v.dtype.name for v in interpreted(made, [x, scale])] == ["float64", "float32", "float32"]
