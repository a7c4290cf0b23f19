"""Folders by their number of files, and functions by their number of parameters."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tools.health.sources import ROOT, modules, nodes, tree

MANY = 8  # parameters
BESIDE = ("benchmarks", "fuzz", "tools", "examples")  # folders of code that is not installed


def files_by_folder() -> Counter[Path]:
    """How many files of code stand in each folder, of what is installed and of :data:`BESIDE`."""
    beside = [path for folder in BESIDE for path in (ROOT / folder).rglob("*.py")]
    return Counter(path.parent for path in (*modules().values(), *beside))


def parameters() -> list[tuple[int, str, str]]:
    """Each function with :data:`MANY` parameters or more, ``self`` and ``cls`` not counted: how many, module, name."""
    found = []
    for name, path in modules().items():
        for node in (*nodes(tree(path), ast.FunctionDef), *nodes(tree(path), ast.AsyncFunctionDef)):
            given = node.args
            names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            count = len(names) - (bool(names) and names[0] in ("self", "cls"))
            if count >= MANY:
                found.append((count, name, node.name))
    return sorted(found, reverse=True)
