"""From a module to an executable of the virtual machine. Source: ``relay.vm.compile``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.codegen.tune.tuner import Tuner
from byoc.contract.options import check_option_targets, checked_options
from byoc.driver.assembly import assemble, described, origins
from byoc.driver.bytecode.lower import lower_function
from byoc.driver.bytecode.passes import prepare
from byoc.driver.bytecode.program import ProgramBuilder
from byoc.driver.compiler.compile import CompileOptions
from byoc.driver.compiler.integers import host_integers, region_integers
from byoc.driver.compiler.tuners import tuner_for, with_tuner
from byoc.driver.host_functions import work_of_functions
from byoc.driver.pipeline import host_layout
from byoc.driver.precision import ProductPrecision, host_products
from byoc.driver.region_build import BuiltRegions, build_regions, region_module
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.partition.calls import known_names
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Function
from byoc.relay.transform import OutlineCompilerFunctionsWithExistingGlobalSymbols
from byoc.relay.transform.half_operands import Beyond
from byoc.relay.traverse import post_order
from byoc.runtime.modules.module import Module
from byoc.runtime.vm.executable import Executable


def compile_module(
    mod: IRModule,
    backend_options: Mapping[str, Mapping[str, object]] | None = None,
    *,
    precision: str = "f32",
    keep_f32: Sequence[str] = (),
    tune: str | Tuner = "none",
    fallback: bool = False,
) -> Executable:
    """The executable of *mod*: every function that ``main`` needs, regions by the codegens of their targets.

    *precision*, *keep_f32*, *tune* and *fallback* are those of ``byoc.compile``: ``"bf16"`` is for products of
    functions without control flow, and kernels are timed on one thread, which is what the machine calls them with. A
    module that a plan on integers cut has the bits of ``byoc.compile``.
    Raises CompileError for what a codegen refuses, TypeInferenceError for types that do not fit, UserError for int8,
    unknown names, and options of a backend that has no region in *mod*.
    """
    if precision == "int8":
        raise UserError(
            "the virtual machine has no int8 of its own: take f32 or bf16, for a module that a plan of precision int8 "
            "cut too, or compile the model with byoc.compile"
        )
    asked = ProductPrecision.of(precision, keep_f32)
    narrow = host_products(asked)
    if keep_f32:
        asked.check(known_names(infer_module(mod)))
    mod = host_integers(region_integers(mod))
    given = checked_options(backend_options or {})
    check_option_targets(given, region_targets(mod))
    options = CompileOptions(
        backend_options=with_tuner(given, tuner_for(tune, given), tune),
        precision=asked,
        fallback=fallback,
        beyond=Beyond(keep=tuple(keep_f32)),
    )
    layout = host_layout(options.backend_options.get("c", {}))
    if not fallback:
        return generate(prepare(mod, layout, narrow.passes()), options)
    outlined = OutlineCompilerFunctionsWithExistingGlobalSymbols()(infer_module(mod))
    built = build_regions(outlined, options.regions(), lambda stage: None)
    return generate(prepare(built.mod, layout, narrow.passes()), options, built)


def region_targets(mod: IRModule) -> list[str]:
    """The backends of the regions of *mod*, functions and literals."""
    inside = (n for f in mod.functions.values() if isinstance(f, Function) for n in (f, *post_order(f.body)))
    return list(
        dict.fromkeys(str(f.attrs["Compiler"]) for f in inside if isinstance(f, Function) and "Compiler" in f.attrs)
    )


def generate(mod: IRModule, options: CompileOptions, built: BuiltRegions | None = None) -> Executable:
    """The executable of a module that :func:`prepare` gave; *built* are its regions, where that was done before."""
    functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and "Compiler" not in f.attrs}
    regions = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and "Compiler" in f.attrs}
    program = ProgramBuilder(functions, regions)
    for var, function in functions.items():
        lower_function(program, var, function)
    if built is None:
        modules: list[Module] = [region_module(var, region, options.regions()) for var, region in regions.items()]
    else:
        modules = list(built.modules)
    modules += program.host.modules(options.backend_options.get("c", {}))
    if options.fallback:
        modules += origins(regions, options.backend_options.get("c", {}))[0]
    fallbacks = built.fallbacks if built is not None else ()
    work = work_of_functions(regions, program.host)
    root = assemble(modules, described(regions, options.limits.running), fallbacks, work)
    return Executable(program.finish(), program.symbols, program.constants, root)
