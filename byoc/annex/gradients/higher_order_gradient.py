"""Reverse-mode gradients of programs: closures, recursion, branches, references, algebraic data.

A tensor becomes a pair of itself and a reference to its gradient; every call of an operator puts itself before what the
backpropagator, a reference to a function without arguments, does. Running that function at the end goes back through
all calls that were made. The result is a program of the same language, so its gradient may be taken again. What
``annotation.checkpoint`` marks is kept apart: its value alone is computed, and the function that goes back computes it
again, with a backpropagator of its own. Source: "Demystifying differentiable programming" (Wang et al., 2019);
``ReverseAD`` of Relay (``gradient.cc``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.annex.functional.de_duplicate import dedup
from byoc.annex.functional.to_a_normal_form import to_a_normal_form
from byoc.annex.gradients.rules import gradient_rule
from byoc.errors import UserError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, get_op
from byoc.ir.types import FuncType, RefType, TensorType, TupleType, Type, rebuild_type, type_children
from byoc.relay import op
from byoc.relay.adt import Clause, Match, pattern_vars, rename_pattern
from byoc.relay.analysis.module_types import infer_function, typed_expr
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from byoc.relay.narrowing import as_function, as_function_type
from byoc.relay.text.trampoline import Step, run
from byoc.relay.traverse import rewrite, substitute

UNIT = TupleType(())
BACK = RefType(FuncType((), UNIT))
CHECKPOINT = "Checkpoint"  # marks the function that stands for a checkpoint
Block = list[tuple[Var, RelayExpr]]


def higher_order_gradient(func: Function, mod: IRModule | None) -> Function:
    """The function that returns the result of *func* and the gradients of its parameters."""
    block: Block = []
    back = _bound(block, RefCreate(Function([], Tuple([]), UNIT)), BACK, "bp")
    ad = ReverseAD(mod, back, {})
    args = [_bound(block, _pair(p), reverse_type(p.checked_type)) for p in func.params]
    reversed_func = ad.reverse(func)
    result_type = func.body.checked_type
    result = _bound(block, Call(reversed_func, args), reverse_type(result_type))
    first, _first_type = _first(result, result_type)
    _bound(block, RefWrite(TupleGetItem(first, 1), op.ones_like(TupleGetItem(first, 0))), UNIT)
    _bound(block, Call(RefRead(back), []), UNIT)
    grads = [_bound(block, RefRead(TupleGetItem(a, 1)), p.checked_type) for a, p in zip(args, func.params, strict=True)]
    return Function(func.params, _closed(block, Tuple([_value(result, result_type), Tuple(grads)])))


def reverse_type(ty: Type) -> Type:
    """The type of what stands for a value of type *ty*: tensors are pairs with a reference to their gradient."""
    if isinstance(ty, TensorType):
        return TupleType((ty, RefType(ty)))
    inner = type_children(ty)
    return rebuild_type(ty, [reverse_type(t) for t in inner]) if inner else ty


def _bound(block: Block, value: RelayExpr, ty: Type | None = None, name: str = "x") -> Var:
    var = Var(name, ty)
    block.append((var, value))
    return var


def _closed(block: Block, result: RelayExpr) -> RelayExpr:
    for var, value in reversed(block):
        result = Let(var, value, result)
    return result


def _pair(value: RelayExpr) -> Tuple:
    return Tuple([value, RefCreate(op.zeros_like(value))])


def _first(expr: RelayExpr, ty: Type) -> tuple[RelayExpr, Type]:
    while isinstance(ty, TupleType):
        if not ty.fields:
            raise UserError("a gradient of an empty tuple was asked for")
        expr, ty = TupleGetItem(expr, 0), ty.fields[0]
    if not isinstance(ty, TensorType):
        raise UserError(f"unhandled type {ty}: a gradient is that of a tensor")
    return expr, ty


def _each(expr: RelayExpr, ty: Type, leaf: Callable[[RelayExpr], RelayExpr]) -> RelayExpr:
    """*leaf* of each pair in *expr*, which stands for a value of type *ty*."""
    if isinstance(ty, TupleType):
        return Tuple([_each(TupleGetItem(expr, k), t, leaf) for k, t in enumerate(ty.fields)])
    return leaf(expr) if isinstance(ty, TensorType) else expr


def _value(expr: RelayExpr, ty: Type) -> RelayExpr:
    return _each(expr, ty, lambda pair: TupleGetItem(pair, 0))


class ReverseAD:
    """Turns expressions into those over pairs; *back* is the reference to the backpropagator."""

    def __init__(self, mod: IRModule | None, back: Var, globals_: dict[GlobalVar, GlobalVar]):
        self._mod, self._back, self._globals = mod, back, globals_
        self._vars: dict[Var, Var] = {}
        self._checkpoints: dict[RelayExpr, Function] = {}

    def reverse(self, func: Function) -> RelayExpr:
        """*func* over pairs."""
        apart = rewrite(func, _checkpoint_apart)
        normal = as_function(typed_expr(to_a_normal_form(apart), self._mod))
        return run(self._function(normal))

    def _expr(self, node: RelayExpr, block: Block) -> Step[RelayExpr]:
        while isinstance(node, Let):
            if isinstance(node.value, Function) and CHECKPOINT in node.value.attrs:
                self._checkpoints[node.variable] = node.value
                node = node.body
                continue
            value_type = reverse_type(node.variable.checked_type)
            new = self._vars[node.variable] = Var(node.variable.name_hint, value_type)
            block.append((new, (yield self._expr(node.value, block))))
            node = node.body
        result: RelayExpr = yield _RULES[type(node)](self, node, block)
        return result

    def _inner(self, node: RelayExpr) -> Step[RelayExpr]:
        """*node* in a block of its own."""
        block: Block = []
        result = yield self._expr(node, block)
        return _closed(block, result)

    def _all(self, nodes: Sequence[RelayExpr], block: Block) -> Step[list[RelayExpr]]:
        found: list[RelayExpr] = []
        for node in nodes:
            found.append((yield self._expr(node, block)))
        return found

    def _function(self, func: Function, block: Block | None = None) -> Step[RelayExpr]:
        params = [self._renamed(p) for p in func.params]
        body = yield self._inner(func.body)
        result = reverse_type(as_function_type(func.checked_type).ret_type)
        return Function(params, body, result, func.type_params, func.attrs, func.span)

    def _renamed(self, var: Var) -> Var:
        self._vars[var] = Var(var.name_hint, reverse_type(var.checked_type), var.span)
        return self._vars[var]

    def _var(self, var: Var, block: Block) -> Step[RelayExpr]:
        return self._vars[var]
        yield

    def _same(self, node: RelayExpr, block: Block) -> Step[RelayExpr]:
        return node
        yield

    def _constant(self, node: Constant, block: Block) -> Step[RelayExpr]:
        return _pair(node)
        yield

    def _tuple(self, node: Tuple, block: Block) -> Step[RelayExpr]:
        fields = yield self._all(node.fields, block)
        return Tuple(fields, node.span)

    def _item(self, node: TupleGetItem, block: Block) -> Step[RelayExpr]:
        value = yield self._expr(node.tuple_value, block)
        return TupleGetItem(value, node.index, node.span)

    def _if(self, node: If, block: Block) -> Step[RelayExpr]:
        cond = yield self._expr(node.cond, block)
        true_branch = yield self._inner(node.true_branch)
        false_branch = yield self._inner(node.false_branch)
        return If(TupleGetItem(cond, 0), true_branch, false_branch, node.span)

    def _ref_create(self, node: RefCreate, block: Block) -> Step[RelayExpr]:
        value = yield self._expr(node.value, block)
        return RefCreate(value, node.span)

    def _ref_read(self, node: RefRead, block: Block) -> Step[RelayExpr]:
        ref = yield self._expr(node.ref, block)
        return RefRead(ref, node.span)

    def _ref_write(self, node: RefWrite, block: Block) -> Step[RelayExpr]:
        ref = yield self._expr(node.ref, block)
        value = yield self._expr(node.value, block)
        return RefWrite(ref, value, node.span)

    def _match(self, node: Match, block: Block) -> Step[RelayExpr]:
        data = yield self._expr(node.data, block)
        names = {var: self._renamed(var) for var in pattern_vars(node)}
        clauses: list[Clause] = []
        for clause in node.clauses:
            result = yield self._inner(clause.rhs)
            clauses.append(Clause(rename_pattern(clause.lhs, names), result))
        return Match(data, clauses, node.complete, node.span)

    # calls ----------------------------------------------------------------------------------------------------------

    def _call(self, call: Call, block: Block) -> Step[RelayExpr]:
        if call.op in self._checkpoints:
            result: RelayExpr = yield self._checkpoint(self._checkpoints[call.op], block)
            return result
        args = yield self._all(call.args, block)
        if isinstance(call.op, Op):
            return self._operator(call, args, block)
        types = [reverse_type(t) for t in call.type_args]
        if isinstance(call.op, GlobalVar):
            return Call(self._global(call.op), [self._back, *args], None, types, call.span)
        callee = yield self._expr(call.op, block)
        return Call(callee, args, None, types, call.span)

    def _operator(self, call: Call, args: list[RelayExpr], block: Block) -> RelayExpr:
        """The value of a call of an operator, after which the backpropagator knows of it."""
        types = [arg.checked_type for arg in call.args]
        values = [_bound(block, _value(a, t), t) for a, t in zip(args, types, strict=True)]
        orig = Call(call.op, values, call.attrs, call._type_args, call.span)
        orig._checked_type = ty = call.checked_type
        value = _bound(block, orig, ty)
        result = _bound(block, _each(value, ty, _pair), reverse_type(ty))
        before = _bound(block, RefRead(self._back), BACK.value)
        inner: Block = []
        grad = _bound(inner, _each(result, ty, lambda pair: RefRead(TupleGetItem(pair, 1))), ty)
        shares = gradient_rule(call)(orig, grad)
        for arg, arg_type, share in zip(args, types, shares, strict=True):
            _update(inner, arg, arg_type, substitute(share, {orig: value}))
        action = Function([], _closed(inner, Call(before, [])), UNIT)
        _bound(block, RefWrite(self._back, action), UNIT)
        return result

    def _checkpoint(self, apart: Function, block: Block) -> Step[RelayExpr]:
        """The value of a checkpoint's body, which the backpropagator computes again over pairs."""
        ty = apart.body.checked_type
        values: dict[RelayExpr, RelayExpr] = {v: _value(self._vars[v], v.checked_type) for v in free_vars(apart.body)}
        node = dedup(substitute(apart.body, values))
        while isinstance(node, Let):
            block.append((node.variable, node.value))
            node = node.body
        value = _bound(block, node, ty)
        result = _bound(block, _each(value, ty, _pair), reverse_type(ty))
        before = _bound(block, RefRead(self._back), BACK.value)
        inner: Block = []
        back = _bound(inner, RefCreate(Function([], Tuple([]), UNIT)), BACK, "bp")
        again = ReverseAD(self._mod, back, self._globals)
        again._vars, again._checkpoints = dict(self._vars), dict(self._checkpoints)
        pairs = yield again._expr(apart.body, inner)
        _hand_over(inner, result, _bound(inner, pairs, reverse_type(ty)), ty)
        _bound(inner, Call(RefRead(back), []), UNIT)
        _bound(block, RefWrite(self._back, Function([], _closed(inner, Call(before, [])), UNIT)), UNIT)
        return result

    def _global(self, var: GlobalVar) -> GlobalVar:
        """The name of the function over pairs that stands for *var*; it takes the backpropagator first."""
        if var in self._globals:
            return self._globals[var]
        if self._mod is None or var not in self._mod:
            raise UserError(f"the gradient of @{var.name_hint} needs the module that it is in: gradient(…, mod)")
        func = self._mod[var]
        if not isinstance(func, Function):
            raise UserError(f"@{var.name_hint} has no gradient: it is no function of the graph language")
        name, known = f"{var.name_hint}_grad", {v.name_hint for v in self._mod}
        while name in known:
            name += "_1"
        self._globals[var] = made = GlobalVar(name)
        back = Var("bp", BACK)
        new = ReverseAD(self._mod, back, self._globals).reverse(infer_function(func, self._mod))
        assert isinstance(new, Function)
        self._mod[made] = Function([back, *new.params], new.body, new.declared_ret_type, new.type_params, new.attrs)
        return made

    def _global_value(self, var: GlobalVar, block: Block) -> Step[RelayExpr]:
        """A global function as a value: a function literal that hands the backpropagator on."""
        made = self._global(var)
        ty = as_function_type(var.checked_type)
        params = [Var("x", reverse_type(t)) for t in ty.arg_types]
        result = reverse_type(ty.ret_type)
        return Function(params, Call(made, [self._back, *params]), result, ty.type_params)
        yield


def _checkpoint_apart(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    """A checkpoint as the call of a function without arguments, inside which normal form leaves what it computes."""
    if not isinstance(after, Call) or after.op is not get_op("annotation.checkpoint"):
        return after
    return Call(Function([], after.args[0], attrs={CHECKPOINT: 1}), [], span=after.span)


def _hand_over(block: Block, source: RelayExpr, target: RelayExpr, ty: Type) -> None:
    """Make the gradients of the pairs in *source* those of *target*."""
    if isinstance(ty, TupleType):
        for k, field in enumerate(ty.fields):
            _hand_over(block, TupleGetItem(source, k), TupleGetItem(target, k), field)
    elif isinstance(ty, TensorType):
        _bound(block, RefWrite(TupleGetItem(target, 1), RefRead(TupleGetItem(source, 1))), UNIT)


def _update(block: Block, pair: RelayExpr, ty: Type, grad: RelayExpr) -> None:
    """Add *grad* to the gradient of what *pair* stands for."""
    if isinstance(ty, TupleType):
        for k, field in enumerate(ty.fields):
            part = grad.fields[k] if isinstance(grad, Tuple) else TupleGetItem(grad, k)
            _update(block, TupleGetItem(pair, k), field, part)
        return
    if isinstance(ty, TensorType) and ty.dtype == "bool":  # a condition, which cannot be added to
        return
    ref = TupleGetItem(pair, 1)
    _bound(block, RefWrite(ref, op.add(RefRead(ref), grad)), UNIT)


_RULES: dict[type, Callable[..., Step[RelayExpr]]] = {
    Var: ReverseAD._var,
    Constant: ReverseAD._constant,
    Constructor: ReverseAD._same,
    GlobalVar: ReverseAD._global_value,
    Tuple: ReverseAD._tuple,
    TupleGetItem: ReverseAD._item,
    If: ReverseAD._if,
    RefCreate: ReverseAD._ref_create,
    RefRead: ReverseAD._ref_read,
    RefWrite: ReverseAD._ref_write,
    Match: ReverseAD._match,
    Function: ReverseAD._function,
    Call: ReverseAD._call,
}
