"""Who may import whom; an import inside a function counts too."""

import ast
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
    "ir": {"runtime", "errors"},
    "te": {"ir", "errors", "runtime"},
    "relay": {"ir", "te", "runtime", "errors"},
    "codegen": {"ir", "te", "relay", "runtime", "errors"},
    "partition": {"ir", "relay", "runtime", "errors", "codegen.backend"},
    "driver": {"ir", "te", "relay", "codegen", "partition", "runtime", "errors", "__init__"},
    "contrib": {"ir", "relay", "codegen", "runtime", "errors", "__init__"},
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
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    forbidden = ("byoc.ir", "byoc.te", "byoc.relay", "byoc.codegen", "byoc.partition", "byoc.driver", "onnx", "networkx")
    forbidden += ("pyopencl", "scipy", "rich", "cffi")
    assert [m for m in loaded if m.startswith(forbidden)] == []


def test_every_module_can_be_imported_first():
    names = [name for name, _ in modules() if not name.endswith("__main__")]
    code = (
        "import importlib, subprocess, sys\n"
        "failed = []\n"
        "import os\n"
        f"for name in {names!r}:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        try:\n"
        "            importlib.import_module(name)\n"
        "        except BaseException as error:\n"
        "            print(name, repr(error), flush=True)\n"
        "            os._exit(1)\n"
        "        os._exit(0)\n"
        "    if os.waitpid(pid, 0)[1]:\n"
        "        failed.append(name)\n"
        "sys.exit(len(failed))\n"
    )
    result = subprocess.run([sys.executable, "-c", "import numpy\n" + code], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_setup_cfg_lists_every_package():
    import configparser

    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options"]["packages"].split()
    found = sorted(name for name, path in modules() if path.name == "__init__.py")
    assert sorted(listed) == found
