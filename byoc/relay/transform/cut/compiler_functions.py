"""Functions of external compilers, moved in and out of a module's global names.

A compiler function has the attribute ``Compiler``. What a filter does not name stays as it is; an empty one names all.
Source: Relay's ``compiler_function_utils``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import PartitionError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo, register_config_option
from byoc.relay.analysis.contents import contents_of
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Function, Let, Var
from byoc.relay.narrowing import as_call, as_function, as_let
from byoc.relay.traverse import post_order, rewrite, substitute

# a region that its backend's optimize cannot change is kept as it is, with what was raised as its attributes; where
# it is not kept, the region is with what is raised
KEEP_UNCONVERTED = "byoc.keep_unconverted"
UNCONVERTED, RAISED = "Unconverted", "UnconvertedBy"
register_config_option(KEEP_UNCONVERTED, bool)


def OutlineCompilerFunctionsWithExistingGlobalSymbols(
    compiler_filter: str = "",
) -> ModulePass:
    """The pass that makes function literals of *compiler_filter* global, under their ``global_symbol``.

    They are called where they stand, or bound by a let, which goes; equal literals with one symbol share it. Raises
    PartitionError for a symbol that the module has already, or that two different functions have.
    """

    def outline(mod: IRModule, ctx: PassContext) -> IRModule:
        result = mod.shallow_copy()
        outlined: dict[str, Function] = {}
        bound: dict[RelayExpr, GlobalVar] = {}

        def global_of(function: RelayExpr) -> GlobalVar | None:
            if not isinstance(function, Function) or not _is_of(function, compiler_filter):
                return None
            if "global_symbol" not in function.attrs:
                return None
            name = str(function.attrs["global_symbol"])
            known = outlined.setdefault(name, function)
            if name in mod or not (known is function or _are_equal(known, function)):
                raise PartitionError(f"two functions have the global_symbol {name!r}: give each its own")
            result[name] = known
            return result.get_global_var(name)

        def globally(before: RelayExpr, after: RelayExpr) -> RelayExpr:
            if isinstance(before, Let) and before.variable in bound:
                return as_let(after).body
            if not isinstance(before, Call):
                return after
            call = as_call(after)
            var = bound.get(before.op, global_of(call.op))
            return call if var is None else Call(var, call.args, call.attrs, span=call.span)

        found_in = ((var, f) for var, f in mod.functions.items() if isinstance(f, Function))
        holding = {var: f for var, f in found_in if Function in contents_of(f).nodes}
        for function in holding.values():
            for node in post_order(function):
                found = global_of(node.value) if isinstance(node, Let) else None
                if isinstance(node, Let) and found is not None:
                    bound[node.variable] = found
        for var, function in holding.items():
            if not _is_of(function, compiler_filter):
                result[var] = rewrite(function, globally)
        return infer_module(result)

    return ModulePass(
        outline,
        PassInfo(
            "OutlineCompilerFunctionsWithExistingGlobalSymbols",
            ends=REWRITES,
            law=Law("a function under a name is the function"),
        ),
    )


def _are_equal(known: Function, function: Function) -> bool:
    from byoc.relay.structure.structural import structural_equal  # which few modules ask for

    return structural_equal(known, function)


def InlineCompilerFunctionsBoundTo(
    global_vars: Sequence[GlobalVar | str],
) -> ModulePass:
    """The pass that puts the bodies of *global_vars* where they are called, their composites inlined too.

    The functions leave the module. Names that the module lacks, or that are no compiler functions, are passed over.
    """
    names = [var if isinstance(var, str) else var.name_hint for var in global_vars]

    def inline(mod: IRModule, ctx: PassContext) -> IRModule:
        taken = {name: mod[name] for name in names if name in mod and _is_of(mod[name], "")}
        bodies = {name: as_function(rewrite(function, _without_composites)) for name, function in taken.items()}

        def locally(before: RelayExpr, after: RelayExpr) -> RelayExpr:
            if isinstance(after, Call) and isinstance(after.op, GlobalVar) and after.op.name_hint in bodies:
                return applied(bodies[after.op.name_hint], after.args)
            return after

        kept = {var: f for var, f in mod.functions.items() if var.name_hint not in taken}
        new = {var: as_function(rewrite(f, locally)) if isinstance(f, Function) else f for var, f in kept.items()}
        return infer_module(IRModule(new, mod.type_definitions, mod.attrs))

    return ModulePass(
        inline,
        PassInfo(
            "InlineCompilerFunctionsBoundTo",
            ends=("fused", *REWRITES),
            law=Law("a call of a function is its body over the arguments"),
        ),
    )


def MarkCompilerFunctionsAsExtern(compiler_filter: str = "") -> ModulePass:
    """The pass that leaves ``Extern = 1`` as the only attribute of the global functions of *compiler_filter*."""

    def mark(mod: IRModule, ctx: PassContext) -> IRModule:
        result = mod.shallow_copy()
        for var, function in mod.functions.items():
            if isinstance(function, Function) and _is_of(function, compiler_filter):
                parts = (function.params, function.body, function.declared_ret_type, function.type_params)
                result[var] = Function(*parts, {"Extern": 1}, function.span)
        return infer_module(result)

    return ModulePass(
        mark,
        PassInfo(
            "MarkCompilerFunctionsAsExtern", ends=(), law=Law("a mark on a function is no part of what it computes")
        ),
    )


def InlineComposites(target: str) -> ModulePass:
    """The pass that puts the bodies of composites where they are called, in the functions of *target* and in no other
    compiler's.

    Source: ``relay.transform.InlineComposites``.
    """

    def inline(mod: IRModule, ctx: PassContext) -> IRModule:
        result = mod.shallow_copy()
        for var, function in mod.functions.items():
            if isinstance(function, Function) and function.attrs.get("Compiler", target) == target:
                result[var] = rewrite(function, _without_composites)
        return infer_module(result)

    return ModulePass(
        inline,
        PassInfo(
            "InlineComposites",
            ends=("fused", *REWRITES),
            law=Law("a call of a function is its body over the arguments"),
        ),
    )


def applied(function: Function, args: Sequence[RelayExpr]) -> RelayExpr:
    """The body of *function* over *args*; variables that the body binds are made anew."""
    from byoc.relay.analysis.variables import bound_vars

    values: dict[RelayExpr, RelayExpr] = {
        var: Var(var.name_hint, var.type_annotation, var.span) for var in bound_vars(function.body)
    }
    values.update(zip(function.params, args, strict=True))
    return substitute(function.body, values)


def _without_composites(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    if isinstance(after, Call) and isinstance(after.op, Function) and "Composite" in after.op.attrs:
        return applied(after.op, after.args)
    return after


def _is_of(function: object, compiler_filter: str) -> bool:
    compiler = function.attrs.get("Compiler") if isinstance(function, Function) else None
    return compiler is not None and compiler_filter in ("", compiler)
