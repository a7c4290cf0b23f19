"""The flags of a command, made from the declared options of its function.

A flag that is not given is None among the parsed arguments, so that the default stands in the declaration alone.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from byoc.options.declaration import Declared, Flag, FlagModule, Options, options_of


def add_flags(command: argparse._ActionsContainer, name: str, *kinds: type[Options]) -> None:
    """Add to *command*, which is called *name*, a flag for each option of *kinds* that has one there."""
    for declared in flagged(name, kinds):
        flag = declared.about.flag
        if isinstance(flag, FlagModule):
            importlib.import_module(flag.module).add_arguments(command)
        elif flag is not None:
            _add_flag(command, flag, declared)


def flagged(name: str, kinds: Iterable[type[Options]]) -> Iterator[Declared]:
    """The options of *kinds* that have a flag in the command called *name*, each once."""
    found: dict[str, Declared] = {}
    for declared in (d for kind in kinds for d in options_of(kind)):
        flag = declared.about.flag
        if flag is not None and (not flag.commands or name in flag.commands):
            found.setdefault(declared.name, declared)
    return iter(found.values())


def given_options(arguments: argparse.Namespace, *kinds: type[Options]) -> dict[str, Any]:
    """The values of the options of *kinds* that the command line gives, by name.

    Raises UserError for a text that is not of its flag's form.
    """
    found: dict[str, Any] = {}
    for declared in flagged(arguments.command, kinds):
        flag = declared.about.flag
        if isinstance(flag, FlagModule):
            value = importlib.import_module(flag.module).value_from(arguments)
        else:
            assert flag is not None
            value = _value(arguments, flag)
        if value is not None:
            found[declared.name] = value
    return found


def given_flags(arguments: argparse.Namespace, *kinds: type[Options]) -> list[str]:
    """The flags of the options of *kinds* that the command line gives, as they are written."""
    scratch = argparse.ArgumentParser()
    add_flags(scratch, arguments.command, *kinds)
    usual = vars(scratch.parse_args([]))
    return [f"--{name.replace('_', '-')}" for name in usual if getattr(arguments, name) not in (None, [])]


def flag_of(name: str, kind: type[Options]) -> str:
    """How the option of *kind* called *name* is written, which has one flag."""
    flag = next(declared.about.flag for declared in options_of(kind) if declared.name == name)
    assert isinstance(flag, Flag)
    return flag.name


def _value(arguments: argparse.Namespace, flag: Flag) -> object:
    text: object = getattr(arguments, flag.name.removeprefix("--").replace("-", "_"))
    return text if text is None or flag.read is None else flag.read(text)


def _add_flag(command: argparse._ActionsContainer, flag: Flag, declared: Declared) -> None:
    names = (flag.short, flag.name) if flag.short else (flag.name,)
    about, default = declared.about, declared.default
    if isinstance(default, bool):  # what is done anyway is left out by --no-NAME
        action = argparse.BooleanOptionalAction if default else "store_true"
        command.add_argument(*names, action=action, default=None, help=_help(flag, declared))
    elif flag.many:
        command.add_argument(*names, action="append", metavar=flag.metavar, help=_help(flag, declared))
    elif about.choices:
        command.add_argument(*names, type=_choice(declared), choices=about.choices, help=_help(flag, declared))
    else:
        of = type(default) if isinstance(default, (int, float)) else str
        command.add_argument(*names, type=of, metavar=flag.metavar, help=_help(flag, declared))


def _choice(declared: Declared) -> Callable[[str], str]:
    """What reads a choice: an unknown one is said as Python says it, with the nearest."""

    def read(text: str) -> str:
        problem = declared.problem(text)
        if problem is not None:
            raise argparse.ArgumentTypeError(problem)
        return text

    return read


def _help(flag: Flag, declared: Declared) -> str:
    default = declared.default
    usual = f"(default: {default:g})" if isinstance(default, float) else f"(default: {default})"
    shown = isinstance(default, (str, int, float)) and not isinstance(default, bool) and default != ""
    note = f"; {flag.note}" if flag.note else ""
    return f"{declared.about.sentence}{note}{f' {usual}' if shown else ''}".replace("%", "%%")
