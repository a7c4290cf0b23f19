"""Each side of a comparison has a process of its own, so that what ends one is reported; executables are sides too."""

import numpy as np
import onnx
import pytest

import byoc
from byoc.cli.main import main
from byoc.debug import compare, sides
from byoc.driver.options import CompileRequest
from byoc.driver.vm.cut_model import compile_for_vm
from byoc.errors import UserError
from byoc.runtime.vm.executable import ExecutableModule

pytestmark = [pytest.mark.needs_cc, pytest.mark.usefixtures("new_processes")]
DEADLY = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[3, 4] x) => (float[3, 4] y) {
        [first] s = Sigmoid(x)
        [deadly] d = OPERATOR(s)
        [last] y = Add(d, s)
    }"""
BRANCHES = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[3] x, bool c) => (float[3] y) {
        [decide] y = If (c) <
            then_branch = t () => (float[3] a) { a = FIRST(x) },
            else_branch = e () => (float[3] b) { b = Neg(x) }
        >
    }"""


@pytest.mark.parametrize(
    ("operator", "text", "seconds"),
    [
        ("Softmax", "its process crashed with SIGSEGV (planted.py:", 60),
        ("Relu", "its process ended itself with the exit code 3", 60),
        ("Tanh", "no end after 10 s (planted.py:", 10),  # two processes have to start in it
    ],
)
def test_a_side_that_ends_its_process_is_reported_with_its_node(
    backend_with, tmp_path, capsys, operator, text, seconds
):
    name, path = backend_with("crash"), tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(DEADLY.replace("OPERATOR", operator)), path)
    assert main(["compare", str(path), "-t", f"c,{name}", "--step-time", str(seconds)]) == 2
    shown = capsys.readouterr().out
    assert f"{name}: running node deadly (" in shown and text in shown
    assert compare(path, targets=["c", "json"]).ok  # this process is as it was


def test_an_artefact_that_ends_its_process_is_reported(backend_with, tmp_path):
    model = onnx.parser.parse_model(DEADLY.replace("OPERATOR", "Softmax"))
    right = byoc.compile(model).save(tmp_path / "right.byoc")
    wrong = byoc.compile(model, [backend_with("crash"), "c"]).save(tmp_path / "wrong.byoc")
    found = compare(right, wrong)
    assert not found.ok and found.lost.side == "wrong.byoc" and "SIGSEGV" in found.lost.text
    assert "deadly" in found.lost.step and "not compared" in str(found)
    assert found.to_json()["lost"]["side"] == "wrong.byoc" and not found.to_json()["ok"]


def test_compiling_that_ends_its_process_is_reported(backend_with, monkeypatch):
    monkeypatch.setattr(sides, "MODEL_PATIENCE", 1.0)
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[4] x) => (float[2] y, float[2] z) { [halves] y, z = Split<axis = 0, num_outputs = 2>(x) }"""
    )
    found = compare(model, targets=["c", backend_with("crash")])
    assert found.lost.step == "compiling it" and "SIGSEGV" in found.lost.text


def test_a_library_of_this_process_is_compared_by_what_it_saves(backend_with):
    model = onnx.parser.parse_model(DEADLY.replace("OPERATOR", "Exp"))
    assert compare(byoc.compile(model), byoc.compile(model, ["json", "c"])).ok


def executable(first, path):
    model = onnx.parser.parse_model(BRANCHES.replace("FIRST", first))
    ExecutableModule(compile_for_vm(CompileRequest(model, ["c"]))).export_library(path)
    return path


def test_saved_executables_are_compared_by_their_outputs(tmp_path, capsys):
    one, other = executable("Exp", tmp_path / "one.byoc"), executable("Sqrt", tmp_path / "other.byoc")
    again = executable("Exp", tmp_path / "again.byoc")
    assert main(["compare", str(one), str(again)]) == 0
    assert "output 0" in capsys.readouterr().out
    found = compare(one, other, inputs={"c": np.array(True)})
    assert found.diverging.name == "output 0"


def test_a_model_is_compared_by_the_virtual_machine(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(BRANCHES.replace("FIRST", "Exp")), path)
    found = compare(path, targets=["c", "json"], vm=True)
    assert found.ok and [row.name for row in found.rows] == ["output 0"]


def test_an_artefact_is_no_executable(tmp_path):
    path = byoc.compile(onnx.parser.parse_model(DEADLY.replace("OPERATOR", "Exp"))).save(tmp_path / "m.byoc")
    with pytest.raises(UserError, match="--vm is for models and executables"):
        compare(path, path, vm=True)


def test_a_saved_executable_is_profiled(tmp_path, capsys):
    path = executable("Exp", tmp_path / "m.byoc")
    assert main(["profile", str(path), "--vm", "--repeat", "2"]) == 0
    assert "ms" in capsys.readouterr().out
    library = byoc.compile(onnx.parser.parse_model(DEADLY.replace("OPERATOR", "Exp"))).save(tmp_path / "graph.byoc")
    assert main(["profile", str(library), "--vm"]) == 2
    assert "holds no tree of modules" in capsys.readouterr().err
