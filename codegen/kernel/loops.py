"""A small loop-nest language between schedules and writers.

Values are tensor expressions; a local variable is a tensor without dimensions, a local array a tensor with static
dimensions. Its meaning is sequential: a kind of loop is only leave to run it otherwise, never a change of what it
computes (the lanes of a VectorStore all read before any writes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.te import Dimension, Index, PrimExpr, Tensor

SERIAL, SIMD, UNROLL = "serial", "simd", "unroll"


class Stmt:
    """A statement of a kernel. Each language's writer has a rule for the kinds that it knows, some of them its own."""


@dataclass(frozen=True, eq=False)
class For(Stmt):
    """*body* for *index* from *start* up to *extent*; *kind* is leave to run it otherwise than one after another.

    *overlaps*: its last two iterations store some elements both, the same numbers; one thread does these two.
    """

    index: Index
    extent: Dimension
    body: Sequence[Stmt]
    kind: str = SERIAL
    start: Dimension = 0
    overlaps: bool = False


@dataclass(frozen=True, eq=False)
class Store(Stmt):
    """``target[indices] = value``."""

    target: Tensor
    indices: Sequence[PrimExpr]
    value: PrimExpr


@dataclass(frozen=True, eq=False)
class VectorStore(Stmt):
    """``target[indices] = value`` for every *lane* from 0 to its extent at once.

    *value* is any expression without a Reduce. *count*, a number, stores the first *count* lanes alone, and loads no
    element for the others: the end of an axis that does not fill a vector.
    """

    target: Tensor
    indices: Sequence[PrimExpr]
    value: PrimExpr
    lane: Index
    count: int | None = None


@dataclass(frozen=True, eq=False)
class AddLanes(Stmt):
    """``target[indices] = `` the fold of all elements of the vector variable *source*: ``sum prod min max``."""

    target: Tensor
    indices: Sequence[PrimExpr]
    source: Tensor
    kind: str = "sum"


@dataclass(frozen=True, eq=False)
class LetStmt(Stmt):
    """*index* has the value *value* for the rest of the block."""

    index: Index
    value: PrimExpr


@dataclass(frozen=True, eq=False)
class Alloc(Stmt):
    """A local: a scalar for a tensor without dimensions, else an array; *vector*: its single axis is one register.

    *init* is its value; each lane of a vector gets the value for *lane*, or all the same one where *lane* is None. Of
    *count*, where it is given, only so many lanes exist, as for a VectorStore; the others are unspecified. Arrays start
    unset; an *aligned* one begins at a cache line, for vectors. A vector that is *held* is read several times: it is to
    stay in its register, where a compiler would rather have each reader load it again.
    """

    tensor: Tensor
    init: PrimExpr | None = None
    vector: bool = False
    lane: Index | None = None
    count: int | None = None
    aligned: bool = False
    held: bool = False


@dataclass(frozen=True, eq=False)
class IfThenElse(Stmt):
    """*body* where *cond* holds."""

    cond: PrimExpr
    body: Sequence[Stmt]


@dataclass(frozen=True, eq=False)
class Share(Stmt):
    """Declare *begin* and *end*: the part of 0 to *extent* that this thread does, for the rest of the block.

    The threads of a team get contiguous parts whose lengths differ by one at most; one alone gets all. With *row*, the
    last two of every *row* of them stay together, and lengths differ by two at most.
    """

    begin: Index
    end: Index
    extent: Dimension
    row: int = 0


@dataclass(frozen=True, eq=False)
class Barrier(Stmt):
    """No thread of the team goes on before all are here: what any of them stored before, every one may load after."""


@dataclass(frozen=True, eq=False)
class Prefetch(Stmt):
    """Leave to fetch the element of *tensor* at *indices* into a cache that is near; it may lie outside the tensor."""

    tensor: Tensor
    indices: Sequence[PrimExpr]


@dataclass(frozen=True, eq=False)
class MatrixShapes(Stmt):
    """Give the processor's matrix registers, by their numbers, shapes: pairs of rows and words of 32 bits in each.

    They hold zeros then. Below, every statement on them is about these shapes.
    """

    shapes: Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class MatrixZero(Stmt):
    """The matrix register *number* holds zeros."""

    number: int


@dataclass(frozen=True, eq=False)
class MatrixLoad(Stmt):
    """Each row of the matrix register *number* holds what lies from ``source[indices]`` plus ``k * step`` elements on.

    *k* counts the rows, or those of *inside*, where that is given: then other rows hold zeros, and nothing is read.
    """

    number: int
    source: Tensor
    indices: Sequence[PrimExpr]
    step: int
    inside: range | None = None


@dataclass(frozen=True, eq=False)
class MatrixDot(Stmt):
    """Add to each element of *total* the *dot* products of words in a row of *left* and a column of *right*.

    *swapped*: the words of *right* are the first argument of *dot*, one of ``te.expr.DOTS``.
    """

    total: int
    left: int
    right: int
    dot: str
    swapped: bool = False


@dataclass(frozen=True, eq=False)
class MatrixStore(Stmt):
    """Row ``r`` of the matrix register *number* goes to where ``target[indices]`` plus ``r * step`` elements lies."""

    target: Tensor
    indices: Sequence[PrimExpr]
    step: int
    number: int


@dataclass(frozen=True, eq=False)
class MatrixRelease(Stmt):
    """No matrix register is in use any more."""


@dataclass(frozen=True)
class WrittenFunction:
    """A function, or a type, that is written by hand: an algorithm that is no loop nest over elements.

    It stands once in a source, whoever calls it. *name* says all that its text depends on but the dialect, which
    *write* follows; ``calls`` are those that must stand before it.
    """

    name: str
    write: Callable[[ExprWriter], str]
    calls: tuple[WrittenFunction, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrittenFunction) and other.name == self.name


def in_order(functions: Iterable[WrittenFunction]) -> Iterator[WrittenFunction]:
    """*functions* and all that they call, each behind what it calls, some perhaps twice."""
    for function in functions:
        yield from in_order(function.calls)
        yield function


@dataclass(frozen=True)
class Outside:
    """The address of the variable that keeps what a *check* of indices finds in a dimension of *extent*."""

    check: str
    extent: Dimension


Argument = Tensor | PrimExpr | int | None | Sequence[Dimension] | Sequence[Outside]


@dataclass(frozen=True, eq=False)
class CallFunction(Stmt):
    """A call of *function*.

    A tensor is the pointer to its memory, None the null pointer, a sequence an array that lives as long as the call.
    """

    function: WrittenFunction
    arguments: Sequence[Argument]
