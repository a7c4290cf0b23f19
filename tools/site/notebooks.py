"""Runs the notebooks and stores their outputs in them: ``make notebooks``, or ``-m tools.site.notebooks NAME ...``.

Times of execution and the kernel's version are left out, so that a second run changes outputs alone. A folder of
this machine must not be in an output: such a notebook is not written.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tutorials"
SECONDS = 900  # a cell may calibrate the machine
LONG_TEXT = 2000  # characters
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def places_of_machine() -> list[str]:
    """What an output must not have: where the repository, the environment, the user's and temporary files are."""
    places = [ROOT, Path.home(), Path(tempfile.gettempdir()), Path(sys.prefix)]
    return [f"{place}{os.sep}" for place in places]


def texts(output: NotebookNode) -> list[str]:
    """Every text of an output."""
    return [output.get("text", ""), *(str(text) for text in output.get("data", {}).values())]


def drop_long_text(output: NotebookNode) -> None:
    """Leave out the text of what is shown as a picture or a page, where it is long: nobody is shown it."""
    data = output.get("data", {})
    if data.keys() & {"text/html", "image/svg+xml"} and len(data.get("text/plain", "")) > LONG_TEXT:
        del data["text/plain"]


def executed(path: Path) -> NotebookNode:
    """The notebook at *path* with fresh outputs. Raises ValueError where one of them names a folder of this machine."""
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": path.parent}}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=where, coalesce_streams=True).execute()
    for number, cell in enumerate(notebook.cells):
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            drop_long_text(output)
            found = [n for n in places_of_machine() for text in texts(output) if n in text]
            if found:
                raise ValueError(f"{path.name}, cell {number}: the output names a folder of this machine: {found[0]}")
    notebook.metadata = nbformat.from_dict(METADATA)
    return notebook


def main() -> None:
    paths = [FOLDER / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb"))
    for path in paths:
        notebook = executed(path)
        nbformat.validate(notebook)
        nbformat.write(notebook, path)
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
