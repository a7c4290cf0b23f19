"""Every notebook runs from top to bottom, and the backend of the tutorial stays within its promise."""

import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).parents[2] / "tutorials"


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_runs(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()


def test_the_backend_of_the_tutorial_is_at_most_80_lines():
    notebook = nbformat.read(FOLDER / "bring_your_own_codegen.ipynb", as_version=4)
    cell = next(c.source for c in notebook.cells if c.cell_type == "code")
    assert "register_backend" in cell
    assert len(cell.splitlines()) <= 80
