"""Trained models against ONNX Runtime: host, OpenCL, JSON, all three; in process and from the saved artefact."""

import itertools
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import byoc

pytestmark = pytest.mark.optimized

MODELS = pathlib.Path(__file__).parents[3] / "shared" / "models"
TOLERANCE = 1e-4  # of the output's range
INPUTS = {
    "mnist": ("Input3", (1, 1, 28, 28), 0, 255),
    "face_rfb_320": ("input", (1, 3, 240, 320), -1, 1),
    "style_candy": ("inputImage", (1, 3, 720, 720), 0, 255),
}
TARGETS = {
    "host": ["c"],
    "c regions": ["c", "host"],
    "opencl": ["opencl", "c"],
    "json": ["json", "c"],
    "all": ["opencl", "json", "c"],
}
# with all three, OpenCL leaves something to JSON and JSON to the host
SHARE = {
    "mnist": {"opencl": ["nn.max_pool2d", "nn.dense"], "json": ["nn.dense"]},
    "face_rfb_320": {"opencl": ["concatenate", "nn.softmax", "reshape", "transpose"], "json": ["nn.softmax"]},
    "style_candy": {"opencl": ["nn.instance_norm", "strided_slice", "nn.pad"], "json": ["nn.instance_norm"]},
}
LOAD = """
import sys, json
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
data = np.load(sys.argv[2])
np.savez(sys.argv[3], *library.run({sys.argv[4]: data}))
print(json.dumps([m for m in sys.modules if m.startswith(("byoc.relay", "byoc.ir", "byoc.codegen", "onnx"))]))
"""


@pytest.fixture(scope="session")
def oracle():
    """Input and ONNX Runtime's outputs by model, each computed once."""
    found = {}

    def compute(name):
        if name not in found:
            key, shape, low, high = INPUTS[name]
            data = np.random.default_rng(0).uniform(low, high, shape).astype("float32")
            quiet = onnxruntime.SessionOptions()
            quiet.log_severity_level = 3
            session = onnxruntime.InferenceSession(MODELS / f"{name}.onnx", quiet, providers=["CPUExecutionProvider"])
            found[name] = (data, session.run(None, {key: data}))
        return found[name]

    return compute


def assert_close(outputs, expected):
    assert len(outputs) == len(expected)
    for got, want in zip(outputs, expected, strict=True):
        assert got.shape == want.shape
        assert np.abs(got - want).max() < TOLERANCE * max(want.max() - want.min(), 1e-30)


SLOW = {(name, targets) for name, targets in itertools.product(INPUTS, TARGETS) if name == "style_candy"}
SLOW |= {("face_rfb_320", k) for k in ("host", "opencl", "c regions")}  # "all" has the host, OpenCL and C too
CASES = [
    pytest.param(name, targets, marks=[pytest.mark.slow] if (name, targets) in SLOW else [])
    for name, targets in itertools.product(INPUTS, TARGETS)
]


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("name, targets", CASES)
def test_a_shared_model_gives_the_outputs_of_onnx_runtime(name, targets, oracle, tmp_path):
    path = MODELS / f"{name}.onnx"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    data, expected = oracle(name)
    library = byoc.compile(path, targets=TARGETS[targets], exclude=SHARE[name] if targets == "all" else ())
    used = {module.type_key for module in library.module.imports}
    assert used >= set(TARGETS[targets]) - {"host"} if targets == "all" else used >= set(TARGETS[targets][:1])
    assert_close(library.run({INPUTS[name][0]: data}), expected)

    artifact = library.save(tmp_path / "m.byoc")
    np.save(tmp_path / "in.npy", data)
    command = [sys.executable, "-c", LOAD, artifact, tmp_path / "in.npy", tmp_path / "out.npz", INPUTS[name][0]]
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == []
    with np.load(tmp_path / "out.npz") as saved:
        assert_close([saved[k] for k in saved.files], expected)


@pytest.mark.needs_cc
def test_a_free_batch_dimension_takes_any_batch(tmp_path):
    digits = pathlib.Path(__file__).parents[2] / "examples" / "digits"
    library = byoc.compile(digits / "digits.onnx", targets=["c"])
    session = onnxruntime.InferenceSession(digits / "digits.onnx", providers=["CPUExecutionProvider"])
    images = np.load(digits / "unseen.npz")["images"].astype("float32")
    for count in (1, 7, 360, 7):
        expected = session.run(None, {"image": images[:count]})[0]
        np.testing.assert_allclose(library(images[:count]), expected, atol=1e-5)
