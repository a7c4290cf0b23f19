"""InferType as a pass, and the maker of passes over functions. Source: ``relay.transform``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TypeGuard

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import Law
from byoc.ir.passes.transform import ModulePass, Pass, PassContext, PassInfo, pass_maker
from byoc.ir.passes.verification import blame, is_verifying
from byoc.ir.registry import register_func
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Function


def _verify(mod: IRModule, last: object) -> object:
    """The verifier (``byoc.relay.verify``), which is loaded where somebody asks for it."""
    verdict: object = importlib.import_module("byoc.relay.verify.verifier").verify(mod, last)
    return verdict


register_func("relay.ir.verify", _verify)

FunctionTransform = Callable[[Function, IRModule, PassContext], Function]


_INFER_TYPE = PassInfo("InferType", gives=("typed",), ends=(), law=Law("a type that is written down changes no value"))


def InferType() -> ModulePass:
    """The pass that gives every expression its type, in place."""
    return ModulePass(lambda mod, ctx: infer_module(mod), _INFER_TYPE)


def is_optimizable(func: object) -> TypeGuard[Function]:
    """True for functions that passes may look into: not another compiler's, not external, not marked as skipped."""
    return isinstance(func, Function) and not any(func.attrs.get(k) for k in ("Compiler", "Extern", "SkipOptimization"))


class FunctionPass(Pass):
    """A pass over each optimisable function of a module; InferType runs after it, as in Relay."""

    def __init__(self, function: FunctionTransform, info: PassInfo):
        super().__init__(info.giving("typed"))
        self._function = function

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        result = mod.shallow_copy()
        for var, func in mod.functions.items():
            if is_optimizable(func):
                new = self._function(func, result, ctx)
                if not isinstance(new, Function):
                    raise UserError(
                        f"the function pass {self.info.name} must return a Function, got {type(new).__name__}"
                    )
                result[var] = new
        try:
            return InferType()(result)
        except TypeInferenceError as error:
            if not is_verifying(ctx.config):
                raise
            raise blame(self.info, mod, result, error) from error


def function_pass(
    pass_func: object = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> object:
    """Make a pass from ``f(func, mod, ctx) -> func``, or a class of passes from a class with ``transform_function``.

    As a call or as a decorator. Source: ``relay.transform.function_pass``.
    """
    return pass_maker(FunctionPass, "transform_function", pass_func, opt_level, name, required, traceable)
