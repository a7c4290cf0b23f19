"""ManifestLifetimes: ``memory.kill`` behind the last use of every variable.

Requires A-normal form, memory written out (ManifestAlloc). First a variable that is another name for a value (``let
%y = %x``, a copy to the device where it is, a pattern that binds the value itself) gives way to the first name. Then,
behind each binding, a variable that was live before it and is not after it is killed. What an ``if`` or a ``match``
decides by is killed behind the whole; what only one branch reads is killed in that branch; the result of a block never
is. Source: ``src/relay/transforms/manifest_lifetimes.cc`` of Relay.
"""

from __future__ import annotations

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.adt import Clause, Match, PatternVar, pattern_vars
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import Function, If, Let, Var
from byoc.relay.op.device_placement import is_device_copy, is_on_device
from byoc.relay.op.memory_allocation import kill
from byoc.relay.text.trampoline import Step, run
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import post_order, rebuild, substitute

# variables in a fixed order: a set that remembers it
Live = dict[Var, None]


def ManifestLifetimes() -> FunctionPass:
    """The pass that ends the life of every variable in the text. Source: ``relay.transform.ManifestLifetimes``.

    Raises UserError for an ``if`` or a ``match`` that no variable is bound to.
    """

    def transform(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return run(_closed(func))

    return FunctionPass(transform, PassInfo("ManifestLifetimes", 0, ends=("fused", *REWRITES)))


def _is_unit(func: Function) -> bool:
    return bool(func.attrs.get("Primitive")) or func.attrs.get("Compiler") is not None


def _closed(func: Function) -> Step[Function]:
    """*func* with the lives of its own variables ended; what it captures lives as long as it does."""
    if func.attrs.get("Closure") and isinstance(func.body, Function):
        body: RelayExpr = yield _closed(func.body)
    else:
        plain = yield _without_aliases(func.body, {})
        own: Live = dict.fromkeys(func.params)
        body, _ = yield _block(plain, {v: None for v in free_vars(plain) if v not in own})
    return func.over(func.params, body)


# other names for a value --------------------------------------------------------------------------------------------


def _without_annotation(expr: RelayExpr) -> RelayExpr:
    return expr.args[0] if is_on_device(expr) else expr


def _aliased(value: RelayExpr) -> Var | None:
    """The variable that *value* is another name for."""
    bare = _without_annotation(value)
    if is_device_copy(bare):
        attrs = bare.attrs
        src, dst = attrs.src_virtual_device, attrs.dst_virtual_device
        if (src.device_type_int, src.virtual_device_id) != (dst.device_type_int, dst.virtual_device_id):
            return None
        bare = bare.args[0]
    return bare if isinstance(bare, Var) else None


def _without_aliases(expr: RelayExpr, names: dict[RelayExpr, RelayExpr]) -> Step[RelayExpr]:
    """The block *expr* where each variable stands under its first name; *names* are those known to have another."""
    bindings: list[tuple[Var, RelayExpr, Let]] = []
    while isinstance(expr, Let):
        alias = _aliased(expr.value)
        if alias is not None:
            names[expr.variable] = names.get(alias, alias)
        else:
            value = yield _value_without_aliases(expr.value, names)
            bindings.append((expr.variable, value, expr))
        expr = expr.body
    result: RelayExpr = yield _value_without_aliases(expr, names)
    for variable, value, let in reversed(bindings):
        result = Let(variable, value, result, let.span)
    return result


def _value_without_aliases(value: RelayExpr, names: dict[RelayExpr, RelayExpr]) -> Step[RelayExpr]:
    if is_on_device(value):
        return rebuild(value, [(yield _value_without_aliases(_without_annotation(value), names))])
    if isinstance(value, If):
        then = yield _without_aliases(value.true_branch, names)
        other = yield _without_aliases(value.false_branch, names)
        return If(_named(value.cond, names), then, other, value.span)
    if isinstance(value, Match):
        data = _named(value.data, names)
        clauses = []
        for clause in value.clauses:
            bare = _without_annotation(data)
            if isinstance(clause.lhs, PatternVar) and isinstance(bare, Var):
                names[clause.lhs.var] = bare
            clauses.append(Clause(clause.lhs, (yield _without_aliases(clause.rhs, names))))
        return Match(data, clauses, value.complete, value.span)
    return _named(value, names)


def _named(value: RelayExpr, names: dict[RelayExpr, RelayExpr]) -> RelayExpr:
    """*value*, which holds no block but those of functions, under first names."""
    if isinstance(value, Function) and _is_unit(value):
        return value
    return substitute(value, names) if names and any(node in names for node in post_order(value)) else value


# lives --------------------------------------------------------------------------------------------------------------


def _uses(value: RelayExpr) -> list[Var]:
    """What is read where *value* is bound: of a decision, what it decides by; of a function, what it captures."""
    bare = _without_annotation(value)
    if isinstance(bare, If):
        return free_vars(bare.cond)
    return free_vars(bare.data) if isinstance(bare, Match) else free_vars(bare)


def _block(expr: RelayExpr, live_out: Live) -> Step[tuple[RelayExpr, Live]]:
    """The block *expr* with its kills, and what is live before it, where *live_out* is live behind it."""
    lets: list[Let] = []
    while isinstance(expr, Let):
        lets.append(expr)
        expr = expr.body
    if isinstance(_without_annotation(expr), (If, Match)):
        raise UserError(
            "ManifestLifetimes takes A-normal form: bind every if and match by a let, as ToANormalForm does"
        )
    result = expr
    live: Live = {**live_out, **dict.fromkeys(free_vars(expr))}
    for let in reversed(lets):
        live.pop(let.variable, None)
        value, live = yield _value(let.value, live)
        used = [v for v in _uses(let.value) if v is not let.variable]  # a function may name itself
        for killed in reversed([v for v in used if v not in live]):
            result = Let(Var("_"), kill(killed), result)
        result = Let(let.variable, value, result, let.span)
        live.update(dict.fromkeys(used))
    return result, live


def _value(value: RelayExpr, behind: Live) -> Step[tuple[RelayExpr, Live]]:
    """*value* with the kills inside it, and what is live where its evaluation goes on, where *behind* is live after."""
    if is_on_device(value):
        inner, live = yield _value(_without_annotation(value), behind)
        return rebuild(value, [inner]), live
    if isinstance(value, If):
        then, in_then = yield _block(value.true_branch, behind)
        other, in_other = yield _block(value.false_branch, behind)
        return If(value.cond, then, other, value.span), {**in_then, **in_other}
    if isinstance(value, Match):
        clauses: list[Clause] = []
        entered: Live = dict(behind)
        for clause in value.clauses:
            rhs, live = yield _block(clause.rhs, behind)
            clauses.append(Clause(clause.lhs, rhs))
            entered.update(live)
        for bound in pattern_vars(value):
            entered.pop(bound, None)
        return Match(value.data, clauses, value.complete, value.span), entered
    if isinstance(value, Function) and not _is_unit(value):
        return (yield _closed(value)), behind
    return value, behind
