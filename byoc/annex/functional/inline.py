"""Inline: functions that are marked with ``Inline`` are put where they are called, and leave the module.

A function is inlined when it is marked, not recursive, and all that it calls can be inlined too. One that another
compiler is to make (``Compiler``) is put there as a function literal, any other by its body. Functions that nothing
calls stay, marked or not. Source: ``relay.transform.Inline``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.annex.analysis.call_graph import GlobalCalls
from byoc.annex.functional.de_duplicate import applied, dedup
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.traverse import children, rewrite


def Inline() -> ModulePass:
    """The pass that inlines the global functions marked as ``Inline``."""
    return ModulePass(
        lambda mod, ctx: inline_globals(mod, ctx),
        PassInfo("InlineGlobals", 1, ends=("typed", "graph_normal_form", *REWRITES)),
    )


def inline_globals(mod: IRModule, ctx: PassContext | None = None) -> IRModule:
    """*mod* without its functions that can be inlined; the others over the bodies of these."""
    calls = GlobalCalls(mod)
    ready: dict[GlobalVar, Function] = {}
    result = mod.shallow_copy()
    for var in calls.callees_first:
        func = mod[var]
        if not isinstance(func, Function):
            continue
        result[var] = new = _over_inlined(func, ready) if any(c in ready for c in calls.callees[var]) else func
        marked = bool(func.attrs.get("Inline")) and var not in calls.recursive
        if marked and all(callee in ready for callee in calls.callees[var]):
            ready[var] = new
    entries = set(calls.entries)
    for var in ready:
        if var not in entries:
            del result[var]
    return result


def _over_inlined(func: Function, ready: dict[GlobalVar, Function]) -> Function:
    """*func* with each use of a function of *ready* replaced: a call by the body, the name alone by a literal."""

    def inner(node: RelayExpr) -> Sequence[RelayExpr]:
        return node.args if isinstance(node, Call) and node.op in ready else children(node)

    def inlined(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(before, Call) and before.op in ready:
            return _inlined_call(ready[before.op], before, as_call(after).args)
        return dedup(ready[before]) if isinstance(before, GlobalVar) and before in ready else after

    return as_function(rewrite(func, inlined, inner))


def _inlined_call(func: Function, call: Call, args: Sequence[RelayExpr]) -> RelayExpr:
    if func.attrs.get("Compiler") is not None or len(func.params) != len(args):
        return Call(dedup(func), args, call.attrs, call.type_args, call.span)
    return applied(func, args, call.type_args)
