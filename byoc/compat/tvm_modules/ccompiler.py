"""``relay.ext.ccompiler``: TVM's example of an external compiler, on byoc's generator of C.

TVM's takes additions, subtractions and multiplications; ours takes whatever has a tensor expression. Source:
``src/relay/backend/contrib/codegen_c``.
"""

from __future__ import annotations

from byoc.codegen.c.backend import compile_functions
from byoc.codegen.kernel.region import fuse_body
from byoc.errors import CompileError
from byoc.ir.target import Target
from byoc.relay.expr import Function
from byoc.runtime.dso.module import DsoModule

KIND = "ccompiler"


def compile_region(function: Function) -> DsoModule:
    """The library of a region under its ``global_symbol``.

    The option ``header`` of the current target, where that is of kind ``ccompiler``, is C in front of the region's.
    Raises CompileError (a RuntimeError, as TVM raises) for what has no code and for C that does not compile.
    """
    symbol = function.attrs.get("global_symbol")
    if not isinstance(symbol, str):
        raise CompileError("a region needs the attribute global_symbol: the name under which it is called")
    target = Target.current()
    header = str(target.attrs.get("header", "")) if target is not None and target.kind.name == KIND else ""
    return compile_functions({symbol: fuse_body(function)}, prologue=header)
