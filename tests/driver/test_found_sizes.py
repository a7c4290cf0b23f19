"""What follows an operator whose axes or bounds the run is given is generated code, in this process and from a file."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import byoc
from byoc.cli.main import main
from byoc.errors import UserError

RNG = np.random.default_rng(8)
DATA = RNG.standard_normal((3, 4, 4)).astype("float32")
WEIGHT = RNG.standard_normal((4, 5)).astype("float32")


def model(
    *nodes: tuple[str, list[str], str, dict], lists: dict[str, int], shape: Sequence[int | str] = DATA.shape
) -> ModelProto:
    """From ``x`` of *shape* and integer *lists* of known lengths to ``y``, with the weight ``w``."""
    given = [helper.make_tensor_value_info(n, TensorProto.INT64, [count]) for n, count in lists.items()]
    graph = helper.make_graph(
        [helper.make_node(op, inputs, [out], name=f"{op}_{out}", **attrs) for op, inputs, out, attrs in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape), *given],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


REDUCED = model(
    ("Relu", ["x"], "r", {}),
    ("ReduceSum", ["r", "axes"], "s", {"keepdims": 0}),
    ("MatMul", ["s", "w"], "m", {}),
    ("Tanh", ["m"], "y", {}),
    lists={"axes": 1},
)


def wanted(axis: int) -> np.ndarray:
    return np.tanh(np.maximum(DATA, 0).sum(axis) @ WEIGHT)


def test_what_follows_an_axis_of_the_run_is_generated_code() -> None:
    library = byoc.compile(REDUCED)
    for axis in (0, 1, 2, -1):
        (found,) = library.run({"x": DATA, "axes": np.array([axis])})
        np.testing.assert_allclose(found, wanted(axis), rtol=1e-5, atol=1e-5)
    parts = library.report["control_flow"][0]["parts"]
    on_kernels = {name.removeprefix("tvmgen_default_fused_") for p in parts.values() for name in p["host_fallbacks"]}
    assert on_kernels == {"dyn_group_axes", "dyn_axes_shape", "dyn_reshape"}


def test_the_command_shows_the_plan_of_each_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is cut lies in the parts of such a model; the plan of its main function has nothing to show."""
    onnx.save(REDUCED, tmp_path / "m.onnx")
    assert main(["compile", str(tmp_path / "m.onnx"), "-t", "json,host", "-o", str(tmp_path / "m.byoc")]) == 0
    shown = capsys.readouterr().out
    assert "main_control runs on the virtual machine, since what runs is decided when the model runs" in shown
    parts = byoc.load(tmp_path / "m.byoc").report["control_flow"][0]["parts"]
    rows = [line.split() for line in shown.splitlines()]
    assert sorted(row[0] for row in rows if row[:1] and row[0] in parts) == sorted(parts)
    cut = [name for name, part in parts.items() if part["plan"]["regions"]]
    assert cut and sum(row[:2] == ["tvmgen_default_json_main_0", "json"] for row in rows) == len(cut)


def test_a_saved_artefact_finds_sizes_in_a_process_without_the_compiler(tmp_path: Path) -> None:
    saved = byoc.compile(REDUCED).save(tmp_path / "model.byoc")
    np.save(tmp_path / "x.npy", DATA)
    program = (
        "import sys, json, numpy as np, byoc.runtime as runtime\n"
        "library = runtime.load(sys.argv[1])\n"
        "x = np.load(sys.argv[2])\n"
        "print(json.dumps([library.run({'x': x, 'axes': np.array([a])})[0].tolist() for a in (0, -1)]))\n"
        "try:\n"
        "    library.run({'x': x, 'axes': np.array([3])})\n"
        "except runtime.UserError as error:\n"
        "    print(error)\n"
        "assert 'byoc.relay' not in sys.modules\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program, str(saved), str(tmp_path / "x.npy")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout.splitlines()
    for found, axis in zip(json.loads(shown[0]), (0, -1), strict=True):
        np.testing.assert_allclose(np.array(found, "float32"), wanted(axis), rtol=1e-5, atol=1e-5)
    assert shown[1] == "node ReduceSum_s (ReduceSum): axis 3 is outside 3 dimensions; give one from -3 to 2"


def test_slices_of_slices_meet_again_in_one_tensor() -> None:
    twice = model(
        ("Slice", ["x", "starts", "ends", "axes"], "a", {}),
        ("Slice", ["x", "starts", "ends", "axes"], "b", {}),
        ("Exp", ["a"], "e", {}),
        ("Add", ["e", "b"], "c", {}),
        ("Concat", ["c", "a"], "y", {"axis": 2}),
        lists={"starts": 2, "ends": 2, "axes": 2},
    )
    library = byoc.compile(twice)
    given = {"x": DATA, "starts": np.array([1, 0]), "ends": np.array([-1, 9]), "axes": np.array([1, 0])}
    (found,) = library.run(given)
    cut = DATA[:, 1:-1]
    np.testing.assert_allclose(found, np.concatenate([np.exp(cut) + cut, cut], 2), rtol=1e-5)
    with pytest.raises(UserError, match=r"node Slice_. \(Slice\): axes \[0, 0\] name a dimension twice"):
        library.run({**given, "axes": np.array([0, 0])})


@pytest.mark.parametrize("target", ["c", pytest.param("opencl", marks=pytest.mark.needs_opencl)])
def test_a_free_size_of_an_input_is_known_where_bounds_of_the_run_cut_another_axis(target: str, tmp_path: Path) -> None:
    """The part behind the slice is over ``m``, which what it reads does not determine and the model's input does."""
    numbers = [numpy_helper.from_array(np.array([k]), name) for name, k in (("axis", 1), ("step", -2))]
    cut = model(
        ("Exp", ["x"], "e", {}),
        ("Slice", ["e", "starts", "ends", "axis", "step"], "s", {}),
        ("Tanh", ["s"], "y", {}),
        lists={"starts": 1, "ends": 1},
        shape=[3, "n", "m"],
    )
    cut.graph.initializer.extend(numbers)
    loaded = byoc.load(byoc.compile(cut, targets=[target]).save(tmp_path / "model.byoc"))
    for n, m in ((9, 20), (2, 1), (7, 33)):
        x = RNG.standard_normal((3, n, m)).astype("float32")
        (found,) = loaded.run({"x": x, "starts": np.array([-1]), "ends": np.array([-100])})
        np.testing.assert_allclose(found, np.tanh(np.exp(x))[:, ::-2], rtol=1e-4, atol=1e-4)


@pytest.mark.needs_opencl
def test_a_target_takes_what_follows() -> None:
    library = byoc.compile(REDUCED, targets=["opencl"])
    (found,) = library.run({"x": DATA, "axes": np.array([1])})
    np.testing.assert_allclose(found, wanted(1), rtol=1e-4, atol=1e-4)
    parts = library.report["control_flow"][0]["parts"].values()
    taken = {d["operator"] for part in parts for d in part["plan"]["decisions"] if d["target"] == "opencl"}
    assert {"nn.relu", "sum"} < taken and len(taken) > 2, taken  # and the product with what is fused behind it
