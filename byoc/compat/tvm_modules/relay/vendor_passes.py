"""Passes of TVM's that prepare regions for a vendor's library, by the global functions that make them.

What they prepare (constants in the form that CMSIS-NN's code wants, quantized products in the form of a driver's
network) is for the library's own code generator. byoc's generators take a region as it is, so that these passes leave a
module as it is. Source: ``relay.ext.cmsisnn.transform``, ``relay.backend.contrib.ethos-n``.
"""

from __future__ import annotations

from byoc.ir.expr import BaseFunc
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_context import PassContext
from byoc.ir.passes.transform import ModulePass, Pass, PassInfo
from byoc.relay.expr import Call, Function
from byoc.relay.transform import InlineCompilerFunctionsBoundTo
from byoc.relay.traverse import post_order

_LIGHT = frozenset(["reshape", "split", "concatenate"])
_ETHOSN = "ethos-n"


def no_change(*options: object) -> Pass:
    """A pass that leaves a module as it is, whatever its options."""

    def same(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    return ModulePass(same, PassInfo("NoChange"))


def inline_light_regions() -> Pass:
    """A pass that puts regions of Ethos-N back in which nothing is computed.

    Source: ``InlineNonComputeIntensivePartitions``.
    """

    def inline(mod: IRModule, ctx: PassContext) -> IRModule:
        light = [
            var
            for var, func in mod.functions.items()
            if isinstance(func, Function) and func.attrs.get("Compiler") == _ETHOSN and not _computes(func)
        ]
        return InlineCompilerFunctionsBoundTo(light)(mod)

    return ModulePass(inline, PassInfo("InlineNonComputeIntensivePartitions"))


def _computes(func: BaseFunc) -> bool:
    operators = [n.op.name for n in post_order(func) if isinstance(n, Call) and isinstance(n.op, Op)]
    return any(name not in _LIGHT for name in operators)
