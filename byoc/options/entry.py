"""Functions whose parameters are declared options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from byoc.errors import OptionError
from byoc.options.declaration import Options, nearest
from byoc.options.parameters import shows_fields
from byoc.options.table import table

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
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nOptions:\n\n{table(_class_of(options))}\n"
        return call

    return decorate


def _class_of(options: Callable[..., Options]) -> type[Options]:
    assert isinstance(options, type) and issubclass(options, Options)
    return options


def _check_names(name: str, signature: inspect.Signature, given: object) -> None:
    assert isinstance(given, dict)
    other = next((key for key in given if key not in signature.parameters), None)
    if other is not None:
        near = nearest(other, signature.parameters)
        meant = f"the nearest is {near!r}" if near else f"it takes {', '.join(signature.parameters)}"
        raise OptionError(f"{name} has no option {other!r}: {meant}")
