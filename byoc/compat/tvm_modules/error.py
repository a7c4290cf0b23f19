"""TVM's error classes: byoc's own, so that ``except tvm.TVMError`` catches what byoc raises. Source: ``tvm.error``."""

from __future__ import annotations

from collections.abc import Callable

from byoc.errors import ByocError as TVMError
from byoc.errors import InternalError, RegistryError, UserError
from byoc.errors import UserError as DiagnosticError


class OpError(UserError):
    """An operator that a frontend cannot take. Source: ``tvm.error.OpError``."""


class OpNotImplemented(OpError, NotImplementedError):
    """An operator that a frontend does not have."""


class OpAttributeRequired(OpError, AttributeError):
    """An attribute that an operator needs and was not given."""


class OpAttributeInvalid(OpError, AttributeError):
    """An attribute whose value an operator cannot take."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An attribute that a frontend does not have."""


class RPCError(TVMError):
    """A failure on another machine: byoc has no remote calls, the class can be named."""


class RPCSessionTimeoutError(RPCError, TimeoutError):
    """A call to another machine that took too long."""


def register_error(func_name: str | type | None = None, cls: type | None = None) -> type | Callable[[type], type]:
    """Leaves a class of errors as it is: byoc looks up no class by name. Source: ``tvm.error.register_error``."""
    given = func_name if isinstance(func_name, type) else cls
    return given if given is not None else lambda error: error


__all__ = [
    "DiagnosticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "RPCError",
    "RPCSessionTimeoutError",
    "RegistryError",
    "TVMError",
    "UserError",
    "register_error",
]
