"""Calls of operators as the text gives them: the operator by its name, its attributes by their declared types."""

from __future__ import annotations

import dataclasses

from byoc.errors import ParseError, RegistryError
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.op import OPS, Op
from byoc.relay.text.atoms import nearest
from byoc.relay.text.attributes import conforms, field_types, matched
from byoc.relay.text.call_text import TYPE_KEY


def op_named(name: str) -> Op:
    """The operator *name*. Raises ParseError with the nearest names."""
    op = OPS.get(name)
    if op is None:
        raise ParseError(f"no operator is called {name!r}{nearest(name, list(OPS))}")
    return op


def attributes_of(op: Op, given: dict[str, object]) -> Attrs | DictAttrs | None:
    """The attributes of a call of *op*, those not *given* at their defaults; None for an operator without any.

    Raises ParseError for a name that *op* does not have, a value of another type, or one that is missing, and what
    the attribute class itself raises.
    """
    if op.attrs_type is None and op.attrs_type_key.endswith("DictAttrs"):
        return DictAttrs(given) if given else None
    if op.attrs_type is None:
        if given:
            raise ParseError(f"{op.name} takes no attributes, got {', '.join(given)}")
        return None
    return made_attributes(op.attrs_type, given, op.name)


def keyed_attributes(given: dict[str, object]) -> Attrs | DictAttrs | None:
    """The attributes of a call of a function, of the class that ``attrs_type_key`` names.

    Raises ParseError for an unknown class, and as :func:`attributes_of` does.
    """
    key = given.get(TYPE_KEY)
    if key is None:
        return DictAttrs(given) if given else None
    try:
        attrs_type = Attrs.class_named(str(key).rpartition(".")[2])
    except RegistryError as error:
        raise ParseError(str(error)) from error
    return made_attributes(attrs_type, {k: v for k, v in given.items() if k != TYPE_KEY}, str(key))


def made_attributes(attrs_type: type[Attrs], given: dict[str, object], of: str) -> Attrs:
    """Attributes of class *attrs_type*, those not *given* at their defaults; *of* is whose they are, for errors."""
    fields = {field.name: field for field in dataclasses.fields(attrs_type)}
    declared = field_types(attrs_type)
    values: dict[str, object] = {}
    for name, value in given.items():
        if name not in fields:
            raise ParseError(f"{of} has no attribute {name!r}{nearest(name, list(fields))}")
        values[name] = matched(value, declared[name])
        if not conforms(values[name], declared[name]):
            raise ParseError(f"the attribute {name} of {of} is {_shown(declared[name])}, got {value!r}")
    for name, field in fields.items():
        if name not in values and "left_out" in field.metadata:
            values[name] = field.metadata["left_out"]
    missing = [
        name
        for name, field in fields.items()
        if name not in values and field.default is field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ParseError(f"{of} needs the attribute {', '.join(missing)}")
    return attrs_type(**values)


def _shown(declared: object) -> str:
    return declared.__name__ if isinstance(declared, type) and "[" not in str(declared) else str(declared)
