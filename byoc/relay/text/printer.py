"""The printer of Relay's text format, version 0.0.5.

Each node is bound once, in post-order, to ``%0``, ``%1``, …; variables, constants, operators and global names stand
inline, and so does the last expression of a block and the value of a ``let`` where nothing else uses it. Numbers
restart with each global function and are one flat space within it, as in Relay.

Invariants, for well-formed modules: parsing the text gives a structurally equal module with the same variable and
span names, and printing that gives the same bytes. Work is linear, without recursion. Where we go beyond Relay:
``%"any name"`` quotes a name, ``%x#1`` is another variable called x, ``?N`` a named dimension, ``/* span=… */``
belongs to what stands before it, ``#[attrs = {…}]`` holds a module's attributes. Attributes that have their default
value are left out. Not written: spans of operators and global names, type parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from byoc.errors import UserError
from byoc.ir.attrs import Attrs
from byoc.ir.collector import paused_collector
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.registry import register_func
from byoc.ir.types import Type
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
)
from byoc.relay.text.attributes import field_types, matched
from byoc.relay.text.metadata import CONSTANT_KEY, MetaTable
from byoc.relay.text.spelling import (
    key_text,
    name_text,
    op_text,
    quoted,
    scalar_text,
    span_text,
    type_text,
    value_text,
)
from byoc.relay.text.trampoline import Step, run
from byoc.relay.traverse import children, post_order

VERSION_LINE = '#[version = "0.0.5"]\n'
_MAX_INDENT = 40
# nested lists of strings: joined once at the end, so that nothing is copied per level
Rope = list["str | Rope"]


def joined(rope: Rope) -> str:
    """The text of *rope*."""
    out: list[str] = []
    stack = [iter(rope)]
    while stack:
        for piece in stack[-1]:
            if isinstance(piece, str):
                out.append(piece)
            else:
                stack.append(iter(piece))
                break
        else:
            stack.pop()
    return "".join(out)


def _use_counts(root: RelayExpr) -> dict[RelayExpr, int]:
    uses: dict[RelayExpr, int] = {}
    for node in post_order(root):
        for child in children(node):
            uses[child] = uses.get(child, 0) + 1
    return uses


class FunctionPrinter:
    """Prints one global function or one expression; *meta* collects its tensors."""

    def __init__(self, root: RelayExpr, meta: MetaTable, show_spans: bool, show_types: bool):
        self._meta, self._show_spans, self._show_types = meta, show_spans, show_types
        self._uses = _use_counts(root)
        self._known: dict[RelayExpr, str] = {}
        self._open: dict[str, int] = {}
        self._count = 0
        self._level = 0
        self._block: Rope = []

    def definition(self, name: str, func: Function) -> Rope:
        """``def @name(…) {…}``."""
        return ["def @", name_text(name), run(self._function(func)), "\n"]

    def expression(self, expr: RelayExpr) -> Rope:
        """The free variables of *expr*, its bindings, and the expression itself on the last line."""
        declared = [["free_var ", self._declare(v), ";\n"] for v in free_vars(expr)]
        return [*declared, *run(self._statements(expr))]

    # what stands inline -------------------------------------------------------------------------------------------

    def _reference(self, node: RelayExpr) -> str | None:
        """The text of a node that needs no binding or has one, else None."""
        known = self._known.get(node)
        if known is not None:
            return known
        write = _INLINE.get(type(node))
        return write(self, node) if write is not None else None

    def _constant(self, node: Constant) -> str:
        text = scalar_text(node.data.numpy(), node.data.dtype) if node.data.ndim == 0 else None
        if text is None:
            text = f"meta[{CONSTANT_KEY}][{self._meta.add(node.data)}]"
        return text + self._notes(node)

    def _notes(self, node: RelayExpr) -> str:
        ty = node.checked_type_ if self._show_types else None
        note = f" /* ty={type_text(ty)} */" if ty is not None else ""
        return note + span_text(node.span) if self._show_spans else note

    # blocks and bindings ------------------------------------------------------------------------------------------

    def _indent(self) -> str:
        return "  " * min(self._level, _MAX_INDENT)

    def _declare(self, var: Var) -> str:
        """Open the scope of *var*; its name, type and span as they stand where it is bound."""
        index = self._open.get(var.name_hint, 0)
        self._open[var.name_hint] = index + 1
        name = f"%{name_text(var.name_hint)}" + (f"#{index}" if index else "")
        self._known[var] = name
        declared = f": {type_text(var.type_annotation)}" if var.type_annotation is not None else ""
        return name + declared + (span_text(var.span) if self._show_spans else "")

    def _close(self, variables: Iterable[Var]) -> None:
        for var in variables:
            self._open[var.name_hint] -= 1
            self._known.pop(var, None)

    def _bound(self, node: RelayExpr) -> Step[str]:
        """Bind *node* to the next number."""
        form = yield self._form(node)
        name = f"%{self._count}"
        self._count += 1
        self._known[node] = name
        self._block.append([self._indent(), name, " = ", form, ";\n"])
        return name

    def _form(self, node: RelayExpr) -> Step[Rope]:
        return _FORMS[type(node)](self, node)

    def _value(self, node: RelayExpr) -> Step[object]:
        """*node* itself where nothing else uses it, else its name."""
        text = self._reference(node)
        if text is not None:
            return text
        if self._uses.get(node, 0) > 1:
            return (yield self._bound(node))
        return (yield self._form(node))

    def _statements(self, body: RelayExpr) -> Step[Rope]:
        """The lines of a block: bindings, lets, and the value on the last line."""
        outer, self._block = self._block, []
        lets: list[Var] = []
        node = body
        while isinstance(node, Let) and node not in self._known and self._uses.get(node, 1) == 1:
            span = span_text(node.span).strip() + " " if self._show_spans and node.span is not None else ""
            declared = self._declare(node.variable)
            lets.append(node.variable)
            value = yield self._value(node.value)
            self._block.append([self._indent(), "let ", span, declared, " = ", value, ";\n"])
            node = node.body
        value = yield self._value(node)
        self._block.append([self._indent(), value, "\n"])
        self._close(reversed(lets))
        block, self._block = self._block, outer
        return block

    def _braces(self, body: RelayExpr) -> Step[Rope]:
        self._level += 1
        block = yield self._statements(body)
        self._level -= 1
        return ["{\n", block, self._indent(), "}"]

    # one form a class of node -------------------------------------------------------------------------------------

    def _function(self, func: Function) -> Step[Rope]:
        parts = [self._declare(p) for p in func.params]
        parts += [f"{key_text(k)}={value_text(v)}" for k, v in func.attrs.items()]
        ret = f" -> {type_text(func.ret_type)}" if func.ret_type is not None else ""
        block = yield self._braces(func.body)
        self._close(func.params)
        return ["(", ", ".join(parts), ")", ret, " ", block, self._notes(func)]

    def _closure(self, func: Function) -> Step[Rope]:
        return ["fn ", (yield self._function(func))]

    def _call(self, call: Call) -> Step[Rope]:
        callee = self._reference(call.op) or (yield self._bound(call.op))
        parts = []
        for arg in call.args:
            parts.append(self._reference(arg) or (yield self._bound(arg)))
        if isinstance(call.attrs, Attrs):
            parts += call_attributes(call.attrs)
        return [callee, "(", ", ".join(parts), ")", self._notes(call)]

    def _tuple(self, node: Tuple) -> Step[Rope]:
        parts = []
        for field in node.fields:
            parts.append(self._reference(field) or (yield self._bound(field)))
        return ["(", ", ".join(parts), ",)" if len(parts) == 1 else ")", self._notes(node)]

    def _item(self, node: TupleGetItem) -> Step[Rope]:
        value = self._reference(node.tuple_value) or (yield self._bound(node.tuple_value))
        if isinstance(node.tuple_value, (Constant, Op)):  # 1.0 and add.0 would be read as a number and a name
            value = f"({value})"
        return [value, f".{node.index}", self._notes(node)]

    def _if(self, node: If) -> Step[Rope]:
        cond = self._reference(node.cond) or (yield self._bound(node.cond))
        then = yield self._braces(node.true_branch)
        otherwise = yield self._braces(node.false_branch)
        return ["if (", cond, ") ", then, " else ", otherwise, self._notes(node)]

    def _let(self, node: Let) -> Step[Rope]:
        self._uses[node] = 1  # its lines stand here alone; every use names the binding
        return (yield self._braces(node))

    def _ref(self, node: RelayExpr) -> Step[Rope]:
        parts = []
        for child in children(node):
            parts.append(self._reference(child) or (yield self._bound(child)))
        return [_REF_NAMES[type(node)], "(", ", ".join(parts), ")", self._notes(node)]


_INLINE: dict[type, Callable[[FunctionPrinter, RelayExpr], str]] = {
    Op: lambda printer, op: op_text(op.name),
    GlobalVar: lambda printer, var: f"@{name_text(var.name_hint)}",
    Var: lambda printer, var: f"%{name_text(var.name_hint)}",
    Constant: FunctionPrinter._constant,
}

_REF_NAMES: dict[type, str] = {RefCreate: "ref", RefRead: "ref_read", RefWrite: "ref_write"}

_FORMS: dict[type, Callable[[FunctionPrinter, RelayExpr], Step[Rope]]] = {
    Call: FunctionPrinter._call,
    Function: FunctionPrinter._closure,
    If: FunctionPrinter._if,
    Let: FunctionPrinter._let,
    Tuple: FunctionPrinter._tuple,
    TupleGetItem: FunctionPrinter._item,
    **dict.fromkeys(_REF_NAMES, FunctionPrinter._ref),
}


def call_attributes(attrs: Attrs) -> list[str]:
    """``name=value`` for each attribute of a call that differs from its default."""
    types = field_types(type(attrs))
    parts = []
    for field in dataclasses.fields(attrs):
        value = getattr(attrs, field.name)
        if field.default is dataclasses.MISSING or value != field.default or type(value) is not type(field.default):
            parts.append(f"{key_text(field.name)}={value_text(matched(value, types[field.name]))}")
    return parts


def _module_attrs(attrs: Mapping[str, object]) -> str:
    inner = ", ".join(f"{quoted(k)}: {value_text(v)}" for k, v in attrs.items())
    return f"#[attrs = {{{inner}}}]\n" if attrs else ""


def _definitions(mod: IRModule, meta: MetaTable, show_spans: bool, show_types: bool) -> Rope:
    parts: Rope = []
    for var, func in mod.functions.items():
        if not isinstance(func, Function):
            raise UserError(f"@{var.name_hint} is a {type(func).__name__}: only Relay functions have a text form")
        if parts:
            parts.append("\n")
        parts.append(FunctionPrinter(func, meta, show_spans, show_types).definition(var.name_hint, func))
    return parts


@register_func("relay.ir.astext")
@paused_collector()
def astext(node: IRModule | RelayExpr | Type, show_meta_data: bool = True, show_types: bool = False) -> str:
    """*node* in Relay's text format; with *show_meta_data* its spans and tensors too, so that it can be read back.

    Without it, constants are shown as ``meta[relay.Constant][0]`` and spans are left out. *show_types* adds each
    inferred type as a comment. Raises UserError for what has no text form. Source: ``tvm.relay.astext``.
    """
    meta = MetaTable()
    if isinstance(node, Type):
        return type_text(node)
    if isinstance(node, IRModule):
        body = [_module_attrs(node.attrs), _definitions(node, meta, show_meta_data, show_types)]
    elif isinstance(node, RelayExpr):
        body = [FunctionPrinter(node, meta, show_meta_data, show_types).expression(node)]
    else:
        raise UserError(f"only modules, expressions and types have a text form, got {type(node).__name__}")
    section = ["\n", meta.text()] if show_meta_data and len(meta) else []
    return joined([VERSION_LINE, *body, *section])
