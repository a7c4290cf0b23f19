"""Attributes of operators: frozen dataclasses, with one conversion by field type to each outer form.

A field is a bool, int, float, str, None, or a (nested) tuple of these; lists are turned into tuples (which print as
lists) when an attribute is made, so that attributes hash and compare by value. The ints of a list, and an int where
None is the default, answer to ``.value`` too, as they do in Relay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import TypeGuard, TypeVar

from byoc.errors import RegistryError, UserError
from byoc.ir.dims import dimension


class AttrObject:
    """The root of other immutable, hashable objects that may be values of attributes, such as virtual devices."""


class AttrList(tuple["AttrValue", ...]):
    """The value of a list attribute: a tuple that prints as a list, ``[1, 1]``, as Relay's arrays do."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"


T = TypeVar("T")


def written(default: T, left_out: object = MISSING) -> T:
    """A field of an attribute class that stands in the text though it has its *default*.

    Relay's class has another default, or none at all: *left_out* is the one value that its text leaves out, and that
    reading the text gives where the attribute is missing.
    """
    metadata = {"written": True} if left_out is MISSING else {"left_out": left_out}
    made: T = dataclasses.field(default=default, metadata=metadata)
    return made


def derived(default: T) -> T:
    """A field that follows from the others when attributes are made: Relay's class has none, and no text."""
    made: T = dataclasses.field(default=default, metadata={"derived": True})
    return made


AttrValue = bool | int | float | str | AttrObject | None | tuple["AttrValue", ...]


def freeze(value: object) -> AttrValue:
    """*value* with lists as tuples, their ints as IntImm, numpy scalars as Python's. Raises UserError for others."""
    if value is None or isinstance(value, (bool, int, float, str, AttrObject, AttrList)):
        return value
    if isinstance(value, (list, tuple)):
        return AttrList([dimension(v) if type(v) is int else freeze(v) for v in value])
    if hasattr(value, "item"):
        return freeze(value.item())
    raise UserError(f"an attribute is a number, a string or a list of these, got {value!r}")


def as_int(value: object) -> int:
    """*value* as an int. Raises TypeError for what is none."""
    number: int = int(value)  # type: ignore[call-overload]  # the one place: what the value is shows when it runs
    return number


def as_ints(values: object) -> tuple[int, ...]:
    """*values* as ints. Raises TypeError for what is no list of them."""
    return tuple([as_int(v) for v in as_list(values)])


def as_list(values: object) -> list[object]:
    """The elements of *values*. Raises TypeError for what has none."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{type(values).__name__!r} object is not iterable")
    return list(values)


@dataclass(frozen=True)
class AttrFieldInfo:
    """One attribute of a class: its name, and its type with its default. Source: ``tvm.ir.AttrFieldInfo``."""

    name: str
    type_info: str
    description: str = ""


def _info(field: Field[object]) -> str:
    default = "" if field.default is MISSING else f", default={field.default!r}"
    return f"{field.type}{default}"


_NAMES: dict[type, tuple[str, ...]] = {}


def _names_of(cls: type[Attrs]) -> tuple[str, ...]:
    if cls not in _NAMES:
        _NAMES[cls] = tuple(field.name for field in fields(cls))
    return _NAMES[cls]


BRINGERS: list[Callable[[], None]] = []  # what imports classes that nobody has asked for yet


@dataclass(frozen=True)
class Attrs:
    """The root of all attribute classes: subclass it as a frozen dataclass with one field per attribute."""

    def __post_init__(self) -> None:
        for name, field in self.__dataclass_fields__.items():
            value = getattr(self, name)
            frozen = dimension(value) if type(value) is int and field.default is None else freeze(value)
            if frozen is not value:
                object.__setattr__(self, name, frozen)

    @staticmethod
    def class_named(name: str) -> type[Attrs]:
        """The class of attributes called *name*. Raises RegistryError where there is none."""
        for bring in BRINGERS:
            bring()
        pending = Attrs.__subclasses__()
        while pending:
            cls = pending.pop()
            if cls.__name__ == name:
                return cls
            pending.extend(cls.__subclasses__())
        raise RegistryError(f"no class of attributes is called {name!r}")

    def keys(self) -> tuple[str, ...]:
        """The names of the attributes, in the order of their declaration."""
        return _names_of(self.__class__)

    def items(self) -> Iterator[tuple[str, AttrValue]]:
        for name in self.keys():
            yield name, getattr(self, name)

    def as_dict(self) -> dict[str, AttrValue]:
        """The attributes as plain Python values."""
        return dict(self.items())

    def __getitem__(self, name: str) -> AttrValue:
        if name not in self.keys():
            raise KeyError(f"{type(self).__name__} has no attribute {name!r}; it has {', '.join(self.keys())}")
        value: AttrValue = getattr(self, name)
        return value

    def get_str(self, name: str) -> str:
        """The attribute as a string (``attrs.get_str`` of Relay)."""
        return str(self[name])

    def get_int(self, name: str) -> int:
        """The attribute as an int (``attrs.get_int`` of Relay)."""
        return as_int(self[name])

    def get_int_tuple(self, name: str) -> tuple[int, ...]:
        """The attribute as a tuple of ints (``attrs.get_int_tuple`` of Relay)."""
        return as_ints(self[name])

    @classmethod
    def list_field_info(cls) -> tuple[AttrFieldInfo, ...]:
        """What the attributes are: name and type of each, with its default. Source: ``Attrs.list_field_info``."""
        return tuple(AttrFieldInfo(field.name, _info(field)) for field in fields(cls))

    def same_as(self, other: object) -> bool:
        """True when *other* is this very object, not only equal attributes. Source: ``Object.same_as``."""
        return self is other


def changed(attrs: Attrs | None, **values: AttrValue) -> Attrs:
    """*attrs*, of whatever class, with other *values*. Raises TypeError for a name that the class does not have."""
    return replace(attrs or Attrs(), **values)


class DictAttrs(Mapping[str, object]):
    """The attributes of a function: an immutable mapping from names to values (``Composite``, ``Compiler``, …).

    An attribute that is not there reads as None, so that ``func.attrs["Compiler"] == "acme"`` can be asked of every
    function; ``in`` says whether it is there.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, object] | None = None):
        self._items = dict(items or {})

    def __getitem__(self, key: str) -> object:
        return self._items.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def get(self, key: str, default: object = None) -> object:
        """The attribute *key*, or *default* where it is not there."""
        return self._items.get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __getattr__(self, name: str) -> object:
        """An attribute by its name, as Relay's can be asked too. Raises AttributeError where there is none."""
        if not name.startswith("_") and name in self._items:
            return self._items[name]
        raise AttributeError(f"there is no attribute {name!r}; there are {', '.join(self._items) or 'none'}")

    def get_str(self, name: str) -> str:
        """The attribute as a string. Raises KeyError where there is none."""
        return str(self[name])

    def get_int(self, name: str) -> int:
        """The attribute as an int. Raises KeyError where there is none."""
        return as_int(self[name])

    def same_as(self, other: object) -> bool:
        """True when *other* is this very object. Source: ``Object.same_as``."""
        return self is other

    def __repr__(self) -> str:
        return f"DictAttrs({self._items})"


def all_given(values: Sequence[T | None]) -> TypeGuard[Sequence[T]]:
    """True where none of *values* is None.

    >>> all_given([1, 2]), all_given([1, None])
    (True, False)
    """
    return all(value is not None for value in values)
