"""What a user allows: the options ``winograd``, ``max_error`` and ``strict`` of the C backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from byoc.errors import CompileError

# the error of F(m x m, 3 x 3) in float32 relative to the largest output, for up to 512 channels, against float64, as
# tests hold it; a sum term by term is at 2e-6
ERRORS = {2: 2e-6, 4: 1e-5}
CHOICES: dict[str, tuple[int, ...]] = {"auto": tuple(ERRORS), "off": (), "f2": (2,), "f4": (4,)}


@dataclass(frozen=True)
class WinogradOptions:
    """Which F(m x m, 3 x 3) may be used; *forced*: wherever one is possible, so that only its blocks are chosen."""

    outputs: tuple[int, ...] = tuple(ERRORS)
    forced: bool = False
    strict: bool = False

    @staticmethod
    def of(options: Mapping[str, object]) -> WinogradOptions:
        """From options of the backend.

        ``winograd``: "auto" (the default), "off", "f2" or "f4" wherever it is possible. ``max_error``: the error that
        is allowed, relative to the largest output of a convolution; that of F(4, 3) by default. ``strict``: sums are
        added term by term as the operator says, so none of it, and a softmax divides before what sums its weights.

        Raises CompileError for another value.
        """
        choice, strict = options.get("winograd", "auto"), options.get("strict", False)
        error = options.get("max_error", ERRORS[4])
        if not isinstance(choice, str) or choice not in CHOICES:
            raise CompileError(f"option 'winograd' of backend c is one of {', '.join(CHOICES)}, got {choice!r}")
        if not isinstance(strict, bool):
            raise CompileError(f"option 'strict' of backend c is True or False, got {strict!r}")
        if isinstance(error, bool) or not isinstance(error, int | float) or not error >= 0:
            raise CompileError(f"option 'max_error' of backend c is a number from 0 on, got {error!r}")
        allowed = tuple(m for m in CHOICES[choice] if ERRORS[m] <= error and not strict)
        return WinogradOptions(allowed, choice in ("f2", "f4"), strict)


DEFAULT = WinogradOptions()  # where no options are given
