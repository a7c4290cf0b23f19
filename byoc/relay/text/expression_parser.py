"""The parser's middle: expressions, blocks, functions and calls, to any depth (``trampoline``).

Graph bindings ``%0 = …`` are one flat space, as in Relay; variables have lexical scope. A node has the span that a
``/* span=… */`` comment after it gives, and none otherwise. Source: Relay's text format 0.0.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import AnySpan
from byoc.relay.adt import Clause, Match
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
from byoc.relay.text.atoms import nearest
from byoc.relay.text.lexer import END, Tokens
from byoc.relay.text.op_calls import attributes_of, keyed_attributes, op_named
from byoc.relay.text.scope_reader import ScopeReader
from byoc.relay.text.trampoline import Step
from byoc.runtime.core.ndarray import NDArray

# infix mark -> how tightly it binds, and its operator
_INFIX: dict[str, tuple[int, str]] = {
    "*": (4, "multiply"),
    "/": (4, "divide"),
    "+": (3, "add"),
    "-": (3, "subtract"),
    "<": (2, "less"),
    "<=": (2, "less_equal"),
    ">": (2, "greater"),
    ">=": (2, "greater_equal"),
    "==": (1, "equal"),
    "!=": (1, "not_equal"),
}
_REFERENCES: dict[str, tuple[type, int]] = {"ref": (RefCreate, 1), "ref_read": (RefRead, 1), "ref_write": (RefWrite, 2)}


class ExpressionParser(ScopeReader):
    """Reads expressions from *tokens*; *module* has the functions and types that exist already."""

    def __init__(self, tokens: Tokens, meta: Mapping[str, Sequence[object]], module: IRModule | None = None):
        super().__init__(tokens, meta, module)
        self._globals = {var.name_hint: var for var in self.module.get_global_vars()}
        self.gives_places = False
        self._mentions: dict[str, int] = {}
        self._graph: dict[str, RelayExpr] = {}
        self._constants: dict[tuple[object, object], Constant] = {}

    def _global(self, name: str, at: int) -> GlobalVar:
        self._mentions.setdefault(name, at)
        if name not in self._globals:
            self._globals[name] = GlobalVar(name)
        return self._globals[name]

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
        lets: list[tuple[Var, RelayExpr, AnySpan | None]] = []
        opened: list[str] = []
        while True:
            if self._kinds[self._at] == "graph" and self._texts[self._at + 1] == "=":
                yield self._graph_binding()
                continue
            if self.skip("free_var"):
                self._declared()
                self.take(";")
                continue
            first = self._at
            if self.skip("let"):
                span = self.span()
                key, var = self._declared()
                opened.append(key)
                self.take("=")
                value = yield self._expr()
                self.take(";")
                if self.gives_places and span is None:
                    span = self._tokens.place(first, self._at - 1)
            else:
                span, var = None, Var("_")
                value = yield self._expr()
                if not self.skip(";"):
                    break
            lets.append((var, value, span))
        if end != END and not self.next_is(end):
            raise self.expected(f"';' or {end!r}")
        self._close(opened)
        body = value
        for var, bound, span in reversed(lets):
            body = Let(var, bound, body, span)
        result: RelayExpr = body
        return result

    def _graph_binding(self) -> Step[None]:
        at = self._at
        key = self._texts[at]
        if key in self._graph:
            raise self.error(f"{key} is bound twice")
        self._at += 2
        self._graph[key] = yield self._expr()
        self.take(";")

    def _braces(self) -> Step[RelayExpr]:
        self.take("{")
        body = yield self._statements("}")
        self.take("}")
        result: RelayExpr = body
        return result

    # expressions --------------------------------------------------------------------------------------------------

    def _placed(self, expr: RelayExpr, first: int) -> RelayExpr:
        """*expr*, which began at the token *first* and ends before the next one, with its place where that is asked."""
        if self.gives_places and not isinstance(expr, (Op, GlobalVar, Constructor)):
            bind_span(expr, self._tokens.place(first, max(first, self._at - 1)))
        return expr

    def _expr(self, tightness: int = 1) -> Step[RelayExpr]:
        first = self._at
        left = yield self._postfixed()
        while self._kinds[self._at] == "mark" and self._texts[self._at] in _INFIX:
            at = self._at
            binds, op = _INFIX[self._texts[at]]
            if binds < tightness:
                break
            self._at += 1
            right = yield self._expr(binds + 1)
            left = self._placed(self._op_call(self._op(op, at), [left, right], {}, at), first)
        result: RelayExpr = left
        return result

    def _postfixed(self) -> Step[RelayExpr]:
        first = self._at
        expr = yield self._primary()
        while True:
            kind = self._kinds[self._at]
            if kind == "span":
                span = self.span()
                if not isinstance(expr, (Op, GlobalVar, Var)):
                    bind_span(expr, span)
            elif kind == "projection":
                self._at += 1
                expr = TupleGetItem(expr, int(self._texts[self._at - 1][1:]))
            elif self.next_is("(") or self.next_is("["):
                expr = yield self._call(expr)
            elif isinstance(expr, Constructor) and not expr.inputs:
                expr = Call(expr, [])  # a value without fields is its constructor's name
            else:
                return self._placed(expr, first)
            if not self._has_span_next():
                self._placed(expr, first)

    def _has_span_next(self) -> bool:
        return self._kinds[self._at] == "span"

    def _primary(self) -> Step[RelayExpr]:
        kind, text, at = self._kinds[self._at], self._texts[self._at], self._at
        reference = self._reference(kind, text, at)
        if reference is not None:
            return reference
        if kind == "mark" and text == "-" and not self._is_negative_number():
            self._at += 1
            return self._op_call(self._op("negative", at), [(yield self._postfixed())], {}, at)
        if kind == "number" or (kind == "mark" and text == "-") or (kind == "name" and text in ("True", "False")):
            return Constant(self.scalar(), self.span())
        if kind == "mark" and text == "{":
            result: RelayExpr = yield self._braces()
            return result
        if self.skip("("):
            result = yield self._parenthesised()
            return result
        if self.skip("fn"):
            result = yield self._function()
            return result
        if self.skip("if"):
            result = yield self._if()
            return result
        if self.skip("match"):
            result = yield self._match()
            return result
        if self.skip("meta"):
            return self._meta_expression()
        if kind == "name" and text in _REFERENCES:
            result = yield self._reference_node(text)
            return result
        if kind in ("name", "string"):
            self._at += 1
            name = self.unquoted(text)
            return self._constructors.get(name) or self._op(name, at)
        raise self.expected("an expression")

    def _is_negative_number(self) -> bool:
        at = self._at
        while self._texts[at] == "-" and self._kinds[at] == "mark":
            at += 1
        return self._kinds[at] == "number"

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

    def _meta_expression(self) -> RelayExpr:
        at = self._at - 1
        entry = self.meta_entry()
        span = self.span()
        if isinstance(entry, RelayExpr):
            return entry
        if not isinstance(entry, NDArray):
            raise self.error(f"an expression is expected, the metadata has a {type(entry).__name__} there", at)
        return self._constants.setdefault((id(entry), span), Constant(entry, span))

    def _fields(self) -> Step[tuple[list[RelayExpr], bool]]:
        """Expressions up to ``)``, and whether a comma ends them; a block may stand in place of the first."""
        fields: list[RelayExpr] = []
        trailing = False
        while not self.skip(")"):
            step = self._statements(")") if not fields and self._starts_statement() else self._expr()
            fields.append((yield step))
            trailing = self.skip(",")
            if not trailing and not self.next_is(")"):
                raise self.expected("',' or ')'")
        return fields, trailing

    def _parenthesised(self) -> Step[RelayExpr]:
        """What follows ``(``: a tuple, or one expression or block in parentheses."""
        fields, trailing = yield self._fields()
        return fields[0] if len(fields) == 1 and not trailing else Tuple(fields)

    def _reference_node(self, name: str) -> Step[RelayExpr]:
        at = self._at
        self._at += 1
        self.take("(")
        make, count = _REFERENCES[name]
        parts, _ = yield self._fields()
        if len(parts) != count:
            raise self.error(f"{name} takes {count} expressions, got {len(parts)}", at)
        result: RelayExpr = make(*parts)
        return result

    def _if(self) -> Step[RelayExpr]:
        self.take("(")
        cond = yield self._expr()
        self.take(")")
        then = yield self._braces()
        self.take("else")
        otherwise = yield self._braces()
        return If(cond, then, otherwise, self.span())

    def _match(self) -> Step[Match]:
        """What follows ``match``: ``?`` where it is not complete, the value, and the clauses."""
        complete = self._kinds[self._at] != "dim"
        if not complete:
            self._at += 1
        self.take("(")
        fields, trailing = yield self._fields()
        data = fields[0] if len(fields) == 1 and not trailing else Tuple(fields)
        self.take("{")
        clauses: list[Clause] = []
        while not self.skip("}"):
            keys: list[str] = []
            pattern = self.pattern(keys)
            self.take("=>")
            clauses.append(Clause(pattern, (yield self._expr())))
            self._close(keys)
            if not self.skip(",") and not self.next_is("}"):
                raise self.expected("',' or '}'")
        return Match(data, clauses, complete, self.span())

    def _function(self) -> Step[Function]:
        """What follows ``fn`` or ``def @name``: parameters and attributes, the type of the result, the body."""
        generic = self.type_params()
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
        self.close_type_params(generic)
        return Function(params, body, ret_type, generic, attrs, self.span())

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

    def _call(self, callee: RelayExpr) -> Step[RelayExpr]:
        at = self._at - 1
        types = self.type_args()
        self.take("(")
        args: list[RelayExpr] = []
        attrs: dict[str, object] = {}
        while not self.skip(")"):
            if self._kinds[self._at] in ("name", "string") and self._texts[self._at + 1] == "=":
                self._attribute(attrs, "an attribute")
            elif self.next_is("meta") and self._meta_attributes(attrs):
                pass
            else:
                arg = self._quick_argument()
                args.append((yield self._expr()) if arg is None else arg)
            if not self.skip(",") and not self.next_is(")"):
                raise self.expected("',' or ')'")
        if isinstance(callee, Op):
            return self._op_call(callee, args, attrs, at)
        return Call(callee, args, self.checked(lambda: keyed_attributes(attrs), at), types)

    def _meta_attributes(self, attrs: dict[str, object]) -> bool:
        """Step over ``meta[relay.attrs.X][0]`` and take its attributes over into *attrs*; False for anything else."""
        start = self._at
        self._at += 1
        entry = self.meta_entry()
        if isinstance(entry, (Attrs, DictAttrs)):
            attrs.update(entry.items())
            return True
        self._at = start
        return False

    def _quick_argument(self) -> RelayExpr | None:
        """The next argument if it is a name and nothing more, which most are."""
        at = self._at
        if self._kinds[at] != END and self._texts[at + 1] in (",", ")"):
            return self._reference(self._kinds[at], self._texts[at], at)
        return None

    def _op(self, name: str, at: int) -> Op:
        return self.checked(lambda: op_named(name), at)

    def _op_call(self, op: Op, args: list[RelayExpr], given: dict[str, object], at: int) -> Call:
        return Call(op, args, self.checked(lambda: attributes_of(op, given), at))
