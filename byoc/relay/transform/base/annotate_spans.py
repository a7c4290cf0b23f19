"""Each expression gets its place in the program's own text. Source: ``relay.transform.AnnotateSpans``."""

from __future__ import annotations

from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import Law
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo
from byoc.relay.text import astext, parse

SOURCE = "GeneratedSource"


def annotate_spans(mod: IRModule, ctx: PassContext) -> IRModule:
    """*mod* read back from its text, with the line and column of each expression that has no span yet."""
    return parse(astext(mod), SOURCE, places=True)


def AnnotateSpans() -> ModulePass:
    """The pass that gives each expression the span of its place in the text of the module."""
    return ModulePass(
        annotate_spans,
        PassInfo(
            "AnnotateSpans", gives=("typed",), ends=(), law=Law("where a node comes from is no part of its value")
        ),
    )
