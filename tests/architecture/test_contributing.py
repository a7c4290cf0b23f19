"""What CONTRIBUTING.md, the templates and the glossary name is there: files, make targets, commands and anchors."""

import ast
import configparser
import pathlib
import re
import subprocess
import sys

import pytest

from byoc.cli.main import COMMANDS

ROOT = pathlib.Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
MADE = {"build", "out"}  # by make; which files are there depends on what was made
TOP = sorted(p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".") and p.name not in MADE)
PATH = re.compile(rf"(?<![\w/.])(?:\.ci|\.github|{'|'.join(map(re.escape, TOP))})(?:/[\w.-]+)+")
EXAMPLES = {"byoc/cli/NAME_command.py"}  # which is to be written
SINGLE = re.compile(r"(?<![\w/.-])[A-Z]+\.md\b|\bsetup\.cfg\b")


def named_paths(text: str) -> list[str]:
    found = [p.rstrip(".") for p in (*PATH.findall(text), *SINGLE.findall(text))]
    return sorted(set(found) - EXAMPLES)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("text", [GUIDE, GLOSSARY], ids=["CONTRIBUTING", "glossary"])
def test_every_path_that_is_named_exists(text: str) -> None:
    paths = named_paths(text)
    assert len(paths) > 8
    assert [p for p in paths if not (ROOT / p).exists()] == []


def test_a_path_that_is_not_there_would_be_found() -> None:
    assert named_paths("`byoc/relay/nowhere.py`, see NOTHING.md.") == ["NOTHING.md", "byoc/relay/nowhere.py"]


def test_readme_leads_to_the_guide_and_the_glossary() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "(CONTRIBUTING.md)" in readme and "(docs/glossary.md)" in readme


def code_of(text: str) -> list[str]:
    """What stands in code: between backquotes and in indented blocks."""
    return [*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^ {4,}(\S.*)$", text, re.MULTILINE)]


def test_every_make_target_and_command_of_byoc_exists() -> None:
    code = "\n".join(code_of(GUIDE) + code_of((ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").read_text()))
    targets = re.findall(r"\bmake ([a-z][a-z-]*)", code)
    assert {"lint", "test", "test-slow", "fuzz", "fuzz-files", "demo"} <= set(targets) <= make_targets()
    commands = re.findall(r"^byoc ([a-z-]+)", code, re.MULTILINE)
    assert "targets" in commands
    assert set(commands) - {"operators"} <= set(COMMANDS)  # the example of a command


def test_every_module_that_is_started_exists() -> None:
    started = re.findall(r"python -m ([\w.]+)(?: ([a-z]+))?", GUIDE)
    from fuzz.__main__ import OTHERS

    tools = {"tools.health.deferred_names", "tools.site.page_examples", "tools.site.pictures"}
    assert {name for name, _ in started} == {"pytest", "fuzz", *tools}
    assert {command for name, command in started if name == "fuzz"} <= set(OTHERS)


def test_every_test_that_is_named_to_be_run_is_collected_by_its_words() -> None:
    """``-k NAME`` of a pytest command finds something in the files that it names, but for the operator to be added."""
    for files, word in re.findall(r"pytest -q ((?:tests/[\w/.]+ ?)+)-k (\w+)", GUIDE):
        texts = "".join((ROOT / f).read_text() for f in files.split())
        assert word in texts or word == "hard_sigmoid"


def test_the_python_of_the_guide_is_well_formed() -> None:
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", GUIDE, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    for indent, block in blocks:
        ast.parse("\n".join(line.removeprefix(indent) for line in block.split("\n")))


def python_of_the_guide(word: str) -> str:
    """The whole module of the guide, of those that begin with their imports, in which *word* stands."""
    return next(b for b in re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL) if word in b)


@pytest.mark.slow
def test_the_whole_modules_of_the_guide_have_no_type_errors(tmp_path: pathlib.Path) -> None:
    words = {"relu_chip": "class ReluChip", "drop_double_negative": "def DropDouble", "operators": "def run(arguments"}
    for name, word in words.items():
        (tmp_path / f"{name}.py").write_text(python_of_the_guide(word))
    subprocess.run([sys.executable, "-m", "tools.health.types", "--tree"], cwd=ROOT, check=True, capture_output=True)
    options = ["--strict", "--config-file", "mypy.ini", "--cache-dir", ".mypy_cache/strict", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, sorted(tmp_path.glob("*.py")))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_backend_and_the_pass_of_the_guide_run_as_printed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "relu_chip.py").write_text(python_of_the_guide("class ReluChip"))
    (tmp_path / "drop_double_negative.py").write_text(python_of_the_guide("def DropDoubleNegative"))
    code = """
import byoc, relu_chip
from byoc import relay
from drop_double_negative import DropDoubleNegative
x = relay.var("x", shape=(2, 3))
mod = relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.negative(relay.negative(x)))))
mod = DropDoubleNegative()(relay.transform.InferType()(mod))
plan = byoc.plan(mod, ["relu_chip"])
print([(d.operator, d.target) for d in plan.decisions])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "[('nn.relu', 'relu_chip')]\n", done.stdout + done.stderr


def test_the_option_of_the_guide_acts_as_printed(tmp_path: pathlib.Path) -> None:
    block = next(b for b in re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL) if "max_depth" in b)
    declared = "".join(f"    {line}\n" for line in block.splitlines())
    (tmp_path / "example.py").write_text(f"""
from dataclasses import dataclass
from byoc import relay
from byoc.driver.compiler.compile import compile_model
from byoc.driver.options import CompileRequest, Flag, configures, option

@dataclass(frozen=True, kw_only=True)
class Example(CompileRequest):
{declared}
x = y = relay.var("x", shape=(2, 3))
for _ in range(6):
    y = relay.sqrt(relay.abs(y))
mod = relay.IRModule.from_expr(relay.Function([x], y))
for given in ({{}}, {{"max_depth": 3}}):
    library = compile_model(Example(mod, **given))
    print(len([node for node in library.graph_json["nodes"] if node["op"] != "null"]))
""")
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "1\n4\n", done.stdout + done.stderr


def test_the_command_of_the_guide_runs_as_printed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "operators_command.py").write_text(python_of_the_guide("def run(arguments"))
    code = "import argparse, operators_command as c; print(c.run(argparse.Namespace(domain=''))[1])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "HardSigmoid" in done.stdout.split(), done.stdout + done.stderr


@pytest.mark.parametrize("folder", ["byoc/cli", "byoc/relay/transform/base", "contrib"])
def test_a_folder_that_the_guide_puts_a_file_into_has_room_for_two(folder: str) -> None:
    """Of 25 files (tests/architecture/test_shape_of_code.py): with one of them added, this test still passes."""
    assert folder in GUIDE
    assert len(list((ROOT / folder).glob("*.py"))) < 24


def test_the_glossary_has_thirty_words_in_order() -> None:
    words = re.findall(r"^\| ([a-z]+) \|", GLOSSARY, re.MULTILINE)[1:]
    assert words == sorted(set(words)) and len(words) == 30


def test_ci_tests_every_python_that_setup_names() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    named = re.findall(r"Python :: (3\.\d+)", config["metadata"]["classifiers"])
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.search(r"python: \[(.*)\]", workflow)[1].replace('"', "").split(", ") == named
    assert "run: .ci/run" in workflow and "cache" not in workflow


def test_pre_commit_takes_the_ruff_that_setup_pins() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    entries = re.findall(r"entry: (\S+) (\w+)", hooks)
    assert entries == [(".venv/bin/ruff", "check"), (".venv/bin/ruff", "format")]
    assert re.search(r"ruff==\d", (ROOT / "setup.cfg").read_text())


def test_the_changelog_has_the_sections_of_its_form() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().split("\n")
    assert re.fullmatch(
        r"## \[(Unreleased|\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d)\]?", next(x for x in lines if x[:3] == "## ")
    )
    sections = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"} and "Added" in sections
