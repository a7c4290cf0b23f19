"""The pages of the documentation: their examples give what they say, and their links and file names lead somewhere."""

import pathlib
import re
import subprocess
import sys

import pytest

from tools.site.page_examples import PageBlock, blocks_of, run_console, run_python

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
EXAMPLES = [DOCS / "start.md", DOCS / "tour.md", *sorted((DOCS / "guides").glob("*.md"))]
ELSEWHERE = {"index", "pytorch", "sklearn"}  # without examples, or with those that need PyTorch or scikit-learn
NAMED = [DOCS / "tour.md", DOCS / "architecture_map.md", *sorted((DOCS / "decisions").glob("*.md"))]
FOLDERS = ("byoc", "codegen", "runtime", "contrib", "tools", "tests", "tutorials", "examples", "fuzz")
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`")


def name(path):
    return str(path.relative_to(ROOT))


# pages whose examples quantize, tune, bisect and measure for up to a quarter of a minute; those of the last are in the
# notebook profile_and_cost too
LONG = ("quantise", "tune", "debug", "profile")


def of_page(path):
    return pytest.param(path, id=name(path), marks=[pytest.mark.slow] if path.stem in LONG else [])


@pytest.mark.needs_cc
@pytest.mark.parametrize("path", [of_page(p) for p in EXAMPLES if p.stem not in ELSEWHERE])
def test_the_examples_of_a_page_give_what_it_says(path):
    assert len(blocks_of(path.read_text())) > 2
    command = [sys.executable, "-m", "tools.site.page_examples", str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_example_that_gives_something_else_is_found(capfd):
    assert run_python(PageBlock("python", ">>> 1 + 1\n3\n", 1), {}, "page") == 1
    assert run_python(PageBlock("python", ">>> 1 + 1\n2\n", 1), {}, "page") == 0
    assert run_console(PageBlock("console", "$ echo one\ntwo\n", 1), "page") == 1
    assert run_console(PageBlock("console", "$ echo one two\none ...\n$ echo three\n", 1), "page") == 0
    assert run_console(PageBlock("console", "$ exit 2\n", 1), "page") == 1
    assert "exit code 2" in capfd.readouterr().out


def links_of(text):
    """The relative links of a page: to pages, files and pictures, but for those in code."""
    prose = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    found = [*re.findall(r"\]\(([^)\s]+)\)", prose), *re.findall(r'(?:src|href)="([^"]+)"', prose)]
    return [link.split("#")[0] for link in found if not re.match(r"[a-z]+:|#", link)]


def test_links_are_found_in_prose_alone():
    text = 'see [a](b.md#c), ![d](e.svg), <img src="f.svg">, [g](https://h), [i](#j), `[k](l)`\n```\n[m](n)\n```\n'
    assert links_of(text) == ["b.md", "e.svg", "f.svg"]


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_relative_link_leads_to_a_file(path):
    assert [link for link in links_of(path.read_text()) if not (path.parent / link).is_file()] == []


def test_readme_leads_to_the_site_the_guides_the_notebooks_and_the_guide_for_contributors():
    linked = {(ROOT / link).resolve() for link in links_of((ROOT / "README.md").read_text())}
    wanted = [DOCS / "index.md", *EXAMPLES, *(ROOT / "tutorials").glob("*.ipynb"), ROOT / "CONTRIBUTING.md"]
    assert [name(p) for p in wanted if p not in linked and p.parent.name + p.stem != "guidesindex"] == []
    assert DOCS / "pictures" / "digits.svg" in linked


@pytest.mark.parametrize("path", NAMED, ids=name)
def test_every_file_that_a_page_names_exists(path):
    assert [p for p in PATH.findall(path.read_text()) if not (ROOT / p).exists()] == []


def test_every_file_that_architecture_names_exists():
    """It leaves out the front of a path."""
    named = set(re.findall(r"`([\w./]*\w\.py)`", (ROOT / "ARCHITECTURE.md").read_text()))
    files = [f"/{name(path)}" for folder in (*FOLDERS, "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    assert len(named) > 100
    assert [p for p in sorted(named) if not any(f.endswith(f"/{p}") for f in files)] == []
    folders = [f"/{name(path)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_dir()]
    rooms = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+)`", (ROOT / "ARCHITECTURE.md").read_text()))
    assert len(rooms) > 10
    assert [r for r in sorted(rooms) if not any(f"{f}/".find(f"/{r}/") >= 0 for f in folders)] == []


def test_the_tour_names_the_files_of_every_step():
    text = (DOCS / "tour.md").read_text()
    assert len(set(PATH.findall(text))) > 20
    assert re.findall(r"^## (\d)\. ", text, re.MULTILINE) == list("123456789")


def test_decisions_are_numbered_and_have_their_three_parts():
    paths = sorted((DOCS / "decisions").glob("0*.md"))
    assert [int(p.name[:4]) for p in paths] == list(range(1, len(paths) + 1)) and len(paths) >= 10
    for path in paths:
        text = path.read_text()
        assert text.startswith(f"# {int(path.name[:4])}. "), path
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequence"], path
