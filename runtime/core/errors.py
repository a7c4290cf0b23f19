"""The roots of the errors, and the sentence of an index outside its dimension.

Two families: a :class:`UserError` is something that the caller can mend (a file, a name, a shape), and its text
says where, what was expected, what was found and what to do; an :class:`InternalError` is a broken promise
between two of our own parts, and its text names the pass and the node.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path


class ByocError(RuntimeError):
    """The root of all errors raised by byoc; a RuntimeError, as the root of TVM's (``tvm.TVMError``) is."""


class UserError(ByocError, ValueError):
    """A mistake in what the caller gave: the message is one sentence that says how to mend it."""


class InternalError(ByocError):
    """A broken invariant inside byoc: please report it."""


class ArtifactError(UserError):
    """An artefact that cannot be loaded: damaged, too new, or in need of something that is missing here."""


class DeviceError(UserError):
    """A device that is missing or that refused to work."""


class UnavailableError(ArtifactError, DeviceError):
    """An artefact that is whole, and needs what this machine lacks: a device, a package, a processor's feature."""


class ContractError(UserError):
    """A backend's function or module that does not do what the contract says of it: its outputs are not to be used."""


class InputError(UserError):
    """An input of a run that is missing, unknown, or of another shape or dtype than the model declares."""


class IndexOutsideError(InputError):
    """An index that a run found outside the dimension that it is for."""


class RunTimeoutError(UserError):
    """A run that took longer than its caller allowed: it was ended, and the library can run again."""


class DeviceMemoryError(DeviceError):
    """A device that has not as much memory as it was asked for; it can be used as before."""


class RegionTimeoutError(RunTimeoutError, DeviceError):
    """A backend that took longer for a region, or a device for its work, than is allowed; the library can run again."""


class DeviceTimeoutError(RegionTimeoutError):
    """A device whose work was not done within the time-out of a wait for it."""


class RunAgainError(RegionTimeoutError):
    """The same, where the host stands in from now on: executors run again, in other memory."""


class OutOfMemoryError(UserError, MemoryError):
    """Compiling or running needs more memory than this process can have."""

    @staticmethod
    def of_run(error: MemoryError) -> OutOfMemoryError:
        """The error for a run that *error* ended."""
        known = str(error) or "how much is not known"
        return OutOfMemoryError(
            f"this process has too little memory for a run ({known}): take smaller inputs, or allow it more"
        )


class KernelError(UserError):
    """No kernel of that name, or a kernel that was called with what it does not take."""


for _error in [error for error in globals().values() if isinstance(error, type)]:
    _error.__module__ = "byoc.runtime.errors"  # the name that users import them by, which tracebacks show


# what a message says of a region whose backend failed, where the host could compute it
FALLBACK_ADVICE = "compile with fallback=True (byoc compile --fallback)"
HOST_ADVICE = f"{FALLBACK_ADVICE} to run it on the host then"
MOST_LETTERS = 400  # of a text that is somebody else's


def foreign_text(error: BaseException) -> str:
    """The class and the text of *error* in one line of printable letters; without a text, where it was raised.

    >>> foreign_text(RuntimeError("no such kernel\\n  in table 3"))
    'RuntimeError: no such kernel in table 3'
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # of its own __str__
        return f"{name}, whose text cannot be read{_place(error)}"
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * MOST_LETTERS]).split())
    if len(line) > MOST_LETTERS:
        line = f"{line[:MOST_LETTERS]} ..."
    return f"{name}: {line}" if line else f"{name}, which says nothing{_place(error)}"


def vendors_text(error: BaseException) -> str:
    """As :func:`foreign_text`, with the last line of the vendor's own code on the way to where *error* was raised."""
    text, place = foreign_text(error), _place(error, own=True)
    return text if text.endswith(place) else f"{text}{place}"


def vendors_failure(error: BaseException) -> Exception:
    """*error*, which a vendor's code raised, or what stands for one that is no Exception: a failure like any other.

    That is code which asks Python to end the process, by ``sys.exit`` or a class of its own. Raises *error* where it is
    the user's wish: an interruption, or what a handler of signals raised, also when it interrupts a vendor's code.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)) or _is_of_signal(error):
        raise error
    if not isinstance(error, SystemExit):
        return DeviceError(vendors_text(error))
    code = "" if error.code is None else f" with {error.code!r}"
    place = vendors_text(SystemExit().with_traceback(error.__traceback__)).partition("(")[2]
    return DeviceError(f"its code asked Python to exit{code}{f' ({place}' if place else ''}")


def _is_of_signal(error: BaseException) -> bool:
    """Whether one of the functions that handle signals in this process raised *error*."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _place(error: BaseException, own: bool = False) -> str:
    """The file and the line that raised *error*, in parentheses; nothing where it was not raised.

    With *own* the last line that is neither byoc's, nor Python's, nor a library's that vendors call.
    """
    found, trace = "", error.__traceback__
    while trace is not None:
        if not own or _is_vendors(str(trace.tb_frame.f_globals.get("__name__", ""))):
            found = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _is_vendors(module: str) -> bool:
    top, _, rest = module.partition(".")
    if top == "byoc":
        return rest.startswith("contrib.")
    return top not in ("numpy", "runpy") and (top == "__main__" or top not in sys.stdlib_module_names)


# The error of an index outside its dimension, the same sentence from every backend. A *check* is the name of one test
# of indices (the ONNX node and the axis), a number in native code and on devices; these report the *place*, the index
# counted from the end where it is negative, as an unsigned number. A length is reported as it was given.

OF_LENGTHS = ", length along axis "  # in the name of a check: what it looks at are no positions but numbers of elements
OF_BROADCAST = "the sizes "  # how the name of a check begins that two sizes are the same, or one of them 1
OF_CONDITION = ", of which what follows needs that it is "  # in the name of a check: it is of a condition
EMPTY_PLACE = 1 << 63  # stands for the index 0 into a dimension of 0 elements


def index_outside(check: str, place: int, extent: int) -> InputError:
    """The error for *place* in a dimension of *extent* elements."""
    if OF_CONDITION in check:
        return wrong_condition(check)
    signed = 0 if place == EMPTY_PLACE else place - (1 << 64) if place >= 1 << 63 else place
    if check.startswith(OF_BROADCAST):
        return IndexOutsideError(f"{check} of two tensors that belong together differ: one has {extent} elements there")
    if OF_LENGTHS in check:
        return wrong_length(check, signed, extent - 1)
    return wrong_index(check, signed - extent if signed < 0 else signed, extent)


def wrong_index(check: str, index: int, extent: int) -> IndexOutsideError:
    """The error for *index*, as the model was given it, into a dimension of *extent* elements."""
    where = check or "an operator that takes elements by their positions"
    use = f"give indices from {-extent} to {extent - 1}" if extent else "it has no element that could be taken"
    return IndexOutsideError(f"{where}: index {index} is outside a dimension of {extent}; {use}")


def wrong_length(check: str, length: int, size: int) -> IndexOutsideError:
    """The error for a number of elements, *length*, in a dimension of *size*."""
    return IndexOutsideError(f"{check}: {length} is outside a dimension of {size}; give lengths from 0 to {size}")


def wrong_condition(check: str) -> InputError:
    """The error for a condition that is not what the tensors behind it need."""
    return InputError(f"{check}, is not so for these inputs; give inputs of a size for which it is")


def image_outside(where: str, image: float, count: int) -> IndexOutsideError:
    """The error for the number of an *image* outside a batch of *count*; no number counts from the end."""
    use = f"give images from 0 to {count - 1}" if count else "it has no image"
    return IndexOutsideError(f"{where}: image {image:g} is outside a batch of {count}; {use}")
