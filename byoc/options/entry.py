"""Functions whose parameters are declared options: the call, its signature, the table in its docstring."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from byoc.errors import OptionError
from byoc.options.declaration import Declared, Options, nearest, options_of


def signature_of(kind: type, returned: object) -> inspect.Signature:
    """The signature of a function that takes the fields of the dataclass *kind*, in its constructor's order.

    As ``inspect.signature`` of the class, and much cheaper: hundreds are made when the operators are imported.
    """
    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=empty if field.default is dataclasses.MISSING else field.default,
            annotation=field.type,
        )
        for field in sorted(dataclasses.fields(kind), key=lambda field: bool(field.kw_only))
    ]
    return inspect.Signature(parameters, return_annotation=returned)


def shows_fields(call: Callable[..., object], kind: type, returned: object) -> inspect.Signature:
    """Give *call* the signature and the annotations of a function that takes the fields of *kind*; that signature."""
    signature = signature_of(kind, returned)
    types = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    call.__annotations__ = {**types, "return": returned}
    vars(call)["__signature__"] = signature
    return signature


HEADS = ("option", "type", "default", "range", "meaning")
WIDTHS = (15, 26, 10, 14, 52)  # in letters; a word that is longer has its column made wider


def table(kind: type[Options]) -> str:
    """A row for each option of *kind*: name, type, default, choices or range, and what it is for."""
    rows = [HEADS, *(_cells(declared) for declared in options_of(kind))]
    broken = [[_lines(text, width) for text, width in zip(row, WIDTHS, strict=True)] for row in rows]
    widths = [max(len(line) for row in broken for line in row[k]) for k in range(len(HEADS))]
    rule = "  ".join("=" * width for width in widths)
    printed = ["\n".join(_row(row, widths)) for row in broken]
    return "\n".join([rule, printed[0], rule, *printed[1:], rule])


def _cells(declared: Declared) -> tuple[str, ...]:
    default = "required" if declared.default is dataclasses.MISSING else repr(declared.default)
    return declared.name, declared.type, default, range_text(declared), declared.about.sentence


def range_text(declared: Declared) -> str:
    """The values that an option may have, where not all of its type: its choices, or from where on; else empty."""
    if declared.about.choices:
        return ", ".join(declared.about.choices)
    return f"from {declared.about.least:g} on" if declared.about.least is not None else ""


def _lines(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """The lines of a row, a column's cells one below the other."""
    height = max(map(len, cells))
    filled = [[*cell, *[""] * (height - len(cell))] for cell in cells]
    return [
        "  ".join(part.ljust(w) for part, w in zip(line, widths, strict=True)).rstrip()
        for line in zip(*filled, strict=True)
    ]


P = ParamSpec("P")
O = TypeVar("O", bound=Options)  # noqa: E741
R = TypeVar("R")


def takes(options: Callable[P, O], name: str) -> Callable[[Callable[[O], R]], Callable[P, R]]:
    """Have a function of one object of the class *options* take the options themselves, as its constructor does.

    The function that comes of it has the constructor's signature, for ``inspect`` and for type checkers, and the table
    of the options at the end of its docstring. *name* is what users call it, for messages. It raises OptionError for an
    option that it does not have, with the nearest name, and for too few or too many arguments.
    """

    def decorate(function: Callable[[O], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            _check_names(name, signature, kwargs)
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise OptionError(f"{name}: {error}; it takes {', '.join(signature.parameters)}") from None
            return function(options(*args, **kwargs))

        signature = shows_fields(call, _class_of(options), function.__annotations__["return"])
        _PARAMETERS[name] = tuple(signature.parameters)
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nOptions:\n\n{table(_class_of(options))}\n"
        return call

    return decorate


PLAN = "byoc.plan"
_PARAMETERS: dict[str, tuple[str, ...]] = {}  # what users call each entry -> its options


def _class_of(options: Callable[..., Options]) -> type[Options]:
    assert isinstance(options, type) and issubclass(options, Options)
    return options


def _check_names(name: str, signature: inspect.Signature, given: object) -> None:
    assert isinstance(given, dict)
    other = next((key for key in given if key not in signature.parameters), None)
    if other is not None:
        near = nearest(other, signature.parameters)
        getattr(sys.modules.get("byoc"), "plan", None)  # which declares its options when it is asked for
        others = [
            entry for entry, parameters in _PARAMETERS.items() if other in parameters and entry.startswith("byoc.")
        ]
        meant = f"the nearest is {near!r}" if near else f"it takes {', '.join(signature.parameters)}"
        if others:
            through = f", and what it gives is for plan= here: plan={PLAN}(...)" if others[0] == PLAN else ""
            meant = f"it is one of {others[0]}{through}"
        raise OptionError(f"{name} has no option {other!r}: {meant}")
