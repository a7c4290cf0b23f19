"""Whatever the search path, each module of ours is imported once, or a sentence says why not."""

import os
import pathlib
import subprocess
import sys

import numpy
import pytest

from tools.health.sources import ROOT

FOLDERS = ("byoc", "codegen", "contrib", "runtime")


@pytest.fixture
def checkout(tmp_path):
    """The folders of another checkout, which is not installed."""
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
        for file in (ROOT / folder).iterdir():
            if file.name != "__pycache__":
                (tmp_path / folder / file.name).symlink_to(file)
    return tmp_path


def python(code, folder, *options, path=()):
    """What Python writes and its exit status: run in *folder*, with *path* first on its search path."""
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(
        [sys.executable, *options, "-c", code], cwd=folder, env=found, capture_output=True, text=True, timeout=120
    )
    return done.returncode, (done.stdout + done.stderr).strip()


@pytest.mark.parametrize(
    "module", ["runtime", "runtime.core", "codegen", "codegen.c.backend", "contrib", "contrib.blas"]
)
@pytest.mark.parametrize("installed", [True, False])
def test_a_folder_of_the_checkout_is_no_package_of_its_own(module, installed):
    status, written = python(f"import {module}", ROOT, *([] if installed else ["-S"]))
    package = module.split(".")[0]
    assert status == 1
    assert written.splitlines()[-1] == (
        f"ImportError: {package} is byoc.{package}, found by a search path that holds byoc's checkout: "
        f"import byoc.{package} instead"
    )


def test_a_folder_of_the_checkout_is_refused_behind_byoc_too(tmp_path):
    status, written = python("import byoc.runtime\nimport runtime.core", tmp_path, path=[ROOT])
    assert status == 1 and "import byoc.runtime instead" in written.splitlines()[-1]


@pytest.mark.parametrize("module", ["byoc", "byoc.runtime", "byoc.cli.main"])
def test_a_checkout_that_is_not_installed_says_how_to_install_it(module, checkout):
    status, written = python(f"import {module}", checkout, "-S")
    assert status == 1
    assert written.splitlines()[-1] == (
        f"ImportError: byoc is imported from the checkout {checkout}, which is not installed and so has no "
        "byoc.codegen: run `python -m pip install --editable .` in that folder, or start Python elsewhere if it is "
        "installed"
    )


def test_the_packages_of_another_copy_are_refused(checkout):
    status, written = python("import byoc", checkout)
    assert status == 1
    last = written.splitlines()[-1]
    assert f"byoc is imported from {checkout / 'byoc'}, but byoc.codegen from " in last
    assert "another copy: start Python where only one of them is on its search path" in last


def test_links_to_one_copy_are_that_copy(tmp_path):
    (tmp_path / "linked").symlink_to(ROOT)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "byoc").symlink_to(ROOT / "byoc")
    for path in (tmp_path / "linked", tmp_path / "below"):
        assert python("import byoc.runtime, byoc.codegen", tmp_path, path=[path]) == (0, "")


def test_the_packages_may_stand_below_byoc_as_in_an_installation(tmp_path):
    package = tmp_path / "byoc"
    package.mkdir()
    for file in (ROOT / "byoc").iterdir():
        (package / file.name).symlink_to(file)
    for folder in FOLDERS[1:]:
        (package / folder).symlink_to(ROOT / folder)
    libraries = pathlib.Path(numpy.__file__).parents[1]
    code = f"import sys; sys.path.append({str(libraries)!r})\nimport byoc.runtime"
    assert python(code, tmp_path, "-S") == (0, "")
