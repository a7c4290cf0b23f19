"""The compiler to the virtual machine by TVM's names. Source: ``tvm.relay.backend.vm``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from byoc.annex.memory.manifest_alloc import ManifestAlloc
from byoc.annex.memory.manifest_lifetimes import ManifestLifetimes
from byoc.compat.tvm_modules.relay.backend.interpreter import Executor
from byoc.compat.tvm_modules.relay.backend.targets import TargetLike, all_targets, host_target
from byoc.driver.bytecode.passes import prepare
from byoc.driver.compiler.compile import CompileOptions
from byoc.driver.vm.compile import generate
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.target import Target, region_targets
from byoc.relay.bind import module_with_params
from byoc.relay.expr import Function
from byoc.runtime.core.ndarray import NDArray, from_any
from byoc.runtime.vm import Executable, VirtualMachine


def compile(
    mod: IRModule | Function,
    target: TargetLike | None = None,
    target_host: object = None,
    params: Mapping[str, object] | None = None,
) -> Executable:
    """The executable of *mod* with *params* bound. Source: ``relay.vm.compile``.

    Raises UserError for a target that byoc has no code for, CompileError for what a codegen refuses.
    """
    compiler = VMCompiler()
    if params:
        compiler.set_params(params)
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return compiler.get_exec()


class VMCompiler:
    """The steps from a module to an executable, one by one. Source: ``relay.vm.VMCompiler``."""

    def __init__(self) -> None:
        self._params: dict[str, NDArray] = {}
        self._ready: IRModule | None = None
        self._executable: Executable | None = None
        self._targets: list[Target] = []

    def set_params(self, params: Mapping[str, object]) -> None:
        """Give parameters of main their values, by name."""
        self._params = {name: NDArray(from_any(value)) for name, value in params.items()}

    def get_params(self) -> dict[str, NDArray]:
        """The parameters that are left to set: none after :meth:`lower`, for the constants are in the program."""
        return {} if self._ready is not None else dict(self._params)

    def lower(self, mod: IRModule | Function, target: TargetLike | None = None, target_host: object = None) -> None:
        """Bind parameters and run the passes before bytecode. Raises TypeInferenceError for ill-typed functions."""
        host_target(target)
        self._targets = all_targets(target)
        self._ready, self._executable = prepare(module_with_params(mod, self._params)), None

    def codegen(self) -> None:
        """Generate bytecode and the library. Raises UserError before :meth:`lower`."""
        if self._ready is None:
            raise UserError("there is nothing to generate code for yet: call lower(mod, target) first")
        with region_targets(self._targets):
            self._executable = _without_checks(generate(self._ready, CompileOptions()))

    def optimize(
        self,
        mod: IRModule | Function,
        target: TargetLike | None = None,
        target_host: object = None,
        params: Mapping[str, object] | None = None,
    ) -> tuple[IRModule, dict[str, NDArray]]:
        """The module after the passes before bytecode, its memory written out, and the parameters that are left to set.

        Where a size is unknown, ``vm.shape_func`` computes it; ``memory.kill`` stands behind the last use of a value.
        Source: ``VMCompiler.optimize``.
        """
        if params:
            self.set_params(params)
        host_target(target)
        return ManifestLifetimes()(ManifestAlloc()(prepare(module_with_params(mod, self._params)))), {}

    def get_exec(self) -> Executable:
        """The executable. Raises UserError before :meth:`codegen`."""
        if self._executable is None:
            raise UserError("there is no executable yet: call lower(mod, target) and codegen() first")
        return self._executable


def _without_checks(executable: Executable) -> Executable:
    """The same program, whose inputs are not held to the types of its parameters, as Relay's machine has it."""
    functions = [replace(function, checks_inputs=False) for function in executable.functions]
    return Executable(functions, executable.symbols, executable.constants, executable.lib)


class VMExecutor(Executor):
    """Evaluates by the virtual machine. Source: ``relay.vm.VMExecutor``."""

    def prepare(self, mod: IRModule, main: Function) -> Callable[[Sequence[object]], object]:
        self.executable: Executable = compile(mod, self.target)
        self.vm = VirtualMachine(self.executable, self.device)
        return lambda inputs: self.vm.run(*inputs)


__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile"]
