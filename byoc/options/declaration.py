"""What an option is, declared once: its name, type, default, check, sentence, and what a cache's key says of it.

    @dataclass(frozen=True, kw_only=True)
    class CompileRequest(Options):
        precision: str = option("f32", "what products compute in", choices=("f32", "bf16"), flag=Flag("--precision"))

Type checkers see an ordinary dataclass. An instance holds what somebody asked for and was checked when it was made:
types, choices, ranges and truth values; what only the rest of the compiler knows is checked there. A class that
inherits from several has the options of all.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from enum import Enum
from functools import cache
from numbers import Real
from typing import Any, TypeVar, cast

from byoc.errors import InternalError, UserError

T = TypeVar("T")
_KEY = "byoc.option"


class Keyed(Enum):
    """What the key under which a compiled model is cached says of an option."""

    TEXT = "its text; a value that is not plain data has no key"
    DEFAULT = "the default alone has a key: any other value may stand for more than its text says"
    APART = "nothing: it does not change what is compiled, or the key asks for it in its own way"


@dataclass(frozen=True)
class Flag:
    """How an option is written on the command line.

    ``many``: it may be repeated, and its value is made of the list of texts. ``read`` makes the value of the text, or
    of the list; without it a default that is a number says how. ``note`` is what ``--help`` adds to the sentence of the
    option, and ``commands`` are those that have the flag: all whose function has the option, where there are none.
    """

    name: str
    short: str | None = None
    metavar: str | None = None
    many: bool = False
    read: Callable[..., object] | None = None
    note: str = ""
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class FlagModule:
    """An option that several flags make: a *module* with ``add_arguments(command)`` and ``value_from(arguments)``.

    ``value_from`` is None where no flag of it is given. The module is loaded when a command line is read.
    """

    module: str
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class Option:
    """What is declared of an option beside its name, type and default.

    The ``sentence`` says what it is for. A text must be one of ``choices``, where there are any; where the type is
    ``str`` alone, so must any value. A number is ``least`` or more. ``error`` is the class of what is raised else.
    ``config`` is the key of a pass's configuration that it sets (:func:`configures`), ``act`` what it does with what
    the function made (:func:`finishes`).
    """

    sentence: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    flag: Flag | FlagModule | None = None
    key: Keyed = Keyed.TEXT
    error: type[UserError] = UserError
    config: str = ""
    act: Callable[[Any, Any], None] | None = None


@dataclass(frozen=True)
class Declared:
    """An option of a class of options: *type* is the text of its annotation, *default* is ``MISSING`` without one."""

    name: str
    type: str
    default: object
    about: Option

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING

    def problem(self, value: object) -> str | None:
        """Why *value* cannot be, in a sentence; None where nothing speaks against it."""
        about, is_text = self.about, isinstance(value, str)
        if about.choices and (is_text or self.type == "str") and value != self.default and value not in about.choices:
            near = nearest(value, about.choices) if isinstance(value, str) else None
            return f"{self.name} is one of {', '.join(about.choices)}, got {value!r}{_hint(near)}"
        if about.least is not None and not (isinstance(value, Real) and float(value) >= about.least):
            return f"{self.name} is a number from {about.least:g} on, got {value!r}"
        if self.type == "bool" and (value is None or isinstance(value, Sized)):
            return f"{self.name} is True or False, got {value!r}"
        if not (self.is_required or value is self.default or has_type(value, self.type)):
            return f"{self.name} is {self.type}, got {reprlib.repr(value)}, a value of type {type(value).__name__}"
        return None


# A text is a sequence here; what does not take one says so where it reads the list.
_BY_NAME: Mapping[str, Callable[[object], bool]] = {
    "None": lambda value: value is None,
    "object": lambda value: True,
    "str": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
    "bool": lambda value: not isinstance(value, Sized) and value is not None,
    "int": lambda value: isinstance(value, Real),
    "float": lambda value: isinstance(value, Real),
    "os.PathLike": lambda value: isinstance(value, os.PathLike),
    "Callable": callable,
    "Mapping": lambda value: isinstance(value, Mapping),
    "Sequence": lambda value: isinstance(value, Iterable),
    "Iterable": lambda value: isinstance(value, Iterable),
}


def has_type(value: object, annotation: str) -> bool:
    """Whether *value* is one of the types of a union, by its text; the types of members are not looked at.

    A class that is not listed above is known by its name, its own or a base's, so that none has to be imported.
    """
    names = {kind.__name__ for kind in type(value).__mro__} - {"object"}
    return any(_BY_NAME[part](value) if part in _BY_NAME else part in names for part in _parts(annotation))


@cache
def _parts(annotation: str) -> tuple[str, ...]:
    """The types of a union, without what stands in brackets behind them."""
    waiting: list[ast.expr] = [ast.parse(annotation, mode="eval").body]
    found = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp):
            waiting += [node.left, node.right]
        else:
            found.append(ast.unparse(node.value if isinstance(node, ast.Subscript) else node))
    return tuple(found)


@dataclass(frozen=True)
class Options:
    """The base of classes of options. Raises the error that an option names for a value that it cannot have."""

    def __post_init__(self) -> None:
        for declared in options_of(type(self)):
            problem = declared.problem(getattr(self, declared.name))
            if problem is not None:
                raise declared.about.error(problem)


def option(
    default: T,
    sentence: str,
    *,
    choices: Iterable[str] = (),
    least: float | None = None,
    flag: Flag | FlagModule | None = None,
    key: Keyed = Keyed.TEXT,
    error: type[UserError] = UserError,
) -> T:
    """The field of an option; the parameters but *default* are those of :class:`Option`."""
    about = Option(sentence, tuple(choices), least, flag, key, error)
    return dataclasses.field(default=default, metadata={_KEY: about})


def configures(config: str, declared: T) -> T:
    """The field *declared*, made by :func:`option`, of one that a pass reads, as ``PassContext(config={config: …})``.

    What it is given stands in the context under which a model is planned and compiled; its default leaves what the
    context has.
    """
    return _with(declared, config=config)


def finishes(act: Callable[[Any, Any], None], declared: T) -> T:
    """The field *declared*, made by :func:`option`, of one that acts on what the function made: *act* is called with it
    and the option's value, where that is not the default.
    """
    return _with(declared, act=act)


def _with(declared: T, **more: object) -> T:
    """The field *declared*, made by :func:`option`, with *more* of its :class:`Option`."""
    made = cast("dataclasses.Field[T]", declared)
    about = dataclasses.replace(made.metadata[_KEY], **more)
    return dataclasses.field(default=cast(T, made.default), metadata={_KEY: about})


def finish(options: Options, made: object) -> None:
    """Have *options* act on what was *made* as they ask for. Raises what an option raises of its value."""
    for declared in options_of(type(options)):
        value = getattr(options, declared.name)
        if declared.about.act is not None and not _is_same(value, declared.default):
            declared.about.act(made, value)


def configuration(options: Options) -> dict[str, object]:
    """The configuration of passes that *options* ask for, by its keys."""
    given = ((declared, getattr(options, declared.name)) for declared in options_of(type(options)))
    return {d.about.config: value for d, value in given if d.about.config and not _is_same(value, d.default)}


def like(kind: type[Options], name: str, default: T, choices: Iterable[str] | None = None) -> T:
    """A field that says again what *kind* declares of *name*, for another place in the signature or other choices."""
    about = next(declared.about for declared in options_of(kind) if declared.name == name)
    if choices is not None:
        about = dataclasses.replace(about, choices=tuple(choices))
    return dataclasses.field(default=default, metadata={_KEY: about})


def described(sentence: str) -> Mapping[str, object]:
    """The ``metadata`` of a field without a default, which the key leaves apart: what a function works on."""
    return {_KEY: Option(sentence, key=Keyed.APART)}


def options_of(kind: type[Options]) -> tuple[Declared, ...]:
    """The options of a class, in the order of its constructor. Raises InternalError for a field that is none."""
    fields = sorted(dataclasses.fields(kind), key=lambda field: bool(field.kw_only))
    undeclared = [field.name for field in fields if _KEY not in field.metadata]
    if undeclared:
        raise InternalError(f"{kind.__name__}: the field {undeclared[0]} is no option; make it by option(...)")
    return tuple(Declared(f.name, _type_text(f.type), f.default, f.metadata[_KEY]) for f in fields)


def _type_text(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def part_of(options: Options, kind: type[Options]) -> dict[str, Any]:
    """The values in *options* of those options that *kind* has too, by name."""
    asked = {declared.name for declared in options_of(type(options))}
    return {d.name: getattr(options, d.name) for d in options_of(kind) if d.name in asked}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name in *known* that somebody may have meant by *name*; None where none is like it."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def _hint(near: str | None) -> str:
    return f"; the nearest: {near}" if near else ""


_PLAIN = (str, int, float, bool, type(None))


def key_text(options: Options) -> str | None:
    """The values that :class:`Keyed` asks for, by name; None where one stands for more than its text says."""
    values: dict[str, object] = {}
    for declared in options_of(type(options)):
        value = getattr(options, declared.name)
        if declared.about.key is Keyed.TEXT:
            values[declared.name] = value
        elif declared.about.key is Keyed.DEFAULT and not _is_same(value, declared.default):
            return None
    return repr(values) if is_plain(values) else None


def _is_same(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and is_plain(value) and value == default)


def is_plain(value: object) -> bool:
    """Whether the text of *value* says all about it."""
    if type(value) is dict:
        return all(type(k) is str and is_plain(v) for k, v in value.items())
    if type(value) is list or type(value) is tuple:
        return all(map(is_plain, value))
    return type(value) in _PLAIN
