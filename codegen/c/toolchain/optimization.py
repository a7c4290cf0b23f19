"""``BYOC_OPTIMIZATION``: the level at which the C compiler optimizes generated code.

Without the variable it is 3. Lower levels compile in about half the time into code that runs slower: for tests of what
generated code computes, where the compiler takes longer than the code. As any flag, the level keeps cached code apart.
"""

from __future__ import annotations

import os

from byoc.errors import UserError

VARIABLE = "BYOC_OPTIMIZATION"
LEVELS = ("0", "1", "2", "3")
HIGHEST = LEVELS[-1]


def optimization_level() -> str:
    """The level that the variable names. Raises UserError for what is none."""
    level = os.environ.get(VARIABLE, "").strip() or HIGHEST
    if level not in LEVELS:
        raise UserError(f"{VARIABLE}: there is no level {level!r}; name one of {', '.join(LEVELS)}, or unset it")
    return level
