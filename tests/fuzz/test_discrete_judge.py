"""What the judge accepts of integers and booleans that follow floats, and that it refuses all else."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from fuzz.configurations import NARROWINGS
from fuzz.judge.compare import AGREED, ILL_CONDITIONED, WRONG, Judge
from fuzz.judge.oracle import wanted

IDENTITY = np.eye(4, dtype="float32")
# through a product, whose rounding errors these numbers then have: 2.5 steps of 0.1, and 2.6, 7.2 and -3.1 of them
VALUES = np.array([[0.25, 0.26, 0.72, -0.31]], "float32")


def judge_of(body: str, outputs: str, feeds: dict[str, np.ndarray]) -> Judge:
    """The judge of a model of *body* whose inputs are *feeds*."""
    inputs = ", ".join(
        f"{onnx.TensorProto.DataType.Name(onnx.helper.np_dtype_to_tensor_dtype(v.dtype)).lower()}{list(v.shape)} {n}"
        for n, v in feeds.items()
    )
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 19]>\ng ({inputs}) => ({outputs}) {{\n{body}\n}}'
    )
    return Judge(model, feeds, wanted(model, [feeds])[0])


def verdict(judge: Judge, changes: dict[int, float], precision: str = "f32", index: int = 0) -> str:
    """What becomes of the wanted output with these changes at flat positions."""
    got = judge.wanted[index].copy()
    for at, by in changes.items():
        got.reshape(-1)[at] = (
            (not got.reshape(-1)[at]) if got.dtype == bool else got.reshape(-1)[at] + got.dtype.type(by)
        )
    return judge.judge(index, got, NARROWINGS[precision]).verdict


def quantized(tail: str = "", outputs: str = "int8[] q") -> Judge:
    """A product, quantized with the scale 0.1."""
    return judge_of(
        f"t = MatMul (x, w)\nq = QuantizeLinear (t, s, z)\n{tail}",
        outputs,
        {"x": VALUES, "w": IDENTITY, "s": np.array(0.1, "float32"), "z": np.array(3, "int8")},
    )


def test_a_computed_value_at_a_boundary_may_be_rounded_to_either_side():
    judge = quantized()
    assert judge.wanted[0].tolist() == [[5, 6, 10, 0]]
    assert verdict(judge, {}) == AGREED
    assert verdict(judge, {0: 1}) == ILL_CONDITIONED


@pytest.mark.parametrize("changes", [{1: 1}, {1: -1}, {2: 1}, {3: -1}, {0: -1}, {0: 2}, {0: 1, 2: -1}])
def test_an_integer_off_by_one_elsewhere_is_wrong(changes):
    assert verdict(quantized(), changes) == WRONG


def test_a_tie_of_exact_numbers_must_be_rounded_to_even():
    feeds = {"x": np.array([0.25, 0.75, 1.0], "float32"), "s": np.array(0.5, "float32"), "z": np.array(3, "int8")}
    for by in (1, -1):
        assert verdict(judge_of("q = QuantizeLinear (x, s, z)", "int8[] q", feeds), {0: by}) == WRONG
    half = {
        "a": np.array([[1, 3]], "int8"),
        "s": np.float32(0.5),
        "z": np.int8(0),
        "b": np.array([[1, 0], [0, 1]], "int8"),
        "t": np.float32(1),
        "o": np.int8(0),
        "u": np.float32(1),
        "v": np.int8(1),
    }
    feeds = {n: np.asarray(v) for n, v in half.items()}
    judge = judge_of("y = QLinearMatMul (a, s, z, b, t, o, u, v)", "int8[] y", feeds)
    assert judge.wanted[0].tolist() == [[1, 3]]
    assert verdict(judge, {0: 1}) == verdict(judge, {1: 1}) == WRONG


def test_what_follows_an_integer_may_be_what_follows_its_neighbour():
    judge = quantized(
        "n = Cast <to: int = 6> (q)\nk = Constant <value: tensor = int32 {7}> ()\ny = Mul (n, k)", "int32[] y"
    )
    assert judge.wanted[0].tolist() == [[35, 42, 70, 0]]
    assert verdict(judge, {0: 7}) == ILL_CONDITIONED
    assert verdict(judge, {0: 14}) == verdict(judge, {1: 7}) == WRONG


def test_a_step_of_one_element_is_no_licence_for_floats_elsewhere():
    judge = quantized("y = DequantizeLinear (q, s, z)", "float[] y")
    assert verdict(judge, {0: 0.1}) == ILL_CONDITIONED
    for changes in ({1: 0.1}, {0: 0.2}, {2: -0.1}, {3: 0.01}):
        assert verdict(judge, changes) == WRONG


def test_a_comparison_may_differ_where_its_sides_are_equal_but_for_rounding():
    judge = judge_of(
        "t = MatMul (x, w)\ny = Less (t, c)",
        "bool[] y",
        {"x": VALUES, "w": IDENTITY, "c": np.array([[0.25, 0.2601, 0.72, 0.0]], "float32")},
    )
    assert verdict(judge, {0: 1, 2: 1}) == ILL_CONDITIONED
    assert verdict(judge, {1: 1}) == verdict(judge, {3: 1}) == WRONG


def test_positions_may_change_places_where_their_values_are_equal_but_for_rounding():
    near = np.array([[0.5, 0.5, 0.9, 0.1]], "float32")
    judge = judge_of(
        "t = MatMul (x, w)\nk = Constant <value_ints: ints = [4]> ()\nv, p = TopK (t, k)",
        "int64[] p",
        {"x": near, "w": IDENTITY},
    )
    assert judge.wanted[0].tolist() == [[2, 0, 1, 3]]
    assert verdict(judge, {1: 1, 2: -1}) == ILL_CONDITIONED
    assert verdict(judge, {0: -2, 1: 2}) == verdict(judge, {2: 2, 3: -2}) == WRONG


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_lower_precision_may_cross_what_lies_within_its_rounding_of_what_products_read(precision):
    """0.72, the largest, may become 0.7172 to 0.7228 in both."""
    judge = judge_of(
        "t = MatMul (x, w)\ny = Less (t, c)",
        "bool[] y",
        {"x": VALUES, "w": IDENTITY, "c": np.array([[0.5, 0.5, 0.721, 0.5]], "float32")},
    )
    assert verdict(judge, {2: 1}) == WRONG
    assert verdict(judge, {2: 1}, precision) == ILL_CONDITIONED
    assert verdict(judge, {1: 1}, precision) == verdict(judge, {3: 1}, precision) == WRONG


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_lower_precision_leaves_what_no_product_reads(precision):
    judge = judge_of(
        "a = Relu (x)\ny = Less (a, c)\nt = MatMul (v, w)",
        "bool[] y, float[] a, float[] t",
        {"x": VALUES, "v": VALUES, "w": IDENTITY, "c": VALUES + np.float32(0.001)},
    )
    assert verdict(judge, {0: 1}, precision) == WRONG
    assert verdict(judge, {1: 0.001}, precision, index=1) == WRONG
    assert verdict(judge, {1: 0.0005}, precision, index=2) == ILL_CONDITIONED


def test_a_reference_that_does_not_know_an_attribute_does_not_widen_what_is_right():
    numbers = np.random.default_rng(2)
    feeds = {
        "x": numbers.standard_normal((3, 2, 4)).astype("float32"),
        "w": numbers.standard_normal((1, 9, 4)).astype("float32"),
        "r": numbers.standard_normal((1, 9, 3)).astype("float32"),
    }
    judge = judge_of(
        'y = GRU <hidden_size: int = 3, clip: float = 0.3, activations: strings = ["Tanh", "Sigmoid"]> (x, w, r)',
        "float[] y",
        feeds,
    )
    assert np.abs(judge.in_float64(0) - judge.wanted[0]).max() > 0.1
    assert verdict(judge, {0: 0.01}) == WRONG


def remainder(precision: str, changes: dict[int, float]) -> str:
    """The verdict on remainders by 0.7 of a product of 0.25, 0.26, 0.72 and -0.31, changed so."""
    judge = judge_of(
        "t = MatMul (x, w)\ny = Mod <fmod: int = 1> (t, m)",
        "float[] y",
        {"x": VALUES, "w": IDENTITY, "m": np.array(0.7, "float32")},
    )
    np.testing.assert_allclose(judge.wanted[0], [[0.25, 0.26, 0.02, -0.31]], atol=1e-6)
    return verdict(judge, changes, precision)


def test_a_remainder_may_be_off_by_what_its_dividend_may_and_step_where_that_is_near_a_multiple():
    assert remainder("bf16", {0: 0.001, 3: -0.001}) == ILL_CONDITIONED
    assert remainder("bf16", {2: 0.679}) == ILL_CONDITIONED, "0.699 is what 0.72 - 0.021 leaves"
    assert remainder("f32", {0: 0.001}) == remainder("f32", {2: 0.679}) == WRONG
    assert remainder("bf16", {0: 0.4}) == remainder("bf16", {3: 0.3}) == WRONG


def test_a_quotient_may_be_infinite_where_its_divisor_is_within_its_noise_of_0():
    values = np.array([[0.25, 0.0001, 1.0, -0.5]], "float32")
    judge = judge_of(
        "t = MatMul (x, w)\ny = Div (c, t)", "float[] y", {"x": values, "w": IDENTITY, "c": np.ones((1, 4), "float32")}
    )
    assert verdict(judge, {1: np.inf}, "int8") == ILL_CONDITIONED
    assert verdict(judge, {2: np.inf}, "int8") == verdict(judge, {1: np.inf}) == WRONG


@pytest.mark.parametrize(
    ("operator", "outputs"),
    [("ArgMin <axis: int = 1, keepdims: int = 0> (t)", "p"), ("TopK <largest: int = 0> (t, k)", "v, p")],
)
def test_the_last_of_many_near_values_may_be_the_first_by_order(operator, outputs):
    near = (0.5 + np.arange(12, dtype="float32") * 1e-8).reshape(1, 12)
    near[0, 11] = 0.9
    body = f"k = Constant <value_ints: ints = [1]> ()\nt = MatMul (x, w)\n{outputs} = {operator}"
    judge = judge_of(body, "int64[] p", {"x": near, "w": np.eye(12, dtype="float32")})
    assert judge.wanted[0].item() == 0
    assert verdict(judge, {0: 10}) == ILL_CONDITIONED
    assert verdict(judge, {0: 11}) == WRONG


def test_what_several_jumps_make_together_is_seen():
    """Seven signs of numbers within their noise of 0 may all be the same, which few runs show."""
    numbers = np.linspace(0.3, 0.9, 7, dtype="float32")
    judge = judge_of(
        "p = Mul (x, w)\nd = Sub (p, c)\ns = Sign (d)\nt = ReduceSum <keepdims = 0> (s)",
        "float[] t",
        {"x": numbers, "w": numbers, "c": numbers * numbers},
    )
    assert judge.wanted[0] == 0
    assert verdict(judge, {0: 7}) == verdict(judge, {0: -7}) == ILL_CONDITIONED
    assert verdict(judge, {0: 8}) == WRONG


def test_a_power_of_a_negative_number_that_may_be_0_may_be_anything():
    """In int8 a product near 0 is 0, and 0 to the 0 is 1, where its negative would give NaN."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
power (float[1, 2] x, float[2, 1] w) => (float[1, 1] y) {
   p = MatMul (x, w)
   y = Pow (p, p)
}""")
    feeds = {"x": np.array([[1, 1]], "float32"), "w": np.array([[1], [-1.001]], "float32")}
    judge = Judge(model, feeds, wanted(model, [feeds])[0])
    assert np.isnan(judge.wanted[0]).all()
    one = np.ones((1, 1), "float32")
    assert judge.judge(0, one).verdict == WRONG
    assert judge.judge(0, one, NARROWINGS["int8"]).verdict == ILL_CONDITIONED


@pytest.mark.parametrize("product", ["MatMul (x, w)", "com.microsoft.FusedMatMul <transB: int = 1> (x, w)"])
def test_a_product_of_lower_precision_may_be_quantized_to_a_neighbour(product):
    """On the range of 1.03 that these numbers have, a step is 0.004, and a bfloat16 of 0.72 may be off by 0.003."""
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 19, "com.microsoft" : 1]>
quantized (float[1, 4] x, float[4, 4] w) => (uint8[1, 4] y) {{
   t = {product}
   y, scale, zero = DynamicQuantizeLinear (t)
}}""")
    feeds = {"x": VALUES, "w": IDENTITY}
    judge = Judge(model, feeds, wanted(model, [feeds])[0])
    assert judge.wanted[0].tolist() == [[139, 141, 255, 0]]
    for precision in ("bf16", "int8"):
        assert verdict(judge, {0: 1}, precision) == verdict(judge, {1: 1}, precision) == ILL_CONDITIONED
        assert verdict(judge, {0: 100}, precision) == verdict(judge, {3: 100}, precision) == WRONG
    assert verdict(judge, {0: 1}) == verdict(judge, {1: 1}) == WRONG
