"""A region over a size that neither its inputs nor its outputs have is given an input of the model that has it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import byoc

RNG = np.random.default_rng(15)
PROGRAM = """
import sys, numpy as np, byoc.runtime as runtime
library, given = runtime.load(sys.argv[1]), np.load(sys.argv[2])
found = library.run({"x": given["x"], "y": given["y"]})[0]
assert not library.fallbacks and library.device_counts["bytes_in"] < given["y"].nbytes, library.device_counts
np.save(sys.argv[3], found)
"""


def expanded_and_reduced() -> ModelProto:
    """``x`` of (n, 64), as often as ``y`` is long, through exp and a sum over that axis: its size is inside alone."""
    nodes = [
        ("Shape", ["y"], "length", {}),
        ("Concat", ["length", "one", "one"], "shape", {"axis": 0}),
        ("Expand", ["x", "shape"], "many", {}),
        ("Exp", ["many"], "e", {}),
        ("CumSum", ["e", "first"], "sums", {}),
        ("ReduceMax", ["sums", "axis"], "z", {"keepdims": 0}),
    ]
    graph = helper.make_graph(
        [helper.make_node(op, inputs, [out], name=f"{op}_{out}", **attrs) for op, inputs, out, attrs in nodes],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ["n", 64]), ("y", ["k"]))],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 64])],
        [
            numpy_helper.from_array(np.array([1]), "one"),
            numpy_helper.from_array(np.array(0), "first"),
            numpy_helper.from_array(np.array([0]), "axis"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.needs_opencl
def test_a_size_in_the_middle_of_a_region_is_reported_by_an_input_of_the_model(tmp_path: Path) -> None:
    library = byoc.compile(expanded_and_reduced(), targets=["opencl"])
    assert {d.target for d in library.plan.decisions if d.operator in ("multiply", "cumsum", "max")} == {"opencl"}
    for k in (1, 5, 5000):
        x = RNG.standard_normal((3, 64)).astype("float32")
        found = library.run({"x": x, "y": np.zeros(k, "float32")})[0]
        np.testing.assert_allclose(found, k * np.exp(x), rtol=1e-3)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("options", [{}, {"fallback": True}, {"precision": "fp16"}])
def test_in_a_new_process_what_determines_the_size_is_not_copied_to_the_device(options: dict, tmp_path: Path) -> None:
    saved = byoc.compile(expanded_and_reduced(), targets=["opencl"], **options).save(tmp_path / "m.byoc")
    x = RNG.standard_normal((2, 64)).astype("float32")
    np.savez(tmp_path / "given.npz", x=x, y=np.zeros(3000, "float32"))
    paths = [str(saved), str(tmp_path / "given.npz"), str(tmp_path / "found.npy")]
    subprocess.run([sys.executable, "-c", PROGRAM, *paths], check=True, cwd=tmp_path, timeout=100)
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), 3000 * np.exp(x), rtol=1e-3)
