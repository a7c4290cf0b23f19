"""How often the code names operators by lists, instead of asking the operators what they are.

What an operator *is* (it moves data, it is pointwise, a scale passes through it) is declared where it is registered
(``byoc.ir.traits``). A collection of names elsewhere says it a second time, and the two drift apart. This scanner
reads the sources of all rooms, without running them, and finds each place that has the names of two or more registered
operators together: sets, tuples, lists, rows of them (``(("conv", "nn.conv2d"), …)``), keys of dicts, texts of such
words, the arguments of one call, comprehensions over literals, templates (``f"nn.conv{n}d"``), alternatives
(``x == "a" or x == "b"``, of a ``match``, of patterns: ``is_op("a")(x) | is_op("b")(x)``). Constants of the same module
(``CONV = "nn.conv2d"``) are read as what they hold. Each is one of three:

- a *table*: from operators to code or rules of their own, each of which is about that operator alone: a dict or a
  ``match`` whose values all differ and are more than numbers and texts;
- a *binding*: in the rooms that hold code for each operator (:data:`CODE_FOR_OPERATORS`: numpy kernels, converters,
  gradients, quantized forms, vendors' integrations), what says which operators a function is for: names in a decorator,
  in what registers or in a loop that does, in what a vendor declares to take (``of=``, ``operators=``), and as keys of
  a dict to functions or to the vendor's own words, whose values may repeat; so is a constant that is read in such
  places and in its module alone. Two views together are none: for all of them the same is done, and the numpy kernels
  say which they are (``byoc.runtime.kernels.movement.transform.VIEWS``);
- a *list*: everything else. It says what the operators have in common, which is a trait.

Left out are the operators' own files (those in :data:`DEFINITIONS` that register one), tensor expressions, whose
functions of scalars have names of their own, TVM's names, and the test networks. Words that are also functions of
scalars (``max``, ``floor``) count in the compiler alone; elsewhere they are ways to round, to reduce, to summarize.

Literals in the namespaces of operators (``nn.…``, ``qnn.…``) that no operator has are *unknown names*.

Run ``python -m tools.health.operator_names`` in the root of the repository.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.health.name_places import Source, is_table, members
from tools.health.sources import ROOT, nodes, tree

ROOMS = ("byoc", "codegen", "runtime", "contrib")
DEFINITIONS = ("byoc/relay/op", "byoc/relay/qnn/op")  # rooms with the operators' own files
NOT_OPERATORS = ("byoc/annex/testing", "byoc/compat", "byoc/te")  # rooms with other things of the same names
CODE_FOR_OPERATORS = (
    "byoc/relay/frontend",
    "byoc/relay/onnx_writer",
    "byoc/relay/op/core",
    "byoc/relay/qnn/fake",
    "byoc/relay/qnn/lowering",
    "byoc/annex/gradients/rules",
    "runtime/kernels",
    "runtime/vm",
    "contrib",
)
SCALARS_TOO = (
    "byoc/relay/frontend",
    "byoc/relay/op",
    "byoc/cli",
    "codegen",
    "runtime",
)  # rooms with functions of scalars, or statistics
OTHER_WORDS = frozenset(["any", "argmax", "argmin", "copy", "mean"])
# Relay's vendors and networks have names of their own
OTHER_NAMES = ("byoc/annex/testing", "byoc/compat")
MODULES_OF_KERNELS = "runtime/kernels/core/registry.py"  # names modules, some as operators are called
PACKAGES = r"^byoc\.(?=(codegen|runtime|contrib)\.)"  # that lie beside the folder byoc
NAMELESS = (ast.Name, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)  # no collection is below them
NAMESPACES = ("annotation.", "dyn.", "image.", "memory.", "nn.", "qnn.", "random.", "vision.", "vm.")


@dataclass(frozen=True)
class OperatorList:
    """A collection of two or more operators' names: the file below the root, the line, the names, and what it is.

    *kind* is ``list``, ``table`` or ``binding``.
    """

    file: str
    line: int
    names: tuple[str, ...]
    kind: str = "list"

    @property
    def is_list(self) -> bool:
        """Whether it says what operators have in common."""
        return self.kind == "list"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind} of {' '.join(self.names)}"


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
    """The names that the scanner looks for: *operators*, the *views* among them, and *scalars*, the functions of tensor
    expressions.
    """

    operators: frozenset[str]
    scalars: frozenset[str]
    views: frozenset[str] = frozenset()

    @staticmethod
    def registered() -> Names:
        """All operators that byoc registers, and all functions that its tensor expressions have."""
        import byoc.relay.op
        import byoc.relay.qnn.op  # noqa: F401 - both register their operators
        from byoc.ir.op import OPS
        from byoc.te import expr

        views = frozenset(name for name in OPS if OPS[name].traits.is_view)
        return Names(frozenset(OPS), expr.BINARY | expr.INTRINSICS | expr.Reduce.KINDS, views)


def operator_lists(names: Names, root: Path = ROOT) -> list[OperatorList]:
    """Each list, table and binding of operators below *root*, by file and line."""
    found = []
    exported = _exported(root)
    for file, module in _sources(root, ROOMS, (*NOT_OPERATORS, MODULES_OF_KERNELS)):
        if _is_in(file, DEFINITIONS) and _registers(module):
            continue
        source = Source(module, names.operators, NAMESPACES, exported.get(file, frozenset()))
        words = names.scalars | OTHER_WORDS if _is_in(file, SCALARS_TOO) else frozenset()
        for node, held in _collections(source):
            if not words.issuperset(held):
                found.append(OperatorList(file, source.line_of(node), held, _kind(source, node, held, names, file)))
    return sorted(found, key=lambda one: (one.file, one.line))


def _registers(module: ast.Module) -> bool:
    """Whether operators are registered in a module."""
    return any(isinstance(node.func, ast.Name) and node.func.id == "register_op" for node in nodes(module, ast.Call))


def _kind(source: Source, node: ast.AST, held: tuple[str, ...], names: Names, file: str) -> str:
    """What the collection *node* is."""
    has_code = _is_in(file, CODE_FOR_OPERATORS)
    if is_table(node, own_words=has_code):
        return "table"
    if has_code and source.is_binding(node) and len(names.views.intersection(held)) < 2:
        return "binding"
    return "list"


def unknown_names(names: Names, root: Path = ROOT) -> list[UnknownName]:
    """Each literal that looks like an operator's name and is none, by file and line."""
    found = []
    for file, module in _sources(root, ROOMS, (*OTHER_NAMES, MODULES_OF_KERNELS)):
        templates = {part for node in nodes(module, ast.JoinedStr) for part in node.values}
        literals = [node for node in nodes(module, ast.Constant) if node not in templates]
        texts = [(node.lineno, node.value) for node in literals if isinstance(node.value, str)]
        found += [UnknownName(file, line, text) for line, text in texts if _is_unknown(text, names)]
    return found


def _sources(root: Path, rooms: Sequence[str], without: Sequence[str]) -> Iterator[tuple[str, ast.Module]]:
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not _is_in(name, without):
                yield name, tree(path)


def _exported(root: Path) -> dict[str, frozenset[str]]:
    """The names that other modules import from each file, by the file."""
    found: dict[str, frozenset[str]] = {}
    for _, module in _sources(root, ROOMS, ()):
        for node in nodes(module, ast.ImportFrom):
            if node.module is not None:
                file = f"{re.sub(PACKAGES, '', node.module).replace('.', '/')}.py"
                found[file] = found.get(file, frozenset()) | {alias.name for alias in node.names}
    return found


def _is_in(file: str, places: Sequence[str]) -> bool:
    return any(f"{file}/".startswith(f"{place}/") for place in places)


def _collections(source: Source) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Each outermost collection, values of dicts apart, and the operators that it names."""
    waiting: list[ast.AST] = [source.module]
    while waiting:
        node = waiting.pop()
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ):
            waiting.extend(node.value.elts)  # several constants in one line
            continue
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            continue
        if isinstance(node, NAMELESS):
            continue
        held = tuple(dict.fromkeys(text for text in members(node, source) if text in source.known))
        if len(held) > 1:
            yield node, held
            waiting.extend(node.values if isinstance(node, ast.Dict) else ())
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _is_unknown(text: str, names: Names) -> bool:
    """True for a text in a namespace of operators; names of passes (``qnn.Legalize``) begin with a capital."""
    space = next((n for n in NAMESPACES if text.startswith(n)), None)
    looks = space is not None and all(part.isidentifier() for part in text.split(".")) and text[len(space)].islower()
    return looks and text not in names.operators


def main() -> None:
    """Print what is found, and how many."""
    names = Names.registered()
    found, unknown = operator_lists(names), unknown_names(names)
    for item in (*found, *unknown):
        print(item)
    count = {kind: sum(one.kind == kind for one in found) for kind in ("list", "table", "binding")}
    print(", ".join(f"{number} {kind}s" for kind, number in count.items()) + f", {len(unknown)} unknown names")


if __name__ == "__main__":
    main()
