"""What the functions of operators with many parameters are called with, declared once: a class with a field for each.

    @dataclass(eq=False, repr=False)
    class Conv2DArguments(ConvOptions, DataAndWeight): ...

    @takes_fields_of(Conv2DArguments)
    def conv2d(given: Conv2DArguments) -> Call: ...

``conv2d`` then takes the fields themselves, for ``inspect`` and for type checkers. Their order and their defaults are
those of Relay's function, which often differ from those of the attributes' class. A dataclass lists the fields of its
last base first, so that the class of the inputs stands last. The classes have a constructor alone: what else a
dataclass makes costs time when ``byoc.relay`` is imported, and nobody asks for it. What an argument becomes as an
attribute stands in :meth:`Arguments.attribute` alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, ParamSpec, TypeVar

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.options.entry import shows_fields
from byoc.relay.op.core.window import pad_tuple, per_axis

Ints = int | Sequence[int]
P = ParamSpec("P")
G = TypeVar("G", bound="Arguments")
A = TypeVar("A", bound=Attrs)
R = TypeVar("R")


@dataclass(eq=False, repr=False)
class Arguments:
    """The base of classes of arguments."""

    def attrs(self, kind: type[A], **made: object) -> A:
        """The attributes of class *kind*: those that are *made*, else the arguments of the same names."""
        names = kind.__dataclass_fields__
        return kind(**{name: made[name] if name in made else self.attribute(name) for name in names})

    def attribute(self, name: str) -> Any:
        """The argument *name* as an attribute has it."""
        return getattr(self, name)


@dataclass(eq=False, repr=False)
class WindowArguments(Arguments):
    """Arguments of what slides a window over :data:`AXES` spatial axes: one number may stand for all of them.

    Attributes have as many numbers as there are axes, and padding all before and then all after.
    """

    AXES: ClassVar[int]

    def attribute(self, name: str) -> Any:
        """The argument *name* as an attribute has it. Raises TypeInferenceError for a wrong count of numbers."""
        value = getattr(self, name)
        if name == "padding":
            return pad_tuple(value, self.AXES)
        if name in ("strides", "dilation", "output_padding", "pool_size", "kernel_size") and value is not None:
            return per_axis(value, self.AXES, name)
        return value


@dataclass(eq=False, repr=False)
class DataAndWeight(Arguments):
    """The inputs of a product."""

    data: RelayExpr
    weight: RelayExpr


def takes_fields_of(arguments: Callable[P, G]) -> Callable[[Callable[[G], R]], Callable[P, R]]:
    """Have a function of one object of the class *arguments* take its fields, as the class's constructor does.

    The function that comes of it raises TypeError for arguments that do not fit, by its own name.
    """

    def decorate(function: Callable[[G], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                given = arguments(*args, **kwargs)
            except TypeError:
                _bind(call, args, kwargs)
                raise
            return function(given)

        shows_fields(call, _class_of(arguments), function.__annotations__["return"])
        return call

    return decorate


def _class_of(arguments: Callable[..., Arguments]) -> type[Arguments]:
    assert isinstance(arguments, type) and issubclass(arguments, Arguments)
    return arguments


def _bind(function: Callable[..., object], args: Sequence[object], kwargs: dict[str, Any]) -> None:
    """Raise TypeError where the arguments do not fit the parameters of *function*, with its name."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}() {error}") from None
