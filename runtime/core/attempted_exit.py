"""A vendor's code that asks Python to end the process, by ``sys.exit`` or a class of its own that is no ``Exception``.

Both are failures of its region like any other. What a handler of signals raises, and a KeyboardInterrupt, is what its
user wants and passes, also when it interrupts a vendor's code.
"""

from __future__ import annotations

import signal
from types import CodeType

from byoc.runtime.core.errors import DeviceError, vendors_text

USERS = (KeyboardInterrupt, GeneratorExit)


def attempted_exit(error: BaseException) -> Exception:
    """The error of a region whose code raised *error*, which is no Exception.

    Raises *error* where a handler of signals did, and one of ``USERS``.
    """
    if isinstance(error, USERS) or is_of_signal(error):
        raise error
    if not isinstance(error, SystemExit):
        return DeviceError(vendors_text(error))
    code = "" if error.code is None else f" with {error.code!r}"
    place = vendors_text(SystemExit().with_traceback(error.__traceback__)).partition("(")[2]
    return DeviceError(f"its code asked Python to exit{code}{f' ({place}' if place else ''}")


def is_of_signal(error: BaseException) -> bool:
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
