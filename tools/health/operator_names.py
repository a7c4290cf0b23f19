"""How often the code names operators by lists, instead of asking the operators what they are.

What an operator *is* (it moves data, it is pointwise, a scale passes through it) is declared where it is registered
(``byoc.ir.traits``). A collection of names elsewhere says it a second time, and the two drift apart. This scanner
reads the sources, without running them, and finds:

- *lists*: sets, tuples, lists, dict keys and ``"a b".split()`` with the names of two or more registered operators;
  ``match`` alternatives count too;
- *unknown names*: string literals in the namespaces of operators (``nn.…``, ``qnn.…``) that no operator has.

Left out are the places that are about single operators by their nature: where operators are registered, the
converters of frontends, TVM's names, the test networks and vendors' integrations.

Run ``python -m tools.health.operator_names`` in the root of the repository, with ``--unknown`` for the second list.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("byoc", "codegen", "runtime")
ABOUT_SINGLE_OPERATORS = (
    "byoc/relay/op",
    "byoc/relay/qnn/op",
    "byoc/relay/frontend",
    "byoc/relay/testing",
    "byoc/compat",
)
NAMESPACES = ("annotation.", "dyn.", "image.", "memory.", "nn.", "qnn.", "random.", "vision.", "vm.")


@dataclass(frozen=True)
class OperatorList:
    """A collection of two or more operators' names: the file below the root, the line, and the names."""

    file: str
    line: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {len(self.names)}: {' '.join(self.names)}"


@dataclass(frozen=True)
class UnknownName:
    """A literal that looks like an operator's name, which no operator has."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}"


def registered_names() -> frozenset[str]:
    """The names of all operators that byoc registers."""
    import byoc.relay  # noqa: F401 (registers them)
    from byoc.ir.op import OPS

    return frozenset(OPS)


def operator_lists(known: frozenset[str], root: Path = ROOT) -> list[OperatorList]:
    """Each hand-kept list of *known* operators' names below *root*, by file and line."""
    return [
        OperatorList(name, line, names)
        for name, tree in _sources(root)
        for line, names in sorted(_collections(tree, known))
    ]


def unknown_names(known: frozenset[str], root: Path = ROOT) -> list[UnknownName]:
    """Each literal that looks like an operator's name and is not *known*, by file and line."""
    return [
        UnknownName(name, node.lineno, node.value)
        for name, tree in _sources(root)
        for node in ast.walk(tree)
        if _is_text(node) and _looks_like_an_operator(node.value) and node.value not in known
    ]


def _sources(root: Path) -> Iterator[tuple[str, ast.Module]]:
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not any(name.startswith(f"{place}/") for place in ABOUT_SINGLE_OPERATORS):
                yield name, ast.parse(path.read_text(encoding="utf-8"), name)


def _collections(tree: ast.AST, known: frozenset[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and names of each outermost collection."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        names = tuple(dict.fromkeys(text for text in _members(node) if text in known))
        if len(names) > 1:
            yield node.lineno, names  # type: ignore[attr-defined]
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _members(node: ast.AST) -> Iterable[str]:
    """The texts that stand directly in a collection."""
    match node:
        case ast.Set() | ast.Tuple() | ast.List():
            return _texts(node.elts)
        case ast.Dict():
            return _texts(key for key in node.keys if key is not None)
        case ast.MatchOr():
            return _texts(p.value for p in node.patterns if isinstance(p, ast.MatchValue))
        case ast.Match():
            return _texts(c.pattern.value for c in node.cases if isinstance(c.pattern, ast.MatchValue))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(words)), attr="split")):
            return words.split()
    return ()


def _texts(nodes: Iterable[ast.AST]) -> list[str]:
    return [node.value for node in nodes if _is_text(node)]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _looks_like_an_operator(text: str) -> bool:
    space = next((n for n in NAMESPACES if text.startswith(n)), None)
    return space is not None and all(part.isidentifier() for part in text.split("."))


def main() -> None:
    """Print the lists and their number; with ``--unknown`` the literals that no operator has."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--unknown", action="store_true", help="list literals that no operator has instead")
    known = registered_names()
    found = unknown_names(known) if parser.parse_args().unknown else operator_lists(known)
    for item in found:
        print(item)
    print(f"{len(found)} in {len({item.file for item in found})} files")


if __name__ == "__main__":
    main()
