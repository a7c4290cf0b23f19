"""Hooks: methods of a generator, each for the operators and composites that it makes, and the table of them.

A name of a hook is held to the operators and patterns that there are where the generator is used
(``operator_names.py``), since a vendor's operators may be registered after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from byoc.errors import PartitionError, defined_at

Hook = Callable[..., object]
H = TypeVar("H", bound=Hook)


def makes(*names: str) -> Callable[[H], H]:
    """Make a method the hook for operators and composites of these names.

    It is called with the node and a value for each tensor that goes in, then one for each constant that the pattern of
    a composite matched, and gives a value, or a sequence of values for a node of several outputs. Raises PartitionError
    for what is no name; a class with two hooks for one name raises it too. A name that no operator and no pattern has
    is an error when the backend is used.
    """
    if not names or not all(isinstance(name, str) for name in names):
        given = ", ".join(getattr(name, "__name__", repr(name)) for name in names) or "nothing"
        raise PartitionError(f'@makes was given {given}, expected names: write @makes("nn.relu") above the method')

    def register(hook: H) -> H:
        vars(hook)["makes"] = names
        return hook

    return register


class HookTable:
    """A class whose methods are hooks, by the names of what they make."""

    _hooks: Mapping[str, str] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        own: dict[str, str] = {}
        for key, hook in vars(cls).items():
            for name in getattr(hook, "makes", ()):
                if name in own:
                    raise PartitionError(
                        f"{cls.__name__} has two hooks for {name}, {own[name]} and {key}: one method makes an operator"
                    )
                own[name] = key
        cls._hooks = {**cls._hooks, **own}

    @classmethod
    def operators(cls) -> tuple[str, ...]:
        """The operators and composites that have hooks: what the backend's constraints may let through."""
        return tuple(cls._hooks)

    @classmethod
    def named_hooks(cls) -> Sequence[tuple[str, str]]:
        """The names that have hooks, each with the hook and its place in the source."""
        hooks = {key: f"the hook {cls.__name__}.{key}{defined_at(getattr(cls, key))}" for key in cls._hooks.values()}
        return [(name, hooks[key]) for name, key in cls._hooks.items()]
