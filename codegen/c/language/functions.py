"""Functions of C that are written by hand: what an algorithm needs that is no loop nest over elements.

A :class:`CFunction` stands once in a source, whoever calls it; its text may follow the dialect through the writer of
expressions. A :class:`CallFunction` is the statement that calls one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from byoc.codegen.kernel.expr_text import ExprWriter, outside_name
from byoc.codegen.kernel.loops import Stmt
from byoc.codegen.kernel.simplify import as_index
from byoc.codegen.kernel.writer import Writer
from byoc.te import Dimension, PrimExpr, Tensor


@dataclass(frozen=True)
class CFunction:
    """A function, or a type, by its *name*, which says all that its text depends on but the dialect.

    *write* gives the text; ``calls`` are those that must stand before it.
    """

    name: str
    write: Callable[[ExprWriter], str]
    calls: tuple[CFunction, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CFunction) and other.name == self.name


def in_order(functions: Iterable[CFunction]) -> Iterator[CFunction]:
    """*functions* and all that they call, each behind what it calls, some perhaps twice."""
    for function in functions:
        yield from in_order(function.calls)
        yield function


@dataclass(frozen=True)
class Outside:
    """The address of the variable that keeps what a *check* of indices finds in a dimension of *extent*."""

    check: str
    extent: Dimension


Argument = Tensor | PrimExpr | int | None | Sequence["Dimension"] | Sequence[Outside]


@dataclass(frozen=True, eq=False)
class CallFunction(Stmt):
    """A call of *function*.

    A tensor is the pointer to its memory, None the null pointer, a sequence an array that lives as long as the call.
    """

    function: CFunction
    arguments: Sequence[Argument]


class CallWriter(Protocol):
    """What writes the statements of a function."""

    writer: Writer
    exprs: ExprWriter
    functions: dict[CFunction, None]


def call_function(statements: CallWriter, stmt: CallFunction) -> None:
    """Write the call, and note which functions must stand above."""
    statements.functions.update(dict.fromkeys(in_order([stmt.function])))
    arguments = ", ".join(_argument(statements.exprs, a) for a in stmt.arguments)
    statements.writer.line(f"{stmt.function.name}({arguments});")


def _argument(exprs: ExprWriter, argument: Argument) -> str:
    if argument is None:
        return "0"
    if isinstance(argument, Tensor):
        return exprs.names(argument, argument.name)
    if isinstance(argument, PrimExpr | int):
        return exprs.text(exprs.simplify(as_index(argument)))
    values = [_outside(exprs, a) if isinstance(a, Outside) else _argument(exprs, a) for a in argument]
    kind = "uint64_t *const" if any(isinstance(a, Outside) for a in argument) else "const int64_t"
    return f"({kind}[]){{{', '.join(values)}}}"


def _outside(exprs: ExprWriter, argument: Outside) -> str:
    number = exprs.checks.index(argument.check)
    exprs.extents[number] = exprs.text(exprs.simplify(as_index(argument.extent)))
    return f"&{outside_name(number)}"


RULES: dict[type, Callable[..., None]] = {CallFunction: call_function}
