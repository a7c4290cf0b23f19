"""Which class may take the place of another as what loads modules of a type."""

from __future__ import annotations

from byoc.runtime.core.entry_points import definition_of, source_of
from byoc.runtime.core.errors import UserError


def check_key(type_key: str, taken: str | type, given: str | type, override: bool, own: bool) -> None:
    """Raises UserError where *given* may not be registered as *type_key*, which *taken* has.

    It may from the same place in the source, and with *override* from another, unless the type is byoc's *own*. Both
    are ``package.module:Class``, or the class itself.
    """
    if (override and not own) or _is_same_place(taken, given):
        return
    instead = "" if own else f", or its place by register_module_loader({type_key!r}, ..., override=True)"
    raise UserError(
        f"module type {type_key!r} is loaded by {_described(taken)}{', of byoc itself' if own else ''}; "
        f"{_described(given)} must take another key{instead}"
    )


def _is_same_place(one: str | type, other: str | type) -> bool:
    if isinstance(one, type) and isinstance(other, type) and source_of(one) == source_of(other):
        return True  # also where one of both is called __main__
    return _written(one) == _written(other)


def _written(location: str | type) -> str:
    return location if isinstance(location, str) else f"{location.__module__}:{location.__qualname__}"


def _described(location: str | type) -> str:
    return location if isinstance(location, str) else f"{_written(location)} ({definition_of(location)})"
