"""PartialEvaluate: what can be computed when compiling is computed, functions are unfolded, references followed.

Every expression gives a value: an atom of the code that is left, and what is known of it (a tensor, a tuple, algebraic
data, a closure, a cell). A call of a known function is unfolded; a recursive one only while an argument is known, to
a depth and a number of times that are limited. What is not known any more after an unknown call or branch is the
content of cells. The code that is left is in A-normal form, with effects in their order; DeadCodeElimination cleans
it up. Source: ``relay.transform.PartialEvaluate``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from byoc.annex.functional.to_a_normal_form import to_a_normal_form
from byoc.errors import KernelError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import Type, substitute_types
from byoc.relay.adt import (
    Clause,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    pattern_vars,
    rename_pattern,
)
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
    constant,
)
from byoc.relay.interpreter.operators import run_operator
from byoc.relay.narrowing import as_function, operator_of
from byoc.relay.text.trampoline import Step, run
from byoc.relay.transform.base.infer_type import FunctionPass

# how deep one function is unfolded in itself, and how many calls are unfolded in all
DEPTH, UNFOLDED = 40, 100
_OPAQUE = ("Primitive", "Composite", "Compiler")


class ReferenceCell:
    """The identity of a reference that was made in the code that is evaluated."""


@dataclasses.dataclass(frozen=True, eq=False)
class KnownClosure:
    """A known function with the values of what it captured and the types of the type variables around it."""

    function: Function
    env: dict[Var, PartialValue]
    types: Mapping[Type, Type]


@dataclasses.dataclass(frozen=True, eq=False)
class KnownData:
    """Algebraic data of a known constructor."""

    constructor: Constructor
    fields: tuple[PartialValue, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class PartialValue:
    """An atom of the code that is left, and what is known of it (None: nothing)."""

    expr: RelayExpr
    known: KnownClosure | KnownData | ReferenceCell | Constant | tuple[PartialValue, ...] | None = None


class PartialFrame:
    """Where code is evaluated: the bindings that are left so far, variables, types, and the content of cells."""

    def __init__(
        self, env: dict[Var, PartialValue], types: Mapping[Type, Type], store: dict[ReferenceCell, PartialValue]
    ):
        self.block: list[tuple[Var, RelayExpr]] = []
        self.env, self.types, self.store = env, types, store

    def emit(self, expr: RelayExpr, name: str = "x") -> Var:
        """A variable bound to *expr* in the code that is left."""
        var = Var(name)
        self.block.append((var, expr))
        return var

    def closed(self, result: RelayExpr) -> RelayExpr:
        """The bindings around *result*."""
        for var, value in reversed(self.block):
            result = Let(var, value, result)
        return result


def PartialEvaluate() -> FunctionPass:
    """The pass that evaluates what is known when compiling."""

    def evaluate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return partially_evaluated(func, mod)

    return FunctionPass(evaluate, PassInfo("PartialEvaluate", 1, ends=("graph_normal_form", *REWRITES)))


def partially_evaluated(func: Function, mod: IRModule | None = None) -> Function:
    """*func* with what is known evaluated, in A-normal form."""
    machine = _Machine(mod)
    normal = to_a_normal_form(func)
    assert isinstance(normal, Function)
    left = run(machine.residual(KnownClosure(normal, {}, {})))
    return Function(left.params, left.body, func.declared_ret_type, func.type_params, func.attrs, func.span)


class _Machine:
    """Evaluates code of one module."""

    def __init__(self, mod: IRModule | None):
        self._mod = mod
        self._globals: dict[GlobalVar, KnownClosure] = {}
        self._active: dict[Function, int] = {}
        self._unfolded = 0

    def residual(self, closure: KnownClosure) -> Step[Function]:
        """The function that is left of *closure*, of whose arguments nothing is known."""
        function = closure.function
        params = [Var(p.name_hint, _over_declared(p.type_annotation, closure.types), p.span) for p in function.params]
        env = {**closure.env, **{p: PartialValue(new) for p, new in zip(function.params, params, strict=True)}}
        frame = PartialFrame(env, closure.types, {})
        self._active[function] = self._active.get(function, 0) + 1
        result = yield self._eval(function.body, frame)
        self._active[function] -= 1
        body = frame.closed(result.expr)
        declared = _over_declared(function.declared_ret_type, closure.types)
        kept = [t for t in function.type_params if t not in closure.types]
        return Function(params, body, declared, kept, function.attrs, function.span)

    def _eval(self, node: RelayExpr, frame: PartialFrame) -> Step[PartialValue]:
        while isinstance(node, Let):
            if isinstance(node.value, Function):
                value = yield self._function(node.value, frame, node.variable)
            else:
                value = yield self._eval(node.value, frame)
            frame.env[node.variable] = value
            node = node.body
        result: PartialValue = yield _RULES[type(node)](self, node, frame)
        return result

    def _function(self, node: Function, frame: PartialFrame, name: Var | None = None) -> Step[PartialValue]:
        if any(node.attrs.get(key) for key in _OPAQUE):
            return PartialValue(frame.emit(node))
        var = Var(name.name_hint if name is not None else "f")
        closure = KnownClosure(node, dict(frame.env), frame.types)
        value = PartialValue(var, closure)
        if name is not None:
            closure.env[name] = value
        left = yield self.residual(closure)
        frame.block.append((var, left))
        return value

    def _var(self, node: Var, frame: PartialFrame) -> Step[PartialValue]:
        return frame.env[node] if node in frame.env else PartialValue(node)
        yield

    def _constant(self, node: Constant, frame: PartialFrame) -> Step[PartialValue]:
        return PartialValue(node, node)
        yield

    def _constructor(self, node: Constructor, frame: PartialFrame) -> Step[PartialValue]:
        return PartialValue(node)
        yield

    def _global(self, node: GlobalVar, frame: PartialFrame) -> Step[PartialValue]:
        func = self._mod[node] if self._mod is not None and node in self._mod else None
        if not isinstance(func, Function) or any(func.attrs.get(k) for k in (*_OPAQUE, "Extern")):
            return PartialValue(node)
        if node not in self._globals:
            self._globals[node] = KnownClosure(as_function(to_a_normal_form(func)), {}, {})
        return PartialValue(node, self._globals[node])
        yield

    def _tuple(self, node: Tuple, frame: PartialFrame) -> Step[PartialValue]:
        fields = yield self._all(node.fields, frame)
        return PartialValue(frame.emit(Tuple([f.expr for f in fields], node.span)), tuple(fields))

    def _all(self, nodes: Sequence[RelayExpr], frame: PartialFrame) -> Step[list[PartialValue]]:
        found: list[PartialValue] = []
        for node in nodes:
            found.append((yield self._eval(node, frame)))
        return found

    def _item(self, node: TupleGetItem, frame: PartialFrame) -> Step[PartialValue]:
        value = yield self._eval(node.tuple_value, frame)
        if isinstance(value.known, tuple):
            result: PartialValue = value.known[node.index]
            return result
        return PartialValue(frame.emit(TupleGetItem(value.expr, node.index, node.span)))

    def _ref_create(self, node: RefCreate, frame: PartialFrame) -> Step[PartialValue]:
        value = yield self._eval(node.value, frame)
        cell = ReferenceCell()
        frame.store[cell] = value
        return PartialValue(frame.emit(RefCreate(value.expr, node.span)), cell)

    def _ref_read(self, node: RefRead, frame: PartialFrame) -> Step[PartialValue]:
        ref = yield self._eval(node.ref, frame)
        known = frame.store.get(ref.known)
        return known if known is not None else PartialValue(frame.emit(RefRead(ref.expr, node.span)))

    def _ref_write(self, node: RefWrite, frame: PartialFrame) -> Step[PartialValue]:
        ref = yield self._eval(node.ref, frame)
        value = yield self._eval(node.value, frame)
        if isinstance(ref.known, ReferenceCell):
            frame.store[ref.known] = value
        else:
            frame.store.clear()
        return PartialValue(frame.emit(RefWrite(ref.expr, value.expr, node.span)), ())

    # branches -------------------------------------------------------------------------------------------------------

    def _apart(self, node: RelayExpr, frame: PartialFrame, names: Mapping[Var, Var]) -> Step[RelayExpr]:
        """*node* in a block of its own, which may not be reached."""
        env = {**frame.env, **{old: PartialValue(new) for old, new in names.items()}}
        inner = PartialFrame(env, frame.types, dict(frame.store))
        result = yield self._eval(node, inner)
        return inner.closed(result.expr)

    def _if(self, node: If, frame: PartialFrame) -> Step[PartialValue]:
        cond = yield self._eval(node.cond, frame)
        if isinstance(cond.known, Constant):
            taken = node.true_branch if bool(cond.known.data.numpy()) else node.false_branch
            result: PartialValue = yield self._eval(taken, frame)
            return result
        left = yield self._apart(node.true_branch, frame, {})
        right = yield self._apart(node.false_branch, frame, {})
        frame.store.clear()
        return PartialValue(frame.emit(If(cond.expr, left, right, node.span)))

    def _match(self, node: Match, frame: PartialFrame) -> Step[PartialValue]:
        data = yield self._eval(node.data, frame)
        for clause in node.clauses:
            found: dict[Var, PartialValue] = {}
            fits = _fits(clause.lhs, data, found)
            if fits is None:
                break
            if fits:
                frame.env.update(found)
                made: PartialValue = yield self._eval(clause.rhs, frame)
                return made
        names = {v: Var(v.name_hint, _over_declared(v.type_annotation, frame.types)) for v in pattern_vars(node)}
        clauses = []
        for clause in node.clauses:
            result = yield self._apart(clause.rhs, frame, names)
            clauses.append(Clause(rename_pattern(clause.lhs, names), result))
        frame.store.clear()
        return PartialValue(frame.emit(Match(data.expr, clauses, node.complete, node.span)))

    # calls ----------------------------------------------------------------------------------------------------------

    def _call(self, node: Call, frame: PartialFrame) -> Step[PartialValue]:
        if isinstance(node.op, Op):
            args = yield self._all(node.args, frame)
            return _operator(node, args, frame)
        callee = yield self._eval(node.op, frame)
        args = yield self._all(node.args, frame)
        types = [_over(t, frame.types) for t in node.type_args]
        exprs = [arg.expr for arg in args]
        if isinstance(node.op, Constructor):
            made = KnownData(node.op, tuple(args))
            return PartialValue(frame.emit(Call(node.op, exprs, None, types, node.span)), made)
        closure = callee.known
        if isinstance(closure, KnownClosure) and self._unfolds(closure, args, types):
            result: PartialValue = yield self._unfold(closure, args, types, frame)
            return result
        frame.store.clear()
        return PartialValue(frame.emit(Call(callee.expr, exprs, None, types, node.span)))

    def _unfolds(self, closure: KnownClosure, args: Sequence[PartialValue], types: Sequence[Type]) -> bool:
        """True when the call is to be replaced by the body of what it calls."""
        depth = self._active.get(closure.function, 0)
        if self._unfolded >= UNFOLDED or depth >= DEPTH or len(types) != len(closure.function.type_params):
            return False
        return depth == 0 or any(isinstance(arg.known, (Constant, KnownData)) for arg in args)

    def _unfold(
        self, closure: KnownClosure, args: Sequence[PartialValue], types: Sequence[Type], frame: PartialFrame
    ) -> Step[PartialValue]:
        function = closure.function
        self._unfolded += 1
        env = {**closure.env, **dict(zip(function.params, args, strict=True))}
        inner = PartialFrame(env, {**closure.types, **dict(zip(function.type_params, types, strict=True))}, frame.store)
        inner.block = frame.block
        self._active[function] = self._active.get(function, 0) + 1
        result = yield self._eval(function.body, inner)
        self._active[function] -= 1
        found: PartialValue = result
        return found


def _operator(node: Call, args: Sequence[PartialValue], frame: PartialFrame) -> PartialValue:
    """The call of an operator; its result where all arguments are known tensors."""
    call = Call(node.op, [arg.expr for arg in args], node.attrs, node._type_args, node.span)
    stateful = bool(operator_of(node).get_attr("TOpIsStateful"))
    known = [arg.known.data for arg in args if isinstance(arg.known, Constant)]
    if args and not stateful and len(known) == len(args):
        try:
            result = run_operator(call, [array.numpy() for array in known])
        except KernelError:  # a later stage has the operator
            result = None
        if isinstance(result, np.ndarray):
            folded = constant(result, span=node.span)
            return PartialValue(folded, folded)
    return PartialValue(frame.emit(call))


def _fits(pattern: Pattern, value: PartialValue, found: dict[Var, PartialValue]) -> bool | None:
    """True when *value* fits, with the variables in *found*; False when it does not; None when that is not known."""
    if isinstance(pattern, PatternWildcard):
        return True
    if isinstance(pattern, PatternVar):
        found[pattern.var] = value
        return True
    inner: Sequence[PartialValue]
    if isinstance(pattern, PatternConstructor) and isinstance(value.known, KnownData):
        if value.known.constructor is not pattern.constructor:
            return False
        inner = value.known.fields if pattern.patterns else ()
    elif isinstance(pattern, PatternTuple) and isinstance(value.known, tuple):
        inner = value.known
    else:
        return None
    answers = [_fits(p, v, found) for p, v in zip(pattern.patterns, inner, strict=True)]
    return False if False in answers else None if None in answers else True


def _over(ty: Type, types: Mapping[Type, Type]) -> Type:
    return substitute_types(ty, types) if types else ty


def _over_declared(ty: Type | None, types: Mapping[Type, Type]) -> Type | None:
    return None if ty is None else _over(ty, types)


_RULES: dict[type, Callable[..., Step[PartialValue]]] = {
    Var: _Machine._var,
    Constant: _Machine._constant,
    Constructor: _Machine._constructor,
    GlobalVar: _Machine._global,
    Function: _Machine._function,
    Tuple: _Machine._tuple,
    TupleGetItem: _Machine._item,
    RefCreate: _Machine._ref_create,
    RefRead: _Machine._ref_read,
    RefWrite: _Machine._ref_write,
    If: _Machine._if,
    Match: _Machine._match,
    Call: _Machine._call,
}
