"""An artefact where only the runtime's own packages are installed: numpy and cffi, without the compiler's and ONNX."""

import subprocess
import sys

import numpy as np
import pytest

import byoc
from tools.health.sources import ROOT

pytestmark = pytest.mark.needs_cc
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
HIDDEN = ("onnx", "safetensors", "filelock", "platformdirs", "rich", "networkx", "scipy", "pyopencl")
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


def command(folder, *words):
    return python(folder, f"from byoc.cli.main import main\nsys.exit(main({list(words)!r}))\n")


def test_an_artefact_is_run_and_looked_into_from_the_command_line(artefact):
    done = command(artefact, "run", "digits.byoc", "-i", "image=image.npy", "-o", "outputs.npz")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    with np.load(artefact / "outputs.npz") as found:
        np.testing.assert_array_equal(found[found.files[0]], np.load(artefact / "expected.npy"))
    assert command(artefact, "run", "digits.byoc", "--random", "--size", "batch=3", "--repeat", "2").returncode == 0
    done = command(artefact, "inspect", "digits.byoc", "--source")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "tvmgen_default_json_main_0" in done.stdout and "cannot run here" not in done.stdout


@pytest.mark.parametrize(
    "words", [["inspect", str(DIGITS)], ["compile", str(DIGITS)], ["run", str(DIGITS)], ["plan", str(DIGITS)]]
)
def test_a_command_that_needs_more_names_the_package(artefact, words):
    done = python(artefact, f"from byoc.cli.main import main\nsys.exit(main({words!r}))\n")
    assert done.returncode == 3 and "internal error" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"byoc {words[0]}: this command needs the package ")
    assert any(f"the package {name}, which is not installed: pip install {name}" in line for name in HIDDEN)
