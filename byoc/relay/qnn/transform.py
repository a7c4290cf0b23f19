"""Passes over quantized operators: ``Legalize`` and ``CanonicalizeOps``. Source: ``relay.qnn.transform``."""

from __future__ import annotations

from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.call_rules import calls_with_attr
from byoc.relay.transform.base.infer_type import FunctionPass

LAW = Law("a quantized operator is its definition over plain integers", Numbers.ROUNDING)


def _rules_pass(name: str, key: str) -> FunctionPass:
    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if not calls_with_attr(func, key):
            return func
        from byoc.relay.qnn.rules import apply_rules  # few models have what it is for

        return as_function(apply_rules(infer_function(func, mod), key, mod))

    return FunctionPass(run, PassInfo(name, 1, ("InferType",), ends=REWRITES, law=LAW))


def CanonicalizeOps() -> FunctionPass:
    """The pass that lowers quantized operators to plain ones.

    Ensures: of the operators of ``relay.qnn`` only simulated ones are left, and those whose scales are not constant.
    """
    from byoc.relay.qnn.op.op import CANONICALIZE

    return _rules_pass("qnn.CanonicalizeOps", CANONICALIZE)


def Legalize() -> FunctionPass:
    """The pass that makes quantized operators such as a target runs well, by their ``FTVMQnnLegalize``."""
    from byoc.relay.qnn.op.op import LEGALIZE

    return _rules_pass("qnn.Legalize", LEGALIZE)
