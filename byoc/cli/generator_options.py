"""The options of the generator of the host's C that a command line has, as ``backend_options`` of ``byoc.compile``."""

from __future__ import annotations

import argparse

from byoc.cli.words import WINOGRAD

OPTIONS = {"winograd": "winograd", "winograd_max_error": "max_error", "strict": "strict"}


def add_generator_options(command: argparse.ArgumentParser) -> None:
    """The options that say how the host's convolutions and sums may be computed."""
    command.add_argument(
        "--winograd",
        choices=WINOGRAD,
        help="which 3x3 convolutions take Winograd's method: those where a model of cycles says so, none, or all that "
        f"can, by tiles of 2x2 or 4x4 (default: {WINOGRAD[0]})",
    )
    command.add_argument(
        "--winograd-max-error",
        type=float,
        metavar="E",
        help="the error that Winograd's method may have, relative to a convolution's largest output (default: that of "
        "4x4)",
    )
    command.add_argument(
        "--strict", action="store_true", default=None, help="add every sum term by term, as the operator says"
    )


def backend_options_from(arguments: argparse.Namespace) -> dict[str, dict[str, object]] | None:
    """The options of backend ``c`` that the command line gives; None where it gives none."""
    given = {option: getattr(arguments, name) for name, option in OPTIONS.items()}
    chosen = {option: value for option, value in given.items() if value is not None}
    return {"c": chosen} if chosen else None
