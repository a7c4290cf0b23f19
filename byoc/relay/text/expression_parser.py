"""The parser's middle: expressions, blocks, functions and calls, to any depth (``trampoline``).

Graph bindings ``%0 = …`` are one flat space, as in Relay; variables have lexical scope. A node has the span that a
``/* span=… */`` comment after it gives, and none otherwise. Source: Relay's text format 0.0.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op
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
from byoc.relay.text.lexer import END, Tokens
from byoc.relay.text.op_calls import attributes_of, op_named
from byoc.relay.text.trampoline import Step
from byoc.runtime.ndarray import NDArray

# infix mark -> how tightly it binds, and its operator
_INFIX: dict[str, tuple[int, str]] = {
    "*": (3, "multiply"), "/": (3, "divide"), "+": (2, "add"), "-": (2, "subtract"),
    "<": (1, "less"), "<=": (1, "less_equal"), ">": (1, "greater"), ">=": (1, "greater_equal"),
    "==": (1, "equal"), "!=": (1, "not_equal"),
}
_REFERENCES: dict[str, tuple[type, int]] = {"ref": (RefCreate, 1), "ref_read": (RefRead, 1), "ref_write": (RefWrite, 2)}


class ExpressionParser(AtomReader):
    """Reads expressions from *tokens*; *known* are the global names that exist already."""

    def __init__(self, tokens: Tokens, meta: Mapping[str, Sequence[NDArray]], known: Sequence[GlobalVar] = ()):
        super().__init__(tokens, meta)
        self._globals = {var.name_hint: var for var in known}
        self._mentions: dict[str, int] = {}
        self._graph: dict[str, RelayExpr] = {}
        self._scope: dict[str, list[Var]] = {}
        self._constants: dict[tuple[object, object], Constant] = {}

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
                span = self.span()
                if not isinstance(expr, (Op, GlobalVar, Var)):
                    bind_span(expr, span)  # type: ignore[arg-type]
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
        if self.skip("fn"):
            return (yield self._function())  # type: ignore[return-value]
        if self.skip("if"):
            return (yield self._if())  # type: ignore[return-value]
        if self.skip("meta"):
            return self._meta_constant()
        if kind == "name" and text in _REFERENCES:
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

    def _fields(self) -> Step[tuple[list[RelayExpr], bool]]:
        """Expressions up to ``)``, and whether a comma ends them; a block may stand in place of the first."""
        fields: list[RelayExpr] = []
        trailing = False
        while not self.skip(")"):
            step = self._statements(")") if not fields and self._starts_statement() else self._expr()
            fields.append((yield step))  # type: ignore[arg-type]
            trailing = self.skip(",")
            if not trailing and not self.next_is(")"):
                raise self.expected("',' or ')'")
        return fields, trailing

    def _parenthesised(self) -> Step[RelayExpr]:
        """What follows ``(``: a tuple, or one expression or block in parentheses."""
        fields, trailing = yield self._fields()  # type: ignore[misc]
        return fields[0] if len(fields) == 1 and not trailing else Tuple(fields)

    def _reference_node(self, name: str) -> Step[RelayExpr]:
        at = self._at
        self._at += 1
        self.take("(")
        make, count = _REFERENCES[name]
        parts, _ = yield self._fields()  # type: ignore[misc]
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

    def _call(self, callee: RelayExpr) -> Step[RelayExpr]:
        at = self._at - 1
        self.take("(")
        args: list[RelayExpr] = []
        attrs: dict[str, object] = {}
        while not self.skip(")"):
            if self._texts[self._at + 1] == "=" and self._kinds[self._at] in ("name", "string"):
                self._attribute(attrs, "an attribute")
            else:
                arg = self._quick_argument()
                args.append((yield self._expr()) if arg is None else arg)  # type: ignore[arg-type]
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

    def _op(self, name: str, at: int) -> Op:
        return self.checked(lambda: op_named(name), at)  # type: ignore[return-value]

    def _op_call(self, op: Op, args: list[RelayExpr], given: dict[str, object], at: int) -> Call:
        return Call(op, args, self.checked(lambda: attributes_of(op, given), at))  # type: ignore[arg-type]
