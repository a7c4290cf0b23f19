"""The parser of Relay's text format, version 0.0.5: the inverse of ``byoc.relay.text.printer``.

Also read: infix ``+ - * / < <= > >= == !=``, ``a; b`` for a let whose value is not used, nested comments, and a text
that is one expression, which becomes ``main``. A module comes back with its types, an expression without. Source:
Relay's text format 0.0.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.ir.collector import paused_collector
from byoc.ir.diagnostics import rendered
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import Constant, Function
from byoc.relay.text.atoms import nearest
from byoc.relay.text.expression_parser import ExpressionParser
from byoc.relay.text.lexer import END, Tokens
from byoc.relay.text.metadata import MARKER, decode_section
from byoc.relay.text.trampoline import run
from byoc.runtime.core.ndarray import NDArray

VERSIONS = ("0.0.4", "0.0.5")


class TextParser(ExpressionParser):
    """Parses one text; *module* gets its functions and may hold others already."""

    def pragmas(self) -> None:
        """``#[version = "0.0.5"]`` and ``#[attrs = {…}]``. Raises TextError for another version or pragma."""
        while self.skip("#["):
            at = self._at
            name = self.take_kind("name", "version or attrs")
            self.take("=")
            value = self.value()
            self.take("]")
            if name == "version" and value not in VERSIONS:
                raise self.error(
                    f"version {value!r} of the text format cannot be read; known: {', '.join(VERSIONS)}", at
                )
            if name == "attrs" and isinstance(value, dict):
                self.module.attrs.update(value)
            elif name != "version":
                raise self.error(f"expected version or attrs, found {name!r}", at)

    def definitions(self) -> bool:
        """All ``type T {…}``, ``extern type T`` and ``def @name(…) {…}``; False when the text has none."""
        start = self._at
        while self._kinds[self._at] == "name":
            if self._texts[self._at] in ("type", "extern"):
                external = self.skip("extern")
                self.take("type")
                self.type_definition(external)
                continue
            if not self.skip("def"):
                break
            at = self._at
            name = self.unquoted(self.take_kind("global", "the name of a function, such as @main")[1:])
            if name in self.module:
                raise self.error(f"the function @{name} is defined twice", at)
            var = self._global(name, at)
            self._graph = {}
            func = run(self._function())
            self.module[var] = self._placed(func, at - 1)
        if self._at == start:
            return False
        if self._kinds[self._at] != END:
            raise self.expected("'def', 'type' or the end of the text")
        return True

    def check_globals(self) -> None:
        """Raises TextError at the first use of a function that the module does not have."""
        for name, at in self._mentions.items():
            if name not in self.module:
                known = [var.name_hint for var in self.module.get_global_vars()]
                raise self.error(f"the function @{name} is not defined{nearest(name, known)}", at)

    def single_expression(self) -> RelayExpr:
        """One expression with its free variables and bindings, up to the end of the text."""
        expr = run(self._statements(END))
        if self._kinds[self._at] != END:
            raise self.expected("the end of the text")
        return expr


def _prepared(source: str, source_name: str, init_module: IRModule | None, init_meta_table: object) -> TextParser:
    """A parser past the pragmas of *source*, with the metadata section read."""
    start = 0 if source.startswith(MARKER) else source.find("\n" + MARKER) + 1
    has_section = source.startswith(MARKER, start)
    text = source[:start] if has_section else source
    meta = _given_tables(init_meta_table)
    if has_section:
        meta.update(decode_section(source[start + len(MARKER) :], text.count("\n") + 1))
    module = init_module.shallow_copy() if init_module is not None else IRModule()
    parser = TextParser(Tokens(text, source_name), meta, module)
    parser.pragmas()
    return parser


def _given_tables(tables: object) -> dict[str, list[object]]:
    def array(row: object) -> object:
        if isinstance(row, Constant):
            return row.data
        return NDArray(np.asarray(row)) if isinstance(row, (np.ndarray, np.generic, int, float, list)) else row

    given = tables if isinstance(tables, Mapping) else {}
    return {str(key): [array(row) for row in rows] for key, rows in given.items()}


@paused_collector()
def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Mapping[str, Sequence[object]] | None = None,
    places: bool = False,
) -> IRModule:
    """The module that *source* describes; a text that is one expression becomes ``main``.

    *init_module* gives functions and types that the text may name, *init_meta_table* what ``meta[name][i]`` stands for.
    Types are inferred. With *places* each expression has its place in the text for a span. Raises ParseError with line,
    column, what was expected and found, and the line itself, and TypeInferenceError for types that do not fit. Source:
    ``tvm.relay.parse``.
    """
    with rendered(init_module if init_module is not None else IRModule()):
        return infer_module(parse_untyped(source, source_name, init_module, init_meta_table, places))


@paused_collector()
def parse_untyped(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Mapping[str, Sequence[object]] | None = None,
    places: bool = False,
) -> IRModule:
    """The same as :func:`parse`, before type inference."""
    parser = _prepared(source, source_name, init_module, init_meta_table)
    parser.gives_places = places
    if not parser.definitions():
        expr = parser.single_expression()
        parser.module["main"] = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
    parser.check_globals()
    parser.check_data_types()
    return parser.module


@paused_collector()
def parse_expr(source: str) -> RelayExpr:
    """The expression that *source* describes, or the only function of a module. Source: ``tvm.relay.parse_expr``.

    Raises ParseError as :func:`parse` does, and for a module of several functions.
    """
    with rendered(IRModule()):
        parser = _prepared(source, "from_string", None, None)
        if not parser.definitions():
            expr = parser.single_expression()
            parser.check_data_types()
            return expr
        functions = list(parser.module.functions.values())
        if len(functions) != 1:
            raise parser.error(f"one expression is expected, found {len(functions)} functions; parse a module", 0)
        return functions[0]


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """The same as :func:`parse`. Source: ``tvm.relay.fromtext``."""
    return parse(source, source_name)
