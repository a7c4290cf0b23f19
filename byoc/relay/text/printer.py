"""The printer of Relay's text format, version 0.0.5.

Each node is bound once, in post-order, to ``%0``, ``%1``, …; variables, constants, operators and global names stand
inline, and so does the last expression of a block and the value of a ``let`` where nothing else uses it. Numbers
restart with each global function and are one flat space within it, as in Relay.

Invariants, for well-formed modules: parsing the text gives a structurally equal module with the same variable and
span names, and printing that gives the same bytes. Work is linear, without recursion. Where we go beyond Relay:
``%"any name"`` quotes a name, ``%v1 /* name="1" */`` one that begins with a digit, ``%x#1`` is another variable called
x, ``?N`` a named dimension, ``/* span=… */`` belongs to what stands before it, ``f[int32](…)`` gives type arguments
that inference would not find, ``#[attrs = {…}]`` holds a module's attributes. Attributes that have their default value
are left out. Types of constants and calls are comments, as in Relay. Not written: spans of operators and global names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from byoc.errors import UserError
from byoc.ir.collector import paused_collector
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.registry import register_func
from byoc.ir.types import Type
from byoc.ir.virtual_device import UNCONSTRAINED, VirtualDevice
from byoc.relay.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import (
    VIRTUAL_DEVICE,
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
from byoc.relay.text.call_text import call_attributes, needs_type_args, variable_text, variables_of
from byoc.relay.text.metadata import CONSTANT_KEY, DEVICE_KEY, MetaTable
from byoc.relay.text.spelling import (
    key_text,
    name_text,
    op_text,
    quoted,
    scalar_text,
    span_text,
    value_text,
)
from byoc.relay.text.trampoline import Step, run
from byoc.relay.text.type_text import TypeNames, constructor_text, type_definition_text, type_text
from byoc.relay.traverse import children, post_order

VERSION_LINE = '#[version = "0.0.5"]\n'
_MAX_INDENT = 40
OMITTED = "/* meta data omitted. you can use show_meta_data=True to include meta data */\n"
# a text for a node, put behind it in place of its type
Annotate = Callable[[RelayExpr], str]
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
    """Prints one global function or one expression; *meta* collects its tensors, *taken* are names of data types."""

    def __init__(
        self, root: RelayExpr, meta: MetaTable, show_meta: bool, annotate: Annotate | None, taken: Iterable[str] = ()
    ):
        self._meta, self._show_spans, self._annotate = meta, show_meta, annotate
        self._types = TypeNames(taken, meta)
        # constants know their types before inference
        self._is_typed = root.checked_type_ is not None and not isinstance(root, Constant)
        self._uses = _use_counts(root)
        self._known: dict[RelayExpr, str] = {}
        self._open: dict[str, int] = {}
        self._count = 0
        self._level = 0
        self._block: Rope = []

    def definition(self, name: str, func: Function) -> Rope:
        """``def @name[A](…) {…}``."""
        return ["def @", name_text(name), run(self._function(func)), "\n"]

    def expression(self, expr: RelayExpr) -> Rope:
        """The free variables of *expr*, its bindings, and the expression itself on the last line."""
        declared: Rope = [["free_var ", self._declare(v), ";\n"] for v in free_vars(expr)]
        block = run(self._statements(expr))
        return [*declared, *block[:-1], block[-1][:-1]]

    def numbered(self, func: Function) -> list[RelayExpr]:
        """The nodes that the text of *func* calls ``%0``, ``%1``, …, in this order; its value is last."""
        run(self._function(func))
        nodes = [node for node, name in self._known.items() if not isinstance(node, Var)]
        return nodes if self._reference(func.body) is not None else [*nodes, func.body]

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

    def _attribute_value(self, value: object) -> str:
        """The value of an attribute; virtual devices stand in the metadata."""
        if isinstance(value, VirtualDevice):
            return f"meta[{DEVICE_KEY}][{self._meta.add_device(value)}]"
        return value_text(value)

    def _notes(self, node: RelayExpr) -> str:
        if self._annotate is not None:
            note = self._annotate(node)
        else:
            ty = node.checked_type_ if self._is_typed and isinstance(node, (Call, Constant)) else None
            note = f" /* ty={self._types.text(ty)} */" if ty is not None else ""
        return note + span_text(node.span) if self._show_spans else note

    # blocks and bindings ------------------------------------------------------------------------------------------

    def _indent(self) -> str:
        return "  " * min(self._level, _MAX_INDENT)

    def _declare(self, var: Var) -> str:
        """Open the scope of *var*; its name, type and span as they stand where it is bound."""
        base, hint = variable_text(var.name_hint)
        index = self._open.get(base, 0)
        self._open[base] = index + 1
        name = f"%{base}" + (f"#{index}" if index else "")
        self._known[var] = name
        declared = f": {self._types.text(var.type_annotation)}" if var.type_annotation is not None else ""
        if var.virtual_device_ is not UNCONSTRAINED:
            declared = f" {{{VIRTUAL_DEVICE}={self._attribute_value(var.virtual_device_)}}}" + declared
        return name + (hint if self._show_spans else "") + declared + (span_text(var.span) if self._show_spans else "")

    def _close(self, variables: Iterable[Var]) -> None:
        for var in variables:
            self._open[variable_text(var.name_hint)[0]] -= 1
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
        generic = self._types.declared(func.type_params)
        parts = [self._declare(p) for p in func.params]
        parts += [f"{key_text(k)}={self._attribute_value(v)}" for k, v in func.attrs.items()]
        ret = f" -> {self._types.text(func.ret_type)}" if func.ret_type is not None else ""
        block = yield self._braces(func.body)
        self._close(func.params)
        return [generic, "(", ", ".join(parts), ")", ret, " ", block, self._notes(func)]

    def _closure(self, func: Function) -> Step[Rope]:
        return ["fn ", (yield self._function(func))]

    def _call(self, call: Call) -> Step[Rope]:
        parts = []
        for arg in call.args:
            parts.append(self._reference(arg) or (yield self._bound(arg)))
        callee = self._reference(call.op) or (yield self._bound(call.op))
        if call.attrs is not None:
            parts += call_attributes(call.attrs, isinstance(call.op, Op), self._attribute_value)
        types = f"[{self._types.texts(call.type_args)}]" if needs_type_args(call) else ""
        if isinstance(call.op, Constructor) and not call.op.inputs and not parts and not types:
            return [callee, self._notes(call)]  # a value without fields is its constructor's name
        return [callee, types, "(", ", ".join(parts), ")", self._notes(call)]

    def _tuple(self, node: Tuple) -> Step[Rope]:
        parts = []
        for field in node.fields:
            parts.append(self._reference(field) or (yield self._bound(field)))
        return ["(", ", ".join(parts), ",)" if len(parts) == 1 else ")", self._notes(node)]

    def _item(self, node: TupleGetItem) -> Step[Rope]:
        value = self._reference(node.tuple_value) or (yield self._bound(node.tuple_value))
        if isinstance(node.tuple_value, (Constant, Op, Constructor)):  # 1.0 and add.0 would be read otherwise
            value = f"({value})"
        return [value, f".{node.index}", self._notes(node)]

    def _if(self, node: If) -> Step[Rope]:
        cond = self._reference(node.cond) or (yield self._bound(node.cond))
        then = yield self._braces(node.true_branch)
        otherwise = yield self._braces(node.false_branch)
        return ["if (", cond, ") ", then, " else ", otherwise, self._notes(node)]

    def _match(self, node: Match) -> Step[Rope]:
        data = self._reference(node.data) or (yield self._bound(node.data))
        clauses: Rope = []
        self._level += 1
        for clause in node.clauses:
            pattern = self._pattern(clause.lhs)
            body = yield self._braces(clause.rhs)
            self._close(reversed(variables_of(clause.lhs)))
            clauses.append([self._indent(), pattern, " => ", body, ",\n"])
        self._level -= 1
        keyword = "match" if node.complete else "match?"
        return [keyword, " (", data, ") {\n", clauses, self._indent(), "}", self._notes(node)]

    def _pattern(self, pattern: Pattern) -> str:
        """A pattern; the variables that it binds are in scope from here."""
        if isinstance(pattern, PatternVar):
            return self._declare(pattern.var)
        if isinstance(pattern, PatternConstructor):
            name = constructor_text(pattern.constructor.name_hint)
            return f"{name}({', '.join(map(self._pattern, pattern.patterns))})" if pattern.patterns else name
        return f"({', '.join(map(self._pattern, pattern.patterns))})" if isinstance(pattern, PatternTuple) else "_"

    def _let(self, node: Let) -> Step[Rope]:
        self._uses[node] = 1  # its lines stand here alone; every use names the binding
        self._level += 1
        block = yield self._statements(node)
        self._level -= 1
        return ["(\n", block, self._indent(), ")"]

    def _ref(self, node: RelayExpr) -> Step[Rope]:
        parts = []
        for child in children(node):
            parts.append(self._reference(child) or (yield self._bound(child)))
        return [_REF_NAMES[type(node)], "(", ", ".join(parts), ")", self._notes(node)]


_INLINE: dict[type, Callable[..., str]] = {
    Op: lambda printer, op: op_text(op.name),
    GlobalVar: lambda printer, var: f"@{name_text(var.name_hint)}",
    Var: lambda printer, var: f"%{variable_text(var.name_hint)[0]}",
    Constructor: lambda printer, constructor: constructor_text(constructor.name_hint),
    Constant: FunctionPrinter._constant,
}

_REF_NAMES: dict[type, str] = {RefCreate: "ref", RefRead: "ref_read", RefWrite: "ref_write"}

_FORMS: dict[type, Callable[..., Step[Rope]]] = {
    Call: FunctionPrinter._call,
    Function: FunctionPrinter._closure,
    If: FunctionPrinter._if,
    Let: FunctionPrinter._let,
    Match: FunctionPrinter._match,
    Tuple: FunctionPrinter._tuple,
    TupleGetItem: FunctionPrinter._item,
    **dict.fromkeys(_REF_NAMES, FunctionPrinter._ref),
}


def _module_attrs(attrs: Mapping[str, object]) -> str:
    inner = ", ".join(f"{quoted(k)}: {value_text(v)}" for k, v in attrs.items())
    return f"#[attrs = {{{inner}}}]\n" if attrs else ""


def _definitions(mod: IRModule, meta: MetaTable, show_meta: bool, annotate: Annotate | None) -> Rope:
    taken = [header.name_hint for header in mod.get_global_type_vars()]
    parts: Rope = [type_definition_text(data, taken) for data in mod.type_definitions.values()]
    for var, func in mod.functions.items():
        if not isinstance(func, Function):
            raise UserError(f"@{var.name_hint} is a {type(func).__name__}: only Relay functions have a text form")
        printer = FunctionPrinter(func, meta, show_meta, annotate, taken)
        parts.append(printer.definition(var.name_hint, func))
    return [piece for part in parts for piece in ("\n", part)][1:]


@register_func("relay.ir.astext")
@paused_collector()
def astext(node: IRModule | RelayExpr | Type, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
    """*node* in Relay's text format; with *show_meta_data* its spans and tensors too, so that it can be read back.

    Without it, constants are shown as ``meta[relay.Constant][0]`` and spans are left out. *annotate* gives the text
    behind each node, in place of the types of constants and calls. Raises UserError for what has no text form.
    Source: ``tvm.relay.astext``.
    """
    meta = MetaTable()
    if isinstance(node, Type):
        return type_text(node)
    if isinstance(node, IRModule):
        body: Rope = [_module_attrs(node.attrs), _definitions(node, meta, show_meta_data, annotate)]
    elif isinstance(node, RelayExpr):
        body = [FunctionPrinter(node, meta, show_meta_data, annotate).expression(node)]
    else:
        raise UserError(f"only modules, expressions and types have a text form, got {type(node).__name__}")
    section = ["\n", meta.text() if show_meta_data else OMITTED] if len(meta) else []
    return joined([VERSION_LINE, *body, *section])


@register_func("relay.ir.pretty_print")
def pretty_print(node: IRModule | RelayExpr) -> str:
    """*node* for people: its text without version, metadata and spans. Source: ``str`` of Relay's nodes."""
    return astext(node, show_meta_data=False).removeprefix(VERSION_LINE)
