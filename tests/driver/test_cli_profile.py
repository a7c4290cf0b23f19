"""``byoc profile``, and the spread of ``byoc run --repeat``."""

import json
import pathlib

import numpy as np
import onnx
import onnx.parser
import pytest

import byoc
from byoc.cli.main import main
from byoc.cli.profile_command import read_profile
from byoc.cli.report.run_times import spread_ms

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
pytestmark = pytest.mark.needs_cc


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_model_is_compiled_profiled_and_written_in_every_form(capsys, tmp_path):
    files = [tmp_path / name for name in ("p.json", "p.trace.json", "p.html")]
    outputs = [word for file in files for word in ("-o", file)]
    code, out, err = run(capsys, "profile", DIGITS, "-t", "json,c", "--repeat", "2", "--by", "node", *outputs)
    assert (code, err) == (0, "")
    assert out.startswith("digits: ") and "by node" in out and "node_Conv_26" in out
    assert "reading the model" in out and "InferType" in out
    assert json.loads(files[0].read_text())["model"] == "digits"
    events = json.loads(files[1].read_text())["traceEvents"]
    assert "reading the model" in {event["name"] for event in events}
    assert files[2].read_text().startswith("<!DOCTYPE html>")
    code, out, err = run(capsys, "profile", DIGITS, "--repeat", "1", "--compare", files[0])
    assert (code, err) == (0, "") and "digits by kernel, median: " in out


def test_an_artefact_is_profiled_on_given_inputs(capsys, tmp_path):
    path = byoc.compile(DIGITS, targets=["json", "c"]).save(tmp_path / "m.byoc")
    np.save(tmp_path / "x.npy", np.zeros((3, 1, 8, 8), "float32"))
    code, out, _ = run(capsys, "profile", path, "-i", tmp_path / "x.npy", "--repeat", "1", "--by", "region", "--json")
    data = json.loads(out)
    assert code == 0 and data["memory"]["inputs"] == 3 * 64 * 4
    assert {row["name"] for row in data["rows"]} == {"tvmgen_default_json_main_0"}
    assert {"min_ms", "median_ms", "max_ms", "last_ms", "gflops", "of_peak", "memory"} < set(data["rows"][0])
    sized = json.loads(run(capsys, "profile", path, "--size", "batch=5", "--repeat", "1", "--json")[1])
    assert sized["memory"]["inputs"] == 5 * 64 * 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-o", "p.txt"], "a profile is written as .trace.json, .json, .html"),
        (["--compare", "nowhere.json"], "nowhere.json: the profile cannot be read"),
        (["--repeat", "0"], "repeat is a whole number from 1 on, got 0"),
        (["--trusted", "key.pem"], "--trusted is for artefacts"),
        (["--size", "n=2"], "the free dimensions of the inputs are batch"),
    ],
)
def test_mistakes_are_reported_in_a_sentence(capsys, options, words):
    code, _, err = run(capsys, "profile", DIGITS, *options)
    assert code == 2 and words in err


def test_another_file_is_no_profile(capsys, tmp_path):
    (tmp_path / "p.json").write_text("{}")
    code, _, err = run(capsys, "profile", DIGITS, "--compare", tmp_path / "p.json")
    assert code == 2 and "p.json: this is no profile of byoc" in err and "write one with byoc profile -o" in err


def test_the_spread_of_runs_has_its_definitions():
    spread = spread_ms([k / 1e3 for k in range(1, 11)])
    assert spread == pytest.approx({"min": 1, "median": 5.5, "max": 10, "p90": 9 + 1, "stdev": 8.25**0.5})
    assert spread_ms([0.004])["p90"] == pytest.approx(4)


def test_run_reports_the_spread(capsys):
    code, out, _ = run(capsys, "run", DIGITS, "--random", "--repeat", "3", "--json")
    data = json.loads(out)
    assert code == 0 and data["min_ms"] <= data["median_ms"] <= data["p90_ms"] <= data["max_ms"]
    assert data["open_ms"] > 0 and data["stdev_ms"] >= 0
    assert "median of 2 after it" in run(capsys, "run", DIGITS, "--random", "--repeat", "2")[1]


CONTROL_FLOW = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[N, 3] x, bool c) => (float[N, 3] y) <float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
        [product] z = MatMul(x, w)
        y = If(c) <then_branch = a () => (float[N, 3] p) { [taken] p = Relu(z) },
                   else_branch = b () => (float[N, 3] q) { [other] q = Tanh(z) }>
    }"""


def test_a_model_with_control_flow_and_free_sizes_is_profiled_by_the_virtual_machine(tmp_path, capsys):
    model, path = tmp_path / "m.onnx", tmp_path / "p.json"
    onnx.save(onnx.parser.parse_model(CONTROL_FLOW), model)
    np.save(tmp_path / "c.npy", np.array(False))
    words = ["profile", str(model), "-t", "json,c", "--vm", "-i", f"c={tmp_path / 'c.npy'}", "--repeat", "2"]
    assert main([*words, "--size", "N=4", "--by", "node", "-o", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "by the virtual machine, median of 2 runs" in shown and "product" in shown and "other" in shown
    assert "taken" not in shown
    profile = read_profile(path)
    assert [name for name, _ in profile.compiling.stages][:2] == ["reading the model", "planning"]
    assert main(["profile", str(model), "-t", "json,c", "--size", "N=4"]) == 0
    assert "control" in capsys.readouterr().out  # a function that the machine runs, and the graph calls
    for more, text in (
        (["--size", "M=4"], "--size M=4: the free dimensions are N"),
        (["-i", f"d={tmp_path / 'c.npy'}"], "the model has no input 'd'; its inputs are x, c"),
        (["--threads", "2"], "--threads is for a whole program"),
    ):
        assert main([*words, *more]) == 2 and text in capsys.readouterr().err
    (tmp_path / "a.byoc").write_bytes(b"no model")
    assert main(["profile", str(tmp_path / "a.byoc"), "--vm"]) == 2 and "not a byoc artefact" in capsys.readouterr().err
