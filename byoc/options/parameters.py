"""Functions whose parameters are the fields of a dataclass: what ``inspect`` and ``help`` see of them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable


def signature_of(kind: type, returned: object) -> inspect.Signature:
    """The signature of a function that takes the fields of the dataclass *kind*, in its constructor's order.

    As ``inspect.signature`` of the class, and much cheaper: hundreds are made when the operators are imported.
    """
    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=empty if field.default is dataclasses.MISSING else field.default,
            annotation=field.type,
        )
        for field in sorted(dataclasses.fields(kind), key=lambda field: bool(field.kw_only))
    ]
    return inspect.Signature(parameters, return_annotation=returned)


def shows_fields(call: Callable[..., object], kind: type, returned: object) -> inspect.Signature:
    """Give *call* the signature and the annotations of a function that takes the fields of *kind*; that signature."""
    signature = signature_of(kind, returned)
    types = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    call.__annotations__ = {**types, "return": returned}
    vars(call)["__signature__"] = signature
    return signature
