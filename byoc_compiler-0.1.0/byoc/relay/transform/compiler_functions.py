"""Functions of external compilers, moved in and out of a module's global names.

A compiler function has the attribute ``Compiler``. What a filter does not name stays as it is; an empty one names all.
Source: Relay's ``compiler_function_utils``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import PartitionError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.transform import ModulePass, PassContext, PassInfo
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.variables import bound_vars
from byoc.relay.expr import Call, Function, Var
from byoc.relay.traverse import rewrite, substitute


def OutlineCompilerFunctionsWithExistingGlobalSymbols(  # noqa: N802 - Relay's name
    compiler_filter: str = "",
) -> ModulePass:
    """The pass that makes called function literals of *compiler_filter* global, under their ``global_symbol``.

    Raises PartitionError for a symbol that the module has already, or that two functions have.
    """

    def outline(mod: IRModule, ctx: PassContext) -> IRModule:
        result = mod.shallow_copy()
        outlined: dict[str, Function] = {}

        def globally(before: RelayExpr, after: RelayExpr) -> RelayExpr:
            if not isinstance(after, Call) or not isinstance(after.op, Function):
                return after
            function = after.op
            if not _is_of(function, compiler_filter) or "global_symbol" not in function.attrs:
                return after
            name = str(function.attrs["global_symbol"])
            if outlined.setdefault(name, function) is not function or name in mod:
                raise PartitionError(f"two functions have the global_symbol {name!r}: give each its own")
            result[name] = function
            return Call(result.get_global_var(name), after.args, after.attrs, span=after.span)

        for var, function in mod.functions.items():
            if isinstance(function, Function) and not _is_of(function, compiler_filter):
                result[var] = rewrite(function, globally)  # type: ignore[assignment]
        return infer_module(result)

    return ModulePass(outline, PassInfo("OutlineCompilerFunctionsWithExistingGlobalSymbols"))


def InlineCompilerFunctionsBoundTo(  # noqa: N802 - Relay's name
    global_vars: Sequence[GlobalVar | str],
) -> ModulePass:
    """The pass that puts the bodies of *global_vars* where they are called, their composites inlined too.

    The functions leave the module. Names that the module lacks, or that are no compiler functions, are passed over.
    """
    names = [var if isinstance(var, str) else var.name_hint for var in global_vars]

    def inline(mod: IRModule, ctx: PassContext) -> IRModule:
        taken = {name: mod[name] for name in names if name in mod and _is_of(mod[name], "")}
        bodies = {name: rewrite(function, _without_composites) for name, function in taken.items()}

        def locally(before: RelayExpr, after: RelayExpr) -> RelayExpr:
            if isinstance(after, Call) and isinstance(after.op, GlobalVar) and after.op.name_hint in bodies:
                return applied(bodies[after.op.name_hint], after.args)  # type: ignore[arg-type]
            return after

        kept = {var: f for var, f in mod.functions.items() if var.name_hint not in taken}
        new = {var: rewrite(f, locally) if isinstance(f, Function) else f for var, f in kept.items()}
        return infer_module(IRModule(new, mod.type_definitions, mod.attrs))  # type: ignore[arg-type]

    return ModulePass(inline, PassInfo("InlineCompilerFunctionsBoundTo"))


def MarkCompilerFunctionsAsExtern(compiler_filter: str = "") -> ModulePass:  # noqa: N802 - Relay's name
    """The pass that leaves ``Extern = 1`` as the only attribute of the global functions of *compiler_filter*."""

    def mark(mod: IRModule, ctx: PassContext) -> IRModule:
        result = mod.shallow_copy()
        for var, function in mod.functions.items():
            if isinstance(function, Function) and _is_of(function, compiler_filter):
                parts = (function.params, function.body, function.declared_ret_type, function.type_params)
                result[var] = Function(*parts, {"Extern": 1}, function.span)
        return infer_module(result)

    return ModulePass(mark, PassInfo("MarkCompilerFunctionsAsExtern"))


def InlineComposites(target: str) -> ModulePass:  # noqa: N802 - Relay's name
    """The pass that puts the bodies of composites where they are called, in the functions of *target* and in no other
    compiler's.

    Source: ``relay.transform.InlineComposites``.
    """

    def inline(mod: IRModule, ctx: PassContext) -> IRModule:
        result = mod.shallow_copy()
        for var, function in mod.functions.items():
            if isinstance(function, Function) and function.attrs.get("Compiler", target) == target:
                result[var] = rewrite(function, _without_composites)  # type: ignore[assignment]
        return infer_module(result)

    return ModulePass(inline, PassInfo("InlineComposites"))


def applied(function: Function, args: Sequence[RelayExpr]) -> RelayExpr:
    """The body of *function* over *args*; variables that the body binds are made anew."""
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
