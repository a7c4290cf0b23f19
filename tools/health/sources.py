"""The modules of byoc, by name, and who imports whom; types count, and so do imports inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from byoc.base.lazy_names import homes

ROOT = Path(__file__).parents[2]
N = TypeVar("N", bound=ast.AST)
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


@cache
def nodes_by_class(module: ast.Module) -> Mapping[type[ast.AST], Sequence[ast.AST]]:
    """The nodes of a syntax tree by their class, each in the order of ``ast.walk``; the tree is walked once for all."""
    found: dict[type[ast.AST], list[ast.AST]] = {}
    for node in ast.walk(module):
        found.setdefault(type(node), []).append(node)
    return found


def nodes(module: ast.Module, kind: type[N]) -> Sequence[N]:
    """The nodes of one class in a module."""
    return nodes_by_class(module).get(kind, ())  # type: ignore[return-value]


@cache
def imported(name: str) -> Sequence[str]:
    """The modules of ours that module *name* imports; a name of a facade counts for the module that has it, too."""
    module = tree(modules()[name])
    return [
        other for kind in (ast.Import, ast.ImportFrom) for node in nodes(module, kind) for other in _imported_by(node)
    ]


def typed_only(name: str, other: str) -> bool:
    """Whether module *name* imports *other* under ``if TYPE_CHECKING`` and nowhere else."""
    module = tree(modules()[name])
    within = {
        id(inner)
        for node in nodes(module, ast.If)
        if "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    statements = (*nodes(module, ast.Import), *nodes(module, ast.ImportFrom))
    found = [id(node) in within for node in statements if other in _imported_by(node)]
    return all(found)


def _imported_by(node: ast.AST) -> Iterator[str]:
    """The modules of ours that one statement imports."""
    known = modules()
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module in known:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            if full in known:
                yield full
            else:
                yield node.module
                yield from _home(node.module, alias.name)


def _home(package: str, name: str) -> Iterator[str]:
    """The module that has a *name* of the facade *package*, by its stub."""
    if modules()[package].with_suffix(".pyi").exists() and name in homes(package):
        module, inner = homes(package)[name]
        yield next(found for found in (f"{module}.{inner}", module) if found in modules())


def imported_by_name(name: str) -> Iterator[str]:
    """The modules of ours that module *name* gives to ``importlib.import_module`` as they are spelt."""
    for node in nodes(tree(modules()[name]), ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called.endswith("import_module"):
            asked = node.args[0]
            if isinstance(asked, ast.Constant) and asked.value in modules():
                yield str(asked.value)


def package_of(name: str) -> str:
    """The package in which module *name* stands; a package stands in itself."""
    return name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]
