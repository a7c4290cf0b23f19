"""How long a backend may take for a region, where no run says less: two variables of the environment.

``BYOC_REGION_SECONDS`` is for each call of a backend's function, in place of the ``region_timeout`` that the library
was compiled with; ``BYOC_WAIT_SECONDS`` for each wait for work that was started, and for a device. 0 is for ever.
"""

from __future__ import annotations

import math
import os

from byoc.runtime.core.errors import UserError

REGION_VARIABLE, WAIT_VARIABLE = "BYOC_REGION_SECONDS", "BYOC_WAIT_SECONDS"
WAIT_SECONDS = 600.0


def region_seconds(compiled: float | None) -> float | None:
    """The seconds of a call, *compiled* being what the library says; None for as long as it takes."""
    return _seconds(REGION_VARIABLE, compiled)


def wait_seconds() -> float | None:
    """The seconds of a wait for a device or for what was started; None for as long as it takes."""
    return _seconds(WAIT_VARIABLE, WAIT_SECONDS)


def _seconds(variable: str, usual: float | None) -> float | None:
    text = os.environ.get(variable, "").strip()
    if not text:
        return usual
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise UserError(f"${variable} is a number of seconds, or 0 for as long as it takes, got {text!r}")
    return seconds or None
