"""``byoc new-backend``: the package that it writes is built, installed in a fresh environment, and runs a model."""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv

import pytest

from byoc.cli.main import main
from byoc.cli.new_backend_command import KINDS, MODEL, write_package
from tools.health.sources import ROOT

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
RUN = """
import json, sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load("d.byoc")
total = float(library(np.ones((1, 1, 8, 8), "float32")).sum())
compiler = ("byoc.ir", "byoc.relay", "byoc.contract", "byoc.codegen", "byoc.driver", "onnx")
print(json.dumps([total, [name for name in sys.modules if name.startswith(compiler)]]))
"""


class Environment:
    """A fresh environment that sees byoc and what it needs, as installed for the tests, and what is installed in it."""

    def __init__(self, folder):
        venv.create(folder / "env", with_pip=False)
        self.python = folder / "env" / "bin" / "python"
        (own,) = (folder / "env" / "lib").glob("python*/site-packages")
        outside = sysconfig.get_path("purelib")
        (own / "outside.pth").write_text(f"import site; site.addsitedir({outside!r})\n")

    def run(self, folder, *words):
        variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "BYOC_BACKENDS")}
        return subprocess.run([self.python, *words], cwd=folder, env=variables, capture_output=True, text=True)

    def ok(self, folder, *words):
        done = self.run(folder, *words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def install(self, package):
        """Build the wheel of *package* and install it."""
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(package / "dist"), str(package)]
        subprocess.run(build, check=True, capture_output=True, text=True)
        (wheel,) = (package / "dist").glob("*.whl")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(self.python),
            "install",
            "--no-index",
            "--no-deps",
            str(wheel),
        ]
        subprocess.run(pip, check=True, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.parametrize("kind", KINDS)
def test_the_package_is_built_installed_and_runs_a_real_model(kind, tmp_path, capsys):
    package = tmp_path / "vendor"
    assert main(["new-backend", "zed", "--kind", kind, "-o", str(package)]) == 0
    steps = capsys.readouterr().out.partition("next:\n")[2].split("\n")
    assert "  python demo.py" in steps and "  byoc certify zed -o certificate.json" in steps
    environment = Environment(tmp_path)
    environment.install(package)
    work = tmp_path / "work"
    work.mkdir()
    assert re.search(r"^zed +ready", environment.ok(work, "-m", "byoc", "targets"), re.M)
    shown = environment.ok(work, "-m", "byoc", "compile", str(DIGITS), "-t", "zed,c", "-o", "d.byoc")
    assert "targets zed: 4 regions" in shown
    assert "cannot run here" not in environment.ok(work, "-m", "byoc", "inspect", "d.byoc")
    total, compiler = json.loads(environment.ok(work, "-c", RUN))
    assert total == pytest.approx(1, abs=1e-5) and compiler == []
    # without the package: the error says what to install, unless nothing of it is needed, and the artefact can be
    # opened
    done = subprocess.run([sys.executable, "-c", RUN], cwd=work, capture_output=True, text=True)
    assert main(["inspect", str(work / "d.byoc")]) == 0
    shown = capsys.readouterr().out
    if KINDS[kind].brings:
        assert "; install byoc-zed 0.1.0, with which it was made" in done.stderr
        assert "cannot run here: module 0 (" in shown
    else:
        assert json.loads(done.stdout)[1] == [] and "cannot run here" not in shown
    # what the vendor does next: the tests and the page
    shown = environment.ok(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert " passed" in shown and "skipped" not in shown
    shown = environment.ok(package, "-m", "byoc", "certify", "zed", "-o", "certificate.json")
    assert "zed: certified (" in shown and json.loads((package / "certificate.json").read_text())["summary"]["ok"]
    environment.ok(package, "-m", "byoc", "targets", "zed", "--markdown", "-o", "docs/zed.md")
    assert "# What the backend `zed` supports" in (package / "docs" / "zed.md").read_text()


@pytest.mark.needs_cc
@pytest.mark.parametrize("kind", KINDS)
def test_the_demo_of_each_kind_runs_where_the_package_stands(kind, tmp_path):
    """As an installer in place leaves it: the package on the path, and what it says of itself."""
    write_package("zed", kind, tmp_path)
    about = tmp_path / "byoc_zed-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: byoc-zed\nVersion: 0.1.0\n")
    runtime = "[byoc.runtime]\nzed = byoc_zed.runtime:ZedModule\n" if KINDS[kind].brings else ""
    (about / "entry_points.txt").write_text(f"[byoc.backends]\nzed = byoc_zed.backend:ZedBackend\n{runtime}")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "demo.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("zed: as the host computes it\nzed, from the file: as the host computes it\n")
    assert "4 regions" in done.stdout


def lines_of_code(path):
    """The lines with code: neither blank, nor comments, nor docstrings."""
    tree = ast.parse(path.read_text())
    lines = {k for node in ast.walk(tree) if hasattr(node, "lineno") for k in range(node.lineno, node.end_lineno + 1)}
    for node in ast.walk(tree):
        first = node.body[0] if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            lines -= set(range(first.lineno, first.end_lineno + 1))
    blank = {k for k, text in enumerate(path.read_text().splitlines(), 1) if not text.strip()}
    return len(lines - blank)


MOST = {"kernels": 80, "subgraph": 80, "source": 80}  # lines of the vendor's own code for the first region


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_short_python_that_names_the_backend(kind, tmp_path):
    write_package("my_chip", kind, tmp_path)
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != MODEL:
            text = path.read_text()
            assert "acme" not in text.lower() and "RUNTIME_" not in text and "KIND_ADVICE" not in text, path
            if path.suffix == ".py":
                ast.parse(text)
    assert "class MyChipBackend" in (tmp_path / "byoc_my_chip" / "backend.py").read_text()
    count = sum(map(lines_of_code, (tmp_path / "byoc_my_chip").glob("[br]*.py")))
    assert count < MOST[kind], count
    assert (tmp_path / ".github" / "workflows" / "ci.yml").read_text().startswith("name: tests")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_as_ruff_wants_it(kind, tmp_path):
    write_package("my_chip", kind, tmp_path)
    configuration = ROOT / "ruff.toml"
    for words in (["check", "--config", str(configuration)], ["format", "--check", "--config", str(configuration)]):
        done = subprocess.run([sys.executable, "-m", "ruff", *words, "."], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_model_is_that_of_the_examples(tmp_path):
    write_package("zed", "kernels", tmp_path)
    assert (tmp_path / MODEL).read_bytes() == DIGITS.read_bytes()


@pytest.mark.parametrize(
    "words, sentence",
    [
        (
            ["My-Chip"],
            "is lower-case letters, digits and _, from a letter on, got 'My-Chip'; 'my_chip' would do",
        ),
        (["9"], "from a letter on, got '9'"),
        (["json"], "a backend is called 'json' already; choose another name"),
        (["zed", "-o", "full"], "full: it is there already, and not an empty folder; choose another with --output"),
        (["zed", "--kind", "magic"], "invalid choice: 'magic'"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    try:
        assert main(["new-backend", *words]) == 2
    except SystemExit as ended:
        assert ended.code == 2
    assert sentence in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["full"]
