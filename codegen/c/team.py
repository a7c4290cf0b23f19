"""Work of one loop nest over the threads of a team, and the definitions that the emitted code needs for it.

Every thread of a team runs every group function with its own ``team``; a loop that is shared runs over this thread's part
alone, so each element is stored by one thread, whatever their number, and computed in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.kernel.loops import For, If, Share, Stmt
from byoc.codegen.kernel.simplify import as_index
from byoc.te import Dimension, Index
from byoc.te.expr import Const

DEFINITIONS = """/* One thread of the threads that run a function together, and where they meet. */
typedef struct {
  int64_t thread, threads;
  int32_t *meeting; /* how many have arrived, and how often all have */
} Team;

static inline void team_wait(const Team *team) {
  if (team->threads == 1) return;
  int32_t *arrived = team->meeting, *turn = team->meeting + 16;
  const int32_t now = __atomic_load_n(turn, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL) == team->threads) {
    __atomic_store_n(arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(turn, now + 1, __ATOMIC_RELEASE);
    return;
  }
  while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) == now) {
  }
}
"""


def shared(statements: Sequence[Stmt]) -> list[Stmt]:
    """*statements* with their outermost loops over the team's threads; what is no loop nest is done by one thread.

    Requires that no nest loads what another stores.
    """
    if any(isinstance(s, Share) for s in statements):
        return list(statements)  # its schedule has done it
    if not all(isinstance(s, For) for s in statements):
        return _by_one(statements)
    return [new for s in statements for new in _shared_loop(s)]  # type: ignore[arg-type]


def _shared_loop(loop: For) -> list[Stmt]:
    """The first loop of *loop*'s nest that does something more than once, shared."""
    inner = loop.body[0] if len(loop.body) == 1 else None
    if _is(loop, 0):
        return [loop]
    if _is(loop, 1) and isinstance(inner, For):
        return [For(loop.index, loop.extent, _shared_loop(inner))]
    begin, end = bounds_of_share(loop.extent)
    return [Share(begin, end, loop.extent), For(loop.index, end, loop.body, loop.kind, begin)]


def bounds_of_share(extent: Dimension) -> tuple[Index, Index]:
    """The variables that a :class:`Share` of *extent* declares; both may be *extent* itself."""
    return Index("begin", as_index(extent) + 1), Index("end", as_index(extent) + 1)


def _is(loop: For, count: int) -> bool:
    extent = loop.extent.value if isinstance(loop.extent, Const) else loop.extent
    return extent == count


def _by_one(statements: Sequence[Stmt]) -> list[Stmt]:
    begin, end = bounds_of_share(1)
    return [Share(begin, end, 1), If(begin < end, list(statements))]
