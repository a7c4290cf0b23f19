"""``relay.ext.ccompiler``: TVM's example of an external compiler, on byoc's generator of C.

TVM's takes additions, subtractions and multiplications; ours takes whatever has a tensor expression. Source:
``src/relay/backend/contrib/codegen_c``.
"""

from __future__ import annotations

from byoc.codegen.c.backend import CBackend
from byoc.relay.expr import Function
from byoc.runtime.dso.module import DsoModule


def compile_region(function: Function) -> DsoModule:
    """The library of a region under its ``global_symbol``. Raises CompileError for what has no code."""
    return CBackend().compile(function, {})
