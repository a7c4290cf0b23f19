"""Functors: one method per class of node, for visitors and rewriters. Source: ``relay.expr_functor``.

Subclasses override ``visit_call`` and so on and call ``self.visit(child)`` themselves, so that they may leave
children out. Every node is visited once: results are kept in ``memo_map``.

Depth: recursion is Python's, and yet a chain of 100,000 calls works. When visits nest too deep for the running
thread, the next one continues on a thread of its own with a fresh, larger stack while the first waits; so visits
happen in the same order, one at a time, exceptions pass through, and the active PassContext goes along. Other
thread-local state does not.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

from byoc.errors import InternalError, OutOfMemoryError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.passes.transform import PassContext
from byoc.ir.span import AnySpan
from byoc.relay.adt import Clause, Match
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
from byoc.relay.traverse import rebuild

# how many visits may nest on the first thread, and on each of the threads that continue it
_FIRST_DEPTH = 40
_THREAD_DEPTH = 400
# frames (Python's limit) and bytes (reserved, not used) that such a thread gets
_THREAD_FRAMES = 16_000
_THREAD_STACK = 64 << 20


class _Nesting(threading.local):
    """How deep the visits of this thread nest, and how deep they may."""

    depth = 0
    limit = _FIRST_DEPTH


_NESTING = _Nesting()
_LOCK = threading.Lock()
_RAISED: list[int] = []


def _raise_frame_limit() -> None:
    with _LOCK:
        _RAISED.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(_RAISED[0], _THREAD_FRAMES))


def _restore_frame_limit() -> None:
    with _LOCK:
        before = _RAISED.pop()
        if not _RAISED:
            sys.setrecursionlimit(before)


R = TypeVar("R")  # what a visit gives


def _on_fresh_stack(function: Callable[[RelayExpr], R], expr: RelayExpr) -> R:
    """``function(expr)`` on a thread of its own, while this one waits. Raises what *function* raises."""
    result: list[R] = []
    failure: list[BaseException] = []
    context, passes = contextvars.copy_context(), PassContext._stack()

    def continue_visit() -> None:
        _NESTING.limit = _THREAD_DEPTH
        PassContext._local.stack = passes
        try:
            result.append(context.run(function, expr))
        except BaseException as error:
            failure.append(error)

    with _LOCK:
        size = threading.stack_size(_THREAD_STACK)
        try:
            thread = threading.Thread(target=continue_visit, name="byoc-deep-visit")
            thread.start()
        except RuntimeError as error:
            raise OutOfMemoryError(
                f"the system gives no thread with {_THREAD_STACK >> 20} MB of stack for a deeply nested program: allow "
                "this process more memory or threads"
            ) from error
        finally:
            threading.stack_size(size)
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


class ExprFunctor(Generic[R]):
    """One method per class of node; :meth:`visit` finds it and keeps its result. Source: ``relay.ExprFunctor``."""

    def __init__(self) -> None:
        self.memo_map: dict[RelayExpr, R] = {}

    def visit(self, expr: RelayExpr) -> R:
        """The result for *expr*, computed at its first visit.

        Raises InternalError for a class of node without a method, NotImplementedError for a method that the subclass
        did not write.
        """
        if expr in self.memo_map:
            return self.memo_map[expr]
        nesting = _NESTING
        if nesting.depth >= nesting.limit:
            return self._visit_on_fresh_stack(expr)
        nesting.depth += 1
        try:
            result = self._dispatch(expr)
        finally:
            nesting.depth -= 1
        self.memo_map[expr] = result
        return result

    def _visit_on_fresh_stack(self, expr: RelayExpr) -> R:
        if _NESTING.limit != _FIRST_DEPTH:
            return _on_fresh_stack(self.visit, expr)
        _raise_frame_limit()
        try:
            return _on_fresh_stack(self.visit, expr)
        finally:
            _restore_frame_limit()

    def _dispatch(self, expr: RelayExpr) -> R:
        for kind in type(expr).__mro__:
            if kind in _METHODS:
                method: Callable[[RelayExpr], R] = getattr(self, _METHODS[kind])
                return method(expr)
        raise InternalError(f"{type(self).__name__} has no method for a {type(expr).__name__}")

    def _missing(self, expr: RelayExpr) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} does not say what to do with a {type(expr).__name__}")

    def visit_function(self, fn: Function) -> R:
        """For a function."""
        self._missing(fn)

    def visit_let(self, let: Let) -> R:
        """For a let."""
        self._missing(let)

    def visit_call(self, call: Call) -> R:
        """For a call."""
        self._missing(call)

    def visit_var(self, var: Var) -> R:
        """For a variable."""
        self._missing(var)

    def visit_type(self, typ: object) -> object:
        """For a type: itself."""
        return typ

    def visit_if(self, i: If) -> R:
        """For an if."""
        self._missing(i)

    def visit_tuple(self, tup: Tuple) -> R:
        """For a tuple."""
        self._missing(tup)

    def visit_tuple_getitem(self, op: TupleGetItem) -> R:
        """For a projection."""
        self._missing(op)

    def visit_global_var(self, gvar: GlobalVar) -> R:
        """For the name of a global function."""
        self._missing(gvar)

    def visit_op(self, op: Op) -> R:
        """For an operator."""
        self._missing(op)

    def visit_constant(self, const: Constant) -> R:
        """For a constant."""
        self._missing(const)

    def visit_ref_create(self, r: RefCreate) -> R:
        """For the making of a reference."""
        self._missing(r)

    def visit_ref_write(self, r: RefWrite) -> R:
        """For a write to a reference."""
        self._missing(r)

    def visit_ref_read(self, r: RefRead) -> R:
        """For a read of a reference."""
        self._missing(r)

    def visit_constructor(self, con: Constructor) -> R:
        """For a constructor of algebraic data."""
        self._missing(con)

    def visit_match(self, m: Match) -> R:
        """For a match."""
        self._missing(m)


_METHODS: dict[type, str] = {
    Function: "visit_function",
    Call: "visit_call",
    Let: "visit_let",
    Var: "visit_var",
    GlobalVar: "visit_global_var",
    If: "visit_if",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Constant: "visit_constant",
    Op: "visit_op",
    RefCreate: "visit_ref_create",
    RefRead: "visit_ref_read",
    RefWrite: "visit_ref_write",
    Constructor: "visit_constructor",
    Match: "visit_match",
}


class ExprVisitor(ExprFunctor[object]):
    """Visits everything below; override what is of interest. Source: ``relay.ExprVisitor``."""

    def visit_tuple(self, tup: Tuple) -> None:
        for field in tup.fields:
            self.visit(field)

    def visit_call(self, call: Call) -> None:
        self.visit(call.op)
        for arg in call.args:
            self.visit(arg)

    def visit_var(self, var: Var) -> None:
        """Nothing below."""

    def visit_let(self, let: Let) -> None:
        self.visit(let.variable)
        self.visit(let.value)
        self.visit(let.body)

    def visit_function(self, fn: Function) -> None:
        for param in fn.params:
            self.visit(param)
        self.visit(fn.body)

    def visit_if(self, i: If) -> None:
        self.visit(i.cond)
        self.visit(i.true_branch)
        self.visit(i.false_branch)

    def visit_global_var(self, gvar: GlobalVar) -> None:
        """Nothing below."""

    def visit_tuple_getitem(self, op: TupleGetItem) -> None:
        self.visit(op.tuple_value)

    def visit_op(self, op: Op) -> None:
        """Nothing below."""

    def visit_constant(self, const: Constant) -> None:
        """Nothing below."""

    def visit_ref_create(self, r: RefCreate) -> None:
        self.visit(r.value)

    def visit_ref_write(self, r: RefWrite) -> None:
        self.visit(r.ref)
        self.visit(r.value)

    def visit_ref_read(self, r: RefRead) -> None:
        self.visit(r.ref)

    def visit_constructor(self, con: Constructor) -> None:
        """Nothing below."""

    def visit_match(self, m: Match) -> None:
        self.visit(m.data)
        for clause in m.clauses:
            self.visit(clause.rhs)


class ExprMutator(ExprFunctor[RelayExpr]):
    """Rebuilds what changed and keeps what did not, with spans; override what is to be rewritten.

    Source: ``relay.ExprMutator``, which copies spans through ``visit_span``.
    """

    def visit_span(self, span: AnySpan | None) -> AnySpan | None:
        """The span of the copy of a node: the same one."""
        return span

    def _again(self, expr: RelayExpr, *new: RelayExpr) -> RelayExpr:
        copy = rebuild(expr, new)
        if copy is not expr:
            copy.span = self.visit_span(expr.span)
        return copy

    def visit_function(self, fn: Function) -> RelayExpr:
        params = [self.visit(p) for p in fn.params]
        return self._again(fn, *params, self.visit(fn.body))

    def visit_let(self, let: Let) -> RelayExpr:
        variable = self.visit(let.variable)
        value = self.visit(let.value)
        return self._again(let, variable, value, self.visit(let.body))

    def visit_call(self, call: Call) -> RelayExpr:
        op = self.visit(call.op)
        args = [self.visit(arg) for arg in call.args]
        if op is call.op and all(a is b for a, b in zip(args, call.args, strict=True)):
            return call
        return Call(op, args, call.attrs, call._type_args, self.visit_span(call.span))

    def visit_var(self, var: Var) -> RelayExpr:
        return var

    def visit_global_id(self, gvar: GlobalVar) -> RelayExpr:
        """Relay's other name for :meth:`visit_global_var`."""
        return gvar

    def visit_global_var(self, gvar: GlobalVar) -> RelayExpr:
        return gvar

    def visit_if(self, i: If) -> RelayExpr:
        cond = self.visit(i.cond)
        true_branch = self.visit(i.true_branch)
        return self._again(i, cond, true_branch, self.visit(i.false_branch))

    def visit_tuple(self, tup: Tuple) -> RelayExpr:
        return self._again(tup, *[self.visit(field) for field in tup.fields])

    def visit_tuple_getitem(self, op: TupleGetItem) -> RelayExpr:
        return self._again(op, self.visit(op.tuple_value))

    def visit_op(self, op: Op) -> RelayExpr:
        return op

    def visit_constant(self, const: Constant) -> RelayExpr:
        return const

    def visit_ref_create(self, r: RefCreate) -> RelayExpr:
        return self._again(r, self.visit(r.value))

    def visit_ref_write(self, r: RefWrite) -> RelayExpr:
        ref = self.visit(r.ref)
        return self._again(r, ref, self.visit(r.value))

    def visit_ref_read(self, r: RefRead) -> RelayExpr:
        return self._again(r, self.visit(r.ref))

    def visit_constructor(self, con: Constructor) -> RelayExpr:
        return con

    def visit_match(self, m: Match) -> RelayExpr:
        data = self.visit(m.data)
        results = [self.visit(clause.rhs) for clause in m.clauses]
        if data is m.data and all(new is old.rhs for new, old in zip(results, m.clauses, strict=True)):
            return m
        clauses = [Clause(old.lhs, new) for old, new in zip(m.clauses, results, strict=True)]
        return Match(data, clauses, m.complete, self.visit_span(m.span))
