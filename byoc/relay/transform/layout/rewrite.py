"""Rewriting a graph forwards while the layouts of its values change.

A value is carried with the layout that it had and the one that it has. Each call is asked for the layouts that it had,
is replaced by what a pass makes of it, is asked again for the layouts that it has, and gets transforms where its inputs
come otherwise; where a rule cannot decide, its inputs are brought back. A transform of one value between two layouts is
made once. It walks by a loop of its own, since a value becomes an expression and two layouts, a tuple a list of these.
Source: ``src/relay/transforms/{transform_layout.h,forward_rewrite.cc}``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.layout import Layout, is_convertible
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import TensorType, TupleType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Tuple, TupleGetItem
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.fusion_graph import uncompiled_children
from byoc.relay.transform.layout.inference import UNDEFINED, CorrectLayouts, LayoutCase
from byoc.relay.transform.layout.rules import layout_rule
from byoc.relay.traverse import post_order, rebuild

# (the typed call before, its attributes now, its arguments now) -> the call that stands in its place
Replace = Callable[[Call, "Attrs | None", Sequence[RelayExpr]], RelayExpr]


class _NoTransformError(UserError):
    """A value cannot be brought from one layout to another; the rewriter then leaves the call as it was."""


@dataclass(frozen=True, eq=False)
class _Laid:
    """A value in layout *new* that was in *old*; both are undefined where nothing is known of it."""

    value: RelayExpr
    old: Layout = UNDEFINED
    new: Layout = UNDEFINED


_State = _Laid | list[_Laid]


def _is_single(ty: object) -> bool:
    """True for a tensor of one element whatever its rank: it broadcasts in every layout."""
    return isinstance(ty, TensorType) and all(d == 1 for d in ty.shape)


class _Transforms:
    """Transforms of values between layouts, each made once."""

    def __init__(self, mod: IRModule | None):
        self._mod = mod
        self._made: dict[tuple[RelayExpr, str, str], RelayExpr] = {}

    def __call__(self, value: RelayExpr, src: Layout, dst: Layout) -> RelayExpr:
        """*value* in layout *dst*. Raises _NoTransformError where it cannot be brought there."""
        if src == dst:
            return value
        key = (value, src.name, dst.name)
        if key not in self._made:
            self._made[key] = self._make(value, src, dst)
        return self._made[key]

    def _make(self, value: RelayExpr, src: Layout, dst: Layout) -> RelayExpr:
        made, missing = value, len(dst.primal) - len(src.primal)
        if _is_single(infer_expr(value, self._mod)) and (missing > 0 or (dst.is_blocked and not src.is_blocked)):
            return value
        if missing > 0:
            src = src.expand_primal(dst)
            made = call_op("expand_dims", [value], value.span, axis=0, num_newaxis=missing)
            if src == dst:
                return made
        if not is_convertible(src, dst):
            raise _NoTransformError(f"{src} cannot become {dst}")
        made = call_op("layout_transform", [made], value.span, src_layout=src.name, dst_layout=dst.name)
        try:
            infer_expr(made, self._mod)
        except TypeInferenceError as error:
            raise _NoTransformError(str(error)) from error
        return made


class LayoutRewriter:
    """Rewrites one typed expression; *replace* makes of each call that has a layout rule what the pass wants."""

    def __init__(self, replace: Replace, mod: IRModule | None = None):
        self._replace, self._transform = replace, _Transforms(mod)
        self._states: dict[RelayExpr, _State] = {}
        self._real: dict[RelayExpr, RelayExpr] = {}

    def run(self, root: RelayExpr) -> RelayExpr:
        """*root* with every call replaced, and layouts transformed where they must be."""
        for node in post_order(root, uncompiled_children):
            self._states[node] = self._visit(node)
        return self._realized(root)

    def _visit(self, node: RelayExpr) -> _State:
        if isinstance(node, Tuple):
            return [self._single(field) for field in node.fields]
        if isinstance(node, TupleGetItem):
            state = self._states[node.tuple_value]
            if isinstance(state, list):
                return state[node.index]
        if isinstance(node, Call) and isinstance(node.op, Op):
            laid = self._call(node)
            if laid is not None:
                return laid
        inner = uncompiled_children(node)
        return _Laid(rebuild(node, [self._realized(c) for c in inner]) if inner else node)

    def _single(self, node: RelayExpr) -> _Laid:
        """The state of *node*, a tuple as one value as it was."""
        state = self._states[node]
        return _Laid(self._realized(node)) if isinstance(state, list) else state

    def _realized(self, node: RelayExpr) -> RelayExpr:
        """What *node* became, in the layout that it had."""
        if node not in self._real:
            state = self._states[node]
            if isinstance(state, list):
                fields = [self._back(laid) for laid in state]
                self._real[node] = rebuild(node, fields) if isinstance(node, Tuple) else Tuple(fields, node.span)
            else:
                self._real[node] = self._back(state)
        return self._real[node]

    def _back(self, laid: _Laid) -> RelayExpr:
        return self._transform(laid.value, laid.new, laid.old) if laid.old.defined else laid.value

    def _inputs(self, call: Call) -> list[_State] | None:
        """The states of the arguments; None where a tuple comes as one value."""
        states = [self._states[arg] for arg in call.args]
        for arg, state in zip(call.args, states, strict=True):
            if isinstance(arg.checked_type, TupleType) != isinstance(state, list):
                return None
        return states

    def _call(self, call: Call) -> _State | None:
        states = self._inputs(call)
        if states is None or not isinstance(call.op, Op) or layout_rule(call.op) is None:
            return self._without_rule(call)
        flat = [laid for state in states for laid in (state if isinstance(state, list) else [state])]
        types = tuple(arg.checked_type for arg in call.args)
        before = _ask(call, LayoutCase(call.attrs, None, tuple(laid.old for laid in flat), types))
        if before is None or len(before.inputs) != len(flat):
            return None
        now = tuple(a.new if a.new.defined else b for a, b in zip(flat, before.inputs, strict=True))
        new_call = self._replace(call, before.attrs, [_value(arg, s) for arg, s in zip(call.args, states, strict=True)])
        if not isinstance(new_call, Call):
            raise UserError(f"{call.op.name} can only be replaced by another call, got {type(new_call).__name__}")
        after = _ask(new_call, LayoutCase(new_call.attrs, now, before.inputs, types))
        if after is None or len(after.inputs) != len(flat) or len(after.outputs) != len(before.outputs):
            return None
        try:
            args = self._transformed(new_call, [laid.old for laid in flat], before.inputs, now, after.inputs)
        except _NoTransformError:
            return None
        made = Call(new_call.op, args, after.attrs, new_call.type_args, new_call.span or call.span)
        return _outputs(call, made, before.outputs, after.outputs)

    def _without_rule(self, call: Call) -> _Laid | None:
        """A call whose operator has a hook but no rule: the hook sees it as it was. Its layouts are taken as right."""
        args = [self._realized(arg) for arg in call.args]
        made = self._replace(call, call.attrs, args)
        if isinstance(made, Call) and made.op is call.op and made.attrs is call.attrs and made.args == tuple(args):
            return None
        return _Laid(made)

    def _transformed(
        self,
        call: Call,
        old: Sequence[Layout],
        old_in: Sequence[Layout],
        new: Sequence[Layout],
        new_in: Sequence[Layout],
    ) -> list[RelayExpr]:
        """The arguments of *call* with its tuples' fields, in the layouts *new_in*, which it wants."""
        place = 0

        def brought(value: RelayExpr) -> RelayExpr:
            nonlocal place
            k, place = place, place + 1
            if k >= len(new):
                raise _NoTransformError("the call that replaces another has more inputs")
            if old[k] == old_in[k] or not old[k].defined:
                return self._transform(value, new[k], new_in[k])
            return self._transform(self._transform(value, new[k], old[k]), old_in[k], new_in[k])

        args = [
            Tuple([brought(field) for field in arg.fields], arg.span) if isinstance(arg, Tuple) else brought(arg)
            for arg in call.args
        ]
        if place != len(new):
            raise _NoTransformError("the call that replaces another has fewer inputs")
        return args


def _ask(call: Call, case: LayoutCase) -> CorrectLayouts | None:
    """The answer of the call's operator; None where there is no rule, or a layout is left open."""
    rule = layout_rule(call.op) if isinstance(call.op, Op) else None
    answer = rule(case) if rule is not None else None
    return answer if answer is not None and answer.is_known else None


def _value(arg: RelayExpr, state: _State) -> RelayExpr:
    if isinstance(state, list):
        return Tuple([laid.value for laid in state], arg.span)
    return state.value


def _outputs(call: Call, made: Call, old: Sequence[Layout], new: Sequence[Layout]) -> _State:
    if isinstance(call.checked_type, TupleType):
        pairs = enumerate(zip(old, new, strict=True))
        return [_Laid(TupleGetItem(made, k, call.span), a, b) for k, (a, b) in pairs]
    return _Laid(made, old[0], new[0])
