"""Bisection names the operator that is planted, whichever backend, type and process it is wrong in."""

import json
import pathlib

import numpy as np
import onnx.parser
import pytest

from byoc.cli.main import main
from byoc.debug import bisect, replay, workbench
from byoc.debug.onnx_runtime import model_outputs
from byoc.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
SHARED = ROOT.parent / "shared" / "models"

STRIDED = onnx.parser.parse_model(
    """<ir_version: 9, opset_import: ["" : 17]>
    g (float[1, 3, 8, 8] x) => (float[1, 4, 3, 3] y)
    <float[4, 3, 3, 3] w = {W}, float[4, 4, 3, 3] v = {V}> {
        [first] a = Conv<pads = [1, 1, 1, 1]>(x, w)
        [second] b = Relu(a)
        [third] c = Conv<strides = [2, 2]>(b, v)
        [fourth] y = Tanh(c)
    }""".replace("W", ", ".join(str(0.01 * (k % 17)) for k in range(108))).replace(
        "V", ", ".join(str(0.01 * (k % 13)) for k in range(144))
    )
)
QUANTIZED = onnx.parser.parse_model(
    """<ir_version: 9, opset_import: ["" : 17]>
    g (uint8[1, 2, 6, 6] x) => (uint8[1, 2, 4, 4] y)
    <float s = {0.02}, uint8 z = {3}, float ws = {0.01}, int8 wz = {0}, int8[2, 2, 3, 3] w = {W}> {
        [quantized] y = QLinearConv(x, s, z, w, ws, wz, s, z)
    }""".replace("W", ", ".join(str(k % 7 - 3) for k in range(36)))
)


def test_a_model_without_mistakes_is_right():
    found = bisect(DIGITS, ["json", "c"])
    assert found.ok and found.part is None and len(found.steps) == 1
    assert "right, " in str(found)


TWO_REGIONS = onnx.parser.parse_model(
    """<ir_version: 9, opset_import: ["" : 17]>
    g (float[2, 4] x) => (float[2, 4] y) {
        [first] a = Relu(x)
        [host] b = Exp(a)
        [second] c = Tanh(b)
        [third] d = Relu(c)
        [last] y = Exp(d)
    }"""
)


@pytest.mark.parametrize("saved", [False, True])
def test_a_region_that_another_disturbs_is_named_although_each_is_right_alone(backend_with, saved):
    name = backend_with("shared")
    found = bisect(TWO_REGIONS, [name, "c"], saved=saved)
    assert not found.ok and found.part is None and all(step.is_right for step in found.steps)
    assert found.disturbed.nodes == ("first",) and found.disturbed.target == name
    assert "in the whole model the first that leaves it is region" in str(found) and "a global" in str(found)


def test_an_operator_that_raises_in_a_region_of_several_is_named(backend_with, tmp_path):
    found = bisect(TWO_REGIONS, [backend_with("raises"), "c"], case=tmp_path / "case")
    assert "RuntimeError: the queue is full" in found.whole.problem and found.part.nodes == ("second", "third")
    assert (found.operator.name, found.operator.nodes) == ("tanh", ("second",))
    assert "the queue is full" in found.operator.problem and "tanh" in found.text


@pytest.mark.needs_cc
def test_the_hosts_groups_are_parts_too(new_processes):
    found = bisect(DIGITS, ["c"])
    assert found.ok and {s.kind for s in found.steps} == {"host's group"} and len(found.steps) > 5
    assert ("node_Conv_26", "node_relu") in [s.nodes for s in found.steps]


def test_the_operator_is_named_with_its_node_and_replays(backend_with, tmp_path):
    name = backend_with("stride")
    found = bisect(STRIDED, [name, "c"], case=tmp_path / "case")
    assert not found.ok and found.operator.nodes == ("third",) and found.operator.name == "nn.conv2d"
    assert "strides=[2, 2]" in found.text and "off by 0.5" in found.operator.problem
    step = replay(found.case, name)
    assert not step.is_right and step.nodes == ("third",)
    assert replay(found.case, "json").is_right


def test_an_operator_in_the_digit_classifier_is_named(backend_with):
    found = bisect(DIGITS, [backend_with("saved"), "c"], saved=True)
    assert not found.ok and found.operator.nodes == ("node_Conv_26",)


@pytest.mark.skipif(not (SHARED / "face_rfb_320.onnx").exists(), reason="the shared models are not here")
def test_the_operator_in_a_shared_model_is_named(backend_with):
    found = bisect(SHARED / "face_rfb_320.onnx", [backend_with("stride"), "c"])
    assert found.operator.name == "nn.conv2d" and "Conv_0" in found.operator.nodes and "strides=[2, 2]" in found.text


def test_operators_that_are_wrong_only_together_are_named_together(backend_with):
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
        g (float[2, 3] x, float[2, 3] z) => (float[2, 3] y) {
            [a] t = Tanh(x)
            [b] s = Add(t, z)
            [c] r = Relu(s)
            [d] y = Tanh(r)
        }""")
    found = bisect(model, [backend_with("pair"), "c"])
    assert found.operator.kind == "operators together"
    assert found.operator.name == "add + nn.relu" and "off by 1" in found.operator.problem


def test_what_differs_only_when_it_is_saved_is_found_only_then(backend_with):
    name = backend_with("saved")
    assert bisect(STRIDED, [name, "c"]).ok
    found = bisect(STRIDED, [name, "c"], saved=True)
    assert not found.ok and found.operator.nodes == ("first",)


def test_quantized_models_are_judged_by_noise(backend_with):
    inputs = {"x": np.random.default_rng(1).integers(0, 256, (1, 2, 6, 6)).astype("uint8")}
    found = bisect(QUANTIZED, [backend_with("quantized"), "c"], inputs=inputs)
    assert found.operator.name.endswith("conv2d") and found.operator.nodes == ("quantized",)
    assert "dB" in found.operator.problem
    assert bisect(QUANTIZED, ["json", "c"], inputs=inputs).ok


def test_another_backend_or_onnx_runtime_is_the_reference(backend_with):
    name = backend_with("stride")
    assert bisect(STRIDED, ["json", "c"], reference=name).part is not None
    pytest.importorskip("onnxruntime")
    assert bisect(STRIDED, ["json", "c"], reference="onnxruntime").ok
    assert not bisect(STRIDED, [name, "c"], reference="onnxruntime").ok


def test_the_parts_are_held_to_onnx_runtime_where_it_is_the_reference(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("byoc.debug.bisection.outputs_of", None)  # of the interpreter, for one part
    found = bisect(STRIDED, ["json", "c"], reference="onnxruntime")
    assert found.ok and [s.kind for s in found.steps] == ["region"] and not found.notes


def test_what_onnx_cannot_say_is_held_to_the_interpreter_and_reported():
    pytest.importorskip("onnxruntime")
    found = bisect(QUANTIZED, ["json", "c"], reference="onnxruntime")
    assert found.ok and any("is held to the interpreter: " in note for note in found.notes), found.notes


POINTWISE = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
    g (float[4] x) => (float[4] y) { [first] r = Relu(x) [second] y = Tanh(r) }""")


def test_the_first_sample_that_shows_a_mistake_is_reported(backend_with, tmp_path, capsys):
    name, model, folder = backend_with("positive"), tmp_path / "m.onnx", tmp_path / "samples"
    onnx.save(POINTWISE, model)
    folder.mkdir()
    for k, value in enumerate((-1, -2, 3, 4)):
        np.savez(folder / f"{k}.npz", x=np.full(4, value, "float32"))
    assert main(["bisect", str(model), "-t", f"{name},c", "--samples", str(folder), "--json"]) == 2
    shown = json.loads(capsys.readouterr().out)
    assert (shown["sample"], shown["samples"], shown["operator"]["nodes"]) == (2, 4, ["first"])
    assert shown["inputs"] == ["x0 = float32[4] [3.0, 3.0, 3.0, 3.0]"]
    found = bisect(POINTWISE, [name, "c"], samples=[{"x": np.full(4, -1, "float32")}] * 2)
    assert found.ok and (found.sample, found.samples) == (0, 2) and "sample 1 of 2, the one with" in str(found)


BRANCHES = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
    g (float[4] x) => (float[4] y) {
        [first] r = Relu(x) [second] t = Tanh(x) [third] y = Add(r, t)
    }""")


@pytest.mark.parametrize("saved", [False, True])
def test_an_operator_that_writes_to_its_input_is_named_whatever_it_computes(backend_with, tmp_path, saved):
    """Its own result is right; what it disturbs is another's, or the reference's own arrays."""
    name, x = backend_with("writes"), np.float32([-1, 2, -3, 4])
    given = x.copy()
    found = bisect(BRANCHES, [name, "c"], inputs={"x": given}, saved=saved, case=tmp_path / "case")
    wrote = "it breaks its contract: it wrote to its input 0 "
    assert not found.ok and found.part.problem.startswith(wrote), str(found)
    assert found.operator.name == "nn.relu" and found.operator.nodes == ("first",)
    assert found.operator.problem.startswith(wrote) and found.operator.kind == "operator"
    assert found.inputs == ("x0 = float32[4] [-1.0, 2.0, -3.0, 4.0]",) and given.tolist() == x.tolist()
    step = replay(found.case, name)
    assert step.problem.startswith(wrote) and replay(found.case, "json").is_right


def test_what_onnx_runtime_cannot_run_is_said():
    pytest.importorskip("onnxruntime")
    with pytest.raises(UserError, match="ONNX Runtime does not run the model"):
        model_outputs(b"no model", {}, [])


def test_a_wrong_reference_input_and_target_are_refused():
    with pytest.raises(UserError, match="no backend is called 'nobody'"):
        bisect(STRIDED, ["json", "c"], reference="nobody")
    with pytest.raises(UserError, match="the model has no input 'q'; its inputs are x"):
        bisect(STRIDED, ["json", "c"], inputs={"q": np.zeros(1)})


DEADLY = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[2, 3] x, float[2, 3] z) => (float[2, 3] y) {
        [sum] s = Add(x, z)
        [deadly] d = OPERATOR(s)
        [last] y = Add(d, z)
    }"""


@pytest.mark.parametrize(
    "operator, text, seconds",
    [
        ("Softmax", "running it: its process crashed with SIGSEGV (planted.py:", 60),
        ("Relu", "running it: its process ended itself with the exit code 3", 60),
        pytest.param("Tanh", "running it: no end after 3 s (planted.py:", 3, marks=pytest.mark.slow),
    ],
)
def test_an_operator_that_ends_its_process_is_named_and_replays(
    backend_with, monkeypatch, tmp_path, operator, text, seconds, capsys
):
    monkeypatch.setattr(workbench, "MODEL_PATIENCE", 1.0)
    name, path, case = backend_with("crash"), tmp_path / "m.onnx", str(tmp_path / "case.npz")
    onnx.save(onnx.parser.parse_model(DEADLY.replace("OPERATOR", operator)), path)
    words = ["-t", f"{name},c", "--case", case, "--part-time", str(seconds)]
    assert main(["bisect", str(path), *words]) == 2
    shown = capsys.readouterr().out
    assert "operator: operator " in shown and "(nodes deadly): " + text in shown, shown
    assert main(["bisect", "--replay", case, "-t", name, "--part-time", str(seconds)]) == 2
    assert text in capsys.readouterr().out
    assert replay(case, "json").is_right


def test_a_verdict_that_ends_its_process_is_a_sentence(backend_with):
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        g (float[4] x) => (float[2] y, float[2] z) { [halves] y, z = Split<axis = 0, num_outputs = 2>(x) }""".replace(
            "17", "18"
        )
    )
    with pytest.raises(UserError, match=r"planning the model ends its process, .*crashed with SIGSEGV \(planted.py:"):
        bisect(model, [backend_with("crash"), "c"])


def test_a_tolerance_says_what_is_wrong(backend_with):
    name = backend_with("stride")
    assert bisect(STRIDED, [name, "c"], tolerance={"float32": 1e3}).ok
    assert not bisect(STRIDED, [name, "c"], snr=60).ok


def test_the_command_bisects_and_replays(backend_with, tmp_path, capsys):
    name, model, case = backend_with("stride"), tmp_path / "m.onnx", tmp_path / "case.npz"
    onnx.save(STRIDED, model)
    assert main(["bisect", str(model), "-t", f"{name},c", "--case", str(case)]) == 2
    assert "operator: operator nn.conv2d on planted_stride (nodes third)" in capsys.readouterr().out
    assert main(["bisect", "--replay", str(case), "-t", name]) == 2
    assert main(["bisect", "--replay", str(case), "-t", "json", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert shown["ok"] and shown["target"] == "json"
    assert main(["bisect"]) == 2 and "give an ONNX model, or --replay and a case" in capsys.readouterr().err
