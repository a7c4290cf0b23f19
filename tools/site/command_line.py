"""The reference of the command line as Markdown, from the parser that the commands themselves build."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from byoc.cli.main import parser


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, in the order of ``byoc --help``."""
    actions = parser()._actions
    choices = next(a for a in actions if isinstance(a, argparse._SubParsersAction)).choices
    assert isinstance(choices, dict)
    return choices


def usage(command: argparse.ArgumentParser) -> str:
    """How the command is written, in lines of the same width on every terminal."""
    formatter = argparse.HelpFormatter(command.prog, width=100)
    formatter.add_usage(command.usage, command._actions, command._mutually_exclusive_groups)
    return formatter.format_help().strip()


def written(action: argparse.Action) -> str:
    """What the user writes: ``-o``, ``--output FILE``."""
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    formatter = argparse.HelpFormatter("")
    value = "" if action.nargs == 0 else f" {formatter._format_args(action, action.dest.upper())}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def cell(text: str) -> str:
    """*text* inside a table: in one line, and nothing in it read as Markdown."""
    for character in "\\`*_<[|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def help_of(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    """What the option does, with its default where the text asks for it."""
    values = {**vars(action), "prog": command.prog}
    return (action.help or "") % values


def sentence(text: str) -> str:
    """*text* with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def table(command: argparse.ArgumentParser, actions: Sequence[argparse.Action]) -> Iterator[str]:
    """A row for each of *actions*."""
    yield from ("| argument | what it does |", "|---|---|")
    for action in actions:
        yield f"| {written(action).replace('|', chr(92) + '|')} | {cell(help_of(command, action))} |"
    yield ""


def command_page(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    """The section of one command: how it is written, and a table for each group of arguments."""
    yield from (f"## byoc {name}", "", sentence(cell(command.description or "")), "")
    yield from ("```text", *usage(command).splitlines(), "```", "")
    for group in command._action_groups:
        shown = [a for a in group._group_actions if a.help is not argparse.SUPPRESS]
        if shown:
            yield from (sentence(cell(group.title or "options")).replace(".", ":"), "")
            yield from table(command, shown)


def command_line_pages() -> list[str]:
    """The lines of all commands' sections."""
    return [line for name, command in commands().items() for line in command_page(name, command)]
