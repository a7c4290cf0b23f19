"""C to take away, as its user meets it: built with make, run without Python, compared with ONNX Runtime."""

import shutil
import subprocess

import numpy as np
import onnxruntime
import pytest
from exported import (
    DIGITS,
    FLAGS,
    KIND_NAMES,
    KINDS,
    MODELS,
    ONE_IMAGE,
    SHARED,
    agree,
    build,
    export,
    make_model,
    numbers,
    oracle,
    run,
)
from onnx import helper

from byoc.codegen.c.export.options import export_options
from byoc.errors import UserError

pytestmark = [
    pytest.mark.needs_cc,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


@pytest.mark.parametrize("options", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_gives_what_onnx_runtime_gives(name, options, tmp_path):
    model, inputs = MODELS[name]()
    export(model, tmp_path, **options)
    build(tmp_path, options.get("portable", False))
    expected = oracle(model, inputs)
    agree(run(tmp_path, inputs, expected).values(), expected)


@pytest.mark.parametrize("portable", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_the_sanitizers_find_nothing(name, portable, tmp_path):
    model, inputs = MODELS[name]()
    export(model, tmp_path, portable=portable)
    flags = f"{FLAGS[portable]} -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    if subprocess.run(["make", "-s", "-C", tmp_path, flags, "main.o"], capture_output=True).returncode != 0:
        pytest.skip("the C compiler has no sanitizers")
    build(tmp_path, portable, flags)
    expected = oracle(model, inputs)
    agree(run(tmp_path, inputs, expected).values(), expected)


@pytest.mark.parametrize("portable", [False, True])
def test_sums_of_integers_wrap(portable, tmp_path):
    node = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)
    export(make_model([node], [("x", "i4", (100,))], [("y", "i4", ())]), tmp_path, portable=portable)
    build(tmp_path, portable)
    x = np.random.default_rng(0).integers(-(2**31), 2**31, 100).astype("int32")
    total = x.sum(dtype="int32")
    assert total != x.sum(dtype="int64")  # it does leave its type
    assert run(tmp_path, [x], [total])["y"] == total


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("weights", ["c", "incbin", "bin"])
def test_weights_lie_where_the_option_says(weights, portable, tmp_path):
    if portable and weights == "incbin":
        with pytest.raises(UserError, match="takes an assembler: choose c or bin"):
            export_options(portable=True, weights="incbin")
        return
    files = export(DIGITS, tmp_path, ONE_IMAGE, portable=portable, weights=weights)
    assert ("model_weights.bin" in files) == (weights != "c")
    assert ("model_weights.c" in files) == (weights != "bin")
    build(tmp_path, portable)
    image = numbers(1, 1, 8, 8) * 16
    expected = oracle(DIGITS, [image])
    agree(run(tmp_path, [image], expected).values(), expected)


@pytest.mark.parametrize("portable", [False, True])
def test_the_shared_digit_model_runs_without_python(portable, tmp_path):
    if not SHARED.is_file():
        pytest.skip(f"{SHARED} is not here")
    export(SHARED, tmp_path, portable=portable)
    build(tmp_path, portable)
    image = np.random.default_rng(0).uniform(0, 255, (1, 1, 28, 28)).astype("float32")
    expected = oracle_of_shared(image)
    agree(run(tmp_path, [image], expected).values(), expected)


def oracle_of_shared(image):
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession(SHARED, quiet, providers=["CPUExecutionProvider"])
    return session.run(None, {"Input3": image})
