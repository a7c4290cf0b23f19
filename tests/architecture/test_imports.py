"""Who may import whom; an import inside a function counts too."""

import ast
import configparser
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = {"byoc": ROOT / "byoc", "byoc.codegen": ROOT / "codegen", "byoc.runtime": ROOT / "runtime"}
FOLDERS["byoc.contrib"] = ROOT / "contrib"
LAYERS = {
    "runtime": set(),
    "errors": {"runtime"},
    "lazy_names": set(),
    "options": {"errors"},
    "ir": {"runtime", "errors"},
    "te": {"ir", "errors", "runtime"},
    "relay": {"ir", "te", "runtime", "errors", "lazy_names"},
    "codegen": {"ir", "te", "relay", "runtime", "errors"},
    "partition": {"ir", "relay", "runtime", "errors", "lazy_names", "options", "codegen.backend"},
    "driver": {"ir", "te", "relay", "codegen", "partition", "runtime", "errors", "options", "__init__"},
    "__main__": {"driver"},
    "contrib": {"ir", "relay", "codegen", "runtime", "errors", "__init__"},
    "compat": {"ir", "te", "relay", "codegen", "partition", "driver", "runtime", "errors", "__init__"},
}


def modules():
    """Every module of the package: its dotted name and its file."""
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join([package, *parts]).removesuffix(".__init__"), path


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{alias.name}" if node.module == "byoc" else node.module for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            pytest.fail(f"{path}: relative import")
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_import_goes_in_the_allowed_direction():
    wrong = []
    for name, path in modules():
        layer = name.split(".")[1] if "." in name else "__init__"
        if layer == "__init__":
            continue
        for target in imported(path):
            parts = target.split(".")
            if parts[0] != "byoc":
                continue
            other = parts[1] if len(parts) > 1 and parts[1] in LAYERS else "__init__"
            allowed = LAYERS[layer]
            if other != layer and other not in allowed and ".".join(parts[1:3]) not in allowed:
                wrong.append(f"{name} imports {target}")
    assert wrong == []


@pytest.mark.parametrize("module", ["byoc", "byoc.runtime"])
def test_importing_pulls_in_no_compiler(module):
    code = f"import {module}, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    forbidden = ("byoc.ir", "byoc.te", "byoc.relay", "byoc.codegen", "byoc.partition", "byoc.driver")
    forbidden += ("onnx", "networkx", "pyopencl", "scipy", "rich", "cffi")
    assert [m for m in loaded if m.startswith(forbidden)] == []


IMPORT_EACH_ALONE = """
import importlib, os, sys
import numpy, onnx, rich.progress, safetensors.numpy
failed = 0
for name in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        try:
            importlib.import_module(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    failed += os.waitpid(pid, 0)[1] != 0
sys.exit(failed > 0)
"""


def import_each_alone(names):
    return subprocess.run([sys.executable, "-c", IMPORT_EACH_ALONE, *names], capture_output=True, text=True)


def test_every_layer_can_be_imported_first():
    result = import_each_alone(["byoc", *(f"byoc.{layer}" for layer in LAYERS if not layer.startswith("__"))])
    assert result.returncode == 0, result.stdout


@pytest.mark.slow
def test_every_module_can_be_imported_first():
    result = import_each_alone([name for name, _ in modules()])
    assert result.returncode == 0, result.stdout


def test_setup_cfg_lists_every_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options"]["packages"].split()
    found = sorted(name for name, path in modules() if path.name == "__init__.py")
    assert sorted(listed) == found
