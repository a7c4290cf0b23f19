"""From a module to an executable of the virtual machine. Source: ``relay.vm.compile``."""

from __future__ import annotations

from collections.abc import Mapping

from byoc.driver.compile import CompileOptions, assemble, compile_region
from byoc.driver.pipeline import host_layout
from byoc.driver.vm.lower import lower_function
from byoc.driver.vm.passes import prepare
from byoc.driver.vm.program import ProgramBuilder
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.runtime.module import Module
from byoc.runtime.vm.executable import Executable


def compile_module(mod: IRModule, backend_options: Mapping[str, Mapping[str, object]] | None = None) -> Executable:
    """The executable of *mod*: every function that ``main`` needs, regions by the codegens of their targets.

    Raises CompileError for what a codegen refuses, TypeInferenceError for types that do not fit.
    """
    options = CompileOptions(backend_options=dict(backend_options or {}))
    return generate(prepare(mod, host_layout(options.backend_options.get("c", {}))), options)


def generate(mod: IRModule, options: CompileOptions) -> Executable:
    """The executable of a module that :func:`prepare` gave."""
    functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and "Compiler" not in f.attrs}
    regions = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and "Compiler" in f.attrs}
    program = ProgramBuilder(functions, regions)
    for var, function in functions.items():
        lower_function(program, var, function)
    modules: list[Module] = [compile_region(var, region, options) for var, region in regions.items()]
    modules += program.host.modules(options.backend_options.get("c", {}))
    return Executable(program.finish(), program.symbols, program.constants, assemble(modules))
