"""The wheel, the source distribution and the editable installation give the same modules."""

import configparser
import importlib.metadata
import pathlib
import subprocess
import sys
import tarfile
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
# what only pytest itself imports: tvm.testing asks for it when a test first does
FOR_PYTEST = {
    f"byoc.compat.tvm_modules.{name}"
    for name in ("testing_plugin", "testing.features", "testing.parametrization", "testing.targets")
}
PACKAGES = {"byoc": "byoc", "byoc.codegen": "codegen", "byoc.runtime": "runtime", "byoc.contrib": "contrib"}


def module_names():
    names = set()
    for package, folder in PACKAGES.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            names.add(".".join([package, *parts]).removesuffix(".__init__"))
    return sorted(names)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The wheel and the sdist, built from the files that git tracks or would track."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True, text=True
    )
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def wheel_modules(names):
    return sorted(n[:-3].replace("/", ".").removesuffix(".__init__") for n in names if n.endswith(".py"))


def test_the_wheel_holds_every_module_and_the_data(distributions):
    names = zipfile.ZipFile(distributions[0]).namelist()
    assert wheel_modules(n for n in names if n.startswith("byoc/")) == module_names()
    assert {"byoc/py.typed", "byoc/codegen/json/schema.json"} <= set(names)


def test_the_source_distribution_holds_every_module(distributions):
    with tarfile.open(distributions[1]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    tracked = {
        str(p.relative_to(ROOT)) for f in (*PACKAGES.values(), "tests", "examples") for p in (ROOT / f).rglob("*.py")
    }
    assert tracked <= names
    assert {"LICENSE", "README.md", "Makefile", ".ci/run", "examples/digits/digits.onnx"} <= names
    assert {f"tutorials/{p.name}" for p in (ROOT / "tutorials").glob("*.ipynb")} <= names
    assert [n for n in names if "__pycache__" in n or n.endswith((".pyc", ".byoc"))] == []


def test_the_wheel_installs_into_a_fresh_environment_and_imports_every_module(distributions, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(distributions[0])], check=True, cwd=tmp_path)
    names = [name for name in module_names() if not (name.endswith("__main__") or name in FOR_PYTEST)]
    code = "\n".join(f"import {name}" for name in names)
    result = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    command = [tmp_path / "env" / "bin" / "byoc", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.startswith("byoc "), result.stderr


def test_the_editable_installation_imports_every_module_of_this_tree():
    code = "import importlib\n" + "\n".join(
        f"assert importlib.import_module({n!r}).__file__.startswith({str(ROOT)!r}), {n!r}"
        for n in module_names()
        if not n.endswith("__main__")
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
    assert result.returncode == 0, result.stderr


def test_every_extra_names_packages_that_an_installation_can_find():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = {name: text.split("\n") for name, text in config["options.extras_require"].items()}
    assert set(extras) == {"opencl", "zig", "solve", "bench", "test", "docs", "all"}
    own = {line.removeprefix("byoc[").removesuffix("]") for line in extras["all"] if line}
    assert own == set(extras) - {"all"}
    metadata = importlib.metadata.metadata("byoc")
    assert set(metadata.get_all("Provides-Extra")) == set(extras)
    assert "Apache-2.0" in (metadata["License"], metadata["License-Expression"])
