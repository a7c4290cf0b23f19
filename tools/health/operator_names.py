"""How often the code names operators by lists, instead of asking the operators what they are.

What an operator *is* (it moves data, it is pointwise, a scale passes through it) is declared where it is registered
(``byoc.ir.traits``). A collection of names elsewhere says it a second time, and the two drift apart. This scanner
reads the sources, without running them, and finds:

- *lists*: sets, tuples, lists, dict keys, ``"a b".split()``, the arguments of one call, alternatives of a ``match``,
  that have the names of two or more registered operators, and templates (``f"nn.conv{n}d"``) that stand for such;
- *tables*: dicts from operators to rules that all differ, each of which is about that operator alone;
- *unknown names*: string literals in the namespaces of operators (``nn.…``, ``qnn.…``) that no operator has, anywhere
  in the product.

Left out of lists and tables are the places that are about single operators by their nature: where operators are
registered, the converters of frontends and of the writer of ONNX, the quantized operators' definitions, TVM's names,
the test networks and vendors' integrations; and tensor expressions, whose functions of scalars have names of their own,
some of them the same.

Run ``python -m tools.health.operator_names`` in the root of the repository.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.health.sources import ROOT, tree

ROOMS = ("byoc", "codegen")  # the runtime imports no operators
ABOUT_SINGLE_OPERATORS = (
    "byoc/relay/op",
    "byoc/relay/qnn",
    "byoc/relay/frontend",
    "byoc/relay/onnx_writer",
    "byoc/annex/gradients/rules",
    "byoc/annex/testing",
    "byoc/compat",
    "byoc/te",
)
ALL_ROOMS = (*ROOMS, "runtime", "contrib")
# Relay's vendors and networks have names of their own; the runtime's registry names modules of kernels
OTHER_NAMES = ("byoc/annex/testing", "byoc/compat", "runtime/kernels/core/registry.py")
NAMESPACES = ("annotation.", "dyn.", "image.", "memory.", "nn.", "qnn.", "random.", "vision.", "vm.")


@dataclass(frozen=True)
class OperatorList:
    """A collection of two or more operators' names: the file below the root, the line, and the names.

    *is_table*: it has a rule of its own for each.
    """

    file: str
    line: int
    names: tuple[str, ...]
    is_table: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {'table' if self.is_table else 'list'} of {' '.join(self.names)}"


@dataclass(frozen=True)
class UnknownName:
    """A literal that looks like an operator's name, which no operator has."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name} is no operator"


@dataclass(frozen=True)
class Names:
    """The names that the scanner looks for: *operators*, and *scalars*, the functions of tensor expressions."""

    operators: frozenset[str]
    scalars: frozenset[str]

    @staticmethod
    def registered() -> Names:
        """All operators that byoc registers, and all functions that its tensor expressions have."""
        import byoc.relay.op
        import byoc.relay.qnn.op  # noqa: F401 - both register their operators
        from byoc.ir.op import OPS
        from byoc.te import expr

        return Names(frozenset(OPS), expr.BINARY | expr.INTRINSICS | expr.Reduce.KINDS)


def operator_lists(names: Names, root: Path = ROOT) -> list[OperatorList]:
    """Each list and table of operators below *root*, by file and line."""
    found = [
        OperatorList(file, *one)
        for file, module in _sources(root, ROOMS, ABOUT_SINGLE_OPERATORS)
        for one in _collections(module, names.operators)
    ]
    in_codegen = [one for one in found if one.file.startswith("codegen/")]
    scalar = {one for one in in_codegen if names.scalars.issuperset(one.names)}
    return sorted((one for one in found if one not in scalar), key=lambda one: (one.file, one.line))


def unknown_names(names: Names, root: Path = ROOT) -> list[UnknownName]:
    """Each literal that looks like an operator's name and is none, by file and line."""
    found = []
    for file, module in _sources(root, ALL_ROOMS, OTHER_NAMES):
        templates = {part for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for part in node.values}
        literals = (node for node in ast.walk(module) if _is_text(node) and node not in templates)
        found += [UnknownName(file, node.lineno, node.value) for node in literals if _is_unknown(node.value, names)]
    return found


def _sources(root: Path, rooms: Sequence[str], without: Sequence[str]) -> Iterator[tuple[str, ast.Module]]:
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not any(f"{name}/".startswith(f"{place}/") for place in without):
                yield name, tree(path)


def _collections(tree: ast.AST, known: frozenset[str]) -> Iterator[tuple[int, tuple[str, ...], bool]]:
    """Line and names of each outermost collection, values of dicts apart, and whether it is a table."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ):
            waiting.extend(node.value.elts)  # several constants in one line
            continue
        names = tuple(dict.fromkeys(text for text in _members(node, known) if text in known))
        if len(names) > 1:
            yield _line_of(node), names, _is_table(node)
            waiting.extend(node.values if isinstance(node, ast.Dict) else ())
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _line_of(node: ast.AST) -> int:
    assert isinstance(node, ast.expr | ast.pattern | ast.stmt)  # what _members finds names in
    return node.lineno


def _members(node: ast.AST, known: frozenset[str]) -> Iterable[str]:
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
        case ast.Call():
            return _texts(node.args)
        case ast.JoinedStr():
            return _of_template(node, known)
    return ()


def _of_template(node: ast.JoinedStr, known: frozenset[str]) -> list[str]:
    """The operators that a formatted string may name, where it says more than a namespace."""
    parts = [part.value if _is_text(part) else None for part in node.values]
    if not parts or parts[0] is None or not parts[0].startswith(NAMESPACES) or parts[0] in NAMESPACES:
        return []
    pattern = re.compile("".join(".+" if part is None else re.escape(part) for part in parts))
    return sorted(name for name in known if pattern.fullmatch(name))


def _is_table(node: ast.AST) -> bool:
    if isinstance(node, ast.Dict):
        rules = [ast.dump(value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
        return len(set(rules)) == len(rules)
    return isinstance(node, ast.Match)


def _texts(nodes: Iterable[ast.AST]) -> list[str]:
    return [node.value for node in nodes if _is_text(node)]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_unknown(text: str, names: Names) -> bool:
    """True for a text in a namespace of operators; names of passes (``qnn.Legalize``) begin with a capital."""
    space = next((n for n in NAMESPACES if text.startswith(n)), None)
    looks = space is not None and all(part.isidentifier() for part in text.split(".")) and text[len(space)].islower()
    return looks and text not in names.operators


def main() -> None:
    """Print what is found, and how many."""
    names = Names.registered()
    found, unknown = operator_lists(names), unknown_names(names)
    tables = sum(one.is_table for one in found)
    for item in (*found, *unknown):
        print(item)
    print(f"{len(found) - tables} lists, {tables} tables, {len(unknown)} unknown names")


if __name__ == "__main__":
    main()
