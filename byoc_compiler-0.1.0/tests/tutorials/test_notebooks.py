"""Every notebook runs from top to bottom, and the backend of the tutorial stays within its promise."""

import os
import pathlib

import nbformat
import onnx
import pytest
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).parents[2] / "tutorials"


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_runs(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()


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
