"""Who may import whom; an import inside a function counts too."""

import ast
import configparser
import json
import subprocess
import sys

import pytest

from tools.health.imports import MODEL, PROBE, python
from tools.health.sources import ROOT, imported, modules, nodes, tree

BASE = {"base", "runtime", "errors"}
LAYERS = {
    "base": set(),
    "runtime": {"base"},
    "errors": {"runtime"},
    "options": {"errors"},
    "ir": BASE,
    "te": {"ir", *BASE},
    "relay": {"ir", "te", "options", *BASE},
    "contract": {"ir", "relay", *BASE},
    "codegen": {"ir", "te", "relay", "contract", *BASE},
    "partition": {"ir", "relay", "contract", "options", *BASE},
    "kernels": {"ir", "relay", "contract", "codegen", "partition", *BASE},
    "driver": {"ir", "te", "relay", "contract", "codegen", "partition", "options", "__init__", *BASE},
    "testing": {"ir", "relay", "contract", "partition", "driver", "options", "__init__", *BASE},
    "debug": {"ir", "relay", "contract", "codegen", "partition", "driver", "options", "testing", "__init__", *BASE},
    "cli": {
        *{"ir", "te", "relay", "contract", "codegen", "partition", "driver", "options", "testing", "debug", "__init__"},
        *BASE,
    },
    "__main__": {"cli"},
    "torch_backend": {"driver", *BASE},
    "onnx_backend": {"ir", "relay", "contract", "codegen", "driver", "options", "cli", *BASE},
    "contrib": {"ir", "relay", "contract", "codegen", "__init__", *BASE},
    "annex": {"ir", "te", "relay", "contract", "partition", "driver", *BASE},
    "compat": {"ir", "te", "relay", "contract", "codegen", "partition", "driver", "annex", "__init__", *BASE},
}


def test_every_import_goes_in_the_allowed_direction():
    wrong = []
    for name in modules():
        layer = name.split(".")[1] if "." in name else "__init__"
        if layer == "__init__":
            continue
        for target in imported(name):
            other = target.split(".")[1] if "." in target else "__init__"
            if other != layer and other not in LAYERS[layer]:
                wrong.append(f"{name} imports {target}")
    assert wrong == []


def test_no_import_is_relative():
    found = [
        f"{path}:{node.lineno}"
        for path in modules().values()
        for node in nodes(tree(path), ast.ImportFrom)
        if node.level
    ]
    assert found == []


@pytest.mark.parametrize("module", ["byoc", "byoc.runtime"])
def test_importing_pulls_in_no_compiler(module):
    code = f"import {module}, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    forbidden = ("byoc.ir", "byoc.te", "byoc.relay", "byoc.codegen", "byoc.partition", "byoc.driver")
    forbidden += ("onnx", "networkx", "pyopencl", "scipy", "rich", "cffi")
    assert [m for m in loaded if m.startswith(forbidden)] == []


MOST_MODULES = 349  # of ours that byoc.compile of the digit classifier imports: it may only fall


@pytest.fixture(scope="module")
def loaded_on_a_models_road(tmp_path_factory):
    """The modules of ours that a new process has once it compiled the digit classifier."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BYOC_VERIFY", raising=False)  # tests verify between passes, by more modules
        return json.loads(python(PROBE, str(MODEL), compiled=str(tmp_path_factory.mktemp("compiled"))))["names"]


@pytest.mark.needs_cc
def test_a_models_road_imports_no_more_modules_than_it_did(loaded_on_a_models_road):
    count = len(loaded_on_a_models_road)
    assert count <= MOST_MODULES, (
        f"{count} modules are imported, {MOST_MODULES} were: import what few models need inside of what needs it"
    )


@pytest.mark.needs_cc
def test_a_models_road_imports_nothing_of_the_annex(loaded_on_a_models_road):
    assert "byoc.relay.op.nn" in loaded_on_a_models_road
    assert [name for name in loaded_on_a_models_road if name.startswith(("byoc.annex", "byoc.compat"))] == []


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
    result = import_each_alone(list(modules()))
    assert result.returncode == 0, result.stdout


def test_setup_cfg_lists_every_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options"]["packages"].split()
    found = sorted(name for name, path in modules().items() if path.name == "__init__.py")
    assert sorted(listed) == found
