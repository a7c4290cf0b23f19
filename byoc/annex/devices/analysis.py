"""Where each expression of a module is: constraints from its annotations and from what flows where, then defaults.

Invariant after :meth:`DeviceAnalysis.solve`: every expression that was analysed has a device. The calls of an operator
are each on one device, with their arguments, except for the few in ``CALLEE_RULES``. Source: Relay's
``DeviceAnalyzer`` and ``DeviceDefaulter``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.annex.devices.compilation_config import CompilationConfig
from byoc.annex.devices.domains import Domain, DomainConflictError, set_default, unify, unify_collapsed
from byoc.errors import UserError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.virtual_device import UNCONSTRAINED, VirtualDevice
from byoc.relay.adt import Match, pattern_vars
from byoc.relay.analysis.operator_calls import located
from byoc.relay.expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem
from byoc.relay.narrowing import operator_of
from byoc.relay.op.device_placement import is_on_device
from byoc.relay.traverse import children, post_order


def is_primitive(expr: object) -> bool:
    """True for a function that is one operation: fused, another compiler's or external."""
    return isinstance(expr, Function) and any(expr.attrs.get(key) for key in ("Primitive", "Compiler", "Extern"))


def open_children(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *expr*; a primitive function has none."""
    return () if is_primitive(expr) else children(expr)


class DeviceAnalysis:
    """The domains of all functions of *mod* under *config*; types are inferred."""

    def __init__(self, mod: IRModule, config: CompilationConfig):
        self._mod, self._config = mod, config
        self._domains: dict[RelayExpr, Domain] = {}
        self._callees: dict[Call, Domain] = {}
        self.constants: list[tuple[Constant, Domain]] = []
        self._functions = [f for f in mod.functions.values() if isinstance(f, Function) and not is_primitive(f)]

    def solve(self) -> None:
        """Find the device of every expression. Raises UserError where one would have to be in two places."""
        orders = [list(post_order(func, open_children)) for func in self._functions]
        for order in orders:
            for node in order:
                rule = _RULES.get(type(node))
                if rule is not None:
                    rule(self, node)
        for constant, domain in self.constants:  # where all else has its place
            self.join(constant, domain)
        default = self._config.default_primitive_virtual_device
        for order in orders:
            for node in reversed(order):  # a function before what is in it
                self._set_defaults(node, default)

    def _set_defaults(self, node: RelayExpr, default: VirtualDevice) -> None:
        if isinstance(node, Call):
            set_default(self.callee_domain(node), default)
        if not isinstance(node, Op):
            set_default(self.domain(node), default)

    def domain(self, expr: RelayExpr) -> Domain:
        """The domain of *expr*; a global name has that of its function."""
        if isinstance(expr, GlobalVar) and expr in self._mod and expr not in self._domains:
            function = self._mod[expr]
            self._domains[expr] = self.domain(function) if isinstance(function, Function) else Domain()
        found = self._domains.get(expr)
        if found is None:
            found = self._domains[expr] = Domain.of_type(expr.checked_type)
        return found

    def device(self, expr: RelayExpr) -> VirtualDevice:
        """Where *expr* is computed, looking through ``on_device``; for a function, where its result is."""
        while is_on_device(expr):
            expr = expr.args[0]
        return self.domain(expr).result_device

    def callee_domain(self, call: Call) -> Domain:
        """The domain of what *call* calls, at this call."""
        found = self._callees.get(call)
        if found is None:
            found = self._callees[call] = self._callee_domain(call)
        return found

    def calls_operation(self, call: Call) -> bool:
        """True where what *call* calls is on any device: an operator, a constructor or a primitive function."""
        callee = self._mod[call.op] if isinstance(call.op, GlobalVar) and call.op in self._mod else call.op
        return isinstance(callee, (Op, Constructor)) or is_primitive(callee)

    def _callee_domain(self, call: Call) -> Domain:
        rule = _callee_rule(call.op) if isinstance(call.op, Op) else None
        if rule is not None:
            return rule(self, call)
        if self.calls_operation(call):
            together = Domain()
            return Domain.of_function([together] * len(call.args), together)
        return self.domain(call.op)

    def canonical(self, device: VirtualDevice) -> VirtualDevice:
        """*device* with the target of the compilation; open as it is."""
        return device if device == UNCONSTRAINED else self._config.canonical_virtual_device(device)

    @property
    def host(self) -> VirtualDevice:
        """Where shapes and decisions are."""
        return self._config.host_virtual_device

    def join(self, expr: RelayExpr, domain: Domain, collapse: bool = False) -> None:
        """Say that *expr* is in *domain*. Raises UserError naming the node and both devices.

        A constant stays where it was said to be first: it is copied to its other uses.
        """
        try:
            (unify_collapsed if collapse else unify)(self.domain(expr), domain)
        except DomainConflictError as conflict:
            if isinstance(expr, Constant):
                return
            kind = expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else type(expr).__name__
            raise UserError(
                f"Incompatible virtual devices for {kind}{located(expr)}: {conflict}; annotate the value with "
                "on_device(…, constrain_result=False), so that it may be copied"
            ) from None


def _call(analysis: DeviceAnalysis, call: Call) -> None:
    callee = analysis.callee_domain(call).found()
    params = callee.params if callee.result is not None else (callee,) * len(call.args)
    for arg, param in zip(call.args, params, strict=True):
        if isinstance(arg, Constant):
            analysis.constants.append((arg, param))
            continue
        first_order = param.found().result is None and analysis.domain(arg).found().result is not None
        analysis.join(arg, param, collapse=first_order)
    analysis.join(call, callee.result if callee.result is not None else callee)


def _function(analysis: DeviceAnalysis, func: Function) -> None:
    if is_primitive(func):
        return
    domain = analysis.domain(func).found()
    assert domain.result is not None
    for param, part in zip(func.params, domain.params, strict=True):
        analysis.join(param, part)
        if param.virtual_device_ != UNCONSTRAINED:
            device = analysis.canonical(param.virtual_device_)
            analysis.join(param, Domain.of_type(param.checked_type, device))
    analysis.join(func.body, domain.result)
    if func.virtual_device_ != UNCONSTRAINED:
        device = analysis.canonical(func.virtual_device_)
        analysis.join(func.body, Domain.of_type(func.body.checked_type, device))


def _let(analysis: DeviceAnalysis, let: Let) -> None:
    analysis.join(let.variable, analysis.domain(let.value))
    analysis.join(let, analysis.domain(let.body))


def _if(analysis: DeviceAnalysis, expr: If) -> None:
    analysis.join(expr.cond, Domain(analysis.host))
    analysis.join(expr.true_branch, analysis.domain(expr))
    analysis.join(expr.false_branch, analysis.domain(expr))


def _together(analysis: DeviceAnalysis, expr: RelayExpr) -> None:
    """What a tuple, a projection or a reference consists of is with it."""
    for part in children(expr):
        analysis.join(part, analysis.domain(expr), collapse=True)


def _match(analysis: DeviceAnalysis, match: Match) -> None:
    for var in pattern_vars(match):
        analysis.join(var, analysis.domain(match.data), collapse=True)
    for clause in match.clauses:
        analysis.join(clause.rhs, analysis.domain(match))


# node class -> what it says of where its parts are
_RULES: dict[type, Callable[..., None]] = {
    Call: _call,
    Function: _function,
    Let: _let,
    If: _if,
    Tuple: _together,
    TupleGetItem: _together,
    RefCreate: _together,
    RefRead: _together,
    RefWrite: _together,
    Match: _match,
}


def _on_device(analysis: DeviceAnalysis, call: Call) -> Domain:
    attrs, ty = call.attrs, call.checked_type
    device = analysis.canonical(attrs.virtual_device)
    body = Domain.of_type(ty, device if attrs.constrain_body else UNCONSTRAINED)
    result = Domain.of_type(ty, device if attrs.constrain_result else UNCONSTRAINED)
    return Domain.of_function([body], result)


def _device_copy(analysis: DeviceAnalysis, call: Call) -> Domain:
    src = analysis.canonical(call.attrs.src_virtual_device)
    dst = analysis.canonical(call.attrs.dst_virtual_device)
    return Domain.of_function([Domain.of_type(call.checked_type, src)], Domain.of_type(call.checked_type, dst))


def _shape_of(analysis: DeviceAnalysis, call: Call) -> Domain:
    """A shape is on the host, wherever the tensor is."""
    return Domain.of_function([Domain() for _ in call.args], Domain(analysis.host))


def _host_operands(analysis: DeviceAnalysis, call: Call) -> Domain:
    """Sizes and offsets are on the host, the result where the other operands are."""
    together, on_host = Domain(), operator_of(call).traits.host_operands
    return Domain.of_function(
        [Domain(analysis.host) if k in on_host else together for k in range(len(call.args))], together
    )


def _alloc_storage(analysis: DeviceAnalysis, call: Call) -> Domain:
    """Size and alignment are on the host, the storage is where the attributes say."""
    device = getattr(call.attrs, "virtual_device", UNCONSTRAINED)
    return Domain.of_function([Domain(analysis.host) for _ in call.args], Domain(analysis.canonical(device)))


_CalleeRule = Callable[[DeviceAnalysis, Call], Domain]
# operator -> the domain of its callee, for those whose attributes name devices
CALLEE_RULES: dict[str, _CalleeRule] = {
    "on_device": _on_device,
    "device_copy": _device_copy,
    "memory.alloc_storage": _alloc_storage,
}


def _callee_rule(op: Op) -> _CalleeRule | None:
    """The rule of an operator whose arguments are not all where its result is; None for any other."""
    if op.name in CALLEE_RULES:
        return CALLEE_RULES[op.name]
    if op.traits.gives_shape:
        return _shape_of
    return _host_operands if op.traits.host_operands else None
