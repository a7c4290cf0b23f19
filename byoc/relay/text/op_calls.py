"""Calls of operators as the text gives them: the operator by its name, its attributes by their declared types."""

from __future__ import annotations

import dataclasses

from byoc.errors import ParseError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OPS, Op
from byoc.relay.text.atoms import nearest
from byoc.relay.text.attributes import conforms, field_types, matched


def op_named(name: str) -> Op:
    """The operator *name*. Raises ParseError with the nearest names."""
    op = OPS.get(name)
    if op is None:
        raise ParseError(f"no operator is called {name!r}{nearest(name, list(OPS))}")
    return op


def attributes_of(op: Op, given: dict[str, object]) -> Attrs | None:
    """The attributes of a call of *op*, those not *given* at their defaults; None for an operator without any.

    Raises ParseError for a name that *op* does not have, a value of another type, or one that is missing, and what
    the attribute class itself raises.
    """
    if op.attrs_type is None:
        if given:
            raise ParseError(f"{op.name} takes no attributes, got {', '.join(given)}")
        return None
    fields = {field.name: field for field in dataclasses.fields(op.attrs_type)}
    declared = field_types(op.attrs_type)
    values: dict[str, object] = {}
    for name, value in given.items():
        if name not in fields:
            raise ParseError(f"{op.name} has no attribute {name!r}{nearest(name, list(fields))}")
        values[name] = matched(value, declared[name])
        if not conforms(values[name], declared[name]):
            raise ParseError(f"the attribute {name} of {op.name} is {_shown(declared[name])}, got {value!r}")
    missing = [
        name
        for name, field in fields.items()
        if name not in values and field.default is field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ParseError(f"{op.name} needs the attribute {', '.join(missing)}")
    return op.attrs_type(**values)


def _shown(declared: object) -> str:
    return declared.__name__ if isinstance(declared, type) and "[" not in str(declared) else str(declared)
