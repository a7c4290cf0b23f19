"""``--import acme.py`` and ``BYOC_BACKENDS``: backends that no installed package brings, for one command."""

from __future__ import annotations

import argparse
import os

# the commands with the flag
IMPORTING = (
    "compile",
    "plan",
    "explain",
    "lint",
    "calibrate",
    "partition",
    "run",
    "inspect",
    "targets",
    "profile",
    "certify",
    "bisect",
    "compare",
    "warm",
)
VARIABLE = "BYOC_BACKENDS"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flag that names what to import."""
    command.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="FILE_OR_MODULE",
        help="import a file or a module that registers a backend, before anything else; repeat it for several "
        f"({VARIABLE} names more, with {os.pathsep!r} between them)",
    )


def import_backends(command: str, arguments: argparse.Namespace) -> None:
    """Import what the environment and then the command line names. Raises UserError for what cannot be imported."""
    named = [(f"{VARIABLE}={text}", text) for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    if command in IMPORTING:
        named += [(f"--import {text}", text) for text in arguments.imports]
    if named:
        from byoc.contract.importing import import_backend  # it loads the compiler

        for place, text in named:
            import_backend(text, place)
