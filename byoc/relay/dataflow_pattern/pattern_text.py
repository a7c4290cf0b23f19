"""The text of a pattern, for people. Source: the printers of ``src/relay/ir/dataflow_pattern.cc``.

A wildcard that was redirected is written as a wildcard, for what it stands for may hold it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.ir.op import Op
from byoc.ir.registry import register_func
from byoc.relay.dataflow_pattern.patterns import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from byoc.relay.text.printer import astext


@register_func("relay.dataflow_pattern.text")
def pattern_text(pattern: DFPattern) -> str:
    """*pattern* as Relay writes it; the class's name for a class that is not one of Relay's."""
    write = _TEXTS.get(type(pattern))
    return write(pattern) if write is not None else f"{type(pattern).__name__}()"


def _list(patterns: Sequence[DFPattern] | None) -> str:
    return "(nullptr)" if patterns is None else f"[{', '.join(map(pattern_text, patterns))}]"


def _call(name: str, *parts: DFPattern) -> str:
    return f"{name}({', '.join(map(pattern_text, parts))})"


def _expression(pattern: ExprPattern) -> str:
    expr = pattern.expr
    return f"Op({expr.name})" if isinstance(expr, Op) else astext(expr).partition("\n")[2]


def _attributes(pattern: AttrPattern) -> str:
    pairs = ", ".join(f'"{name}": {value!r}' for name, value in pattern.attrs.items())
    return f"AttrPattern({pattern_text(pattern.pattern)} has attributes {{{pairs}}})"


_TEXTS: dict[type[DFPattern], Callable[..., str]] = {
    WildcardPattern: lambda p: "*",
    ExprPattern: _expression,
    VarPattern: lambda p: f"VarPattern({p.name})",
    ConstantPattern: lambda p: "ConstantPattern()",
    CallPattern: lambda p: f"CallPatternNode({pattern_text(p.op)}, {_list(p.args)})",
    FunctionPattern: lambda p: f"FunctionPatternNode({_list(p.params)}, {pattern_text(p.body)})",
    IfPattern: lambda p: _call("IfPattern", p.cond, p.true_branch, p.false_branch),
    LetPattern: lambda p: _call("LetPatternNode", p.var, p.value, p.body),
    TuplePattern: lambda p: f"TuplePattern({_list(p.fields)})",
    TupleGetItemPattern: lambda p: f"TupleGetItemPatternNode({pattern_text(p.tuple)}, {p.index})",
    AltPattern: lambda p: f"AltPattern({pattern_text(p.left)} | {pattern_text(p.right)})",
    TypePattern: lambda p: f"TypePattern({pattern_text(p.pattern)} has type {p.type!r})",
    DataTypePattern: lambda p: f"DataTypePattern({pattern_text(p.pattern)} has dtype {p.dtype})",
    ShapePattern: lambda p: f"ShapePattern({pattern_text(p.pattern)} has shape [{', '.join(map(str, p.shape))}])",
    AttrPattern: _attributes,
    DominatorPattern: lambda p: _call("DominatorPattern", p.parent, p.path, p.child),
}
