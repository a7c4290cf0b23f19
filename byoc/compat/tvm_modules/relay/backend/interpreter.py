"""Executors: what evaluates expressions against a module; and the reference interpreter as one of them.

Source: ``tvm.relay.backend.interpreter``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.compat.tvm_modules.relay.backend.targets import TargetLike, all_targets
from byoc.errors import InputError, UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.target import region_targets
from byoc.ir.types import TensorType, TupleType, Type
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import Constant, Function, Let, Var, const
from byoc.relay.interpreter import ConstructorValue, RefValue, evaluate_value, result_of, value_of
from byoc.relay.transform.functional.remove_kills import RemoveKills
from byoc.runtime.core.device import Device, cpu

Evaluator = Callable[..., object]


class Executor:
    """Evaluates expressions against *mod*. Source: ``relay.backend.interpreter.Executor``."""

    def __init__(self, mod: IRModule | None, device: Device | None = None, target: TargetLike | None = None):
        self.mod, self.device, self.target = mod if mod is not None else IRModule(), device or cpu(), target

    def evaluate(self, expr: RelayExpr | None = None, binds: Mapping[Var, object] | None = None) -> Evaluator | object:
        """A Python function for main, a global name or a function *expr*; the value of any other closed expression.

        *binds* gives values, expressions or arrays, to variables of *expr*. Arguments are given in order or by name.
        Raises UserError for an expression with free variables, InputError for wrong arguments; keywords that name no
        parameter are passed over.
        """
        for variable, value in reversed(list((binds or {}).items())):
            if expr is None:
                raise UserError("binds gives values to the variables of an expression: give the expression too")
            expr = Let(variable, value if isinstance(value, RelayExpr) else const(value), expr)
        if expr is None or isinstance(expr, GlobalVar):
            return self._evaluator(self.mod, expr.name_hint if expr is not None else "main")
        free = free_vars(expr)
        if free:
            names = ", ".join(f"%{v.name_hint}" for v in free)
            raise UserError(f"only a closed expression can be evaluated: {names} is free; make it a parameter")
        mod = self.mod.shallow_copy()
        mod["main"] = expr if isinstance(expr, Function) else Function([], expr)
        call = self._evaluator(mod, "main")
        return call if isinstance(expr, Function) else call()

    def _evaluator(self, mod: IRModule, name: str) -> Evaluator:
        entry = mod.shallow_copy()
        if name != "main":
            entry["main"] = mod[name]
        typed = RemoveKills()(infer_module(entry))  # the lives of values are the executors' own
        main = typed["main"]
        assert isinstance(main, Function)
        with region_targets(all_targets(self.target)):
            run = self.prepare(typed, main)

        def call(*args: object, **kwargs: object) -> object:
            return run(arguments(main, args, kwargs))

        return call

    def prepare(self, mod: IRModule, main: Function) -> Callable[[Sequence[object]], object]:
        """What runs *main*, the main of the typed *mod*, on inputs in order."""
        raise NotImplementedError


def arguments(main: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
    """The inputs of *main* in order. Raises InputError for too many, too few, or repeated ones.

    Keywords that name no parameter are passed over, as in Relay: callers give all weights by name to an executor whose
    module has some of them bound.
    """
    names = [param.name_hint for param in main.params]
    known = ", ".join(names) or "nothing"
    twice = [name for name in names[: len(args)] if name in kwargs]
    if twice:
        raise InputError(
            f"duplicate argument supplied in both positional args (at position: {names.index(twice[0])}), and keyword "
            f"argument (with name: {twice[0]})"
        )
    rest = [name for name in names[len(args) :] if name in kwargs]
    if len(args) + len(rest) != len(names):
        unknown = ", ".join(repr(name) for name in kwargs if name not in names)
        raise InputError(
            f"insufficient arguments, expected {len(names)}, provided {len(args) + len(rest)}: main takes {known}"
            + (f"; there is no {unknown}" if unknown else "")
        )
    return [*args, *(kwargs[name] for name in rest)]


class Interpreter(Executor):
    """The reference interpreter. Source: ``relay.backend.interpreter.Interpreter``."""

    def prepare(self, mod: IRModule, main: Function) -> Callable[[Sequence[object]], object]:
        def value(given: object, param: Var) -> object:
            if isinstance(given, Constant):
                return given.data
            if isinstance(given, RelayExpr):
                return evaluate_value(given, (), mod)
            return value_of(_typed_numbers(given, param.checked_type_))

        return lambda inputs: result_of(
            evaluate_value(main, [value(i, p) for i, p in zip(inputs, main.params, strict=True)], mod)
        )


def _typed_numbers(given: object, ty: Type | None) -> object:
    """*given* with each int of Python, alone or in a tuple, of the integer dtype that *ty* declares for it."""
    if isinstance(ty, TupleType) and isinstance(given, (list, tuple)) and len(given) == len(ty.fields):
        return tuple(_typed_numbers(v, t) for v, t in zip(given, ty.fields, strict=True))
    if type(given) is int and isinstance(ty, TensorType) and ty.dtype.startswith(("int", "uint")):
        return const(given, ty.dtype).data
    return given


__all__ = ["ConstructorValue", "Executor", "Interpreter", "RefValue", "arguments"]
