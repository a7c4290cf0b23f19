"""A function like another, some of its parts replaced. Source: ``relay.FunctionWithFields``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.span import AnySpan
from byoc.ir.types import Type, TypeVar
from byoc.ir.virtual_device import VirtualDevice
from byoc.relay.expr import Function, Var


def FunctionWithFields(
    function: Function,
    params: Sequence[Var] | None = None,
    body: RelayExpr | None = None,
    ret_type: Type | None = None,
    ty_params: Sequence[TypeVar] | None = None,
    attrs: Mapping[str, object] | None = None,
    virtual_device: VirtualDevice | None = None,
    span: AnySpan | None = None,
) -> Function:
    """*function* with what is given in the place of its own."""
    made = Function(
        function.params if params is None else params,
        function.body if body is None else body,
        function.declared_ret_type if ret_type is None else ret_type,
        function.type_params if ty_params is None else ty_params,
        function.attrs if attrs is None else attrs,
        function.span if span is None else span,
    )
    if virtual_device is not None:
        made.virtual_device_ = virtual_device
    return made
