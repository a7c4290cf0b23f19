"""Entry points of vendors that name the wrong thing, or nothing: compiler and runtime report each in one sentence."""

import os
import subprocess
import sys

import pytest

from byoc.contract.registration import BACKENDS, get_backend
from byoc.errors import PartitionError, UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.runtime.core.entry_points import EntryPoints
from byoc.runtime.json.table import TABLES, get_table
from byoc.runtime.modules.module import module_class

BACKEND = '''
"""A vendor's backend."""
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import register_backend
from byoc.contract.constraints import operators


def helper():
    """No backend."""


class Chip(JsonBackend):
    """Rectifies."""

    name = "{name}"
    constraints = (operators("nn.relu"),)
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs packages for one test, and takes away what they registered; a name is loaded once in a process."""
    known, modules = set(BACKENDS), set(sys.modules)

    def install(name, points, files, group="byoc.backends"):
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{points}\n")
        for file, text in files.items():
            (tmp_path / file).write_text(text)

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    tables = set(TABLES)
    yield install
    for name in set(BACKENDS) - known:
        for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
            registry.unregister(name)
        GLOBAL_FUNCTIONS.unregister(f"relay.ext.{name}")
    for name in set(TABLES) - tables:
        del TABLES[name]
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def byoc(folder, words):
    """A command of byoc, or a line of Python, in a new process that finds what stands in *folder*."""
    what = ["-c", words] if "import" in words.split()[0] else ["-m", "byoc", *words.split()]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, *what], capture_output=True, text=True, cwd=folder, env=environment)


@pytest.mark.parametrize("decorated", [False, True])
@pytest.mark.parametrize(
    "value, suffix, message",
    [
        ("Chap", "", "'NAME = epm_made:Chap' of epm 1.0 names 'Chap', which is not there; did you mean Chip\\?$"),
        (
            "helper",
            "",
            "gives the function helper, expected the backend's class, as in NAME = NAME_package.backend:Epm",
        ),
        (
            "Chip",
            "_x",
            "gives .*epm_made.py:Chip, a backend called 'NAME_x'; an entry point is called as its backend: ",
        ),
    ],
)
def test_an_entry_point_that_names_another_thing_is_reported(package, decorated, value, suffix, message):
    name = f"epm_{value.lower()}_{'decorated' if decorated else 'plain'}"
    text = BACKEND.format(name=name + suffix)
    files = {"epm_made.py": text.replace("class Chip", "@register_backend\nclass Chip") if decorated else text}
    package("epm", f"{name} = epm_made:{value}", files)
    for _ in range(2):
        with pytest.raises(PartitionError, match=message.replace("NAME", name)):
            get_backend(name)


def test_a_module_that_registers_nothing_is_reported(package):
    package("epm", "epm_module = epm_made", {"epm_made.py": BACKEND.format(name="epm_module")})
    with pytest.raises(PartitionError, match="of epm 1.0 was imported and registered no backend of that name$"):
        get_backend("epm_module")


def test_two_packages_that_bring_one_backend_are_reported_whatever_was_imported_before(package, tmp_path):
    package("epm", "json = epm_made:Chip", {"epm_made.py": BACKEND.format(name="json")})
    for before in ("import byoc.codegen.json.backend", "import byoc"):
        done = byoc(tmp_path, f"{before}; from byoc.contract import get_backend; get_backend('json')")
        shown = done.stderr.splitlines()[-1]
        assert "two packages bring the backend 'json': byoc-compiler " in shown
        assert ":JsonBackend) and epm 1.0 (epm_made:Chip); uninstall epm 1.0, or give its backend another name" in shown


def test_a_backend_that_no_entry_point_names_is_found_as_a_file_or_module(package, tmp_path):
    (tmp_path / "epm_file.py").write_text(BACKEND.format(name="epm_file"))
    (tmp_path / "byoc_epm").mkdir()
    (tmp_path / "byoc_epm" / "__init__.py").write_text(BACKEND.format(name="epm"))
    with pytest.raises(PartitionError, match="there is a file epm_file.py, .*: --import epm_file.py imports it first"):
        get_backend("epm_file")
    with pytest.raises(
        PartitionError, match="there is a module byoc_epm, which no entry point .*: --import byoc_epm im"
    ):
        get_backend("epm")
    with pytest.raises(PartitionError, match="^no backend is called 'zipfile'(?!.*there is)"):
        get_backend("zipfile")
    done = byoc(tmp_path, "targets epm_file")
    assert done.returncode == 2 and "--import epm_file.py imports it first" in done.stderr
    done = byoc(tmp_path, "targets epm_file --import epm_file.py")
    assert done.returncode == 0, done.stderr


def test_what_an_installed_class_registers_is_at_its_own_line(package, tmp_path):
    text = BACKEND.format(name="epm_line")
    package("epm", "epm_line = epm_made:Chip", {"epm_made.py": text})
    get_backend("epm_line")
    line = text.splitlines().index("class Chip(JsonBackend):") + 1
    assert BACKENDS.place("epm_line") == PATTERN_TABLES.place("epm_line") == f"{tmp_path}/epm_made.py:{line}"


def test_the_runtime_reports_what_an_entry_point_gives_instead(package):
    files = {"epm_runtime.py": "def helper():\n    pass\n"}
    package(
        "epm",
        "epm_key = epm_runtime:helper\nepm_table = epm_runtime:helper\nepm_kernels = epm_runtime:helpr",
        files,
        "byoc.runtime",
    )
    with pytest.raises(
        UserError, match="'epm_key' cannot be loaded here: .*gives the function helper, expected the cl"
    ):
        module_class("epm_key")
    with pytest.raises(UserError, match="'epm_kernels': .* names 'helpr', which is not there; did you mean helper"):
        get_table("epm_kernels")
    with pytest.raises(
        UserError, match="'epm_table': .* gives the function helper, and no table of that name was made"
    ):
        get_table("epm_table")


def test_a_package_that_brings_a_name_twice_and_a_value_of_no_form_are_reported(package):
    points = EntryPoints("byoc.backends", "backend")
    package("epm", "epm_one = a:B\nepm_two = a b", {})
    about = "epm_one = a:B\nepm_one = a:C\nepm_two = a b"
    with open("epm-1.0.dist-info/entry_points.txt", "w") as file:
        file.write(f"[byoc.backends]\n{about}\n")
    assert points.load("epm_one").mistake == (
        "epm 1.0 brings the backend 'epm_one' twice, as a:B and a:C; it can be one of them alone"
    )
    assert points.load("epm_two").mistake == "the entry point 'epm_two = a b' of epm 1.0 is not of the form module:name"
