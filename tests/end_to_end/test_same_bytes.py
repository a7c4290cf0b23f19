"""The same model gives the same plan and the same bytes under any PYTHONHASHSEED, folder and cache."""

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest

from byoc.runtime.artefact.artifact import read_artifact

ROOT = pathlib.Path(__file__).parents[2]
MODELS = ROOT.parent / "shared" / "models"
COMPILE = """
import sys
import byoc
from byoc.partition.plan.plan import Plan

exclude = {"opencl": ["nn.softmax", "nn.relu"], "json": ["nn.softmax"]}
library = byoc.compile(sys.argv[1], targets=["opencl", "json", "c"], exclude=exclude)
library.save(sys.argv[2])
print(Plan.from_json(library.report["plan"]))
print(library.module.tree())
"""


def compile_under(seed, model, folder):
    """The printed plan and the artefact, compiled by a process of its own with nothing cached."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": seed, "BYOC_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", COMPILE, str(model), str(folder / "m.byoc")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, folder / "m.byoc"


def hashes(path):
    return {name: hashlib.sha256(data).hexdigest() for name, data in read_artifact(path).members.items()}


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(ROOT / "examples" / "digits" / "digits.onnx", id="digits"),
        pytest.param(MODELS / "face_rfb_320.onnx", id="face_rfb_320", marks=pytest.mark.slow),
    ],
)
def test_two_hash_seeds_give_the_same_plan_and_the_same_bytes(model, tmp_path):
    if not model.is_file():
        pytest.skip(f"{model} is absent")
    first_plan, first = compile_under("1", model, tmp_path / "one")
    second_plan, second = compile_under("271828", model, tmp_path / "another-folder")
    assert first_plan == second_plan
    assert all(kind in first_plan for kind in ("opencl: tvmgen", "json: tvmgen", "c: tvmgen"))
    assert hashes(first) == hashes(second)
    assert first.read_bytes() == second.read_bytes()
