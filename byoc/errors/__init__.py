"""The errors of the compiler, beside those of the runtime that it shares.

The runtime imports nothing of the compiler, so the roots stand in ``byoc.runtime.core.errors``.
"""

from __future__ import annotations

from pathlib import PurePath

from byoc.runtime.core.errors import (
    ArtifactError,
    ByocError,
    DeviceError,
    IndexOutsideError,
    InputError,
    InternalError,
    KernelError,
    OutOfMemoryError,
    RunTimeoutError,
    UnavailableError,
    UserError,
    foreign_text,
    vendors_failure,
    vendors_text,
)


class ImportModelError(UserError):
    """A model file that cannot be read or holds something that is not supported."""


class TypeInferenceError(UserError):
    """Types that do not fit: the message names the operator, the node and the types found.

    ``types`` are the type that was found and the one that is wanted there, where it is two that do not match.
    """

    def __init__(self, message: str, types: tuple[object, object] | None = None):
        super().__init__(message)
        self.types = types


class ParseError(UserError):
    """Text that is not the IR's text format: the message gives line and column."""


class OptionError(UserError, TypeError):
    """A call with an option that the function does not have, or with too few or too many arguments."""


class RegistryError(UserError):
    """A duplicate registration, or a name that nobody registered."""


class PartitionError(UserError):
    """A target, pattern table or annotation that cannot be used."""


class CompilerNotFoundError(UserError):
    """No C compiler on this machine."""


class CompileError(UserError):
    """A code generator or the C compiler refused a function."""


class UnsupportedError(CompileError):
    """A code generator has no code for an expression: a mistake of a backend whose verdict had accepted it."""


def in_one_line(error: BaseException) -> str:
    """What *error* says, in one line for a sentence that it is part of: the first line of its text where it is of ours,
    else its class and text.

    >>> in_one_line(ValueError("no such kernel\\n  in table 3"))
    'ValueError: no such kernel in table 3'
    """
    if not isinstance(error, ByocError):
        return foreign_text(error)
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def vendors_line(error: BaseException) -> str:
    """As :func:`in_one_line`, with the line of the vendor's code in which an error that is none of ours was raised."""
    return in_one_line(error) if isinstance(error, ByocError) else vendors_text(error)


def defined_at(function: object) -> str:
    """Where the code of a function or method of a vendor stands, in parentheses; nothing of what has no such code.

    >>> defined_at(len)
    ''
    """
    code = getattr(function, "__code__", None)
    return f" ({PurePath(code.co_filename).name}:{code.co_firstlineno})" if code is not None else ""


__all__ = [
    "ArtifactError",
    "ByocError",
    "CompileError",
    "CompilerNotFoundError",
    "DeviceError",
    "ImportModelError",
    "IndexOutsideError",
    "InputError",
    "InternalError",
    "KernelError",
    "OptionError",
    "OutOfMemoryError",
    "ParseError",
    "PartitionError",
    "RegistryError",
    "RunTimeoutError",
    "TypeInferenceError",
    "UnavailableError",
    "UnsupportedError",
    "UserError",
    "defined_at",
    "in_one_line",
    "vendors_failure",
    "vendors_line",
]
