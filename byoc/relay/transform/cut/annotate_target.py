"""AnnotateTarget: each operator gets the first target that takes it. Source: ``relay.transform.AnnotateTarget``.

Ensures: the arguments of an operator of target T enter through ``compiler_begin`` of T, and what computed them leaves
through one ``compiler_end`` a use. An operator that no target takes is the ``default``'s. Composite functions are not
entered. Annotations that are there already are kept, those of the default are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import PartitionError
from byoc.ir.collector import paused_collector
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo, Sequential
from byoc.relay.analysis.regions.region_checks import check_regions
from byoc.relay.expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from byoc.relay.match_check import truth
from byoc.relay.narrowing import as_function
from byoc.relay.op.annotation import compiler_begin, compiler_end, compiler_of, is_begin, is_end
from byoc.relay.op.contrib.register import TARGET_PREDICATES, load_target
from byoc.relay.transform.base.infer_type import FunctionPass, InferType
from byoc.relay.traverse import children, post_order, typed_rebuild

DEFAULT = "default"
Choice = Callable[[Call], str | None]


def AnnotateTarget(targets: str | Sequence[str], include_non_call_ops: bool = True) -> Sequential:
    """The passes that annotate each operator with the first of *targets* that takes it.

    A target takes what its operator attribute ``target.<name>`` says, else what its predicate says, and composites
    whose name begins with ``<name>.``. Predicates see typed calls. *include_non_call_ops*: tuples, projections and
    references go with their arguments where these have one target. Raises PartitionError for a list without targets.
    """
    names = (targets,) if isinstance(targets, str) else tuple(str(t) for t in targets)
    if not names:
        raise PartitionError("AnnotateTarget needs at least one target")
    for name in names:
        load_target(name)

    def first_taker(call: Call) -> str | None:
        for target in names:
            if takes(target, call):
                return target
        return None

    def annotate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return annotate_function(func, first_taker, include_non_call_ops)

    function_pass = FunctionPass(
        annotate,
        PassInfo(
            "AnnotateTargetFunc",
            0,
            ("InferType",),
            ends=("no_region_marks", *REWRITES),
            law=Law("marks of regions are no part of a value"),
        ),
    )
    return Sequential([function_pass, InferType()], name="AnnotateTarget")


@paused_collector()
def annotate_function(func: Function, choose: Choice, include_non_call_ops: bool = True) -> Function:
    """*func* annotated with the target that *choose* gives for each call, the default where it gives None.

    Raises InternalError when regions wait for each other.
    """
    annotator = _Annotator(choose, include_non_call_ops)
    annotated = annotator.run(func)
    if annotator.met_annotations:  # else each region is one operator
        check_regions(annotated, "AnnotateTarget")
    return annotated


def takes(target: str, call: Call) -> bool:
    """True when *target* takes *call*, an operator or a composite. Raises UserError where its predicate gives None."""
    if isinstance(call.op, Function):
        prefix, dot, _ = str(call.op.attrs.get("Composite", "")).partition(".")
        return bool(dot) and prefix == target
    if not isinstance(call.op, Op):
        return False
    predicate = call.op.get_attr(f"target.{target}") or TARGET_PREDICATES.get(target)
    if not callable(predicate):
        return bool(predicate)
    return truth(predicate, call, f"target {target!r}: its predicate for {call.op.name}")


def _children_to_annotate(expr: RelayExpr) -> Sequence[RelayExpr]:
    """Everything but the inside of composites and of other compilers' functions."""
    closed = type(expr) is Function and ("Composite" in expr.attrs or "Compiler" in expr.attrs)
    return () if closed else children(expr)


class _Annotator:
    """One run over a function: what became of each node, and the target of what was made."""

    def __init__(self, choose: Choice, include_non_call_ops: bool):
        self._choose = choose
        self._whole = include_non_call_ops
        self._target: dict[RelayExpr, str] = {}
        self._kept: dict[RelayExpr, str] = {}
        self.met_annotations = False

    def run(self, func: Function) -> Function:
        memo: dict[RelayExpr, RelayExpr] = {}
        for node in post_order(func, _children_to_annotate):
            new = [memo[c] for c in _children_to_annotate(node)]
            memo[node] = _RULES.get(type(node), _plain)(self, node, new)
        return as_function(memo[func])

    def end(self, expr: RelayExpr) -> RelayExpr:
        """*expr* as it leaves its region, where it is in one: a call without arguments is an input, not a region."""
        target = self._target.get(expr)
        return expr if target is None or not children(expr) else compiler_end(expr, target)

    def with_target(self, node: RelayExpr, parts: Sequence[RelayExpr], target: str) -> RelayExpr:
        """*node* over *parts* that enter a region of *target*."""
        begun = [part if is_begin(part) else compiler_begin(self.end(part), target) for part in parts]
        after = typed_rebuild(node, begun)
        self._target[after] = target
        return after

    def common_target(self, parts: Sequence[RelayExpr]) -> str:
        """The one target of all *parts* that are computed, else the default: a constant goes wherever the others go."""
        computed = [part for part in parts if not isinstance(part, Constant)]
        found = {self._kept.get(part) or self._target.get(part, DEFAULT) for part in computed}
        return found.pop() if len(found) == 1 else DEFAULT

    def rebuilt(self, node: RelayExpr, new: Sequence[RelayExpr]) -> RelayExpr:
        """*node* outside all regions, over parts that have left theirs."""
        return typed_rebuild(node, [self.end(part) for part in new])

    def call(self, node: Call, new: Sequence[RelayExpr]) -> RelayExpr:
        if is_begin(node):
            self.met_annotations = True
            return self._begin(node, new[0])
        if is_end(node):
            self._target.setdefault(new[0], compiler_of(node))
            return new[0]
        callee = new[: len(new) - len(node.args)]
        if isinstance(node.op, Var) and not self._whole:
            return typed_rebuild(node, [*callee, *map(self.end, new[len(callee) :])])
        args = new[len(callee) :]
        target = self._kept.get(args[0]) if args else None
        if target is None:
            target = self._choose(node) or DEFAULT
        begun = [arg if is_begin(arg) else compiler_begin(self.end(arg), target) for arg in args]
        after = typed_rebuild(node, [*callee, *begun])
        self._target[after] = target
        return after

    def _begin(self, node: Call, data: RelayExpr) -> RelayExpr:
        """A begin of another run: the default's is forgotten, another's is kept."""
        if compiler_of(node) == DEFAULT:
            return data
        kept = compiler_begin(self.end(data), compiler_of(node))
        self._kept[kept] = compiler_of(node)
        return kept

    def aggregate(self, node: RelayExpr, new: Sequence[RelayExpr]) -> RelayExpr:
        if not new:
            return node
        if not self._whole:
            return self.rebuilt(node, new)
        return self.with_target(node, new, self.common_target(new))

    def function(self, node: Function, new: Sequence[RelayExpr]) -> RelayExpr:
        return typed_rebuild(node, [*new[:-1], self.end(new[-1])]) if new else node

    def let(self, node: Let, new: Sequence[RelayExpr]) -> RelayExpr:
        value = new[1] if isinstance(node.value, Function) else self.end(new[1])
        return typed_rebuild(node, [new[0], value, self.end(new[2])])


def _plain(annotator: _Annotator, node: RelayExpr, new: Sequence[RelayExpr]) -> RelayExpr:
    return node


_RULES: dict[type, Callable[..., RelayExpr]] = {
    Call: _Annotator.call,
    Tuple: _Annotator.aggregate,
    TupleGetItem: _Annotator.aggregate,
    RefCreate: _Annotator.aggregate,
    RefRead: _Annotator.aggregate,
    RefWrite: _Annotator.aggregate,
    Function: _Annotator.function,
    Let: _Annotator.let,
    If: _Annotator.rebuilt,
}
