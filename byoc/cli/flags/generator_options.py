"""The options of backends that a command line has, as ``backend_options`` of ``byoc.compile``.

Those of the generator of the host's C have flags; of any backend, ``--set acme.speed=1``.
"""

from __future__ import annotations

import argparse
import json

from byoc.cli.flags.option_values import WINOGRAD
from byoc.errors import UserError

OPTIONS = {"winograd": "winograd", "winograd_max_error": "max_error", "strict": "strict"}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options that say how the host's convolutions and sums may be computed, and those of backends."""
    command.add_argument(
        "--winograd",
        choices=WINOGRAD,
        help="which 3x3 convolutions of the host take Winograd's method: those where a model of cycles says so, none, "
        f"or all that can, by tiles of 2x2 or 4x4 (default: {WINOGRAD[0]}); a target's: --set opencl.winograd=f2",
    )
    command.add_argument(
        "--winograd-max-error",
        type=float,
        metavar="E",
        help="the error that Winograd's method may have on the host, relative to a convolution's largest output "
        "(default: that of 4x4)",
    )
    command.add_argument(
        "--strict",
        action="store_true",
        default=None,
        help="add every sum on the host term by term, as the operator says",
    )
    command.add_argument(
        "--set",
        action="append",
        metavar="BACKEND.OPTION=VALUE",
        help='an option of a backend: a whole number, a number, true or false, else text ("1" with its quotes is text, '
        "[...] a list); repeat it for several",
    )


def value_from(arguments: argparse.Namespace) -> dict[str, dict[str, object]] | None:
    """The options by backend that the command line gives; None where it gives none.

    Raises UserError for a text of another form, and for an option that is given twice.
    """
    given = {option: getattr(arguments, name) for name, option in OPTIONS.items()}
    chosen = {option: value for option, value in given.items() if value is not None}
    found: dict[str, dict[str, object]] = {"c": chosen} if chosen else {}
    for text in arguments.set or ():
        backend, option, value = _parts(text)
        options = found.setdefault(backend, {})
        if option in options:
            raise UserError(f"--set {text}: option {option} of backend {backend} is given already; give it once")
        options[option] = value
    return found or None


def _parts(text: str) -> tuple[str, str, object]:
    where, equals, value = text.partition("=")
    backend, _, option = where.partition(".")
    if not (equals and backend and option):
        raise UserError(f"--set {text}: expected BACKEND.OPTION=VALUE, as in --set acme.speed=1")
    return backend, option, typed(value)


def typed(text: str) -> object:
    """The value that *text* says.

    >>> [typed(text) for text in ("1", "0.5", "true", "fast", '"1"', '["-O1", "-g"]')]
    [1, 0.5, True, 'fast', '1', ['-O1', '-g']]
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        found: object = json.loads(text, parse_constant=_refused)
    except ValueError:
        return text
    return text if found is None or isinstance(found, dict) else found


def _refused(constant: str) -> object:
    """``NaN`` and ``Infinity`` are no numbers that an option has."""
    raise ValueError(constant)
