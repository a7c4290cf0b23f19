"""A vendor's code that ends the process, by sys.exit or by a crash: one sentence that names region and backend."""

import subprocess
import sys

import onnx
import pytest
from onnx import TensorProto, helper

VENDOR = '''
import os, signal, sys
from byoc.contract import Backend, constraint, register_backend
from byoc.runtime import Module, register_module_loader

class EndingModule(Module):
    """Ends the process where it is set to."""
    type_key = "ending"

    def __init__(self, symbol):
        super().__init__()
        self.symbols = (symbol,)

    def get_function(self, name, query_imports=False):
        return self._call if name in self.symbols else None

    def _call(self, *arrays):
        end("launch")

    def save(self):
        return {"symbol": self.symbols[0].encode()}

    @classmethod
    def load(cls, members):
        end("load")
        return cls(bytes(members["symbol"]).decode())

register_module_loader("ending", EndingModule)

def end(place):
    how, where = os.environ["ENDING"].split(":")
    if where == place and how == "exit":
        sys.exit(7)
    if where == place and how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)

@constraint("operator")
def any_tanh(call):
    """tanh"""
    end("judge")
    return None if getattr(call.op, "name", "") == "tanh" else "another"

@register_backend
class Ending(Backend):
    name = "ending"
    constraints = (any_tanh,)

    def compile(self, function, options):
        end("compile")
        return EndingModule(str(function.attrs["global_symbol"]))
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vendor.py").write_text(VENDOR)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"], name="Tanh_0")], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path


def byoc(folder, ending, *words):
    import os

    environment = {**os.environ, "ENDING": ending, "BYOC_BACKENDS": str(folder / "vendor.py")}
    command = [sys.executable, "-X", "faulthandler=0", "-m", "byoc", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)


MODEL = ("m.onnx", "-t", "ending,c")


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("launch", "(nodes Tanh_0) on ending failed at launch: its code asked Python to exit with 7 (vendor.py:"),
        (
            "compile",
            "backend 'ending' failed on tvmgen_default_ending_main_0 (nodes Tanh_0): its code asked Python to exit",
        ),
    ],
)
def test_an_exit_in_a_region_is_one_sentence(folder, place, text):
    done = byoc(folder, f"exit:{place}", "run", *MODEL, "--random")
    assert done.returncode in (2, 3), done
    (line,) = done.stderr.splitlines()
    assert line.startswith("byoc run: ") and text in line


@pytest.mark.needs_cc
def test_an_exit_while_an_artefact_is_loaded_or_a_call_is_judged(folder):
    assert byoc(folder, "none:", "compile", *MODEL, "-o", "m.byoc").returncode == 0
    done = byoc(folder, "exit:load", "run", "m.byoc", "--random")
    (line,) = done.stderr.splitlines()
    assert done.returncode in (2, 3) and "module type 'ending'" in line and "asked Python to exit with 7" in line
    done = byoc(folder, "exit:judge", "plan", *MODEL)
    assert done.returncode == 0 and "the constraint operator (tanh) failed when asked" in done.stdout


@pytest.mark.needs_cc
def test_the_host_stands_in_for_a_region_that_exits(folder):
    assert byoc(folder, "none:", "compile", *MODEL, "-o", "m.byoc", "--fallback").returncode == 0
    done = byoc(folder, "exit:launch", "run", "m.byoc", "--random")
    assert done.returncode == 0, done
    assert "on the host instead" in done.stdout and "asked Python to exit" in done.stdout


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("launch", "the process died while region tvmgen_default_ending_main_0 (nodes Tanh_0) on ending was running"),
        ("compile", "the process died while backend 'ending' compiled tvmgen_default_ending_main_0 (nodes Tanh_0)"),
    ],
)
def test_a_crash_is_reported_with_what_was_running(folder, place, text):
    done = byoc(folder, f"crash:{place}", "run", *MODEL, "--random")
    assert done.returncode == -11
    assert done.stderr.splitlines()[-1] == f"byoc run: {text}"


@pytest.mark.needs_cc
def test_a_crash_outside_of_regions_and_an_end_without_one_say_nothing(folder):
    done = byoc(folder, "none:", "run", *MODEL, "--random")
    assert done.returncode == 0 and not done.stderr


def test_a_signals_handler_may_exit_while_a_region_runs(monkeypatch):
    import signal

    from byoc.runtime.core.errors import vendors_failure

    def handler(number, frame):
        sys.exit(5)

    monkeypatch.setattr(signal, "getsignal", lambda number: handler if number == signal.SIGTERM else signal.SIG_DFL)
    try:
        handler(signal.SIGTERM, None)
    except SystemExit as error:
        with pytest.raises(SystemExit):
            vendors_failure(error)
    try:
        sys.exit(5)
    except SystemExit as error:
        assert "exit with 5" in str(vendors_failure(error))
