"""The command line's ways to a backend that nobody installed: ``--import``, ``BYOC_BACKENDS``, ``--set``."""

import json
import os
import re
import subprocess
import sys

import pytest
from onnx import TensorProto, helper

from byoc.cli.flags.backend_imports import IMPORTING
from byoc.cli.flags.generator_options import typed
from byoc.cli.main import COMMANDS, main, parser

FILE = '''
import numpy as np
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import callee_name
from byoc.runtime.json import KernelTable
import sibling

TABLE = KernelTable("acme")

@TABLE.kernel("nn.relu")
def relu(data):
    return np.maximum(data, 0)

def takes(call):
    """relu alone"""
    return None if callee_name(call) in TABLE else callee_name(call)

class Acme(JsonBackend):
    """Rectifies."""
    name = table = "acme"
    constraints = (takes,)
    options = ("speed", "exact", "mode", "scale")

    def compile(self, function, options):
        sibling.tell(options)
        return super().compile(function, options)
'''
SIBLING = """
import sys
def tell(options):
    print("options", dict(options), file=sys.stderr)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a backend in a file, a file beside it, and a model."""
    (tmp_path / "acme.py").write_text(FILE)
    (tmp_path / "sibling.py").write_text(SIBLING)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy"]
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Relu", ["e"], ["y"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    return tmp_path


def byoc(folder, *words, **variables):
    outside = {k: v for k, v in os.environ.items() if k != "BYOC_BACKENDS"}
    environment = {**outside, "BYOC_CACHE_DIR": str(folder / "cache"), **variables}
    code = "import sys; sys.path.remove(''); from byoc.cli.main import main; sys.exit(main())"  # as the script byoc
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.needs_cc
def test_a_file_is_imported_for_one_command(folder):
    options = (
        "--set",
        "acme.speed=1",
        "--set",
        "acme.exact=true",
        "--set",
        "acme.mode=fast",
        "--set",
        "acme.scale=0.5",
    )
    done = byoc(folder, "compile", "m.onnx", "-t", "acme,c", "--import", "acme.py", *options)
    assert done.returncode == 0, done.stderr
    assert "targets acme: 1 regions, 1 of 2 calls offloaded" in done.stdout
    assert "options {'speed': 1, 'exact': True, 'mode': 'fast', 'scale': 0.5}" in done.stderr
    done = byoc(folder, "run", "m.byoc", "--random", "--import", str(folder / "acme.py"))
    assert done.returncode == 0, done.stderr
    assert "no kernel table is called 'acme'" in byoc(folder, "run", "m.byoc", "--random").stderr
    done = byoc(folder, "inspect", "m.byoc", "--import", "acme.py")
    assert done.returncode == 0 and "cannot run here" not in done.stdout, done.stderr


def test_files_and_modules_are_named_by_the_environment(folder):
    named = os.pathsep.join(["acme.py", "json.tool", ""])
    done = byoc(folder, "targets", BYOC_BACKENDS=named)
    assert done.returncode == 0 and re.search(r"^acme +ready +Rectifies\.", done.stdout, re.M), (
        done.stdout + done.stderr
    )
    done = byoc(folder, "plan", "m.onnx", "-t", "acme", BYOC_BACKENDS=named)
    assert "1 of 2 calls offloaded" in done.stdout, done.stderr
    done = byoc(folder, "explain", "m.onnx", "-t", "acme", "--import", "acme.py", BYOC_BACKENDS=named)  # twice is once
    assert "relu alone, got exp" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "named, content, sentence",
    [
        ("none.py", None, "byoc targets: --import none.py: there is no such file; name a file that ends in .py"),
        ("acme", None, "--import acme: there is no such module; did you mean acme.py?"),
        ("no.such.module", None, "--import no.such.module: there is no such module; a file is named with its .py"),
        ("json.py", "", "--import json.py: a module is called 'json' already ("),
        (
            "my-chip.py",
            "",
            "--import my-chip.py: 'my-chip' cannot be the name of a module; rename the file",
        ),
        ("bad.py", "x = 1\ny = z\n", "bad.py cannot be imported: NameError: name 'z' is not defined (bad.py:2)"),
        (
            "lacks.py",
            "import acme_sdk\n",
            "lacks.py cannot be imported: ModuleNotFoundError: No module named 'acme_sdk' (lacks.py:1)",
        ),
        (
            "name.py",
            "from byoc.codegen.json.backend import JsonBackend\nclass A(JsonBackend):\n    name = 'My Chip'\n",
            "--import name.py: A cannot be called 'My Chip'",
        ),
        (
            "base.py",
            "from byoc.codegen.json.backend import JsonBackend\nclass A(JsonBackend):\n    name = 'json'\n",
            "backend.py:JsonBackend; choose another name, or write @register_backend(override=True) above the class",
        ),
    ],
)
def test_what_cannot_be_imported_is_one_sentence(folder, named, content, sentence, monkeypatch, capsys):
    if content is not None:
        (folder / named).write_text(content)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["targets", "--import", named]) == 2
    shown = capsys.readouterr().err
    assert sentence in shown and len(shown.splitlines()) == 1, shown


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--set", "acme"], "--set acme: expected BACKEND.OPTION=VALUE, as in --set acme.speed=1"),
        (["--set", "acme=1"], "--set acme=1: expected BACKEND.OPTION=VALUE"),
        (["--set", "c.strict=maybe"], "option 'strict' of backend c"),
        (["--set", "c.strict=true", "--strict"], "--set c.strict=true: option strict of backend c is given already"),
        (["--set", "acme.x=1", "--set", "acme.x=2"], "option x of backend acme is given already; give it once"),
        (["--set", "nobody.x=1"], "no backend is called 'nobody'"),
        (["--set", "c.winogard=off"], "backend c has no option 'winogard'"),
    ],
)
def test_the_error_of_an_option_says_what_is_wrong(folder, words, sentence, capsys):
    assert main(["compile", str(folder / "m.onnx"), "-o", str(folder / "m.byoc"), *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.needs_cc
def test_our_own_generators_take_options_by_name(folder):
    done = byoc(folder, "compile", "m.onnx", "--set", 'c.flags=["-O1"]', "--set", "c.max_error=0.01")
    assert done.returncode == 0, done.stderr
    done = byoc(folder, "run", "m.byoc", "--random", "--set", "c.strict=true")
    assert done.returncode == 2 and "--set is for ONNX models; m.byoc is compiled already" in done.stderr


def test_values_are_typed_by_how_they_are_written():
    texts = {
        "1": 1,
        "-2": -2,
        "1e3": 1e3,
        "True": True,
        "false": False,
        "": "",
        "null": "null",
        "NaN": "NaN",
        '"1"': "1",
    }
    for text, value in texts.items():
        assert typed(text) == value and type(typed(text)) is type(value)


def test_every_command_that_takes_targets_has_the_flag():
    root = parser()
    (commands,) = (action.choices for action in root._actions if isinstance(action.choices, dict))
    with_targets = {n for n in COMMANDS if any("--target" in a.option_strings for a in commands[n]._actions)}
    assert with_targets - {"tune"} <= set(IMPORTING)  # whose --import takes records
    for name in IMPORTING:
        assert any(a.dest == "imports" and a.metavar == "FILE_OR_MODULE" for a in commands[name]._actions)


def test_json_output_stays_json(folder):
    done = byoc(folder, "targets", "acme", "--json", "--import", "acme.py")
    assert json.loads(done.stdout)["backend"] == "acme"
