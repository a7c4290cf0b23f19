"""``relay.build`` over byoc's driver: the host's share is generated C, regions go to the codegens registered for them.

Source: ``tvm.relay.build_module``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from byoc.codegen.backend import backend_names
from byoc.compat.tvm.below import Missing
from byoc.compat.tvm_modules.relay.backend import Executor, Runtime
from byoc.compat.tvm_modules.runtime import FACTORIES, LoadedLibrary
from byoc.compat.tvm_modules.target import HOST_KINDS, Target
from byoc.driver.compile import CompileOptions
from byoc.driver.compile import build as build_library
from byoc.driver.pipeline import optimize
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.transform import PassContext
from byoc.ir.types import Type, tensor_types
from byoc.partition.plan import Plan
from byoc.relay.analysis.module_types import infer_module, infer_type_local
from byoc.relay.bind import bind
from byoc.relay.expr import Function, Var
from byoc.runtime.graph_executor import GraphExecutor
from byoc.runtime.library import Library
from byoc.runtime.ndarray import NDArray, from_any

TargetLike = str | Mapping[object, object] | Target


def bind_params_by_name(func: Function, params: Mapping[str, object]) -> Function:
    """*func* with the parameters that *params* names bound to constants; names that it lacks are passed over.

    Raises UserError where two parameters share a name of *params*. Source: ``relay.build_module.bind_params_by_name``.
    """
    by_name: dict[str, Var] = {}
    for param in func.params:
        if param.name_hint in params:
            if param.name_hint in by_name:
                raise UserError(f"two parameters are called {param.name_hint!r}: rename one to bind it by name")
            by_name[param.name_hint] = param
    values = {var: NDArray(from_any(params[name])) for name, var in by_name.items()}
    return bind(func, values) if values else func  # type: ignore[return-value]


def with_params(mod: IRModule | Function, params: Mapping[str, object] | None) -> IRModule:
    """*mod* as a module whose main has *params* bound."""
    made = IRModule.from_expr(mod) if isinstance(mod, Function) else mod.shallow_copy()
    if params:
        made["main"] = bind_params_by_name(made["main"], params)  # type: ignore[arg-type]
    return made


class GraphFunctions:
    """An executor as TVM's module: ``set_input``, ``run`` and ``get_output`` by name."""

    def __init__(self, executor: GraphExecutor):
        self.executor = executor

    def __getitem__(self, name: str) -> object:
        return getattr(self.executor, name)


FACTORIES["default"] = lambda library: lambda *devices: GraphFunctions(library.executor())


class ExecutorFactory(LoadedLibrary):
    """What ``relay.build`` gives; it unpacks into graph, library and parameters. Source: ``executor_factory``."""

    def __init__(self, library: Library, mod: IRModule, mod_name: str, executor: Executor, target: Target):
        super().__init__(library)
        self.ir_mod, self.libmod_name, self.executor, self.target = mod, mod_name, executor, target
        self.params: dict[str, NDArray] = {}  # constants are in the library: none is left to set

    @property
    def graph_json(self) -> str:
        return self.get_graph_json()

    @property
    def lib(self) -> LoadedLibrary:
        return self.get_lib()

    @property
    def module(self) -> LoadedLibrary:
        return self.get_lib()

    def get_graph_json(self) -> str:
        """The graph in the executor's JSON."""
        return json.dumps(self.library.graph_json)

    def get_executor_config(self) -> str:
        """The graph in the executor's JSON."""
        return self.get_graph_json()

    def get_lib(self) -> LoadedLibrary:
        """The library of the graph's functions."""
        return LoadedLibrary(self.library)

    def get_params(self) -> dict[str, NDArray]:
        """The parameters that are left to set: none, for the library holds its constants."""
        return self.params

    def __getitem__(self, name: str) -> object:
        return FACTORIES["default"](self.library) if name == self.libmod_name else super().__getitem__(name)

    def __iter__(self) -> Iterator[object]:
        return iter((self.get_graph_json(), self.get_lib(), self.get_params()))


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
) -> ExecutorFactory:
    """Compile a module (or function), with *params* bound by name; regions of PartitionGraph go to their codegens.

    Raises UserError for a target that byoc has no code for, CompileError for what a codegen refuses. Source:
    ``relay.build``.
    """
    if not isinstance(ir_mod, (IRModule, Function)):
        raise UserError(f"relay.build takes a module or a function, got {type(ir_mod).__name__}")
    chosen = _host_target(target)
    mod = with_params(ir_mod, params)
    return ExecutorFactory(compile_module(mod), mod, mod_name, executor or Executor("graph"), chosen)


def compile_module(mod: IRModule) -> Library:
    """The library of a module that is partitioned already, or not at all.

    Raises UserError for an input with a dimension that has neither a size nor a name.
    """
    typed = infer_module(mod.shallow_copy())
    unknown = unsized_inputs(typed["main"])  # type: ignore[arg-type]
    if unknown:
        raise UserError(
            f"input {unknown[0]} has a dimension of unknown size, which a graph cannot plan for: give it a name "
            "(relay.Any('n')), or use the virtual machine"
        )
    ready = optimize(typed)
    plan = Plan("order", (), "default", ())
    return build_library(ready, plan, CompileOptions())


def unsized_inputs(main: Function) -> list[str]:
    """The parameters that have a dimension with neither a size nor a name."""
    return [p.name_hint for p in main.params if not all(t.is_symbolic for t in tensor_types(p.checked_type))]


def _host_target(target: TargetLike | None) -> Target:
    given = target if target is not None else Target.current() or "llvm"
    several = list(given.values()) if isinstance(given, Mapping) and "kind" not in given else [given]
    targets = [Target(t) for t in (several or ["llvm"])]  # type: ignore[arg-type]
    for one in targets:
        if one.kind.name not in HOST_KINDS and one.kind.name not in backend_names():
            raise UserError(
                f"byoc generates no code for the target {one.kind.name!r}: build for llvm or c, and give the "
                "accelerator its share by PartitionGraph and a codegen relay.ext.<name>"
            )
    return next((t for t in targets if t.kind.name in HOST_KINDS), targets[0])


def build_config(
    opt_level: int = 2,
    required_pass: object = None,
    disabled_pass: object = None,
    trace: object = None,
) -> PassContext:
    """A PassContext under its old name. Source: ``relay.build_config``, ``relay.transform.build_config``."""
    return PassContext(opt_level, list(required_pass or ()), list(disabled_pass or ()))  # type: ignore[call-overload]


def InferTypeLocal(expr: RelayExpr) -> Type:  # noqa: N802 - Relay's name
    """The type of *expr*, inferred from what it is made of. Source: ``relay.transform.InferTypeLocal``."""
    return infer_type_local(expr)


BuildModule = Missing("tvm.relay.build_module.BuildModule")
