"""Which expressions have no span, reported as warnings. Source: ``relay.parser.SpanCheck``, ``relay.SpanCheck``."""

from __future__ import annotations

from byoc.ir.diagnostics import Diagnostic, DiagnosticContext, DiagnosticLevel, get_renderer
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import Law
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo
from byoc.relay.expr import Call, Constant, Function, Let
from byoc.relay.traverse import post_order

SPANNED = (Call, Constant, Let)


def check_spans(mod: IRModule, ctx: PassContext) -> IRModule:
    """*mod* itself; a warning for each call, constant and let without a span goes to the renderer of diagnostics."""
    context = DiagnosticContext(mod, get_renderer())
    for var, func in mod.functions.items():
        if isinstance(func, Function):
            for node in post_order(func):
                if isinstance(node, SPANNED) and node.span is None:
                    message = f"a {type(node).__name__} of @{var.name_hint} has no span"
                    context.emit(Diagnostic(DiagnosticLevel.WARNING, None, message))
    if context.diagnostics:
        context.render()
    return mod


def SpanCheck() -> ModulePass:
    """The pass that reports which expressions have no span, and changes nothing."""
    return ModulePass(check_spans, PassInfo("SpanCheck", ends=(), law=Law("the module is only looked at")))
