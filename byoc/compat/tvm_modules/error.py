"""TVM's error classes: byoc's own, so that ``except tvm.TVMError`` catches what byoc raises. Source: ``tvm.error``."""

from byoc.errors import ByocError as TVMError
from byoc.errors import InternalError, RegistryError, UserError
from byoc.errors import UserError as DiagnosticError
from byoc.errors import UserError as OpError

OpNotImplemented = OpAttributeRequired = OpAttributeInvalid = OpAttributeUnImplemented = OpError

__all__ = [
    "DiagnosticError", "InternalError", "OpAttributeInvalid", "OpAttributeRequired", "OpAttributeUnImplemented",
    "OpError", "OpNotImplemented", "RegistryError", "TVMError", "UserError",
]
