"""Loops, as functions that call themselves. Source: ``tvm.relay.loops``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import Function, Let, Tuple, Var, var
from byoc.relay.scope_builder import ScopeBuilder

Condition = Callable[..., RelayExpr]
Body = Callable[..., Sequence[RelayExpr]]


def while_loop(cond: Condition, loop_vars: Sequence[RelayExpr], loop_bodies: Body) -> Let:
    """A function of as many parameters as *loop_vars* that goes on while *cond* of them holds.

    *cond* and *loop_bodies* get the variables of the loop; *loop_bodies* returns what each is next. The function gives
    the tuple of all variables at the end. *loop_vars* say the names and types of the variables, not their values: call
    the function with these. Source: ``relay.loops.while_loop``.
    """
    builder = ScopeBuilder()
    loop = Var("while_loop")
    fresh = [
        var(v.name_hint if isinstance(v, Var) else f"arg{i}", type_annotation=builder.type_of(v))
        for i, v in enumerate(loop_vars)
    ]
    with builder.if_scope(cond(*fresh)):
        builder.ret(loop(*loop_bodies(*fresh)))
    with builder.else_scope():
        builder.ret(Tuple(fresh))
    return Let(loop, Function(fresh, builder.get()), loop)


def foreach(iter: RelayExpr, init: RelayExpr, body: Body) -> RelayExpr:
    """Not to be had in Relay either: raises UserError that names what to use. Source: ``relay.loops.foreach``."""
    raise UserError("foreach is not available, as in Relay: use relay.loops.while_loop, or @foldl of the prelude")
