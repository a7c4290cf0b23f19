"""Every notebook runs from top to bottom and has its outputs; the backend of the tutorial stays within its promise."""

import os
import pathlib
import re

import nbformat
import onnx
import pytest
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).parents[2] / "tutorials"
PATHS = sorted(FOLDER.glob("*.ipynb"))
SAME_EVERYWHERE = ("quickstart", "bring_your_own_codegen")  # the third measures the machine
PICTURES = {"quickstart": 1, "bring_your_own_codegen": 0, "where_should_it_run": 2}


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs_of(cell):
    """What a cell shows, as text; a picture as its SVG."""
    data = [o.get("data", {"text/plain": o.get("text", "")}) for o in cell.outputs]
    return [next(d[kind] for kind in ("image/svg+xml", "text/html", "text/plain") if kind in d) for d in data]


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_a_notebook_runs_and_gives_what_is_stored_in_it(path):
    notebook = nbformat.read(path, as_version=4)
    stored = [outputs_of(cell) for cell in code_cells(notebook)]
    where = {"metadata": {"path": FOLDER}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where, coalesce_streams=True).execute()
    if path.stem in SAME_EVERYWHERE:
        assert [outputs_of(cell) for cell in code_cells(notebook)] == stored, "run make notebooks"


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_a_notebook_is_stored_with_its_outputs_and_pictures(path):
    cells = code_cells(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    shown = [text for cell in cells for text in outputs_of(cell)]
    assert sum(text.startswith("<svg") for text in shown) == PICTURES[path.stem]
    assert [cell.source for cell in cells if "print(" in cell.source and not cell.outputs] == []
    raw = path.read_text(encoding="utf-8")
    assert re.findall(r"(?<![\w.])/(?:home|root|tmp|Users|var|opt)/[^\s\"]*", raw) == []
    assert len(raw) < 400_000


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.skipif("BYOC_ZOO" not in os.environ, reason="set BYOC_ZOO to what benchmarks/export_zoo.py wrote")
def test_where_should_it_run_takes_the_zoos_models():
    zoo = pathlib.Path(os.environ["BYOC_ZOO"]).resolve()
    files = {"resnet": "resnet18.onnx", "transformer": "bert.onnx"}
    counts = {k: len(onnx.load(zoo / f, load_external_data=False).graph.node) for k, f in files.items()}
    notebook = nbformat.read(FOLDER / "where_should_it_run.ipynb", as_version=4)
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
    sizes = next(c.outputs[-1]["data"]["text/plain"] for c in notebook.cells if "make_model" in c.source)
    assert sizes == str(counts)


def test_the_backend_of_the_tutorial_is_at_most_80_lines():
    notebook = nbformat.read(FOLDER / "bring_your_own_codegen.ipynb", as_version=4)
    cell = next(c.source for c in notebook.cells if c.cell_type == "code")
    assert "register_backend" in cell
    assert len(cell.splitlines()) <= 80
