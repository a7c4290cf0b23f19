"""FuseOps: the calls that become one kernel are put into a function with the attribute ``Primitive``; and DefuseOps.

Every operator call ends up inside exactly one primitive function. Its parameters are named p0, p1, … in the order in
which the body needs them; constants are arguments like other values, except scalars, which stand in the body, as all
do with the option ``relay.FuseOps.link_params``. Calls of composite functions and of global functions stay as they
are. Unlike Relay's, no primitive function takes a tuple: a projection stays outside unless its tuple is computed
inside. Source: ``relay.transform.FuseOps``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.attrs import as_int
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo, register_config_option
from byoc.ir.span import AnySpan, merge_spans
from byoc.ir.target import Target
from byoc.ir.types import Type
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.narrowing import as_function, operator_of
from byoc.relay.transform.base.fusion_graph import (
    GENERATED,
    OPAQUE,
    FusionRules,
    build_graph,
    fusion_children,
    is_scalar_constant,
)
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.cut.compiler_functions import applied
from byoc.relay.transform.fuse.fusion_groups import FusionGroup, fusion_groups
from byoc.relay.traverse import rewrite, substitute, typed_function, typed_rebuild

DEFAULT_MAX_DEPTH = 256
# an operator that only keeps apart what stands before and after it, and is gone afterwards
STOP = "annotation.stop_fusion"
register_config_option("relay.FuseOps.max_depth", int)
register_config_option("relay.FuseOps.link_params", bool)


class _Kernel:
    """A primitive function in the making: its parameters, their arguments, and where its nodes came from."""

    __slots__ = ("arguments", "has_call", "params", "reshape_only", "spans")

    def __init__(self) -> None:
        self.params: dict[RelayExpr, Var] = {}
        self.arguments: list[RelayExpr] = []
        self.spans: list[AnySpan | None] = []
        self.has_call = False
        self.reshape_only = True

    def param(self, argument: RelayExpr, ty: Type) -> Var:
        """The parameter that stands for *argument*, made on its first use."""
        if argument not in self.params:
            self.params[argument] = Var(f"p{len(self.params)}", ty, argument.span)
            self.arguments.append(argument)
        return self.params[argument]

    def note(self, node: RelayExpr) -> None:
        """Take a node of the body into account."""
        self.spans.append(node.span)
        if isinstance(node, Call):
            self.has_call = True
            self.reshape_only = self.reshape_only and bool(operator_of(node).get_attr("TReshapeOp"))

    def call(self, body: RelayExpr, ty: Type) -> RelayExpr:
        """The call of the finished function; of a body that computes nothing, that itself."""
        if not self.has_call:
            return substitute(body, {param: argument for argument, param in self.params.items()})
        attrs: dict[str, object] = {"Primitive": 1}
        if self.reshape_only:
            attrs["relay.reshape_only"] = 1
        span = merge_spans(self.spans)
        func = typed_function(Function(list(self.params.values()), body, ty, attrs=attrs, span=span))
        call = Call(func, self.arguments, span=span)
        if func._checked_type is not None and all(a._checked_type is not None for a in self.arguments):
            call._checked_type = ty
        return call


class _Fuser:
    """Rewrites a typed expression group by group, with a stack of its own."""

    def __init__(self, groups: dict[RelayExpr, FusionGroup], link_params: bool = False):
        self.groups, self.link_params = groups, link_params
        self.kernels: dict[FusionGroup, _Kernel] = {}
        self.memo: dict[RelayExpr, RelayExpr] = {}

    def run(self, root: RelayExpr) -> RelayExpr:
        """*root* with its groups as calls of primitive functions."""
        stack: list[tuple[RelayExpr, Sequence[RelayExpr], list[RelayExpr]]] = [(root, fusion_children(root), [])]
        while stack:
            node, inputs, done = stack[-1]
            if len(done) == len(inputs):
                stack.pop()
                self.memo[node] = self._finish(node, done)
                continue
            child = inputs[len(done)]
            if child in self.memo:
                done.append(self._operand(node, child))
            else:
                stack.append((child, fusion_children(child), []))
        return self.memo[root]

    def _is_inside(self, node: RelayExpr) -> bool:
        """True when *node* becomes part of a primitive function's body."""
        if isinstance(node, Call):
            return isinstance(node.op, Op) and node.op.name != STOP and not node.op.get_attr("TNonComputational")
        group = self.groups.get(node)
        if isinstance(node, Tuple):
            return group is not None and group.ref is not node
        if isinstance(node, TupleGetItem):
            return group is not None and self.groups.get(node.tuple_value) is group
        return False

    def _operand(self, node: RelayExpr, child: RelayExpr) -> RelayExpr:
        """*child* as *node* sees it: itself in the same body, a parameter where it is computed elsewhere."""
        new = self.memo[child]
        group = self.groups.get(node)
        if not self._is_inside(node) or (self.groups.get(child) is group and self._is_inside(child)):
            return new
        assert group is not None  # of what is inside
        linked = self.link_params and isinstance(child, Constant)
        if linked or (is_scalar_constant(child) and group.pattern != OPAQUE):
            return new
        return self._kernel(group).param(new, child.checked_type)

    def _kernel(self, group: FusionGroup) -> _Kernel:
        return self.kernels.setdefault(group, _Kernel())

    def _finish(self, node: RelayExpr, operands: Sequence[RelayExpr]) -> RelayExpr:
        if calls(node, STOP):
            return operands[0]
        new = typed_rebuild(node, operands) if operands else node
        if not self._is_inside(node):
            return new
        group = self.groups[node]
        kernel = self._kernel(group)
        kernel.note(node)
        if group.ref is not node:
            return new
        return kernel.call(new, node.checked_type)


def fuse_function(
    func: Function, mod: IRModule | None = None, level: int = 2, max_depth: int = 0, rules: FusionRules = GENERATED
) -> Function:
    """*func* with its operator calls grouped into primitive functions, as *rules* allow.

    *level* 0 puts every call into a function of its own; *max_depth* bounds the nodes of a function (0: the option
    ``relay.FuseOps.max_depth`` of the current context, else 256). With the option ``relay.FuseOps.link_params`` all
    constants stand in the bodies that read them. Raises TypeInferenceError for ill-typed graphs.
    """
    infer_expr(func, mod)
    config = PassContext.current().config
    bound = max_depth or as_int(config.get("relay.FuseOps.max_depth") or DEFAULT_MAX_DEPTH)
    nodes = build_graph(func.body, rules)
    groups = fusion_groups(nodes, level, bound, rules.max_function_args)
    body = _Fuser(groups, bool(config.get("relay.FuseOps.link_params"))).run(func.body)
    return func.over(func.params, body)


def FuseOps(fuse_opt_level: int = -1) -> FunctionPass:
    """The pass that fuses operators; *fuse_opt_level* -1 takes the context's level.

    Values of unknown size are fused like others, and no function takes more arguments than the current target allows.
    Requires: typed functions. Ensures: every operator call is inside a function with ``Primitive=1``.
    """

    def fuse(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        target = Target.current()
        rules = FusionRules(True, target.max_function_args if target is not None else 0)
        return fuse_function(func, mod, ctx.opt_level if fuse_opt_level < 0 else fuse_opt_level, rules=rules)

    return FunctionPass(
        fuse,
        PassInfo(
            "FuseOps",
            0,
            ("InferType",),
            gives=("fused",),
            ends=("unfused", *REWRITES),
            law=Law("a function around calls computes what the calls compute"),
        ),
    )


def FuseHostOps() -> FunctionPass:
    """FuseOps of the pipeline, of the same name: only what code can be generated for is fused."""

    def fuse(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return fuse_function(func, mod, ctx.opt_level)

    return FunctionPass(
        fuse,
        PassInfo(
            "FuseOps",
            0,
            ("InferType",),
            gives=("fused",),
            ends=("unfused", *REWRITES),
            law=Law("a function around calls computes what the calls compute"),
        ),
    )


def fuse_body(function: Function) -> Function:
    """A region's *function* as generated code has it: its operators in ``Primitive`` functions, each of which is one
    kernel; its attributes are kept.
    """
    ret_type = function.declared_ret_type
    plain = Function(function.params, function.body, ret_type, function.type_params, None, function.span)
    fused = as_function(FuseOps(fuse_opt_level=2)(IRModule.from_expr(plain))["main"])
    return fused.with_attr(dict(function.attrs))


def _inline_literal(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    if isinstance(after, Call) and isinstance(after.op, Function):
        return applied(after.op, after.args)
    return after


def DefuseOps() -> FunctionPass:
    """The inverse of FuseOps: calls of function literals, primitive or not, are replaced by their bodies."""

    def defuse(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(rewrite(func, _inline_literal))

    return FunctionPass(
        defuse,
        PassInfo(
            "DefuseOps",
            3,
            ("InferType",),
            gives=("unfused",),
            ends=("fused", *REWRITES),
            law=Law("a function around calls computes what the calls compute"),
        ),
    )
