"""int8 for models in float32: what the plan and the report say, errors measured on samples, and the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.errors import InputError, UserError
from byoc.ir.module import IRModule
from byoc.partition.plan.plan import Plan
from byoc.relay.expr import Function
from byoc.runtime import load

pytestmark = pytest.mark.needs_cc


def _const(*shape: int) -> relay.Constant:
    return relay.const(np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32") / 8)


def _module() -> IRModule:
    """A convolution, a residual one, a depthwise one and a dense product."""
    x = relay.var("x", shape=(1, 8, 12, 12))
    first = relay.nn.relu(relay.nn.conv2d(x, _const(16, 8, 3, 3), padding=(1, 1), kernel_size=(3, 3), channels=16))
    second = relay.nn.conv2d(first, _const(16, 16, 1, 1), kernel_size=(1, 1), channels=16)
    third = relay.nn.relu(relay.add(first, second))
    depth = relay.nn.conv2d(third, _const(16, 1, 3, 3), kernel_size=(3, 3), channels=16, groups=16)
    return IRModule.from_expr(Function([x], relay.nn.dense(relay.nn.batch_flatten(depth), _const(40, 1600))))


def _samples(count: int, shape: tuple[int, ...] = (1, 8, 12, 12)) -> list[dict[str, np.ndarray]]:
    return [{"x": np.random.default_rng(k).standard_normal(shape).astype("float32")} for k in range(count)]


def _places(library) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for d in Plan.from_json(library.report["plan"]).decisions:
        if d.precision:
            found.setdefault(d.operator, []).append(d.place)
    return found


DEPTHWISE = "place c/f32: it is depthwise: each sum has too few terms for products of four bytes"


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse", "entropy"])
def test_samples_let_a_model_in_float32_compute_on_bytes(method):
    full = byoc.compile(_module())
    library = byoc.compile(_module(), precision="int8", calibration=byoc.Calibration(_samples(4), method))
    assert _places(library) == {"nn.conv2d": ["place c/int8", "place c/int8", DEPTHWISE], "nn.dense": ["place c/int8"]}
    shown = library.report["quantization"]
    assert (shown["method"], shown["samples"], len(shown["ranges"])) == (method, 4, 3)
    assert [row["code"] for row in shown["left"]] == ["depthwise"]
    lost = whole = 0.0
    for sample in _samples(4):
        want, got = full(sample["x"]).astype("float64"), library(sample["x"])
        lost, whole = lost + np.square(got - want).sum(), whole + np.square(want).sum()
    assert 0 < np.sqrt(lost / whole) < 0.03
    np.testing.assert_allclose(list(shown["errors"].values()), [np.sqrt(lost / whole)], rtol=1e-3)


def test_samples_may_come_one_by_one_and_results_do_not_depend_on_threads(tmp_path):
    library = byoc.compile(_module(), precision="int8", calibration=(s for s in _samples(3)))
    again = byoc.compile(_module(), precision="int8", calibration=_samples(3))
    x = _samples(9)[8]["x"]
    library.save(tmp_path / "m.byoc")
    loaded = load(tmp_path / "m.byoc", threads=2)
    np.testing.assert_array_equal(library(x), again(x))
    np.testing.assert_array_equal(library(x), loaded(x))
    assert loaded.report == library.report


def test_without_samples_dense_products_take_the_ranges_of_their_rows_and_convolutions_say_what_they_lack():
    library = byoc.compile(_module(), precision="int8")
    places = _places(library)
    assert places["nn.dense"] == ["place c/int8"]
    assert all("give samples" in p or "depthwise" in p for p in places["nn.conv2d"])
    x = _samples(1)[0]["x"]
    want, got = byoc.compile(_module())(x), library(x)
    assert 0 < np.linalg.norm(got - want) < 0.03 * np.linalg.norm(want)


def test_first_last_and_named_operators_stay_in_float32():
    how = byoc.Calibration(_samples(2), keep_first=True, keep_last=True)
    places = _places(byoc.compile(_module(), precision="int8", calibration=how))
    kept = "place c/f32: it is the first product and keep_first asks for f32"
    assert sorted(places["nn.conv2d"]) == [DEPTHWISE, kept, "place c/int8"]
    assert places["nn.dense"] == ["place c/f32: it is the last product and keep_last asks for f32"]
    named = byoc.compile(_module(), precision="int8", calibration=_samples(2), keep_f32=["nn.conv2d"])
    assert set(_places(named)["nn.conv2d"]) == {"place c/f32: the user keeps it in f32"}


def test_an_error_above_what_is_allowed_is_an_error():
    with pytest.raises(UserError, match=r"int8 changes output output0 by 0\.0.* more than max_error=0.0001: keep"):
        byoc.compile(_module(), precision="int8", calibration=byoc.Calibration(_samples(2), max_error=1e-4))
    byoc.compile(_module(), precision="int8", calibration=byoc.Calibration(_samples(2), max_error=0.05))


def test_a_value_that_is_not_finite_keeps_its_product_in_float32():
    bad = _samples(2)
    bad[1]["x"][0, 0, 0, 0] = np.inf
    library = byoc.compile(_module(), precision="int8", calibration=bad)
    assert "place c/f32: its input was not finite on a calibration sample" in _places(library)["nn.conv2d"]


def test_what_another_backend_takes_is_left_to_it():
    library = byoc.compile(_module(), ["json", "c"], exclude=["nn.dense"], precision="int8", calibration=_samples(2))
    assert _places(library) == {"nn.dense": ["place c/int8"]}
    assert next(iter(library.report["quantization"]["errors"].values())) < 0.03


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "calibration: there are no samples"),
        ({"x": np.ones(3)}, r"write calibration=\[sample\]"),
        (3, r"^calibration is Calibration \| Iterable.* got 3, a value of type int"),
        ([np.ones(3)], "sample 0 is a ndarray, expected a mapping"),
    ],
    ids=str,
)
def test_samples_that_are_none_are_refused(given, message):
    with pytest.raises(UserError, match=message):
        byoc.compile(_module(), precision="int8", calibration=given)


def test_samples_that_do_not_fit_the_inputs_name_the_input():
    with pytest.raises(InputError, match="no input 'y'"):
        byoc.compile(_module(), precision="int8", calibration=[{"y": np.ones((1, 8, 12, 12), "float32")}])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "kl"}, "method is one of minmax"),
        ({"percentile": 10.0}, "percentile is above 50"),
        ({"max_error": -1.0}, "max_error is above 0"),
        ({"samples": None, "max_error": 0.1}, "give samples"),
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        byoc.Calibration(**{"samples": [], **options})


def test_a_calibration_is_for_int8_and_fp16():
    with pytest.raises(UserError, match=r'calibration is for precision="int8" and "fp16", got precision=\'bf16\''):
        byoc.compile(_module(), precision="bf16", calibration=_samples(1))


@pytest.fixture
def convolution_onnx(tmp_path):
    """A model of one convolution, input ``x``."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    weight = onnx.numpy_helper.from_array(_const(16, 8, 3, 3).data.numpy(), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="image")],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 12, 12])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 16, 10, 10])],
        [weight],
    )
    path = tmp_path / "convolution.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize("kind", ["folder", "stacked", "one"])
def test_the_command_line_reads_samples_from_files(convolution_onnx, tmp_path, capsys, kind):
    place = tmp_path / ("samples.npz" if kind != "folder" else "samples")
    if kind == "folder":
        place.mkdir()
        np.savez(place / "a.npz", **_samples(1)[0])
        np.save(place / "b.npy", _samples(2)[1]["x"])
        (place / "notes.txt").write_text("no sample")
    else:
        np.savez(place, x=np.stack([s["x"] for s in _samples(3)]) if kind == "stacked" else _samples(1)[0]["x"])
    out = tmp_path / "m.byoc"
    command = ["compile", str(convolution_onnx), "-o", str(out), "--precision", "int8", "--calibrate", str(place)]
    assert main([*command, "--calibration-method", "mse"]) == 0
    text = capsys.readouterr().out
    assert "place c/int8" in text and "difference of int8 from f32" in text
    assert main([*command, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["quantization"]
    assert shown["samples"] == {"folder": 2, "stacked": 3, "one": 1}[kind] and shown["errors"]["y"] < 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--precision", "int8", "--calibrate", "nowhere"], "expected a folder or a .npz file"),
        (["--precision", "int8", "--calibrate", "."], "holds no .npz or .npy file"),
        (["--precision", "bf16", "--calibrate", "."], "--calibrate is for --precision int8 and fp16"),
        (["--precision", "int8", "--keep-first"], "--keep-first is for samples"),
        (["--precision", "int8", "--calibrate", "bad.npz"], "bad.npz: cannot be read"),
        (["--precision", "int8", "--calibrate", "uneven.npz"], "the first axis counts the samples"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_the_command_line_refuses_what_is_no_sample(
    convolution_onnx, tmp_path_factory, capsys, monkeypatch, options, message
):
    folder = tmp_path_factory.mktemp("empty")
    monkeypatch.chdir(folder)
    if "bad.npz" in options:
        (folder / "bad.npz").write_bytes(b"PK no zip")
    if "uneven.npz" in options:
        np.savez(folder / "uneven.npz", x=np.zeros((2, 1, 8, 12, 12), "float32"), other=np.zeros(3))
    assert main(["compile", str(convolution_onnx), *options]) != 0
    assert message in capsys.readouterr().err
