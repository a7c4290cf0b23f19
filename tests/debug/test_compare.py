"""A comparison names the first tensor that parts, by its ONNX node, and says how far each is off."""

import json
import pathlib

import numpy as np
import onnx
import pytest

import byoc
from byoc.base.progress import silent
from byoc.cli.main import main
from byoc.contract import Limits
from byoc.debug import compare
from byoc.debug.element_order import exchanged, is_reordered
from byoc.debug.limits import ErrorLimits as DebugLimits
from byoc.debug.options import CompareRequest
from byoc.debug.sides import SideBench
from byoc.errors import UserError
from byoc.testing import errors

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
MODEL = onnx.parser.parse_model(
    """<ir_version: 9, opset_import: ["" : 17]>
    g (float[1, 3, 8, 8] x) => (float[1, 2, 3, 3] y)
    <float[2, 3, 3, 3] w = {W}> {
        [first] a = Exp(x)
        [second] c = Conv<strides = [2, 2]>(a, w)
        [third] b = Sigmoid(c)
        [fourth] y = Exp(b)
    }""".replace("W", ", ".join(str(0.01 * (k % 17)) for k in range(54)))
)


@pytest.mark.needs_cc
def test_a_model_on_two_backends_is_compared_tensor_by_tensor(new_processes):
    found = compare(DIGITS, targets=["c", "blas"])
    assert found.ok and found.diverging is None
    names = [row.name for row in found.rows]
    assert names[0] == "node_div" and "node_relu" in names and names[-1] == "probabilities"
    assert found.rows[-1].is_output and found.rows[-1].errors.snr_db > 100


def test_the_first_tensor_that_diverges_is_named(backend_with):
    found = compare(MODEL, targets=["json", backend_with("stride")])
    assert [row.name for row in found.rows] == ["first", "second", "third", "fourth", "y"], str(found)
    assert found.diverging.name == "second" and "off by 0.5" in found.diverging.problem
    assert "first tensor that diverges: second (nodes second)" in str(found)


def test_a_sum_that_the_host_would_join_to_what_reads_it_stands_in_a_row_of_its_own():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x) => (float[2, 4] y)
        <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, float[4] b = {1, 0, 2, 1}> {
            [linear] a = Gemm(x, w, b)
            [last] y = Softmax<axis = -1>(a)
        }"""
    )
    found = compare(model, targets=["json", "c"])
    assert [row.name for row in found.rows] == ["linear (1 of 2)", "linear (2 of 2)", "last", "y"]


def test_two_artefacts_are_compared(tmp_path, backend_with, capsys):
    name = backend_with("stride")
    paths = []
    for target in ("c", name):
        targets = ["c"] if target == "c" else [target, "c"]
        paths.append(byoc.compile(MODEL, targets).save(tmp_path / f"{target}.byoc"))
    found = compare(*paths)
    assert found.diverging.nodes[-1] == "fourth" and "second" in found.diverging.nodes
    assert main(["compare", *map(str, paths)]) == 2
    assert "first tensor that diverges: fourth" in capsys.readouterr().out
    assert main(["compare", str(paths[0]), str(paths[0]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["diverging"] is None


@pytest.mark.needs_cc
def test_values_are_compared_in_one_order_whatever_layouts_the_hosts_chose():
    weights = np.random.default_rng(1).normal(size=(8, 3, 3, 3)), np.random.default_rng(2).normal(size=(200, 5))
    filled = [", ".join(f"{v:.6f}" for v in w.ravel()) for w in weights]
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]>
        g (float[1, 3, 12, 12] x) => (float[1, 5] y)
        <float[8, 3, 3, 3] w = {{{filled[0]}}}, float[200, 5] v = {{{filled[1]}}}> {{
            [conv] a = Conv(x, w)
            [relu] b = Relu(a)
            [pool] c = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(b)
            [flat] d = Flatten(c)
            [dense] y = MatMul(d, v)
        }}"""
    )
    last = byoc.compile(model, backend_options={"c": {"layout": "channels_last"}})
    first = byoc.compile(model, backend_options={"c": {"layout": "default"}})
    for pair in ((first, last), (last, first)):
        found = compare(*pair)
        assert found.ok and not found.unmatched and not found.reordered
        assert [row.name for row in found.rows if row.is_moved] == ["pool (2 of 2)"]
        assert "in another layout in the second, compared in that of the first: pool (2 of 2)" in str(found)


@pytest.mark.needs_cc
def test_a_node_that_the_two_cut_at_different_places_does_not_diverge():
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        g (float[1, 1, 4, 4] x) => (float[1, 32, 2] z)
        <float[2, 1, 1, 1] w = {1, 2}, float[2] v = {5, 6}, int64[3] s = {1, -1, 2}> {
            [conv] y = Conv(x, w, v)
            [turn] t = Transpose<perm = [0, 2, 3, 1]>(y)
            [flat] f = Reshape(t, s)
            [both] z = Concat<axis = 1>(f, f)
        }"""
    )
    split = byoc.compile(model, plan=byoc.plan(model, ["json", "c"], limits={"json": Limits(max_operators=1)}))
    for pair in ((split, byoc.compile(model)), (byoc.compile(model), split)):
        assert compare(*pair).ok, compare(*pair)


def test_an_order_of_elements_is_that_of_a_layout_or_none():
    leaves = DebugLimits().leaves
    like = np.random.default_rng(3).normal(size=(1, 16, 6, 6)).astype("float32")
    noise = np.float32(1e-6)
    orders = [
        like.transpose(0, 2, 3, 1),
        like.reshape(1, 2, 8, 6, 6).transpose(0, 1, 3, 4, 2),
    ]
    for order in orders:
        found = exchanged(np.ascontiguousarray(order + noise), like, leaves)
        assert found.shape == like.shape and leaves(found, like) is None
    one_off = like.copy()
    one_off[0, 3, 2, 1] = like[0, 3, 2, 2]
    assert (
        leaves(one_off, like) and exchanged(one_off, like, leaves) is None and not is_reordered(one_off, like, leaves)
    )
    mixed = np.random.default_rng(4).permutation(like.ravel()).reshape(like.shape)
    assert exchanged(mixed, like, leaves) is None and is_reordered(mixed, like, leaves)
    assert exchanged(np.zeros(1, "float32"), np.ones(1, "float32"), leaves) is None


@pytest.mark.parametrize("targets", [["c", "json", "c"], ["json", "c", "c"], ["json", "c", "blas", "c"]])
def test_a_side_may_name_the_host_that_stands_beside_its_target(targets):
    found = compare(DIGITS, targets=targets)
    wanted = [t for t in dict.fromkeys(targets) if t != "c" or "blas" not in targets]
    assert found.ok and [found.first, found.second] == wanted


def test_a_worker_that_tries_a_run_again_has_the_side_made_first():
    """Where a busy machine held up the first worker, the next is given the run alone."""
    x = np.linspace(-1, 1, 192, dtype="float32").reshape(1, 3, 8, 8)
    bench = SideBench(CompareRequest(MODEL, targets=("json", "c")), 0, silent)
    (wanted,) = byoc.compile(MODEL, ["json", "c"]).run({"x": x})
    np.testing.assert_array_equal(dict(bench.run({"x": x}).outputs)["y"], wanted)


def test_libraries_of_different_models_are_refused():
    with pytest.raises(UserError, match="do not take the same inputs"):
        compare(byoc.compile(DIGITS), byoc.compile(MODEL))
    with pytest.raises(UserError, match="a model is compared on two targets, got c; write -t c -t acme"):
        compare(DIGITS, targets="c")
    with pytest.raises(UserError, match="the models have no input 'q'"):
        compare(DIGITS, targets=["c", "json"], inputs={"q": np.zeros(1)})


def test_errors_say_how_far_a_tensor_is_off():
    found = errors(np.array([1.0, 2.0, 4.0], "float32"), np.array([1.0, 2.0, 3.0], "float32"))
    assert (found.max_abs, round(found.max_rel, 6)) == (1.0, 0.333333)
    assert round(found.snr_db, 2) == round(10 * np.log10(14), 2)
    assert errors(np.ones(2), np.ones(2)).snr_db == 999
    assert errors(np.array([np.nan]), np.array([1.0])).unlike == "nan at (0,), expected 1.0"
    assert errors(np.zeros((2, 3)), np.zeros(6)).unlike == "shape (2, 3), expected (6,)"
