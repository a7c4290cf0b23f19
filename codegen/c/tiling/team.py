"""Work of one loop nest over the threads of a team, whose C stands in ``whole/support.py``.

Every thread of a team runs every group function with its own ``team``; a loop that is shared runs over this thread's
part alone, so each element is stored by one thread, whatever their number, and computed in the same order. Where the
last block of an axis is moved back over the one before, one thread does both.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.kernel.loops import For, IfThenElse, LetStmt, Share, Stmt
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.te import Dimension, Index, PrimExpr, const
from byoc.te.expr import INDEX, Const

ENOUGH = 32  # iterations, so that the parts of eight threads differ little
SOME = 4  # with fewer, the loops inside are shared


def shared(statements: Sequence[Stmt], depth: int | None = None) -> list[Stmt]:
    """*statements* with their outermost loops over the team's threads; what is no loop nest is done by one thread.

    Requires that no nest loads what another stores; with *depth*, that no position of a nest's first *depth* loops
    loads what another position stores: then it is one of these loops that is shared, and none inside them.
    """
    if any(isinstance(s, Share) for s in statements):
        return list(statements)  # its schedule has done it
    nests = [s for s in statements if isinstance(s, For)]
    if len(nests) != len(statements):
        return _by_one(statements)
    return [new for nest in nests for new in _shared_loop(nest, depth)]


def _shared_loop(loop: For, depth: int | None) -> list[Stmt]:
    """*loop*'s nest shared: by its first loop, by several as one, or by a loop inside where the first are short."""
    if _is(loop, 0):
        return [loop]
    short = isinstance(loop.extent, int) and loop.extent < ENOUGH
    if short and depth != 1 and all(isinstance(s, For) for s in loop.body):
        inside = None if depth is None else depth - 1
        return _joined(loop) or [For(loop.index, loop.extent, shared(loop.body, inside), loop.kind, loop.start)]
    joined = [] if isinstance(loop.extent, int) or depth == 1 else _joined(loop)  # a free size may be one
    if joined:
        return joined
    begin, end = bounds_of_share(loop.extent)
    return [Share(begin, end, loop.extent, _row(loop)), For(loop.index, end, loop.body, loop.kind, begin)]


def _row(loop: For) -> int:
    """The iterations of *loop* of which the last two stay together, or 0."""
    return int(loop.extent) if loop.overlaps else 0


def _joined(loop: For) -> list[Stmt]:
    """The first loops of *loop*'s nest as one, shared; nothing where the loops that may be joined are very short too.

    The innermost loop stays as it is: its index is not worth a division. A loop whose iterations overlap is the last
    that is joined, so that these follow each other.
    """
    if not _runs_over_its_index(loop):
        return []
    chain, count = [loop], _at_least(loop.extent)
    while count < ENOUGH and not chain[-1].overlaps:
        body = chain[-1].body
        inner = body[0] if len(body) == 1 else None
        if not (isinstance(inner, For) and _runs_over_its_index(inner)):
            break
        if not any(isinstance(s, For) for s in inner.body):
            break
        chain.append(inner)
        count *= _at_least(inner.extent)
    if len(chain) == 1 or (count < SOME and all(isinstance(part.extent, int) for part in chain)):
        return []
    return shared_over([part.index for part in chain], chain[-1].body, "joined", _row(chain[-1]))


def _runs_over_its_index(loop: For) -> bool:
    return loop.start == 0 and loop.index.extent == loop.extent


def _at_least(extent: Dimension) -> int:
    """The iterations that are sure: a free size may be one."""
    return extent if isinstance(extent, int) else 1


def shared_over(axes: Sequence[Index], body: Sequence[Stmt], name: str = "part", row: int = 0) -> list[Stmt]:
    """*body* at every position of *axes*, the first outermost, in one loop whose parts the team shares.

    Of every *row* positions, where it is given, one thread does the last two.
    """
    count = _count(axes)
    begin, end = bounds_of_share(count)
    moving = [a for a in axes if a.extent != 1]
    if len(moving) == 1:
        return [Share(begin, end, count, row), For(moving[0], end, body, start=begin)]
    part = Index(name, count)
    return [Share(begin, end, count, row), For(part, end, [*places_in(axes, part), *body], start=begin)]


def places_in(axes: Sequence[Index], flat: PrimExpr) -> list[Stmt]:
    """Declares where *axes* stand at the position *flat* of all of them as one, the last the fastest."""
    moving = [a for a in axes if a.extent != 1]
    places: list[Stmt] = []
    for axis in reversed(moving):
        places.insert(0, LetStmt(axis, flat if axis is moving[0] else flat % as_index(axis.extent)))
        flat = flat // as_index(axis.extent)
    return places


def _count(axes: Sequence[Index]) -> Dimension:
    """The positions of *axes* together."""
    count: PrimExpr = const(1, INDEX)
    for axis in axes:
        count = count * as_index(axis.extent)
    simple = Simplifier()(count)
    return int(simple.value) if isinstance(simple, Const) else simple


def bounds_of_share(extent: Dimension) -> tuple[Index, Index]:
    """The variables that a :class:`Share` of *extent* declares; both may be *extent* itself."""
    return Index("begin", as_index(extent) + 1), Index("end", as_index(extent) + 1)


def _is(loop: For, count: int) -> bool:
    extent = loop.extent.value if isinstance(loop.extent, Const) else loop.extent
    return extent == count


def _by_one(statements: Sequence[Stmt]) -> list[Stmt]:
    begin, end = bounds_of_share(1)
    return [Share(begin, end, 1), IfThenElse(begin < end, list(statements))]
