"""The parser of Relay's text format, version 0.0.5: the inverse of ``byoc.relay.text.printer``.

Graph bindings ``%0 = …`` are one flat space within each global function, as in Relay; variables have lexical scope.
Expressions, blocks and functions nest to any depth (``trampoline``). Also read: infix ``+ - * / < <= > >= == !=``,
``a; b`` for a let whose value is not used, comments, and a text that is one expression, which becomes ``main``.
A node has the span that a ``/* span=… */`` comment after it gives, and none otherwise. Types are not inferred here.
Source: Relay's text format 0.0.5.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.errors import RegistryError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import OPS, Op
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    bind_span,
)
from byoc.relay.text.atoms import AtomReader, nearest
from byoc.relay.text.attributes import conforms, field_types, matched
from byoc.relay.text.lexer import END, Tokens
from byoc.relay.text.metadata import MARKER, decode_section
from byoc.relay.text.trampoline import Step, run
from byoc.runtime.ndarray import NDArray

VERSIONS = ("0.0.4", "0.0.5")
# infix mark -> how tightly it binds, and its operator
_INFIX: dict[str, tuple[int, str]] = {
    "*": (3, "multiply"), "/": (3, "divide"), "+": (2, "add"), "-": (2, "subtract"),
    "<": (1, "less"), "<=": (1, "less_equal"), ">": (1, "greater"), ">=": (1, "greater_equal"),
    "==": (1, "equal"), "!=": (1, "not_equal"),
}
_REFERENCES: dict[str, tuple[type, int]] = {"ref": (RefCreate, 1), "ref_read": (RefRead, 1), "ref_write": (RefWrite, 2)}


class TextParser(AtomReader):
    """Parses one text; *module* gets its functions and may hold others already."""

    def __init__(self, tokens: Tokens, meta: Mapping[str, Sequence[NDArray]], module: IRModule):
        super().__init__(tokens, meta)
        self._module = module
        self._globals = {var.name_hint: var for var in module.get_global_vars()}
        self._mentions: dict[str, int] = {}
        self._graph: dict[str, RelayExpr] = {}
        self._scope: dict[str, list[Var]] = {}
        self._constants: dict[tuple[object, object], Constant] = {}

    # modules ------------------------------------------------------------------------------------------------------

    def pragmas(self) -> None:
        """``#[version = "0.0.5"]`` and ``#[attrs = {…}]``. Raises TextError for another version or pragma."""
        while self.skip("#["):
            at = self._at
            name = self.take_kind("name", "version or attrs")
            self.take("=")
            value = self.value()
            self.take("]")
            if name == "version" and value not in VERSIONS:
                raise self.error(f"version {value!r} of the text format cannot be read; known: {', '.join(VERSIONS)}",
                                 at)
            if name == "attrs" and isinstance(value, dict):
                self._module.attrs.update(value)
            elif name != "version":
                raise self.error(f"expected version or attrs, found {name!r}", at)

    def definitions(self) -> bool:
        """All ``def @name(…) {…}``; False when the text has none."""
        if not self.next_is("def"):
            return False
        while self.skip("def"):
            at = self._at
            name = self.unquoted(self.take_kind("global", "the name of a function, such as @main")[1:])
            if name in self._module:
                raise self.error(f"the function @{name} is defined twice", at)
            var = self._global(name, at)
            self._graph = {}
            self._module[var] = run(self._function())
        if self._kinds[self._at] != END:
            raise self.expected("'def' or the end of the text")
        return True

    def check_globals(self) -> None:
        """Raises TextError at the first use of a function that the module does not have."""
        for name, at in self._mentions.items():
            if name not in self._module:
                known = [var.name_hint for var in self._module.get_global_vars()]
                raise self.error(f"the function @{name} is not defined{nearest(name, known)}", at)

    def single_expression(self) -> RelayExpr:
        """One expression with its free variables and bindings, up to the end of the text."""
        expr = run(self._statements(END))
        if self._kinds[self._at] != END:
            raise self.expected("the end of the text")
        return expr

    def _global(self, name: str, at: int) -> GlobalVar:
        self._mentions.setdefault(name, at)
        if name not in self._globals:
            self._globals[name] = GlobalVar(name)
        return self._globals[name]

    # variables ----------------------------------------------------------------------------------------------------

    def _declared(self) -> tuple[str, Var]:
        """A variable where it is bound: ``%x: type``, its span after it; it is in scope from here."""
        key = self.take_kind("local", "a variable, such as %x")
        hint = self.unquoted(key[1 : key.rindex("#")] if self._is_numbered(key) else key[1:])
        annotation = self.type() if self.skip(":") else None
        var = Var(hint, annotation, self.span())
        self._scope.setdefault(key, []).append(var)
        return key, var

    @staticmethod
    def _is_numbered(key: str) -> bool:
        return "#" in key and not key.endswith('"')

    def _close(self, keys: Sequence[str]) -> None:
        for key in reversed(keys):
            self._scope[key].pop()

    def _variable(self, key: str, at: int) -> Var:
        known = self._scope.get(key)
        if not known:
            names = [name for name, variables in self._scope.items() if variables]
            raise self.error(f"the variable {key} is not defined here{nearest(key, names)}", at)
        return known[-1]

    def _bound_node(self, key: str, at: int) -> RelayExpr:
        if key not in self._graph:
            raise self.error(f"{key} is used before it is bound{nearest(key, list(self._graph))}", at)
        return self._graph[key]

    # blocks -------------------------------------------------------------------------------------------------------

    def _starts_statement(self) -> bool:
        at = self._at
        bound = self._kinds[at] == "graph" and self._texts[at + 1] == "="
        return bound or self.next_is("let") or self.next_is("free_var")

    def _statements(self, end: str) -> Step[RelayExpr]:
        """Bindings and lets, and the value of the block; *end* is the mark that follows, which is not consumed."""
        lets: list[tuple[Var, RelayExpr, object]] = []
        opened: list[str] = []
        while True:
            if self._kinds[self._at] == "graph" and self._texts[self._at + 1] == "=":
                yield self._graph_binding()
                continue
            if self.skip("free_var"):
                self._declared()
                self.take(";")
                continue
            if self.skip("let"):
                span = self.span()
                key, var = self._declared()
                opened.append(key)
                self.take("=")
                value = yield self._expr()
                self.take(";")
            else:
                span, var = None, Var("_")
                value = yield self._expr()
                if not self.skip(";"):
                    break
            lets.append((var, value, span))  # type: ignore[arg-type]
        if end != END and not self.next_is(end):
            raise self.expected(f"';' or {end!r}")
        self._close(opened)
        body = value
        for var, bound, span in reversed(lets):
            body = Let(var, bound, body, span)  # type: ignore[arg-type]
        return body  # type: ignore[return-value]

    def _graph_binding(self) -> Step[None]:
        at = self._at
        key = self._texts[at]
        if key in self._graph:
            raise self.error(f"{key} is bound twice")
        self._at += 2
        self._graph[key] = yield self._expr()  # type: ignore[assignment]
        self.take(";")

    def _braces(self) -> Step[RelayExpr]:
        self.take("{")
        body = yield self._statements("}")
        self.take("}")
        return body  # type: ignore[return-value]

    # expressions --------------------------------------------------------------------------------------------------

    def _expr(self, tightness: int = 1) -> Step[RelayExpr]:
        left = yield self._postfixed()
        while self._kinds[self._at] == "mark" and self._texts[self._at] in _INFIX:
            at = self._at
            binds, op = _INFIX[self._texts[at]]
            if binds < tightness:
                break
            self._at += 1
            right = yield self._expr(binds + 1)
            left = self._op_call(self._op(op, at), [left, right], {}, at)  # type: ignore[list-item]
        return left  # type: ignore[return-value]

    def _postfixed(self) -> Step[RelayExpr]:
        expr = yield self._primary()
        while True:
            kind = self._kinds[self._at]
            if kind == "span":
                bind_span(expr, self.span())  # type: ignore[arg-type]
            elif kind == "projection":
                self._at += 1
                expr = TupleGetItem(expr, int(self._texts[self._at - 1][1:]))  # type: ignore[arg-type]
            elif self.next_is("("):
                expr = yield self._call(expr)  # type: ignore[arg-type]
            else:
                return expr  # type: ignore[return-value]

    def _primary(self) -> Step[RelayExpr]:
        kind, text, at = self._kinds[self._at], self._texts[self._at], self._at
        reference = self._reference(kind, text, at)
        if reference is not None:
            return reference
        if kind == "number" or (kind == "mark" and text == "-") or (kind == "name" and text in ("True", "False")):
            return Constant(self.scalar(), self.span())
        if kind == "mark" and text == "{":
            return (yield self._braces())  # type: ignore[return-value]
        if self.skip("("):
            return (yield self._parenthesised())  # type: ignore[return-value]
        if kind == "name" and self._texts[at + 1] in ("(", "[", "%") or text in ("fn", "if", "meta"):
            if self.skip("fn"):
                return (yield self._function())  # type: ignore[return-value]
            if self.skip("if"):
                return (yield self._if())  # type: ignore[return-value]
            if self.skip("meta"):
                return self._meta_constant()
            if text in _REFERENCES:
                return (yield self._reference_node(text))  # type: ignore[return-value]
        if kind in ("name", "string"):
            self._at += 1
            return self._op(self.unquoted(text), at)
        raise self.expected("an expression")

    def _reference(self, kind: str, text: str, at: int) -> RelayExpr | None:
        """The node that a binding, a variable or a global name stands for, stepped over; else None."""
        if kind == "graph":
            found: RelayExpr = self._bound_node(text, at)
        elif kind == "local":
            found = self._variable(text, at)
        elif kind == "global":
            found = self._global(self.unquoted(text[1:], at), at)
        else:
            return None
        self._at = at + 1
        return found

    def _meta_constant(self) -> Constant:
        array = self.meta_array()
        span = self.span()
        return self._constants.setdefault((id(array), span), Constant(array, span))

    def _parenthesised(self) -> Step[RelayExpr]:
        """What follows ``(``: a tuple, or one expression or block in parentheses."""
        fields: list[RelayExpr] = []
        trailing = False
        while not self.skip(")"):
            step = self._statements(")") if not fields and self._starts_statement() else self._expr()
            fields.append((yield step))  # type: ignore[arg-type]
            trailing = self.skip(",")
            if not trailing and not self.next_is(")"):
                raise self.expected("',' or ')'")
        return fields[0] if len(fields) == 1 and not trailing else Tuple(fields)

    def _reference_node(self, name: str) -> Step[RelayExpr]:
        at = self._at
        self._at += 2
        make, count = _REFERENCES[name]
        inner = yield self._parenthesised()
        parts = inner.fields if count > 1 and isinstance(inner, Tuple) else (inner,)
        if len(parts) != count:
            raise self.error(f"{name} takes {count} expressions, got {len(parts)}", at)
        return make(*parts)

    def _if(self) -> Step[RelayExpr]:
        self.take("(")
        cond = yield self._expr()
        self.take(")")
        then = yield self._braces()
        self.take("else")
        otherwise = yield self._braces()
        return If(cond, then, otherwise, self.span())  # type: ignore[arg-type]

    def _function(self) -> Step[Function]:
        """What follows ``fn`` or ``def @name``: parameters and attributes, the type of the result, the body."""
        self.take("(")
        params: list[Var] = []
        keys: list[str] = []
        attrs: dict[str, object] = {}
        while not self.skip(")"):
            if self._kinds[self._at] == "local":
                at = self._at
                key, var = self._declared()
                if key in keys:
                    raise self.error(f"two parameters are called {key}", at)
                keys.append(key)
                params.append(var)
            else:
                self._attribute(attrs, "a parameter such as %x: Tensor[(1, 3), float32] or an attribute such as key=1")
            if not self.skip(",") and not self.next_is(")"):
                raise self.expected("',' or ')'")
        ret_type = self.type() if self.skip("->") else None
        body = yield self._braces()
        self._close(keys)
        return Function(params, body, ret_type, attrs=attrs, span=self.span())  # type: ignore[arg-type]

    def _attribute(self, attrs: dict[str, object], what: str) -> None:
        at = self._at
        if self._kinds[at] not in ("name", "string"):
            raise self.expected(what)
        self._at += 1
        key = self.unquoted(self._texts[at])
        self.take("=")
        if key in attrs:
            raise self.error(f"the attribute {key} is given twice", at)
        attrs[key] = self.value()

    # calls --------------------------------------------------------------------------------------------------------

    def _op(self, name: str, at: int) -> Op:
        if name not in OPS:
            importlib.import_module("byoc.relay.op")
        try:
            return OPS[name]
        except RegistryError:
            raise self.error(f"no operator is called {name!r}{nearest(name, list(OPS))}", at) from None

    def _call(self, callee: RelayExpr) -> Step[RelayExpr]:
        at = self._at - 1
        self.take("(")
        args: list[RelayExpr] = []
        attrs: dict[str, object] = {}
        while not self.skip(")"):
            if self._texts[self._at + 1] == "=" and self._kinds[self._at] in ("name", "string"):
                self._attribute(attrs, "an attribute")
            else:
                args.append(self._quick_argument() or (yield self._expr()))  # type: ignore[arg-type]
            if not self.skip(",") and not self.next_is(")"):
                raise self.expected("',' or ')'")
        if isinstance(callee, Op):
            return self._op_call(callee, args, attrs, at)
        if attrs:
            raise self.error(f"a call of a function takes no attributes, got {', '.join(attrs)}", at)
        return Call(callee, args)

    def _quick_argument(self) -> RelayExpr | None:
        """The next argument if it is a name and nothing more, which most are."""
        at = self._at
        if self._texts[at + 1] in (",", ")"):
            return self._reference(self._kinds[at], self._texts[at], at)
        return None

    def _op_call(self, op: Op, args: list[RelayExpr], given: dict[str, object], at: int) -> Call:
        made = self.checked(lambda: self._attrs(op, given, at), at)
        return Call(op, args, made)  # type: ignore[arg-type]

    def _attrs(self, op: Op, given: dict[str, object], at: int) -> Attrs | None:
        if op.attrs_type is None:
            if given:
                raise self.error(f"{op.name} takes no attributes, got {', '.join(given)}", at)
            return None
        fields = {field.name: field for field in dataclasses.fields(op.attrs_type)}
        declared = field_types(op.attrs_type)
        values: dict[str, object] = {}
        for name, value in given.items():
            if name not in fields:
                raise self.error(f"{op.name} has no attribute {name!r}{nearest(name, list(fields))}", at)
            values[name] = matched(value, declared[name])
            if not conforms(values[name], declared[name]):
                shown = getattr(declared[name], "__name__", None) or str(declared[name])
                shown = str(declared[name]) if "[" in str(declared[name]) else shown
                raise self.error(f"the attribute {name} of {op.name} is a {shown}, got {value!r}", at)
        missing = [n for n, f in fields.items() if n not in values and f.default is dataclasses.MISSING
                   and f.default_factory is dataclasses.MISSING]
        if missing:
            raise self.error(f"{op.name} needs the attribute {', '.join(missing)}", at)
        return op.attrs_type(**values)


def _prepared(source: str, source_name: str, init_module: IRModule | None, init_meta_table: object) -> TextParser:
    """A parser past the pragmas of *source*, with the metadata section read."""
    start = 0 if source.startswith(MARKER) else source.find("\n" + MARKER) + 1
    has_section = source.startswith(MARKER, start)
    text = source[:start] if has_section else source
    meta = _given_tables(init_meta_table)
    if has_section:
        meta.update(decode_section(source[start + len(MARKER) :], text.count("\n") + 2))
    module = init_module.shallow_copy() if init_module is not None else IRModule()
    parser = TextParser(Tokens(text, source_name), meta, module)
    parser.pragmas()
    return parser


def _given_tables(tables: object) -> dict[str, list[NDArray]]:
    def array(row: object) -> NDArray:
        if isinstance(row, Constant):
            return row.data
        return row if isinstance(row, NDArray) else NDArray(np.asarray(row))

    given = tables if isinstance(tables, Mapping) else {}
    return {str(key): [array(row) for row in rows] for key, rows in given.items()}


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Mapping[str, Sequence[object]] | None = None,
) -> IRModule:
    """The module that *source* describes; a text that is one expression becomes ``main``.

    *init_module* gives functions that the text may call; *init_meta_table* tensors for ``meta[name][i]``. Raises
    ParseError with line, column, what was expected and found, and the line itself. Source: ``tvm.relay.parse``.
    """
    parser = _prepared(source, source_name, init_module, init_meta_table)
    if not parser.definitions():
        expr = parser.single_expression()
        parser._module["main"] = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
    parser.check_globals()
    return parser._module


def parse_expr(source: str) -> RelayExpr:
    """The expression that *source* describes, or the only function of a module. Source: ``tvm.relay.parse_expr``.

    Raises ParseError as :func:`parse` does, and for a module of several functions.
    """
    parser = _prepared(source, "from_string", None, None)
    if not parser.definitions():
        return parser.single_expression()
    functions = list(parser._module.functions.values())
    if len(functions) != 1:
        raise parser.error(f"one expression is expected, found {len(functions)} functions; use parse for a module", 0)
    return functions[0]


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """The same as :func:`parse`. Source: ``tvm.relay.fromtext``."""
    return parse(source, source_name)
