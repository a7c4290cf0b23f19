"""Where names of operators stand together in a source, and what that place does with them.

:func:`members` says which texts one node of a syntax tree has together, :meth:`Source.is_binding` whether they stand
where a function is given its operators; ``operator_names.py`` says what that means.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

DECLARES = frozenset(["of", "operators"])  # the keywords by which a vendor's declarations name operators
GROUPS = frozenset(["tuple", "list", "sorted", "frozenset"])  # calls that leave a collection what it is


@dataclass(frozen=True)
class Source:
    """One module, the operators' names that are looked for, the namespaces in which they stand, and which of its names
    other modules import.
    """

    module: ast.Module
    known: frozenset[str]
    namespaces: Sequence[str]
    exported: frozenset[str] = frozenset()

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node around each node."""
        return {child: node for node in ast.walk(self.module) for child in ast.iter_child_nodes(node)}

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        """The expressions that constants of the module are given."""
        return dict(pair for node in self.module.body for pair in _assigned(node))

    @cached_property
    def loads(self) -> dict[str, list[ast.Name]]:
        """Where each name is read."""
        found: dict[str, list[ast.Name]] = {}
        for node in ast.walk(self.module):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, []).append(node)
        return found

    def texts(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        """The texts among *nodes*, of constants too, and those of the rows that have one operator each."""
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.Name):
                given = self.constants.get(node.id)
                yield from self.texts([given] if isinstance(given, ast.Constant) else [])
            elif isinstance(node, ast.Starred):
                inner = node.value
                given = self.constants.get(inner.id) if isinstance(inner, ast.Name) else inner
                yield from () if given is None or isinstance(given, ast.Dict) else members(given, self)
            elif isinstance(node, ast.Tuple | ast.List):
                row = [text for text in self.texts(node.elts) if text in self.known]
                yield from row if len(row) == 1 else ()

    def line_of(self, node: ast.AST) -> int:
        """The line of a node that :func:`members` finds names in."""
        assert isinstance(node, ast.expr | ast.pattern | ast.stmt)
        return node.lineno

    def is_binding(self, node: ast.AST, known: frozenset[str] = frozenset()) -> bool:
        """Whether *node*, a collection, stands where a function is given its operators.

        *known* are the constants through which it was reached.
        """
        around = self.parents.get(node)
        match around:
            case _ if isinstance(node, ast.Constant):
                return False
            case _ if isinstance(node, ast.Dict):
                return has_code(node)
            case _ if isinstance(node, ast.Call) and self._registers(node):
                return True
            case ast.For():
                return around.iter is node and any(self._registers(inner) for inner in ast.walk(around))
            case ast.comprehension():
                return isinstance(self.parents[around], ast.DictComp)
            case ast.keyword(arg=name):
                return name in DECLARES or self._registers(self.parents[around])
            case ast.Assign() | ast.AnnAssign():
                return self._all_reads_bind(around, known)
            case ast.Call(func=ast.Name(id=name)) if name in GROUPS:
                return self.is_binding(around, known)
            case ast.Call():
                return self._registers(around)
            case ast.Tuple() | ast.List() | ast.Starred() | ast.Dict():
                return self.is_binding(around, known)
        return False

    def _registers(self, node: ast.AST) -> bool:
        """Whether *node* registers a function: a decorator, ``kernel("add")(function)``, ``register…("add", …)``."""
        if not isinstance(node, ast.Call):
            return False
        around = self.parents[node]
        if isinstance(around, ast.FunctionDef | ast.ClassDef):
            return node in around.decorator_list
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        curried = isinstance(around, ast.Call) and around.func is node and isinstance(self.parents[around], ast.Expr)
        return curried or name.startswith("register")

    def _all_reads_bind(self, assigned: ast.Assign | ast.AnnAssign, known: frozenset[str]) -> bool:
        """Whether a constant is read, in this module alone, and where functions are given their operators."""
        names = [name for name, _ in _assigned(assigned)]
        if len(names) != 1 or self.constants.get(names[0]) is not assigned.value or names[0] in self.exported | known:
            return False
        reads = self.loads.get(names[0], [])
        return bool(reads) and all(self.is_binding(read, known | {names[0]}) for read in reads)


def _assigned(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """The names that a statement gives values, with these."""
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [(name, value)]
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return [(name, value)]
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            pairs = zip(targets, values, strict=False)
            return [(target.id, value) for target, value in pairs if isinstance(target, ast.Name)]
    return []


def has_code(node: ast.Dict) -> bool:
    """Whether the values of a dict are functions, or words of whom it belongs to: more than numbers."""
    return not all(isinstance(value, ast.Constant) and not isinstance(value.value, str) for value in node.values)


def members(node: ast.AST, source: Source) -> Iterable[str]:
    """The texts that stand together directly in *node*."""
    match node:
        case ast.Set() | ast.Tuple() | ast.List():
            return source.texts(node.elts)
        case ast.Dict():
            return source.texts(key for key in node.keys if key is not None)
        case ast.MatchOr():
            return source.texts(p.value for p in node.patterns if isinstance(p, ast.MatchValue))
        case ast.Match():
            return source.texts(c.pattern.value for c in node.cases if isinstance(c.pattern, ast.MatchValue))
        case ast.Constant(value=str(words)) if words.count(" ") > 2:
            return words.split() if source.known.issuperset(words.split()) else ()
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return _computed(node)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(words)), attr="split")):
            return words.split()
        case ast.Call():
            return source.texts(node.args)
        case ast.BoolOp() | ast.BinOp(op=ast.BitOr()):
            return _alternatives(node, source)
        case ast.JoinedStr():
            return _of_template(node, source)
    return ()


def _alternatives(node: ast.BoolOp | ast.BinOp, source: Source) -> list[str]:
    """The operators that alternatives name which differ in the name alone."""
    sides = [side for side in node.values if _says(side, node.op)] if isinstance(node, ast.BoolOp) else _joined(node)
    found: dict[str, list[str]] = {}
    for side in sides:
        names = [text for inner in ast.walk(side) for text in source.texts([inner]) if text in source.known]
        if len(names) == 1 and isinstance(side, ast.Compare | ast.Call | ast.UnaryOp):
            found.setdefault(ast.unparse(side).replace(names[0], ""), []).append(names[0])
    return max(found.values(), key=len, default=[])


def _says(side: ast.expr, op: ast.boolop) -> bool:
    """Whether *side* is an alternative: of ``or`` what says yes, of ``and`` what says no."""
    denies = isinstance(side, ast.UnaryOp) or (
        isinstance(side, ast.Compare) and isinstance(side.ops[0], ast.NotEq | ast.NotIn)
    )
    return denies == isinstance(op, ast.And)


def _computed(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> list[str]:
    """The texts that a comprehension over literals makes; of a dict, its keys."""
    element = node.key if isinstance(node, ast.DictComp) else node.elt
    made = ast.ListComp(element, node.generators)
    if not all(isinstance(inner, _LITERAL) for inner in ast.walk(made)):
        return []
    code = compile(ast.fix_missing_locations(ast.Expression(made)), "<names>", "eval")
    try:
        found = eval(code, {"__builtins__": {}})  # literals alone
    except NameError:  # over constants of the module
        return []
    return [text for text in found if isinstance(text, str)]


_LITERAL = (
    ast.ListComp,
    ast.comprehension,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Name,
    ast.expr_context,
)


def _joined(node: ast.expr) -> list[ast.expr]:
    """The parts of ``a | b | c``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_joined(node.left), *_joined(node.right)]
    return [node]


def _of_template(node: ast.JoinedStr, source: Source) -> list[str]:
    """The operators that a formatted string may name, where it says more than a namespace."""
    parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
    spaces = tuple(source.namespaces)
    if not parts or not isinstance(parts[0], str) or not parts[0].startswith(spaces) or parts[0] in spaces:
        return []
    pattern = re.compile("".join(".+" if part is None else re.escape(str(part)) for part in parts))
    return sorted(name for name in source.known if pattern.fullmatch(name))


def is_table(node: ast.AST, own_words: bool) -> bool:
    """Whether *node* has a rule of its own for each operator; texts and numbers are none, unless *own_words*."""
    if isinstance(node, ast.Dict):
        values = [value for key, value in zip(node.keys, node.values, strict=True) if key is not None]
        return _differ(values) and (own_words or not all(map(_is_plain, values)))
    if own_words and isinstance(node, ast.Tuple | ast.List):
        rows = [row for row in node.elts if isinstance(row, ast.Tuple)]
        return len(rows) == len(node.elts) and _differ([part for row in rows for part in row.elts])
    return isinstance(node, ast.Match)


def _differ(values: Sequence[ast.expr]) -> bool:
    return len({ast.dump(value) for value in values}) == len(values)


def _is_plain(value: ast.expr) -> bool:
    """Whether *value* is made of numbers and texts alone."""
    if isinstance(value, ast.Tuple | ast.List | ast.Set):
        return all(_is_plain(item) for item in value.elts)
    return isinstance(value, ast.Constant)
