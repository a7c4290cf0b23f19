"""A builder of nested scopes: lets, ifs and a result for each scope. Source: ``tvm.relay.scope_builder``.

>>> from byoc.relay.expr import constant, var
>>> builder, cond = ScopeBuilder(), var("cond", "bool")
>>> with builder.if_scope(cond):
...     builder.ret(constant(1))
>>> with builder.else_scope():
...     builder.ret(constant(2))
>>> type(builder.get()).__name__
'If'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from byoc.ir.expr import RelayExpr
from byoc.ir.types import IncompleteType, Type
from byoc.relay.expr import If, Let, Var, var


@dataclass(frozen=True)
class _HalfIf:
    """An if whose else is not there yet."""

    cond: RelayExpr
    true_branch: RelayExpr


class ScopeBuilder:
    """Collects bindings and the result of each open scope. Source: ``relay.ScopeBuilder``."""

    def __init__(self) -> None:
        self._bindings: list[list[tuple[Var, RelayExpr]]] = [[]]
        self._results: list[RelayExpr | _HalfIf | None] = [None]

    @contextmanager
    def _scope(self, close: Callable[[RelayExpr], RelayExpr | _HalfIf]) -> Iterator[None]:
        """A scope whose value goes through *close* and becomes the result of the scope around it."""
        self._bindings.append([])
        self._results.append(None)
        yield
        value = _lets(self._bindings.pop(), self._results.pop())
        self._results[-1] = close(value)

    def let(self, var: Var | str | Sequence[object], value: RelayExpr) -> Var:
        """Bind *value* to *var*, a variable, its name, or its name and type; returns the variable."""
        bound = _variable(var)
        self._bindings[-1].append((bound, value))
        return bound

    @contextmanager
    def if_scope(self, cond: RelayExpr) -> Iterator[None]:
        """The scope of the branch that is taken where *cond* holds; an :meth:`else_scope` must follow.

        Raises RuntimeError where the scope around it has a result already.
        """
        if self._results[-1] is not None:
            raise RuntimeError("the scope has a result before its if: call if_scope before ret")
        with self._scope(lambda value: _HalfIf(cond, value)):
            yield

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The scope of the other branch of the last if. Raises RuntimeError where no if waits for it."""
        half = self._results[-1]
        if not isinstance(half, _HalfIf):
            raise RuntimeError("an else scope must follow an if scope")
        with self._scope(lambda value: If(half.cond, half.true_branch, value)):
            yield

    def type_of(self, expr: RelayExpr) -> Type | None:
        """The type of *expr*: what a variable is annotated with, else one that inference will find."""
        if isinstance(expr, Var):
            return expr.type_annotation
        unknown = IncompleteType()
        self.let(Var("unify", unknown), expr)
        return unknown

    def ret(self, value: RelayExpr) -> None:
        """Make *value* the result of this scope. Raises RuntimeError where it has one."""
        if self._results[-1] is not None:
            raise RuntimeError("the scope has a result already: call ret once")
        self._results[-1] = value

    def get(self) -> RelayExpr:
        """The whole expression. Raises RuntimeError inside of a scope, and where the result is missing."""
        if len(self._bindings) != 1:
            raise RuntimeError("get can only be called in the outermost scope")
        return _lets(self._bindings[-1], self._results[-1])


def _variable(given: Var | str | Sequence[object]) -> Var:
    if isinstance(given, Var):
        return given
    if isinstance(given, str):
        return var(given)
    if not 1 <= len(given) <= 2:
        raise ValueError(f"a variable is given as its name, or as its name and type, got {given!r}")
    return var(*given)  # type: ignore[arg-type]


def _lets(bindings: Sequence[tuple[Var, RelayExpr]], result: RelayExpr | _HalfIf | None) -> RelayExpr:
    if result is None:
        raise RuntimeError("ret is not called in this scope")
    if isinstance(result, _HalfIf):
        raise RuntimeError("an if scope has no else scope")
    for bound, value in reversed(bindings):
        result = Let(bound, value, result)
    return result
