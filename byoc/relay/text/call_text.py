"""What the printer asks of calls, variables and patterns: attributes, type arguments, names.

Attributes that have their default value are left out; type arguments are written only where inference would not find
them again. Source: Relay's text format 0.0.5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from byoc.ir.attrs import Attrs, DictAttrs, freeze
from byoc.ir.expr import Constructor
from byoc.ir.op import Op
from byoc.ir.types import FuncType, Type, TypeVar, type_children
from byoc.relay.adt import Pattern, PatternVar, patterns_of
from byoc.relay.expr import Call, Var
from byoc.relay.text.attributes import field_types, matched
from byoc.relay.text.spelling import NAME, key_text, name_text, quoted, value_text

TYPE_KEY = "attrs_type_key"


def variable_text(name: str) -> tuple[str, str]:
    """How the name of a variable follows ``%``, and the comment that says what it is where that is no name."""
    if name[:1].isdigit() and NAME.fullmatch(f"v{name}"):
        return f"v{name}", f" /* name={quoted(name, in_comment=True)} */"
    return name_text(name), ""


def variables_of(pattern: Pattern) -> list[Var]:
    """The variables that *pattern* binds, in the order of the text."""
    return [p.var for p in patterns_of(pattern) if isinstance(p, PatternVar)]


def needs_type_args(call: Call) -> bool:
    """Whether the type arguments of *call* stand in the text: where inference was not, or could not find them again."""
    if isinstance(call.op, Op) or not call.type_args:
        return False
    callee = call.op.checked_type_
    if call.checked_type_ is None or isinstance(call.op, Constructor) or not isinstance(callee, FuncType):
        return call.checked_type_ is None
    found = {t for arg in callee.arg_types for t in _type_vars(arg)}
    return not found.issuperset(callee.type_params)


def _type_vars(ty: Type) -> Iterator[TypeVar]:
    stack = [ty]
    while stack:
        top = stack.pop()
        if isinstance(top, TypeVar):
            yield top
        stack.extend(type_children(top))


def call_attributes(attrs: object, of_operator: bool = True, write: Callable[[object], str] = value_text) -> list[str]:
    """``name=value`` for each attribute of a call that differs from its default; of a function, with their class.

    What Relay's class has no default for, or another one, is given by :func:`byoc.ir.attrs.written`.

    *write* gives the text of a value.
    """
    if isinstance(attrs, DictAttrs):
        return [f"{key_text(k)}={write(v)}" for k, v in attrs.items()]
    if not isinstance(attrs, Attrs):
        return []
    types = field_types(type(attrs))
    parts = []
    for field in dataclasses.fields(attrs):
        if "derived" in field.metadata:
            continue
        value = getattr(attrs, field.name)
        always = field.default is dataclasses.MISSING or "written" in field.metadata
        default = None if always else freeze(field.metadata.get("left_out", field.default))
        if always or value != default or type(value) is not type(default):
            parts.append(f"{key_text(field.name)}={write(matched(value, types[field.name]))}")
    return parts if of_operator else [*parts, f"{TYPE_KEY}={quoted(f'relay.attrs.{type(attrs).__name__}')}"]
