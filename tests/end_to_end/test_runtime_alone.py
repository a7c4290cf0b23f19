"""An artefact where only the runtime's own packages are installed: numpy and cffi, without the compiler's and ONNX."""

import subprocess
import sys

import numpy as np
import pytest

import byoc
from tools.health.sources import ROOT

pytestmark = pytest.mark.needs_cc
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
HIDDEN = ("onnx", "safetensors", "filelock", "platformdirs", "rich")
WITHOUT = f"""
import importlib.abc
import sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HIDDEN!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Hidden())
"""
RUNS = """
import numpy as np
import byoc.runtime

library = byoc.runtime.load("digits.byoc")
found = library.run({"image": np.load("image.npy")})[0]
np.save("found.npy", found)
print(sorted({row.name for row in library.profile({"image": np.load("image.npy")}, repeat=1).rows("region")}))
"""


@pytest.fixture(scope="module")
def artefact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("artefact")
    library = byoc.compile(DIGITS, targets=["json", "c"], exclude=["nn.softmax"])
    library.save(folder / "digits.byoc")
    image = np.random.default_rng(0).random((2, 1, 8, 8), "float32")
    np.save(folder / "image.npy", image)
    np.save(folder / "expected.npy", library(image))
    return folder


def python(folder, code):
    return subprocess.run([sys.executable, "-c", WITHOUT + code], cwd=folder, capture_output=True, text=True)


def test_a_model_is_loaded_run_and_profiled(artefact):
    done = python(artefact, RUNS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['host', 'tvmgen_default_json_main_0']\n"
    np.testing.assert_array_equal(np.load(artefact / "found.npy"), np.load(artefact / "expected.npy"))


@pytest.mark.parametrize("words", [["inspect", "digits.byoc"], ["compile", str(DIGITS)], ["run", "digits.byoc"]])
def test_a_command_that_needs_more_names_the_package(artefact, words):
    done = python(artefact, f"from byoc.cli.main import main\nsys.exit(main({words!r}))\n")
    assert done.returncode == 3 and "internal error" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"byoc {words[0]}: this command needs the package ")
    assert any(f"the package {name}, which is not installed: pip install {name}" in line for name in HIDDEN)
