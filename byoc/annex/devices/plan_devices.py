"""PlanDevices: every function, parameter and value gets a device, and values are copied where theirs changes.

Requires types. Ensures: a function has the attribute ``virtual_device``, where its result is, and its parameters have
theirs; the device of every other expression follows from the function around it, or stands in an ``on_device`` with
``constrain_result`` around it; between devices there is a ``device_copy``. Source: ``relay.transform.PlanDevices``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.annex.devices.analysis import DeviceAnalysis, is_primitive, open_children
from byoc.annex.devices.compilation_config import CompilationConfig
from byoc.annex.devices.recover_devices import recover_virtual_device_map
from byoc.ir.expr import Constructor, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo
from byoc.ir.virtual_device import VirtualDevice
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import VIRTUAL_DEVICE, Call, Function, If, Let, TupleGetItem, Var
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.op.device_placement import (
    device_copy,
    is_device_copy,
    is_on_device,
    maybe_on_device,
    on_device,
    var_on_device,
)
from byoc.relay.traverse import children, keep_type, post_order, typed_rebuild, typed_rewrite


def PlanDevices(config: CompilationConfig) -> ModulePass:
    """The pass that plans where everything is, by the annotations of the module and the defaults of *config*.

    Raises UserError where a value would have to be in two places, or on a device without a target.
    """

    def plan(mod: IRModule, ctx: PassContext) -> IRModule:
        typed = infer_module(mod.shallow_copy())
        annotated = typed.shallow_copy()
        for var, func in typed.functions.items():
            if isinstance(func, Function) and not is_primitive(func):
                annotated[var] = typed_rewrite(func, _fixed, open_children)
        annotated = infer_module(annotated)
        analysis = DeviceAnalysis(annotated, config)
        analysis.solve()
        result = annotated.shallow_copy()
        for var, func in annotated.functions.items():
            if isinstance(func, Function) and not is_primitive(func):
                result[var] = _Capturer(analysis).run(func)
        return infer_module(result)

    return ModulePass(plan, PassInfo("PlanDevices", ends=("no_device_marks", *REWRITES)))


def _fixed(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    """Annotations where a value is bound hold for the result too; those below a projection are around it."""
    if isinstance(after, Let) and is_on_device(after.value):
        return keep_type(after, Let(after.variable, _both(after.value), after.body, after.span))
    if isinstance(after, Function) and not is_primitive(after) and is_on_device(after.body):
        return typed_rebuild(after, [*after.params, _both(after.body)])
    if isinstance(after, TupleGetItem) and is_on_device(after.tuple_value):
        annotation: Call = after.tuple_value
        item = keep_type(after, TupleGetItem(annotation.args[0], after.index, after.span))
        attrs = annotation.attrs
        return on_device(item, attrs.virtual_device, attrs.constrain_result, attrs.constrain_body)
    return after


def _both(annotation: RelayExpr) -> Call:
    """*annotation*, an on_device, for body and result."""
    body, device = as_call(annotation).args[0], as_call(annotation).attrs.virtual_device
    return on_device(body, device, constrain_result=True, constrain_body=True)


class _Capturer:
    """Makes a function again, with its devices. Source: Relay's ``DeviceCapturer``."""

    def __init__(self, analysis: DeviceAnalysis):
        self._analysis = analysis
        self._new: dict[RelayExpr, RelayExpr] = {}

    def run(self, func: Function) -> Function:
        """*func* with devices and copies; its annotations are gone."""
        order = list(post_order(func, open_children))
        for node in order:
            if isinstance(node, Function) and not is_primitive(node):
                for param in node.params:
                    self._new[param] = var_on_device(param, self._analysis.device(param))
        for node in order:
            if node not in self._new:
                self._new[node] = _RULES.get(type(node), _Capturer.other)(self, node)
        return as_function(self._new[func])

    def child(
        self, child: RelayExpr, around: VirtualDevice, expected: VirtualDevice, actual: VirtualDevice
    ) -> RelayExpr:
        """The new *child*, which is on *actual*, as it is *expected* in an expression that is on *around*."""
        result = self._new[child]
        if isinstance(child, (Op, Constructor)):
            return result  # on any device
        if actual != expected:
            result = device_copy(maybe_on_device(result, actual), actual, expected)
        return result if expected == around else maybe_on_device(result, expected)

    def same(self, parent: RelayExpr, child: RelayExpr) -> RelayExpr:
        """The new *child* where *parent* is."""
        device = self._analysis.device(parent)
        return self.child(child, device, device, self._analysis.device(child))

    def call(self, call: Call) -> RelayExpr:
        if is_on_device(call):
            return self._new[call.args[0]]
        if is_device_copy(call):
            return self._copy(call)
        analysis = self._analysis
        callee = analysis.callee_domain(call).found()
        params = callee.params if callee.result is not None else (callee,) * len(call.args)
        here = analysis.device(call)
        args = [
            self.child(arg, here, param.result_device, analysis.device(arg))
            for arg, param in zip(call.args, params, strict=True)
        ]
        if isinstance(call.op, Op):
            return typed_rebuild(call, args)
        if analysis.calls_operation(call):
            return typed_rebuild(call, [self._new[call.op], *args])
        return typed_rebuild(call, [self.child(call.op, here, callee.result_device, analysis.device(call.op)), *args])

    def _copy(self, call: Call) -> RelayExpr:
        """A copy that the program asks for; none where both devices are one."""
        attrs = call.attrs
        src = self._analysis.canonical(attrs.src_virtual_device)
        dst = self._analysis.canonical(attrs.dst_virtual_device)
        return self._new[call.args[0]] if src == dst else self.child(call.args[0], dst, dst, src)

    def function(self, func: Function) -> RelayExpr:
        if is_primitive(func):
            return func
        device = self._analysis.device(func)
        body = self.child(func.body, device, device, self._analysis.device(func.body))
        made = as_function(typed_rebuild(func, [*(self._new[p] for p in func.params), body]))
        return made.with_attr(VIRTUAL_DEVICE, device)

    def let(self, let: Let) -> RelayExpr:
        analysis = self._analysis
        bound = analysis.device(let.variable)
        value = self.child(let.value, analysis.device(let), bound, analysis.device(let.value))
        return typed_rebuild(let, [self._new[let.variable], maybe_on_device(value, bound), self.same(let, let.body)])

    def branch(self, expr: If) -> RelayExpr:
        analysis = self._analysis
        cond = self.child(expr.cond, analysis.device(expr), analysis.host, analysis.device(expr.cond))
        return typed_rebuild(expr, [cond, self.same(expr, expr.true_branch), self.same(expr, expr.false_branch)])

    def other(self, expr: RelayExpr) -> RelayExpr:
        parts: Sequence[RelayExpr] = children(expr)
        return typed_rebuild(expr, [self.same(expr, part) for part in parts]) if parts else expr


__all__ = ["PlanDevices", "recover_virtual_device_map"]

_RULES: dict[type, Callable[..., RelayExpr]] = {
    Call: _Capturer.call,
    Function: _Capturer.function,
    Let: _Capturer.let,
    If: _Capturer.branch,
    Var: lambda capturer, var: var,
}
