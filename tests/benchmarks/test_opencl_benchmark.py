"""The benchmark of OpenCL code: what names mean, what is said of figures, and runs over models that hold or fail."""

import json
import pathlib
import subprocess
import sys

import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch):
    """``bench("opencl.run")`` is the module of that name in the package of benchmarks."""
    import importlib

    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def timed(seconds):
    return {"median": seconds, "lower": seconds, "upper": seconds}


def result_of(bench, seconds, failures=()):
    """A result with the seconds of engines by name, where ``byoc without copies`` is one of byoc."""
    engines = dict.fromkeys(name.split()[0] for name in seconds)
    found = {
        "timings": {name: timed(s) for name, s in seconds.items()},
        "differences": dict.fromkeys(engines, 0.0),
        "engines": {name: {"seconds": {"load": 0.5, "first_run": 0.25}} for name in engines},
        "compile_seconds": 3.0,
        "first_run_seconds": 1.0,
    }
    ours = {"launches": 7, "regions": 1, "kernel_seconds": 0.002, "host_functions": 0, "fallbacks": []}
    found["engines"].get("byoc", {}).update(ours)
    return bench("opencl.run").Result("net", "f32", found, dict(failures))


def test_the_ratio_is_to_the_fastest_peer_with_copies_and_without(bench):
    seconds = {
        "byoc": 0.004,
        "eager": 0.008,
        "graph": 0.002,
        "byoc without copies": 0.001,
        "eager without copies": 0.003,
    }
    result = result_of(bench, seconds, {"compile": "it fell over"})
    assert result.best() == ("graph", 0.002) and result.ratio() == pytest.approx(0.5)
    assert result.best(" without copies") == ("eager", 0.003) and result.ratio(" without copies") == pytest.approx(3.0)
    text = "\n".join(bench("opencl.run").lines(result))
    assert "from numpy to numpy 0.50 times the speed of the best peer, graph" in text
    assert "7 launches in 1 regions" in text and "compile: it fell over" in text
    row = bench("opencl.run").summary([result])[-1]
    assert row == "| net | f32 | 4.000 | 2.000 (graph) | 0.50 | 1.000 / 3.000 (eager) | 3.00 | 7 |"


def test_a_model_without_our_figure_has_a_row_without_ratios(bench):
    result = result_of(bench, {"c": 0.004}, {"byoc": "the driver refused"})
    assert result.ratio() is None
    assert bench("opencl.run").summary([result])[-1] == "| net | f32 | - | 4.000 (c) | - | - / - | - | - |"
    assert "  byoc: the driver refused" in bench("opencl.run").lines(result)


def test_a_call_with_a_clock_of_its_own_is_asked_for_its_seconds(bench):
    rounds = bench("rounds")
    asked = iter([5.0, 5.0, 5.0, 1.0, 2.0, 3.0])  # a turn that counts calls, then two of one call that counts
    found = rounds.interleave(
        {"device": rounds.OwnClock(lambda: next(asked))}, rounds.Schedule(2, 1.0, 0.0), pause=lambda seconds: None
    )
    assert found["device"].turns == (1.0, 3.0)


def test_products_are_made_without_pytorch(bench, tmp_path):
    cases = bench("opencl.device_cases")
    case = cases.case_of("product48")
    assert case.size == 48 and case.has_module
    model = onnx.load(cases.onnx_file(case, None, tmp_path))
    assert [i.type.tensor_type.shape.dim[0].dim_value for i in model.graph.input] == [48, 48]


def test_a_file_of_the_user_stands_before_what_would_be_made(bench, tmp_path):
    cases = bench("opencl.device_cases")
    (tmp_path / "product48.onnx").write_bytes(b"mine")
    assert cases.onnx_file(cases.case_of("product48"), tmp_path, tmp_path / "other") == tmp_path / "product48.onnx"
    with pytest.raises(cases.Absent, match="nobody.onnx"):
        cases.onnx_file(cases.case_of("nobody"), tmp_path, tmp_path)


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.opencl", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)


def write_softmax(path):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 100]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "rows", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.mark.needs_opencl
@pytest.mark.needs_cc
@pytest.mark.slow
def test_models_are_checked_and_timed_and_one_that_fails_does_not_stop_the_others(tmp_path):
    pytest.importorskip("onnxruntime", reason="the benchmark's reference: byoc-compiler[bench]")
    write_softmax(tmp_path / "rows.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    quick = ("--models", tmp_path, "--rounds", 1, "--turn-seconds", 0.01, "--json", tmp_path / "out.json")
    done = run("--only", "broken,rows", "--peers", "c,graph", "--profile", *quick)
    assert done.returncode == 1, done.stdout + done.stderr
    broken, rows = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert broken["failures"]["model"] and "broken in f32:\n  model: " in done.stdout
    assert set(rows["timings"]) == {"byoc", "byoc without copies", "c"} and rows["differences"]["byoc"] < 1e-4
    assert rows["engines"]["byoc"]["launches"] >= 1 and rows["ratio_to_best"]["numpy_to_numpy"] > 0
    assert rows["failures"] == {"graph": rows["failures"]["graph"]} and "by kernel" in done.stdout


@pytest.mark.needs_opencl
def test_a_model_that_takes_too_long_is_ended_with_what_it_was_doing(tmp_path):
    write_softmax(tmp_path / "rows.onnx")
    done = run("--models", tmp_path, "--only", "rows", "--peers", "c", "--rounds", 1, "--seconds", 0.05)
    assert done.returncode == 1 and "model: took more than 0.05 s while starting" in done.stdout, done.stdout


@pytest.mark.needs_opencl
def test_a_device_that_is_not_there_ends_the_run_with_a_sentence():
    done = run("--device", "nonesuch")
    assert done.returncode == 1 and "there is nothing to measure on" in done.stderr and "nonesuch" in done.stderr


@pytest.mark.needs_opencl
def test_a_second_process_of_the_start_benchmark_builds_nothing(tmp_path):
    words = [sys.executable, "-m", "benchmarks.opencl.start", "--convolutions", "3", "--rounds", "1"]
    done = subprocess.run(
        [*words, "--json", str(tmp_path / "start.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads((tmp_path / "start.json").read_text())
    (first,), (second,) = shown["first"], shown["second"]
    assert first["from_source"] > 0 and (second["from_source"], second["from_cache"]) == (0, first["from_source"])
    assert first["sum"] == second["sum"] and shown["ratio"] > 0
