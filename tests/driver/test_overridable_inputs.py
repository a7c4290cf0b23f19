"""Inputs of an ONNX model that have an initialiser: constants, or inputs that a run may leave out (``overridable``)."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import byoc
from byoc.cli.main import main
from byoc.errors import ArtifactError, ImportModelError, InputError, UserError
from byoc.relay import Var

SCALE = np.array([2.0, -3.0, 0.5], "float32")
X = np.arange(6, dtype="float32").reshape(2, 3)
OTHER = np.array([7.0, 11.0, -13.0], "float32")


def model(ir_version: int = 8) -> ModelProto:
    """``relu(x * scale + bias)``, whose first input is the bias, with an initialiser, as the scale has one."""
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("bias", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3]),
        helper.make_tensor_value_info("scale", TensorProto.FLOAT, [3]),
    ]
    weights = [numpy_helper.from_array(SCALE, "scale"), numpy_helper.from_array(np.float32(1.5), "bias")]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 3])
    graph = helper.make_graph(nodes, "scaled", inputs, [output], weights)
    return helper.make_model(graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", 13)])


def expected(feed: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model().SerializeToString(), providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, feed)[0]
    return found


def same(found: object, feed: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(found, expected(feed), rtol=1e-6)


@pytest.mark.parametrize("ir_version", [3, 8])
def test_an_initialiser_that_is_an_input_stays_a_constant(ir_version: int) -> None:
    library = byoc.compile(model(ir_version))
    assert [spec.name for spec in library.inputs] == ["x"]
    same(library(X), {"x": X})


@pytest.mark.needs_cc
@pytest.mark.parametrize("ir_version", [3, 8])
def test_a_run_may_give_an_overridable_input_or_leave_it_out(ir_version: int) -> None:
    library = byoc.compile(model(ir_version), overridable=["scale", "bias"])
    assert [spec.name for spec in library.inputs] == ["x", "bias", "scale"], "what every call gives comes first"
    bias = np.float32(-4)
    same(library.run({"x": X})[0], {"x": X})
    same(library.run({"x": X, "scale": OTHER})[0], {"x": X, "scale": OTHER})
    same(library.run({"bias": np.asarray(bias), "x": X})[0], {"x": X, "bias": np.asarray(bias)})
    same(library.run({"x": X})[0], {"x": X})  # what was given before is forgotten
    same(library(X), {"x": X})
    same(library(X, bias, OTHER), {"x": X, "bias": np.asarray(bias), "scale": OTHER})
    for outputs, given in zip(library.map([{"x": X}, {"x": X, "scale": OTHER}]), [{}, {"scale": OTHER}], strict=True):
        same(outputs[0], {"x": X, **given})
    bound = library.bind()
    same(bound.run({"x": X, "scale": OTHER})[0], {"x": X, "scale": OTHER})
    same(bound.run({"x": X})[0], {"x": X})
    for executor in (library.executor(), library.graph_executor()):
        executor.run(x=X)
        same(executor.get_output(0).numpy(), {"x": X})
    library.prepare({"x": (5, 3)})
    assert library.profile({"x": X}, repeat=1, warmup=0)


def test_one_name_makes_one_input_and_the_rest_constants() -> None:
    library = byoc.compile(model(), overridable="scale")
    assert [spec.name for spec in library.inputs] == ["x", "scale"]
    assert list(library.input_defaults) == ["scale"]
    with pytest.raises(InputError, match=r"'bias' has its value in the model.*overridable=\['bias'\]"):
        library.run({"x": X, "bias": np.zeros((), "float32")})


def test_a_constant_that_a_caller_gives_is_told_with_the_option() -> None:
    library = byoc.compile(model(3))
    wanted = r"'scale' has its value in the model, and was compiled as a constant.*overridable=\['scale'\]"
    with pytest.raises(InputError, match=wanted):
        library.run({"x": X, "scale": OTHER})
    with pytest.raises(InputError, match=wanted):
        library.bind().run({"x": X, "scale": OTHER})
    with pytest.raises(InputError, match=wanted):
        library.executor().set_input("scale", OTHER)
    with pytest.raises(InputError, match="has no input 'scaled'"):
        library.run({"x": X, "scaled": OTHER})


def test_calls_with_too_few_or_too_many_inputs_name_the_counts() -> None:
    library = byoc.compile(model(), overridable=["scale"])
    with pytest.raises(InputError, match="takes 1 to 2 inputs .* got 0"):
        library()
    with pytest.raises(InputError, match="takes 1 to 2 inputs .* got 3"):
        library(X, OTHER, OTHER)
    with pytest.raises(InputError, match="'x' is missing"):
        library.run({"scale": OTHER})
    with pytest.raises(InputError, match="'scale': expected shape"):
        library.run({"x": X, "scale": OTHER[:2]})


def test_names_that_are_no_such_input_are_refused() -> None:
    with pytest.raises(ImportModelError, match=r"overridable= names 'x', which is no initialiser.*'bias', 'scale'"):
        byoc.compile(model(), overridable=["x"])
    plain = model()
    del plain.graph.input[2]
    with pytest.raises(ImportModelError, match=r"names 'scale', which is an initialiser that is no input"):
        byoc.compile(plain, overridable=["scale"])
    module = byoc.IRModule.from_expr(Var("x", byoc.relay.TensorType([3], "float32")))
    with pytest.raises(UserError, match="overridable names initialisers of an ONNX model"):
        byoc.compile(module, overridable=["x"])


def test_an_initialiser_that_does_not_fit_its_input_is_refused() -> None:
    wrong = model()
    wrong.graph.initializer[0].CopyFrom(numpy_helper.from_array(SCALE[:2].copy(), "scale"))
    with pytest.raises(InputError, match=r"'scale': expected shape \[3\], got \[2\]"):
        byoc.compile(wrong, overridable=["scale"])


_IN_A_NEW_PROCESS = """
import sys
import numpy as np
from byoc.runtime import load
library = load(sys.argv[1])
x, other = np.load(sys.argv[2]), np.load(sys.argv[3])
assert not [name for name in sys.modules if name.startswith("byoc.relay")]
np.savez(sys.argv[4], plain=library(x), given=library.run({"x": x, "scale": other})[0])
"""


@pytest.mark.needs_cc
def test_a_saved_artefact_has_the_defaults_in_a_new_process(tmp_path: Path) -> None:
    byoc.compile(model(), overridable=["scale"]).save(tmp_path / "m.byoc")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "other.npy", OTHER)
    names = ["m.byoc", "x.npy", "other.npy", "found.npz"]
    subprocess.run([sys.executable, "-c", _IN_A_NEW_PROCESS, *(str(tmp_path / n) for n in names)], check=True)
    found = np.load(tmp_path / "found.npz")
    same(found["plain"], {"x": X})
    same(found["given"], {"x": X, "scale": OTHER})


def test_an_artefact_with_a_default_for_another_input_is_damaged(tmp_path: Path) -> None:
    from byoc.runtime.artefact.artifact import read_artifact, write_artifact
    from byoc.runtime.content import DEFAULTS_MEMBER
    from byoc.runtime.core.ndarray import NDArray
    from byoc.runtime.files.weights import write_weights

    path = byoc.compile(model(), overridable=["scale"]).save(tmp_path / "m.byoc")
    read = read_artifact(path)
    members = {n: bytes(d) for n, d in read.members.items() if n != "manifest.json"}
    manifest = {k: v for k, v in read.manifest.items() if k not in ("members", "seal")}
    for arrays in ({"x": X}, {"scale": OTHER[:2]}):
        members[DEFAULTS_MEMBER] = write_weights({n: NDArray(a.copy()) for n, a in arrays.items()})
        write_artifact(tmp_path / "n.byoc", manifest, members)
        with pytest.raises(ArtifactError, match=f"{DEFAULTS_MEMBER} does not fit the graph"):
            byoc.runtime.load(tmp_path / "n.byoc")


@pytest.mark.needs_cc
def test_byoc_run_gives_and_leaves_out_an_overridable_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_bytes(model().SerializeToString())
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "other.npy", OTHER)
    given = ["-i", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "out.npz")]
    other = ["-i", f"scale={tmp_path / 'other.npy'}"]
    assert main(["run", str(tmp_path / "m.onnx"), *given, "--overridable", "scale", *other]) == 0
    same(np.load(tmp_path / "out.npz")["y"], {"x": X, "scale": OTHER})
    assert main(["compile", str(tmp_path / "m.onnx"), "--overridable", "scale", "-o", str(tmp_path / "m.byoc")]) == 0
    assert main(["run", str(tmp_path / "m.byoc"), *given]) == 0
    same(np.load(tmp_path / "out.npz")["y"], {"x": X})
    assert main(["run", str(tmp_path / "m.byoc"), *given, *other]) == 0
    same(np.load(tmp_path / "out.npz")["y"], {"x": X, "scale": OTHER})
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "m.byoc")]) == 0
    assert "input   scale: float32[3], which a run may leave out" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "m.onnx"), *given, *other]) != 0
    assert "compile the model with overridable=['scale'] (--overridable scale)" in capsys.readouterr().err
