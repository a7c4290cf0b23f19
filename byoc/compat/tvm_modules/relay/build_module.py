"""``relay.build`` over byoc's driver: the host's share is generated C, regions go to the codegens registered for them.

Source: ``tvm.relay.build_module``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from byoc.compat.tvm_modules import config_options  # noqa: F401 - options are declared where they are given
from byoc.compat.tvm_modules.relay.backend import Executor, Runtime
from byoc.compat.tvm_modules.relay.backend.executor_factory import FACTORY_CLASSES, ExecutorFactoryModule
from byoc.compat.tvm_modules.relay.backend.interpreter import Executor as Evaluator
from byoc.compat.tvm_modules.relay.backend.interpreter import Interpreter
from byoc.compat.tvm_modules.relay.backend.storage import with_storage
from byoc.compat.tvm_modules.relay.backend.targets import TargetLike, all_targets, host_target
from byoc.compat.tvm_modules.relay.vm import VMExecutor
from byoc.compat.tvm_modules.runtime import LoadedLibrary
from byoc.compat.tvm_modules.runtime.graph_inputs import relay_input
from byoc.driver.compiler.compile import CompileOptions
from byoc.driver.compiler.compile import build as build_library
from byoc.driver.pipeline import optimize as optimize_module
from byoc.errors import InputError, UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import PassContext
from byoc.ir.target import region_targets
from byoc.ir.types import TensorType, TupleType, Type
from byoc.partition.plan.plan import Plan
from byoc.relay.analysis.module_types import infer_module, infer_type_local
from byoc.relay.bind import bind_params_by_name, module_with_params
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function_type
from byoc.runtime.core.container import ADT
from byoc.runtime.core.device import Device
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.library import Library


def build(
    ir_mod: IRModule | Function,
    target: TargetLike | None = None,
    target_host: TargetLike | None = None,
    executor: Executor | None = None,
    runtime: Runtime | None = None,
    workspace_memory_pools: object = None,
    constant_memory_pools: object = None,
    params: Mapping[str, object] | None = None,
    mod_name: str = "default",
) -> ExecutorFactoryModule:
    """Compile a module (or function), with *params* bound by name; regions of PartitionGraph go to their codegens.

    Raises UserError for a target that byoc has no code for, CompileError for what a codegen refuses. Source:
    ``relay.build``.
    """
    chosen, mod = host_target(target), module_with_params(ir_mod, params)
    kind = executor or Executor("graph")
    with region_targets(all_targets(target)):
        library = compile_module(mod)
    return FACTORY_CLASSES[kind.name](library, mod, mod_name, kind, chosen)


def optimize(
    mod: IRModule | Function, target: TargetLike | None = None, params: Mapping[str, object] | None = None
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module after the passes that ``build`` runs first, and the parameters that are left to set.

    Source: ``relay.optimize``.
    """
    host_target(target)
    return optimize_module(infer_module(module_with_params(mod, params))), {}


def compile_module(mod: IRModule) -> Library:
    """The library of a module that is partitioned already, or not at all.

    Raises CompileError for control flow, and for an input with a dimension that has neither a size nor a name.
    """
    ready = optimize_module(infer_module(mod.shallow_copy()))
    plan = Plan("order", (), "default", ())
    return build_library(ready, plan, CompileOptions())


class BuildModule:
    """The steps of a build as methods. Source: ``relay.build_module.BuildModule``."""

    def __init__(self) -> None:
        self._params: dict[str, object] = {}
        self._built: ExecutorFactoryModule | None = None

    def set_params(self, params: Mapping[str, object]) -> None:
        """Give parameters of main their values, by name."""
        self._params = dict(params)

    def build(
        self,
        mod: IRModule | Function,
        target: TargetLike | None = None,
        target_host: TargetLike | None = None,
        executor: Executor | None = None,
        runtime: Runtime | None = None,
        workspace_memory_pools: object = None,
        constant_memory_pools: object = None,
        params: Mapping[str, object] | None = None,
        mod_name: str = "default",
    ) -> tuple[str | None, LoadedLibrary, dict[str, NDArray]]:
        """Build; the executor's configuration, the library and the parameters."""
        given = {**self._params, **(params or {})}
        self._built = build(mod, target, target_host, executor, runtime, params=given, mod_name=mod_name)
        return self._built.get_executor_config(), self._built.get_lib(), self._built.get_params()

    def optimize(
        self,
        mod: IRModule | Function,
        target: TargetLike | None = None,
        target_host: TargetLike | None = None,
        params: Mapping[str, object] | None = None,
    ) -> tuple[IRModule, dict[str, NDArray]]:
        """As :func:`optimize`."""
        return optimize(mod, target, {**self._params, **(params or {})})

    def get_graph_json(self) -> str:
        """The graph in the executor's JSON. Raises UserError before a build."""
        return json.dumps(with_storage(self._done().library.graph_json))

    def get_module(self) -> LoadedLibrary:
        """The library. Raises UserError before a build."""
        return self._done().get_lib()

    def get_params(self) -> dict[str, NDArray]:
        """The parameters that are left to set. Raises UserError before a build."""
        return self._done().get_params()

    def _done(self) -> ExecutorFactoryModule:
        if self._built is None:
            raise UserError("nothing is built yet: call build(mod, target) first")
        return self._built


class GraphExecutor(Evaluator):
    """Evaluates by a compiled graph; a tuple is a list. Source: ``relay.build_module.GraphExecutor``.

    Inputs are converted to the dtypes of the parameters, as Relay's executor does; ``Library.run`` itself is strict.
    """

    def prepare(self, mod: IRModule, main: Function) -> Callable[[Sequence[object]], object]:
        library = compile_module(mod)
        result, names = as_function_type(main.checked_type).ret_type, [spec.name for spec in library.inputs]

        def run(args: Sequence[object]) -> object:
            pairs = zip(args, main.params, strict=True)
            given = [tensor for value, param in pairs for tensor in _flat(value, param.checked_type)]
            inputs = [relay_input(value, spec) for value, spec in zip(given, library.inputs, strict=True)]
            outputs = library.run(dict(zip(names, inputs, strict=True)))
            return _unflatten((NDArray(array) for array in outputs), result)

        return run


class AotExecutor(GraphExecutor):
    """Evaluates as the graph does: byoc's graph is planned ahead of time. Source: ``AotExecutor``."""


def _flat(value: object, ty: Type) -> Iterator[object]:
    """The tensors in an input: a tuple is one input for each. Raises InputError for another number of fields."""
    if not isinstance(ty, TupleType):
        yield value
        return
    fields = list(value) if isinstance(value, (tuple, list, ADT)) else []
    if len(fields) != len(ty.fields):
        found = f"a {type(value).__name__} of {len(fields)}"
        raise InputError(f"an input is a tuple of {len(ty.fields)} fields, got {found}")
    for field, inner in zip(fields, ty.fields, strict=True):
        yield from _flat(field, inner)


def _unflatten(flat: Iterator[NDArray], ty: Type) -> object:
    """Outputs in the nesting of their type, tuples as lists. Raises UserError for what a graph does not give."""
    if isinstance(ty, TensorType):
        return next(flat)
    if isinstance(ty, TupleType):
        return [_unflatten(flat, field) for field in ty.fields]
    raise UserError(f"a graph gives tensors and tuples, not {ty!r}: use the virtual machine")


_KINDS: dict[str, type[Evaluator]] = {
    "graph": GraphExecutor,
    "aot": AotExecutor,
    "debug": Interpreter,
    "vm": VMExecutor,
}


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Device | None = None,
    target: TargetLike = "llvm",
    params: Mapping[str, object] | None = None,
) -> Evaluator:
    """An executor of *kind* over *mod*, with *params* bound. Raises UserError for an unknown kind.

    ``graph`` and ``aot`` compile a graph, ``vm`` bytecode, ``debug`` interprets. Source: ``relay.create_executor``.
    """
    if kind not in _KINDS:
        raise UserError(f"unknown execution strategy: {kind}; known: {', '.join(_KINDS)}")
    return _KINDS[kind](module_with_params(mod if mod is not None else IRModule(), params), device, target)


def build_config(
    opt_level: int = 2,
    required_pass: Iterable[str] | None = None,
    disabled_pass: Iterable[str] | None = None,
    trace: object = None,
) -> PassContext:
    """A PassContext under its old name. Source: ``relay.build_config``, ``relay.transform.build_config``."""
    return PassContext(opt_level, list(required_pass or ()), list(disabled_pass or ()))


def InferTypeLocal(expr: RelayExpr) -> Type:
    """The type of *expr*, inferred from what it is made of. Source: ``relay.transform.InferTypeLocal``."""
    return infer_type_local(expr)


__all__ = [
    "AotExecutor",
    "BuildModule",
    "Executor",
    "GraphExecutor",
    "InferTypeLocal",
    "Runtime",
    "bind_params_by_name",
    "build",
    "build_config",
    "create_executor",
    "optimize",
]
