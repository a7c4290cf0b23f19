"""The option tune from end to end: byoc.compile, the commands, and a second process that has nothing to do."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.cli.main import main
from byoc.codegen.kernel.choice import Choice
from byoc.codegen.tune.database import export_records, import_records
from byoc.codegen.tune.record import Record, Trial
from byoc.errors import UserError

A, B = Choice.of("tile", rows=6), Choice.of("tile", rows=8)


def network():
    """Two convolutions and a product, the bytes of an ONNX model."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (16, 3, 3, 3), "w1": (24, 16, 3, 3), "w2": (24 * 64, 10)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype("float32") / 9, n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, 8, 8]), ("y", [1, 10])))
    graph = helper.make_graph(nodes, "network", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder of its own."""
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def records_file(path, *kernels, level="fast"):
    export_records(path, [Record("c", k, level, B, A, (Trial(A, 2.0, 2.0), Trial(B, 1.0, 1.0))) for k in kernels])
    return path


def test_an_unknown_level_is_a_mistake_of_the_user():
    with pytest.raises(UserError, match="tune is one of none, fast, normal, wide, heavy, got 'much'"):
        byoc.compile(network(), tune="much")


@pytest.mark.needs_cc
def test_without_tuning_no_database_is_made_and_nothing_is_reported(cache):
    library = byoc.compile(network())
    assert "tuning" not in library.report and not (cache / "tune").exists()


def test_records_are_imported_merged_and_exported_from_the_command_line(cache, tmp_path, capsys):
    left, right = records_file(tmp_path / "left", "k1", "k2"), records_file(tmp_path / "right", "k2", level="heavy")
    code, out, _ = run(capsys, "tune", "--merge", left, right, "--export", tmp_path / "both")
    assert code == 0 and "wrote 2 records" in out and not cache.exists()
    assert {(r.kernel, r.level) for r in import_records(tmp_path / "both")} == {("k1", "fast"), ("k2", "heavy")}
    code, out, _ = run(capsys, "tune", "--import", left, "--import", right, "--export", tmp_path / "all", "--json")
    assert code == 0 and json.loads(out) == {"imported": 2, "exported": 2}
    assert (tmp_path / "all").read_bytes() == (tmp_path / "both").read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) - 20],  # the second of two lines is cut off
        lambda data: data.replace(b'"kernel": "k2"', b'"kernel": "k3"'),
        lambda data: data.replace(b"heavy", b"heavz", 1) + b"\xff\x00\n",
    ],
)
def test_damaged_files_are_merged_without_what_is_damaged(tmp_path, capsys, damage):
    whole, damaged = records_file(tmp_path / "whole", "k0"), records_file(tmp_path / "damaged", "k1", "k2")
    damaged.write_bytes(damage(damaged.read_bytes()))
    kept = {r.kernel for r in import_records(damaged)}
    code, _, err = run(capsys, "tune", "--merge", whole, damaged, "--export", tmp_path / "both")
    assert (code, err) == (0, "") and {r.kernel for r in import_records(tmp_path / "both")} == {"k0", *kept}
    assert "k1" in kept and "k3" not in kept


def test_records_go_to_the_database_that_the_command_line_names(cache, tmp_path, capsys):
    left = records_file(tmp_path / "left", "k1")
    code, _, _ = run(capsys, "tune", "--import", left, "--database", tmp_path / "own")
    assert code == 0 and not cache.exists() and len(list((tmp_path / "own").glob("*.jsonl"))) == 1


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--import", "{tmp}/x", "--database", "{tmp}/file"], "this is a file; the database is a folder"),
        (["{tmp}/none.onnx", "--tune-threads", "0"], "threads is a number from 1 on, got 0"),
        ([], "nothing to do: name a model to tune"),
        (["--merge", "{tmp}/none"], "--merge needs --export FILE"),
        (["--import", "{tmp}/none"], "there is no such file of records"),
        (["{tmp}/none.onnx"], "none.onnx"),
    ],
)
def test_mistakes_are_one_sentence(cache, tmp_path, capsys, arguments, sentence):
    (tmp_path / "file").write_text("no folder")
    code, _out, err = run(capsys, "tune", *(a.format(tmp=tmp_path) for a in arguments))
    assert code == 2 and sentence in err and err.count("\n") == 1


def test_a_cache_that_cannot_be_written_is_named_when_records_are_imported(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "file"))
    code, _, err = run(capsys, "tune", "--import", records_file(tmp_path / "records", "k"))
    assert code == 2 and "cannot be written" in err and "BYOC_CACHE_DIR" in err


COMPILE = """
import json, sys
import numpy as np
import byoc
from byoc.codegen.c.toolchain.compiler import CCompiler
from byoc.codegen.tune.trials import TrialRunner

counts = {"compiled": 0, "tried": 0}
compile_one, trials = CCompiler._compile, TrialRunner.trials

def counted_compile(self, *rest):
    counts["compiled"] += 1
    return compile_one(self, *rest)

def counted_trials(self, *rest):
    counts["tried"] += 1
    return trials(self, *rest)

CCompiler._compile, TrialRunner.trials = counted_compile, counted_trials
library = byoc.compile(sys.argv[1], tune=sys.argv[2])
result = library(np.ones((1, 3, 8, 8), "float32"))
values = (result[0] if isinstance(result, (list, tuple)) else result)
print(json.dumps({**counts, "values": np.asarray(values.numpy() if hasattr(values, "numpy") else values).tolist(),
                  "tuned": len(library.report["tuning"]["tuned"]), "known": len(library.report["tuning"]["known"])}))
"""


@pytest.mark.slow
@pytest.mark.needs_cc
def test_a_second_process_tunes_nothing_and_compiles_nothing(tmp_path):
    model = tmp_path / "network.onnx"
    onnx.save(onnx.load_from_string(network()), model)
    environment = {**os.environ, "BYOC_CACHE_DIR": str(tmp_path / "cache")}

    def compiled(level, seed):
        command = [sys.executable, "-c", COMPILE, str(model), level]
        done = subprocess.run(command, capture_output=True, text=True, env={**environment, "PYTHONHASHSEED": seed})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first, second, higher = compiled("fast", "1"), compiled("fast", "2"), compiled("normal", "3")
    assert first["compiled"] > 0 and first["tried"] == first["tuned"] > 0 and first["known"] == 0
    assert (second["compiled"], second["tried"], second["tuned"]) == (0, 0, 0)
    assert 0 < second["known"] <= first["tuned"]  # one choice may make the space for another pointless
    assert second["values"] == first["values"] and np.any(first["values"])
    assert higher["tried"] > 0
    np.testing.assert_allclose(higher["values"], first["values"], rtol=1e-3, atol=1e-4)
