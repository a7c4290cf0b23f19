"""The options that say which passes run: ``--disable-pass`` and ``--print-pipeline``."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from byoc.driver.pass_list import Pipeline


class _Print(argparse.Action):
    """Prints the pipeline and ends, as ``--version`` does."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        print(importlib.import_module("byoc.driver.pipeline").pipeline())
        parser.exit()


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options to a command that simplifies a model."""
    command.add_argument(
        "--disable-pass",
        action="append",
        metavar="NAME",
        help="leave out the passes of this name, or the second alone as NAME.2; --print-pipeline has the names",
    )
    command.add_argument(
        "--print-pipeline", action=_Print, nargs=0, help="print the passes by name, in the order in which they run"
    )


def value_from(arguments: argparse.Namespace) -> Pipeline | None:
    """The pipeline without the passes that the command line names; None, which is byoc's own, where it names none.

    Raises UserError with the nearest names for one that is not there.
    """
    names: Sequence[str] | None = arguments.disable_pass
    if not names:
        return None
    edited: Pipeline = importlib.import_module("byoc.driver.pipeline").pipeline().remove(*names)
    return edited
