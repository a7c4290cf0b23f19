"""A vendor's code that asks Python to end the process, by ``sys.exit``: a failure of its region like any other.

What a handler of signals raises is what its user wants and passes, also when it interrupts a vendor's code.
"""

from __future__ import annotations

import signal
from types import CodeType

from byoc.runtime.core.errors import DeviceError, foreign_text


def attempted_exit(error: SystemExit) -> DeviceError:
    """The error of a region whose code raised *error*. Raises *error* itself where a handler of signals did."""
    if is_of_signal(error):
        raise error
    code = "" if error.code is None else f" with {error.code!r}"
    place = foreign_text(SystemExit().with_traceback(error.__traceback__)).partition("(")[2]
    return DeviceError(f"its code asked Python to exit{code}{f' ({place}' if place else ''}")


def is_of_signal(error: SystemExit) -> bool:
    """Whether a handler of signals raised *error*."""
    return bool(_handlers() & _codes(error))


def _handlers() -> set[CodeType]:
    """The code of the functions that handle signals in this process."""
    found = (getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals())
    return {code for code in found if code is not None}


def _codes(error: BaseException) -> set[CodeType]:
    """The code of the functions through which *error* went."""
    codes, trace = set(), error.__traceback__
    while trace is not None:
        codes.add(trace.tb_frame.f_code)
        trace = trace.tb_next
    return codes
