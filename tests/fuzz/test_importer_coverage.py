"""Coverage-guided fuzzing of the importer: its mutations, its parent process, and a few hundred inputs of it."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto, helper

from fuzz.importer import coverage as importer_coverage
from fuzz.importer import run as importer
from fuzz.importer.coverage import fuzz_by_coverage
from fuzz.importer.guided import mutate_a_field, mutator
from fuzz.importer.mutations import mutated


def tiny(op: str = "Relu") -> bytes:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], axis=1)], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def reversed_bytes(data: bytes, most: int) -> bytes:
    return data[::-1][:most]


@pytest.mark.parametrize("seed", range(20))
def test_a_mutated_field_leaves_a_model_that_protobuf_reads(seed: int) -> None:
    model = ModelProto.FromString(tiny())
    mutate_a_field(random.Random(seed), model, reversed_bytes)
    assert ModelProto.FromString(model.SerializeToString()) == model


def test_the_mutator_mixes_models_fields_and_bytes_and_keeps_to_the_length() -> None:
    data, asked = tiny(), []

    def mutate(given: bytes, most: int) -> bytes:
        asked.append(given)
        return given[:most]

    made = [mutator([tiny("Softmax")], mutate)(data, 400, seed) for seed in range(300)]
    assert max(map(len, made)) <= 400
    assert len(set(made)) > 100  # by structure
    assert data in asked and any(len(given) < len(data) / 2 for given in asked)


def test_bytes_that_are_no_model_are_mutated_as_bytes() -> None:
    broken = b"\xff" * 9
    assert all(len(mutator([tiny()], reversed_bytes)(broken, 50, seed)) <= 50 for seed in range(50))


def starter(*scripts: str):
    """Processes that run *scripts*, one after another, as the fuzzer's; ``report(…)`` writes a line of them."""
    left = list(scripts)
    prelude = (
        "import json, os, signal, sys, time\nfrom pathlib import Path\n"
        "pipe, folder = int(sys.argv[1]), Path(sys.argv[2])\n"
        "def report(*line): os.write(pipe, json.dumps(line).encode() + b'\\n')\n"
        "def read(data): (folder / 'current').write_bytes(data)\n"
    )

    def start(report: int, folder: Path, inputs: int, seconds: int) -> subprocess.Popen:
        command = [sys.executable, "-c", prelude + left.pop(0), str(report), str(folder)]
        return subprocess.Popen(command, pass_fds=[report])

    return start


def test_a_process_that_dies_is_a_finding_and_the_next_one_goes_on_without_that_input(tmp_path: Path, capsys) -> None:
    dies = "read(b'good'); report('read', '', ''); read(b'bad'); os.kill(os.getpid(), signal.SIGSEGV)"
    goes_on = "assert not (folder / 'seeds' / '00001.onnx').exists(); report('refused', '', '')"
    run = fuzz_by_coverage(3, 0, 60, tmp_path, [b"good", b"bad"], starter(dies, goes_on))
    assert run.counts == {"read": 1, "killed by signal 11": 1, "refused": 1}
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"bad"]
    assert re.search(r"input 1: killed by signal 11: .*\n  kept as ", capsys.readouterr().out)


def test_a_process_that_says_nothing_is_a_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer_coverage, "SECONDS", 0.2)
    run = fuzz_by_coverage(2, 0, 60, tmp_path, [], starter("report('read', '', ''); read(b'slow'); time.sleep(100)"))
    assert run.counts == {"read": 1, "hang": 1}
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"slow"]


def test_a_foreign_error_is_kept_once_for_each_place(tmp_path: Path) -> None:
    line = "report('foreign error', 'KeyError at x.py:7', 'k', b'in'.hex())"
    run = fuzz_by_coverage(2, 0, 60, tmp_path, [], starter(f"{line}; {line}"))
    assert run.counts == {"foreign error": 2}
    assert list(run.findings) == ["KeyError at x.py:7"]
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"in"]


def test_a_process_that_cannot_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="read nothing"):
        fuzz_by_coverage(2, 0, 60, None, [], starter("sys.exit(1)"))


def test_without_atheris_the_engine_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(importer_coverage, "is_missing", lambda: True)
    assert importer.main(["--engine", "atheris"]) == 2
    assert capsys.readouterr().err == importer_coverage.MISSING + "\n"


@pytest.mark.skipif(importer_coverage.is_missing(), reason="atheris is not installed (extra fuzz)")
def test_a_few_hundred_inputs_chosen_by_coverage_are_read_or_refused(tmp_path: Path) -> None:
    rng = random.Random(3)
    seeds = [tiny(), tiny("Softmax"), mutated(rng, tiny(), tiny("Softmax"))]
    run = fuzz_by_coverage(300, 3, 120, tmp_path, seeds)
    assert run.findings == {}
    assert set(run.counts) == {"read", "refused"}
    assert sum(run.counts.values()) >= 300
    assert run.branches > 200
