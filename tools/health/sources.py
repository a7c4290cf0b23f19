"""The modules of byoc, by name, and who imports whom; types count, and so do imports inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# packages and the folders where they stand (setup.cfg, package_dir)
FOLDERS = {
    "byoc": ROOT / "byoc",
    "byoc.codegen": ROOT / "codegen",
    "byoc.runtime": ROOT / "runtime",
    "byoc.contrib": ROOT / "contrib",
}


@cache
def modules() -> dict[str, Path]:
    """Each module's dotted name and its file."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            name = ".".join([package, *path.relative_to(folder).with_suffix("").parts])
            found[name.removesuffix(".__init__")] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(name: str) -> Iterator[str]:
    """The modules of ours that module *name* imports."""
    known = modules()
    for node in ast.walk(tree(known[name])):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [full if full in known else node.module for full in inner]
        else:
            continue
        yield from (full for full in names if full in known)


def package_of(name: str) -> str:
    """The package in which module *name* stands; a package stands in itself."""
    return name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]
