"""``relay.create_executor``: one call from a module to its values. Source: ``relay.build_module.create_executor``.

``graph`` and ``aot`` compile; ``debug`` is the reference interpreter; ``vm`` compiles what has no control flow and
interprets the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from byoc.compat.tvm_modules.relay.build_module import compile_module, with_params
from byoc.compat.tvm_modules.relay.vm import compile as compile_vm
from byoc.compat.tvm_modules.runtime.vm import VirtualMachine, as_value
from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import Function
from byoc.relay.interpreter import evaluate
from byoc.runtime.container import ADT
from byoc.runtime.device import Device, cpu
from byoc.runtime.ndarray import NDArray

Evaluator = Callable[..., object]


class Executor:
    """Evaluates expressions against a module. Source: ``relay.backend.interpreter.Executor``."""

    def __init__(self, mod: IRModule, device: Device | None = None, target: object = None):
        self.mod, self.device, self.target = mod, device or cpu(), target

    def evaluate(self, expr: RelayExpr | None = None, params: Mapping[str, object] | None = None) -> object:
        """A Python function for main or a function *expr*; the value itself for any other expression.

        Arguments are given in order or by name. Raises UserError for wrong arguments.
        """
        mod = self.mod
        if isinstance(expr, GlobalVar):
            expr = mod[expr]
        if expr is not None:
            mod = self.mod.shallow_copy()
            mod["main"] = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
        mod = infer_module(with_params(mod, params))
        run = self.prepare(mod)
        names = [param.name_hint for param in mod["main"].params]  # type: ignore[attr-defined]

        def call(*args: object, **kwargs: object) -> object:
            rest = [name for name in names if name not in kwargs]
            unknown = [name for name in kwargs if name not in names]
            if unknown or len(args) != len(rest):
                known = ", ".join(names) or "nothing"
                raise UserError(f"main takes {known}; got {len(args)} values in order and {list(kwargs)} by name")
            given = {**dict(zip(rest, args, strict=True)), **kwargs}
            return run({name: given[name] for name in names})

        return call if expr is None or isinstance(expr, Function) else call()

    def prepare(self, mod: IRModule) -> Callable[[Mapping[str, object]], object]:
        """What runs main of *mod* on inputs by name."""
        raise NotImplementedError


class GraphExecutor(Executor):
    """Compiles and runs the graph. An output that is a tuple is a list of arrays."""

    def prepare(self, mod: IRModule) -> Callable[[Mapping[str, object]], object]:
        library = compile_module(mod)

        def run(inputs: Mapping[str, object]) -> object:
            outputs = [NDArray(array) for array in library.run(inputs)]
            return outputs[0] if len(outputs) == 1 else outputs

        return run


class Interpreter(Executor):
    """The reference interpreter."""

    def prepare(self, mod: IRModule) -> Callable[[Mapping[str, object]], object]:
        return lambda inputs: as_value(evaluate(mod, inputs))


class VMExecutor(Executor):
    """The virtual machine."""

    def prepare(self, mod: IRModule) -> Callable[[Mapping[str, object]], object]:
        machine = VirtualMachine(compile_vm(mod), self.device)
        return lambda inputs: machine.run(**inputs)


_KINDS: dict[str, type[Executor]] = {
    "graph": GraphExecutor, "aot": GraphExecutor, "debug": Interpreter, "vm": VMExecutor,
}


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Device | None = None,
    target: object = "llvm",
    params: Mapping[str, object] | None = None,
) -> Executor:
    """An executor of *kind* over *mod*, with *params* bound. Raises UserError for an unknown kind."""
    if kind not in _KINDS:
        raise UserError(f"unknown kind of executor {kind!r}; known: {', '.join(_KINDS)}")
    return _KINDS[kind](with_params(mod if mod is not None else IRModule(), params), device, target)


__all__ = ["ADT", "Executor", "GraphExecutor", "Interpreter", "VMExecutor", "create_executor"]
