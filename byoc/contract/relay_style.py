"""An integration in the style of TVM's Relay (a pattern table, annotations, ``relay.ext.<name>``) as a Backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from byoc.contract.backend import Backend, PatternEntry, keep_constants
from byoc.contract.verdict import Verdict, accept, callee_name, first_sentence, refuse
from byoc.errors import PartitionError
from byoc.ir.op import Op
from byoc.ir.passes.pass_context import PassContext
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.ir.target import entered_for
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.match_check import truth
from byoc.relay.op.contrib.register import get_pattern_table
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import NDArray, from_any
from byoc.runtime.modules.module import Module


class RelayStyleBackend(Backend):
    """An integration in the style of TVM's Relay, seen through the contract."""

    def __init__(self, name: str):
        self.name = name

    def patterns(self) -> Sequence[PatternEntry]:
        return [PatternEntry(*row) for row in get_pattern_table(self.name) or ()]

    def supports(self, call: Call) -> Verdict:
        if isinstance(call.op, Function):
            mine = str(call.op.attrs.get("Composite", "")).split(".")[0] == self.name
            return accept(call) if mine else refuse(call, "composite", f"only composites of {self.name}")
        predicate: Any = call.op.get_attr(f"target.{self.name}") if isinstance(call.op, Op) else None
        if predicate is None:
            return refuse(call, "operator", f"{self.name} has no annotation for this operator")
        what = f"backend {self.name!r}: its predicate target.{self.name} of {callee_name(call)}"
        if truth(predicate, call, what) if callable(predicate) else predicate:
            return accept(call)
        return refuse(call, "predicate", first_sentence(predicate) or f"the predicate target.{self.name} refused it")

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        """The module that ``relay.ext.<name>`` gives, with the constants that it asks for by Relay's names.

        Raises PartitionError for a constant that there is not.
        """
        compiler = GLOBAL_FUNCTIONS[f"relay.ext.{self.name}"]
        with entered_for(self.name), self._with_options(options):  # what the build was given is the current target
            module: Module = compiler(function.without_attr("Compiler"))
        if isinstance(module, Module) and any(module.constants().values()):
            wanted = dict.fromkeys(name for names in module.constants().values() for name in names)
            if any(name not in module.constant_arrays for name in wanted):
                keep_constants(module, {**self._constants(function), **module.constant_arrays})
            unknown = next((name for name in wanted if name not in module.constant_arrays), None)
            if unknown is not None:
                raise PartitionError(
                    f"its module asks for the constant {unknown!r}; the constants of "
                    f"{function.attrs['global_symbol']} are {', '.join(module.constant_arrays) or 'none'}, numbered as "
                    "a post-order walk meets them, those in a composite's body before the call's own arguments"
                )
        return module

    def _with_options(self, options: Mapping[str, object]) -> AbstractContextManager[object]:
        """*options* where integrations look for them, unless the current context has some."""
        ctx, key = PassContext.current(), f"relay.ext.{self.name}.options"
        if not options or key in ctx.config:
            return nullcontext()
        return PassContext(ctx.opt_level, ctx.required_pass, ctx.disabled_pass, (), {**ctx.config, key: dict(options)})

    def _constants(self, function: Function) -> dict[str, NDArray]:
        """Constants by name: from ``relay.ext.<name>.constant_updater``, else ``<symbol>_const_<i>`` in post-order."""
        symbol = str(function.attrs["global_symbol"])
        updater = GLOBAL_FUNCTIONS.get(f"relay.ext.{self.name}.constant_updater")
        if updater is not None:
            named: Mapping[str, object] = updater(function, symbol)
            return {str(name): NDArray(from_any(value)) for name, value in named.items()}
        constants = [node for node in post_order(function) if isinstance(node, Constant)]
        return {f"{symbol}_const_{k}": constant.data for k, constant in enumerate(constants)}
