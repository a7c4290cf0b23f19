"""Keys of module types: which class may take the place of another as a loader, and what to do where none is known."""

from __future__ import annotations

from collections.abc import Iterable

from byoc.runtime.core.entry_points import RUNTIME, definition_of, source_of
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


def unknown_type(type_key: str, known: Iterable[str], base: type) -> str:
    """The sentence for modules of *type_key*, which nothing loads: which classes made of *base* may be of."""
    entry_point = f"entry point {type_key!r} of {RUNTIME.group}"
    there = _defined(base, type_key)
    advice = (
        f"install the vendor's package (its {entry_point} brings the class), or import what registers the class "
        "(on the command line by --import)"
        if there is None
        else f"{_described(there)} is of that type, and nobody registered it: write register_module_loader("
        f"{type_key!r}, {there.__qualname__}) below it, or name it by the {entry_point}"
    )
    return f"nothing here loads modules of type {type_key!r}; known: {', '.join(known)}; {advice}"


def _defined(base: type, type_key: str) -> type | None:
    kinds: list[type] = base.__subclasses__()
    for kind in kinds:
        found = kind if vars(kind).get("type_key") == type_key else _defined(kind, type_key)
        if found is not None:
            return found
    return None
