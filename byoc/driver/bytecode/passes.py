"""The passes before bytecode: what each kind of function can be given.

A *dataflow* function gets all that a graph gets; one with *control* flow what leaves its order and its branches alone;
one with algebraic data, references or generic calls stays as it is written, each operator of it a function.
Ensures: typed functions, unused ones gone, and operators of the first two kinds fused.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from byoc.driver.bytecode.reshapes import join_reshapes
from byoc.driver.pipeline import LAYOUTS, at_least_level_3, prepare_host, simplify
from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.transform import Pass, Sequential
from byoc.ir.types import FuncType, IncompleteType, RefType, TypeCall, TypeVar, contains_type
from byoc.relay import transform
from byoc.relay.adt import Match
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Constant, Function, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from byoc.relay.transform.functional.remove_kills import RemoveKills
from byoc.relay.transform.simplify.expr import SimplifyControlExpr
from byoc.relay.transform.simplify.fold_constant import FoldHostConstant
from byoc.relay.traverse import post_order

_SKIP = "SkipOptimization"
_UNITS = ("Primitive", "Composite", "Compiler")


class FunctionKind(enum.Enum):
    """What a function is made of."""

    DATAFLOW = "dataflow"
    CONTROL = "control"
    DATA = "data"
    REGION = "region"


def kind_of(func: Function) -> FunctionKind:
    """The kind of a typed function."""
    if "Compiler" in func.attrs:
        return FunctionKind.REGION
    kind = FunctionKind.DATAFLOW
    for node in post_order(func):
        if node is func:
            continue
        if isinstance(node, (Match, RefCreate, RefRead, RefWrite)) or _is_generic(node):
            return FunctionKind.DATA
        if not _is_dataflow(node):
            kind = FunctionKind.CONTROL
    return FunctionKind.DATA if func.type_params else kind


def _is_generic(node: object) -> bool:
    ty = getattr(node, "checked_type_", None)
    if ty is None or isinstance(node, Op):
        return False
    if isinstance(ty, FuncType) and ty.type_params:
        return True
    return contains_type(ty, (TypeCall, TypeVar, RefType, IncompleteType))


def _is_dataflow(node: object) -> bool:
    if isinstance(node, Function):
        return any(key in node.attrs for key in _UNITS)
    if isinstance(node, Call):
        return isinstance(node.op, (Op, GlobalVar)) or (isinstance(node.op, Function) and _is_dataflow(node.op))
    return isinstance(node, (Constant, GlobalVar, Op, Tuple, TupleGetItem, Var))


def control_passes() -> Sequential:
    """What is worth doing to a function with control flow: nothing is moved out of a branch or a function."""
    return Sequential([transform.SimplifyInference(), FoldHostConstant(), SimplifyControlExpr()], name="control_passes")


def prepare(mod: IRModule, layout: str = LAYOUTS[0], precision: Sequence[Pass] = ()) -> IRModule:
    """*mod* ready for bytecode, in one of ``LAYOUTS``. Raises TypeInferenceError for what does not fit.

    *precision* are the passes that lower it, in functions without control flow: they see no branches.
    """
    with at_least_level_3():
        mod = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols()(infer_module(mod))
        mod = RemoveKills()(transform.RemoveDeviceAnnotations()(mod))
        has_main = "main" in mod
        if has_main:
            mod = transform.RemoveUnusedFunctions()(mod)
        kinds = {var: kind_of(func) for var, func in mod.functions.items() if isinstance(func, Function)}
        first = {
            FunctionKind.DATAFLOW: simplify() if has_main else control_passes(),
            FunctionKind.CONTROL: control_passes(),
        }
        for kind, passes in first.items():
            chosen = [var for var, found in kinds.items() if found is kind]
            lowering = precision if kind is FunctionKind.DATAFLOW else ()
            mod = _only(mod, chosen, [passes, prepare_host(layout, lowering)])
        joined = infer_module(mod).shallow_copy()
        for var, func in joined.functions.items():
            if isinstance(func, Function) and kinds.get(var) in (FunctionKind.DATAFLOW, FunctionKind.CONTROL):
                joined[var] = join_reshapes(func)
        return infer_module(joined)


def _only(mod: IRModule, chosen: list[GlobalVar], passes: list[Pass]) -> IRModule:
    """*mod* after *passes* over the functions of *chosen* alone."""
    if not chosen:
        return mod
    marked = mod.shallow_copy()
    for var, func in mod.functions.items():
        if var not in chosen and isinstance(func, Function):
            marked[var] = func.with_attr(_SKIP, 1)
    for step in passes:
        marked = step(marked)
    result = marked.shallow_copy()
    for var, func in marked.functions.items():
        if var not in chosen and isinstance(func, Function):
            result[var] = func.without_attr(_SKIP)
    return result
