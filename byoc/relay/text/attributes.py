"""Attribute values by the declared types of their fields.

Printing and parsing agree through :func:`matched`: an int in a field declared ``float`` is that float on both sides.
"""

from __future__ import annotations

import types
import typing

from byoc.ir.attrs import Attrs

_FIELD_TYPES: dict[type[Attrs], dict[str, object]] = {}  # what field_types has found


def field_types(attrs_type: type[Attrs]) -> dict[str, object]:
    """The declared type of each field of an attribute class; ``object`` where an annotation cannot be evaluated."""
    if attrs_type not in _FIELD_TYPES:
        _FIELD_TYPES[attrs_type] = _evaluated_types(attrs_type)
    return _FIELD_TYPES[attrs_type]


def _evaluated_types(attrs_type: type[Attrs]) -> dict[str, object]:
    try:
        return typing.get_type_hints(attrs_type)
    except (NameError, TypeError, AttributeError):
        return dict.fromkeys(attrs_type.__dataclass_fields__, object)


def conforms(value: object, declared: object) -> bool:
    """True when *value* is of the *declared* type, exactly: an int is not a float, nor a bool an int.

    None conforms to everything: it says that an attribute is not set.
    """
    if declared is object or value is None:
        return True
    origin, args = typing.get_origin(declared), typing.get_args(declared)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, one) for one in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all(conforms(v, args[0]) for v in value)
        return len(args) == len(value) and all(map(conforms, value, args))
    if origin is typing.Literal:
        return value in args
    if declared is typing.Any or isinstance(declared, (typing.ForwardRef, typing.TypeVar)):
        return True
    if declared is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return type(value) is declared


def matched(value: object, declared: object) -> object:
    """*value* with ints as floats (or bools as ints) where *declared* asks for that; itself where that does not fit."""
    if conforms(value, declared):
        return value
    origin, args = typing.get_origin(declared), typing.get_args(declared)
    if origin in (typing.Union, types.UnionType):
        for one in args:
            new = matched(value, one)
            if conforms(new, one):
                return new
        return value
    if origin is tuple and isinstance(value, tuple) and args:
        kinds = [args[0]] * len(value) if args[-1] is Ellipsis else args
        return tuple(map(matched, value, kinds)) if len(kinds) == len(value) else value
    if declared is float and isinstance(value, int) and type(value) in (int, bool):
        return float(value)
    if declared is int and type(value) is bool:
        return int(value)
    return value
