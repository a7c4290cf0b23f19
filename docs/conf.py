"""The documentation site: ``make docs`` builds it into ``out/docs``, and warnings are errors.

The source folder is the repository itself, so that a link of a page leads to the same file where the page lies and in
the site. Pages are Markdown (MyST); notebooks are rendered with the outputs that are stored in them.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # tools

from sphinx.application import Sphinx  # noqa: E402
from sphinx.ext.napoleon import Config, GoogleDocstring  # noqa: E402

from byoc import __version__  # noqa: E402

project = "byoc"
author = "the authors of byoc"
version = release = __version__
root_doc = "docs/index"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "tools.site.directives",
]
include_patterns = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/**/*.md",
    "docs/*.md",
    "tutorials/*.ipynb",
]
exclude_patterns = [".*", "out", "build", "**/.ipynb_checkpoints"]

nb_execution_mode = "off"  # outputs are stored: make notebooks
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
add_module_names = False
default_role = "code"  # docstrings write parameters as *data* and code as ``code``

html_theme = "furo"
html_title = f"byoc {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["front"]  # index.html, which leads to docs/index.html
html_copy_source = False


def read_sections(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Google's sections of a docstring. Properties have none: what precedes a colon there would be read as a type."""
    if what != "property":
        lines[:] = GoogleDocstring(list(lines), Config(), app, what, name, obj, options).lines()


def setup(app: Sphinx) -> None:
    """What Sphinx calls when it has read this file."""
    app.connect("autodoc-process-docstring", read_sections)
