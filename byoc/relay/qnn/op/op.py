"""Rules of quantized operators for ``relay.qnn.transform``: how they are legalized, and how lowered to plain ones.

A rule is called with (attributes, arguments, types of the arguments and then of the result) and returns an expression
to put in the call's place, or None to leave it. Source: ``relay.qnn.op.op``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import register_op_attr
from byoc.ir.types import Type

LEGALIZE, CANONICALIZE = "FTVMQnnLegalize", "FTVMQnnCanonicalize"
Rule = Callable[[Attrs | None, Sequence[RelayExpr], Sequence[Type]], RelayExpr | None]
Registered = Callable[..., Any]  # the rule, or the decorator that takes it


def register_qnn_legalize(op_name: str, legal_op: Rule | None = None, level: int = 10) -> Registered:
    """Give an operator its rule for ``qnn.transform.Legalize``, as a call or a decorator."""
    result: Registered = register_op_attr(op_name, LEGALIZE, legal_op, level)
    return result


def register_qnn_canonicalize(op_name: str, legal_op: Rule | None = None, level: int = 10) -> Registered:
    """Give an operator its rule for ``qnn.transform.CanonicalizeOps``, as a call or a decorator."""
    result: Registered = register_op_attr(op_name, CANONICALIZE, legal_op, level)
    return result
