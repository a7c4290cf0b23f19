"""PartitionGraph: each region becomes a function of its own. Source: ``relay.transform.PartitionGraph``.

Requires annotations (AnnotateTarget, MergeCompilerRegions). Ensures: a function for each region, with the attributes
``global_symbol``, ``Primitive``, ``Compiler`` and ``Inline``, whose parameters are ``<target>_<id>_i<k>``; several
outputs are a tuple of distinct ones. Constants that enter a region are in its body, unless they are kept out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from byoc.errors import PartitionError, vendors_line
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.ir.span import merge_spans
from byoc.ir.types import TupleType
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.regions.annotated_regions import AnnotatedRegion, open_children
from byoc.relay.analysis.regions.region_checks import check_regions
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.narrowing import as_function
from byoc.relay.op.annotation import is_begin, is_end, strip_annotations
from byoc.relay.transform.base.infer_type import is_optimizable
from byoc.relay.transform.cut.compiler_functions import KEEP_UNCONVERTED, RAISED, UNCONVERTED
from byoc.relay.transform.cut.flatten_annotations import without_defaults_and_tuples
from byoc.relay.transform.cut.mangle_names import mangle_compiler_functions, unique_name
from byoc.relay.traverse import keep_type, post_order, typed_function, typed_rebuild


@dataclass(frozen=True)
class OutlinedFunction:
    """A function before its regions were outlined: its nodes in post-order, and those of each region, as outlined."""

    nodes: list[RelayExpr]
    regions: list[list[RelayExpr]] = field(default_factory=list)


def PartitionGraph(
    mod_name: str | None = "default", bind_constants: bool = True, record: list[OutlinedFunction] | None = None
) -> ModulePass:
    """The pass that outlines each annotated region as ``tvmgen_<mod_name>_<target>_<function>_<id>``.

    *bind_constants*: constants that enter a region go into its body; otherwise they are arguments of its call. What
    was outlined is added to *record*. Raises PartitionError for annotations that do not fit together, InternalError
    for regions that wait for each other.
    """
    records = record if record is not None else []

    def partition(mod: IRModule, ctx: PassContext) -> IRModule:
        result = infer_module(mod.shallow_copy())
        for var, func in mod.functions.items():
            if is_optimizable(func):
                plain = without_defaults_and_tuples(func)
                outliner = _Outliner(result, var.name_hint, plain, bind_constants)
                result[var] = outliner.run()
                records.append(outliner.outlined)
        return infer_module(mangle_compiler_functions(result, mod_name))

    return ModulePass(
        partition,
        PassInfo(
            "PartitionGraph",
            gives=("typed", "no_region_marks"),
            ends=REWRITES,
            law=Law("a function around calls computes what the calls compute"),
        ),
    )


class _Outliner:
    """Outlines the regions of one function; the functions are added to the module."""

    def __init__(self, mod: IRModule, name: str, func: Function, bind_constants: bool):
        self._mod, self._name, self._func = mod, name, func
        self._bind = bind_constants
        self._outside: dict[RelayExpr, RelayExpr] = {}
        self._graph = check_regions(func, "PartitionGraph")
        self.outlined = OutlinedFunction(self._graph.nodes)

    def run(self) -> Function:
        graph = self._graph
        for unit in graph.order()[0]:
            region = graph.region[unit]
            if region is None:
                node = graph.first[unit]
                parts = [self._outside[c] for c in open_children(node)]
                self._outside[node] = typed_rebuild(node, parts) if parts else node
            else:
                self._outline(region, graph.region_nodes(region))
        return as_function(self._outside[self._func])

    def _outline(self, region: AnnotatedRegion, nodes: list[RelayExpr]) -> None:
        inside: dict[RelayExpr, RelayExpr] = {}
        args = self._enter(region, inside)
        outputs: dict[RelayExpr, int] = {}
        for node in nodes:
            if is_end(node):
                outputs.setdefault(inside[node.args[0]], len(outputs))
            elif not is_begin(node):
                parts = [inside.get(c, self._outside.get(c, c)) for c in open_children(node)]
                inside[node] = typed_rebuild(node, parts) if parts else node
        if not outputs:
            return
        self.outlined.regions.append(nodes)
        spans = [n.span for n in nodes if not (is_begin(n) or is_end(n) or isinstance(n, (Constant, Var)))]
        body = next(iter(outputs)) if len(outputs) == 1 else _tuple_of(list(outputs))
        func = Function([var for var, _ in args], body, span=merge_spans(spans))
        call = self._call(region, typed_function(func), [value for _, value in args], body)
        items = [call] if len(outputs) == 1 else [_item(call, k, out) for k, out in enumerate(outputs)]
        for node in nodes:
            if is_end(node):
                self._outside[node] = items[outputs[inside[node.args[0]]]]

    def _enter(self, region: AnnotatedRegion, inside: dict[RelayExpr, RelayExpr]) -> list[tuple[Var, RelayExpr]]:
        """The parameters with their values; each value enters once, constants as they are where they are bound."""
        entered: dict[RelayExpr, RelayExpr] = {}
        args: list[tuple[Var, RelayExpr]] = []
        for index, begin in enumerate(region.args):
            source = strip_annotations(begin)
            if source not in entered:
                if self._bind and _is_constant(source):
                    entered[source] = source
                else:
                    var = Var(f"{region.target}_{region.id}_i{index}", begin._checked_type, begin.span)
                    args.append((var, self._outside[begin.args[0]]))
                    entered[source] = var
            inside[begin] = entered[source]
        return args

    def _call(self, region: AnnotatedRegion, func: Function, args: list[RelayExpr], like: RelayExpr) -> Call:
        """Add the region's function to the module; returns the call of it."""
        func = _optimized(func, region.target)
        name = unique_name(f"{region.target}_{self._name}_{region.id}", self._mod)
        attrs = {"Primitive": 1, "Inline": 1, "Compiler": region.target, "global_symbol": name}
        func = func.with_attr(attrs)
        var = GlobalVar(name)
        var._checked_type = func._checked_type
        self._mod[var] = func
        call = Call(var, args, span=func.span)
        return keep_type(like, call)


def _optimized(func: Function, target: str) -> Function:
    """*func* after ``relay.ext.<target>.optimize``, where there is one. Raises PartitionError for a bad result."""
    optimize: Callable[[IRModule], object] | None = GLOBAL_FUNCTIONS.get(f"relay.ext.{target}.optimize")
    if optimize is None:
        return func
    try:
        return _changed(func, target, optimize)
    except Exception as error:  # whatever a vendor's code raises, and types that do not fit any more
        if not PassContext.current().config.get(KEEP_UNCONVERTED):
            vars(error)[UNCONVERTED] = func
            raise
        by = error.__cause__ or error
        return func.with_attr({UNCONVERTED: str(error), RAISED: type(by).__name__})


def _changed(func: Function, target: str, optimize: Callable[[IRModule], object]) -> Function:
    given = infer_module(IRModule({"main": func}))
    before = as_function(given["main"]).checked_type
    try:
        result = optimize(given)
    except Exception as error:
        raise PartitionError(f"relay.ext.{target}.optimize failed: {vendors_line(error)}") from error
    if not isinstance(result, IRModule) or "main" not in result or not isinstance(result["main"], Function):
        raise PartitionError(f"relay.ext.{target}.optimize must return a module with a function main, got {result!r}")
    changed = as_function(infer_module(result)["main"])
    if changed.checked_type != before:
        raise PartitionError(
            f"relay.ext.{target}.optimize gave a region of type {changed.checked_type}, and it was {before}: "
            "parameters and result keep their types, since the rest of the model is as it was"
        )
    changed.span = changed.span or func.span
    return changed


def _is_constant(expr: RelayExpr) -> bool:
    """True for a constant and for a tuple that holds nothing else."""
    if type(expr) is not Tuple:
        return type(expr) is Constant
    leaves = [n for n in post_order(expr, lambda e: e.fields if isinstance(e, Tuple) else ()) if type(n) is not Tuple]
    return bool(leaves) and all(isinstance(leaf, Constant) for leaf in leaves)


def _tuple_of(fields: list[RelayExpr]) -> Tuple:
    made = Tuple(fields)
    if all(f._checked_type is not None for f in fields):
        made._checked_type = TupleType([f.checked_type for f in fields])
    return made


def _item(call: Call, index: int, like: RelayExpr) -> TupleGetItem:
    return keep_type(like, TupleGetItem(call, index, like.span))
