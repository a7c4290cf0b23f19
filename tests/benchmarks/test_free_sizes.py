"""The benchmark of free sizes, whole: compiled in processes of its own, checked, timed for each size."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tools.health.sources import ROOT


@pytest.mark.needs_cc
@pytest.mark.slow
def test_a_model_is_timed_free_and_fixed_at_each_of_its_sizes(tmp_path):
    pytest.importorskip("onnxruntime")
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((8, 4)).astype("float32"), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "product.onnx")
    command = [sys.executable, "-m", "benchmarks.cpu", "--zoo", str(tmp_path), "--sizes", "free", "--batches", "2,5"]
    command += ["--threads", "1", "--rounds", "1", "--engines", "byoc,onnxruntime"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("product ")]
    assert rows == ["2", "5"], done.stdout
    assert "product, 1 threads, 2 sizes: free/fixed" in done.stdout
