"""The wheel, the source distribution and the editable installation give the same modules, under the advised name."""

import configparser
import importlib.metadata
import os
import pathlib
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest

from byoc.runtime.core.entry_points import DISTRIBUTION, install_command

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
    return built(tmp_path_factory.mktemp("dist"), "--no-isolation")


def built(folder, *options):
    subprocess.run(
        [sys.executable, "-m", "build", *options, "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
        text=True,
    )
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


@pytest.mark.slow
def test_what_building_needs_is_declared(distributions, tmp_path):
    """In an environment that has what pyproject.toml names and nothing else, the wheel is the same."""
    alone, beside = (zipfile.ZipFile(wheel).namelist() for wheel in (built(tmp_path)[0], distributions[0]))
    assert sorted(alone) == sorted(beside)


def wheel_modules(names):
    return sorted(n[:-3].replace("/", ".").removesuffix(".__init__") for n in names if n.endswith(".py"))


def test_the_wheel_holds_every_module_and_the_data(distributions):
    names = zipfile.ZipFile(distributions[0]).namelist()
    assert wheel_modules(n for n in names if n.startswith("byoc/")) == module_names()
    assert {"byoc/py.typed", "byoc/codegen/json/schema.json"} <= set(names)
    templates = ROOT / "byoc" / "cli" / "templates"
    assert {f"byoc/cli/templates/{p.relative_to(templates)}" for p in templates.glob("*/*")} <= set(names)


def test_the_source_distribution_holds_every_module(distributions):
    with tarfile.open(distributions[1]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    tracked = {
        str(p.relative_to(ROOT)) for f in (*PACKAGES.values(), "tests", "examples") for p in (ROOT / f).rglob("*.py")
    }
    assert tracked <= names
    assert {"LICENSE", "README.md", "Makefile", ".ci/run", "examples/digits/digits.onnx"} <= names
    assert {f"tutorials/{p.name}" for p in (ROOT / "tutorials").glob("*.ipynb")} <= names
    site = [p for p in (ROOT / "docs").rglob("*") if p.suffix in (".md", ".py", ".svg", ".css", ".html")]
    assert {str(p.relative_to(ROOT)) for p in [*site, *(ROOT / "tools" / "site").glob("*.py")]} <= names
    assert [n for n in names if "__pycache__" in n or n.endswith((".pyc", ".byoc"))] == []


@pytest.fixture(scope="module")
def local_index(distributions, tmp_path_factory):
    """A package index of one project, beside the one that pip is set up with."""
    folder = tmp_path_factory.mktemp("index") / DISTRIBUTION
    folder.mkdir()
    wheel = distributions[0]
    (folder / wheel.name).symlink_to(wheel)
    (folder / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}
    unread = {"PIP_COMPILE": "0"}  # Python compiles what is imported, pip all modules of NumPy and ONNX
    return {"PIP_EXTRA_INDEX_URL": folder.parent.as_uri(), **quiet, **unread}


class Environment:
    """A fresh virtual environment whose commands come first on the search path, as after ``activate``."""

    def __init__(self, folder, index, with_pip=True):
        venv.create(folder / "env", with_pip=with_pip)
        self.python = folder / "env" / "bin" / "python"
        outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        path = f"{folder / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.variables = {**outside, **index, "PATH": path, "BYOC_CACHE_DIR": str(folder / "cache")}

    def shell(self, command, folder):
        """Run *command* as a user types it; it must succeed."""
        result = subprocess.run(command, shell=True, cwd=folder, env=self.variables, capture_output=True, text=True)
        assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
        return result.stdout


@pytest.fixture(scope="module")
def installed(local_index, tmp_path_factory):
    """A fresh environment in which the command that error messages advise was run."""
    folder = tmp_path_factory.mktemp("installed")
    environment = Environment(folder, local_index)
    environment.shell(install_command("opencl"), folder)
    return environment


@pytest.fixture(scope="module")
def unpacked(distributions, tmp_path_factory):
    """A fresh environment with the wheel alone, which finds what it needs where these tests do."""
    folder = tmp_path_factory.mktemp("unpacked")
    environment = Environment(folder, {}, with_pip=False)
    words = ["--python", str(environment.python), "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run([sys.executable, "-m", "pip", *words, str(distributions[0])], check=True, capture_output=True)
    packages = next((folder / "env").glob("lib/python*/site-packages"))
    needed = sysconfig.get_path("purelib")  # its own .pth files, such as that of this tree, are not read
    (packages / "needed.pth").write_text(f"{needed}\n")
    assert environment.shell("python -c 'import byoc; print(byoc.__file__)'", folder).startswith(str(packages))
    return environment


@pytest.mark.slow
def test_what_is_installed_by_name_imports_every_module(installed, tmp_path):
    names = [name for name in module_names() if not (name.endswith("__main__") or name in FOR_PYTEST)]
    (tmp_path / "all.py").write_text("\n".join(f"import {name}" for name in names))
    installed.shell("python all.py", tmp_path)
    assert installed.shell("byoc --version", tmp_path).startswith("byoc ")


def readme_commands():
    """The shell commands of README that a user types: those that begin with ``byoc``, and ``make``."""
    lines = re.findall(r"^    (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    commands = [shlex.join(shlex.split(line, comments=True)) for line in lines if line.startswith("byoc ")]
    return [c for c in commands if c not in ("byoc", "")]


SLOW = ("tune", "--policy cost", "plan.json")  # commands that measure this machine, and what reads their results


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    ("where", "measuring"),
    [
        ("unpacked", False),
        pytest.param("installed", False, marks=pytest.mark.slow),
        pytest.param("installed", True, marks=pytest.mark.slow),
    ],
)
def test_every_command_of_the_readme_works_as_printed(where, measuring, request, tmp_path):
    environment = request.getfixturevalue(where)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "model.onnx").symlink_to(ROOT / "examples" / "digits" / "digits.onnx")
    commands = [c for c in readme_commands() if any(word in c for word in SLOW) == measuring]
    assert len(commands) >= (5 if measuring else 6)
    for command in commands:
        environment.shell(command.replace("Conv_12", "node_linear"), tmp_path)
    if not measuring:
        environment.shell("make -C out && out/model", tmp_path)


ADVICE = re.compile(r"pip install [^\n]*?\b(byoc[\w-]*)(?:\[(\w+)\])?")


def test_whatever_advises_to_install_byoc_names_our_distribution():
    found = []
    for path in tracked_files():
        for name, extra in ADVICE.findall(path.read_text(errors="ignore")):
            found.append((path.relative_to(ROOT), name, extra))
    assert found
    assert [f for f in found if f[1] != DISTRIBUTION] == []
    assert {extra for _, _, extra in found if extra} <= set(extras_of_setup())


def test_advice_in_messages_is_made_of_one_function():
    written = []
    for folder in PACKAGES.values():
        for path in (ROOT / folder).rglob("*.py"):
            if path != ROOT / "runtime" / "core" / "entry_points.py" and f"{DISTRIBUTION}" in path.read_text():
                written.append(str(path.relative_to(ROOT)))
    assert written == []


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", "opencl", "zig", "solve", "sign", "bench"])
def test_each_installation_that_a_message_advises_works_in_a_fresh_environment(extra, local_index, tmp_path):
    environment = Environment(tmp_path, local_index)
    environment.shell(install_command(extra), tmp_path)
    assert "byoc" in environment.shell("byoc doctor", tmp_path)


def tracked_files():
    """The text files of the repository."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    kinds = (".py", ".md", ".cfg", ".toml", ".ipynb", ".txt", "Makefile", "run")
    return [ROOT / n for n in names if n.endswith(kinds) and n != "tests/architecture/test_packaging.py"]


def extras_of_setup():
    """The extras of setup.cfg: name to lines."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return {name: text.split("\n") for name, text in config["options.extras_require"].items()}


def test_the_editable_installation_imports_every_module_of_this_tree():
    code = (
        "import importlib, sys\n"
        "for name in sys.stdin.read().split():\n"  # they are too many for an argument
        f"    assert importlib.import_module(name).__file__.startswith({str(ROOT)!r}), name\n"
    )
    names = "\n".join(n for n in module_names() if not n.endswith("__main__"))
    result = subprocess.run([sys.executable, "-c", code], input=names, capture_output=True, text=True, cwd="/")
    assert result.returncode == 0, result.stderr


def test_every_extra_names_packages_that_an_installation_can_find():
    extras = extras_of_setup()
    named = {
        "opencl",
        "graph",
        "images",
        "sklearn",
        "zig",
        "solve",
        "sign",
        "onednn",
        "onnxruntime",
        "openvino",
        "xnnpack",
        "torch",
        "bench",
        "test",
        "fuzz",
        "docs",
        "all",
    }
    assert set(extras) == named
    own = {line.removeprefix(f"{DISTRIBUTION}[").removesuffix("]") for line in extras["all"] if line}
    assert own == set(extras) - {"all", "fuzz", "torch"}  # NNSmith and PyTorch have gigabytes of their own
    metadata = importlib.metadata.metadata(DISTRIBUTION)
    assert set(metadata.get_all("Provides-Extra")) == set(extras)
    assert "Apache-2.0" in (metadata["License"], metadata["License-Expression"])
