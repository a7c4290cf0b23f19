"""The function that is a whole model, as native code: how it is called, alone or with a team of threads."""

from __future__ import annotations

import operator
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from byoc.runtime.core.errors import ArtifactError, UnavailableError
from byoc.runtime.core.ndarray import ALIGNMENT
from byoc.runtime.dso.library_file import LibraryFile
from byoc.runtime.dso.run_state import FFI, RunState
from byoc.runtime.dso.whole_program import WholeProgram
from byoc.runtime.graph.executor_base import check_arena
from byoc.runtime.graph.memory_plan import Lifetime, MemoryPlan, plan_memory

MOST_ROOM = 4  # times what a run needs that an arena may have which was taken for another one

_PROGRAM = """
int32_t {symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const void *team, void *externals);
void *pool_new(int64_t threads, void *run);
void pool_free(void *pool);
int32_t pool_run(
  void *pool, void *program, void **args, const int64_t *sizes, uint8_t *workspace, void *externals);
int32_t loop_run(void *pool, const void *alone, void *program, void **args, const int64_t *sizes, uint8_t *workspace,
  void *externals, void *loop);
int32_t growing_run(void *pool, const void *alone, void *program, void **args, const int64_t *sizes, int64_t row,
  uint8_t *workspace, void *externals, void *loop);
"""
_BUFFERS = "void {symbol}(const int64_t *sizes, int64_t *bytes);"


class NativeProgram:
    """A :class:`WholeProgram` of a shared library. Raises ArtifactError when the library lacks its functions."""

    def __init__(self, file: LibraryFile, whole: WholeProgram):
        self.whole = whole
        declarations = _PROGRAM.format(symbol=whole.symbol)
        if whole.arena_bytes is None:
            declarations += _BUFFERS.format(symbol=whole.buffers_symbol)
        self._handle = file.open(declarations)
        try:
            self.run = getattr(self._handle, whole.symbol)
            self._buffers: Any = getattr(self._handle, whole.buffers_symbol) if whole.arena_bytes is None else None
        except AttributeError as error:
            raise ArtifactError(f"the compiled library lacks a function: {error}") from error

    def buffer_bytes(self, sizes: Sequence[int]) -> list[int]:
        """The bytes of each buffer of the arena when the named sizes are *sizes*."""
        count = len(self.whole.lifetimes)
        result = FFI.new("int64_t[]", count)
        self._buffers(FFI.new("int64_t[]", list(sizes)), result)
        return list(result)

    def buffer_bytes_of_runs(self, rows: np.ndarray) -> np.ndarray:
        """As :meth:`buffer_bytes`, for the sizes at the begin of each of *rows*: ``int64[runs, buffers]``."""
        found = np.empty((len(rows), len(self.whole.lifetimes)), np.int64)
        if not found.size:
            return found
        sizes, bytes_of = FFI.from_buffer("int64_t[]", rows), FFI.from_buffer("int64_t[]", found)
        for run in range(len(rows)):
            self._buffers(sizes + run * rows.shape[1], bytes_of + run * found.shape[1])
        return found

    def growing_runner(
        self, team: Team | None, state: RunState
    ) -> Callable[[object, object, int, object, object, object], int] | None:
        """``run(args, sizes, row, workspace, externals, loop)``: as :meth:`loop_runner`, with sizes of each run.

        None in a library without such loops.
        """
        run = getattr(self._handle, "growing_run", None)
        if run is None:
            return None
        program = FFI.cast("void *", self.run)
        pool = FFI.NULL if team is None else team.pool
        return lambda args, sizes, row, workspace, externals, loop: int(
            run(pool, state.alone, program, args, sizes, row, workspace, externals, loop)
        )

    def loop_runner(
        self, team: Team | None, state: RunState
    ) -> Callable[[object, object, object, object, object], int] | None:
        """``run(args, sizes, workspace, externals, loop)`` on *team*, or alone; None in a library without loops."""
        run = getattr(self._handle, "loop_run", None)
        if run is None:
            return None
        program = FFI.cast("void *", self.run)
        pool = FFI.NULL if team is None else team.pool
        return lambda args, sizes, workspace, externals, loop: int(
            run(pool, state.alone, program, args, sizes, workspace, externals, loop)
        )

    def team(self, threads: int, state: RunState, running: threading.Lock) -> Team:
        """A team of so many threads, whose runs have *state*; *running* is held during a run.

        Raises UnavailableError where the system does not give them.
        """
        return Team(self._handle, self.run, threads, state, running)


class Workspace:
    """The memory in which a program has its buffers.

    Attributes:
        memory: where each of them lies.
        place: the address of the first one.
    """

    def __init__(self) -> None:
        self.memory = MemoryPlan((), 0)
        self._rooms: list[int] = []  # the bytes that it has for each buffer
        self.place: Any = FFI.NULL
        self._arena = np.empty(0, np.uint8)

    def take_rooms(self, bytes_of: Sequence[int], lifetimes: Sequence[tuple[int, int]]) -> None:
        """Have room for buffers of so many bytes: what there is, unless it is much too large.

        Where sizes grow a little from run to run, as in a loop that joins what it finds, there is room for some more.
        Raises UserError for more than this machine has.
        """
        rooms = self._rooms
        if rooms and all(map(operator.le, bytes_of, rooms)) and sum(rooms) <= MOST_ROOM * max(sum(bytes_of), 1):
            return
        pairs = list(zip(bytes_of, rooms, strict=False))
        grows = bool(rooms) and all(size <= 2 * max(room, ALIGNMENT) for size, room in pairs)
        rooms = [size + size // 2 if size > room else size for size, room in pairs] if grows else list(bytes_of)
        self.take(plan_memory([Lifetime(size, *life) for size, life in zip(rooms, lifetimes, strict=True)]))
        self._rooms = rooms

    def take(self, memory: MemoryPlan) -> None:
        """Have memory as *memory* says. Raises UserError for more than this machine has."""
        check_arena(memory.total)
        self.memory = memory
        self._arena = np.empty(memory.total + ALIGNMENT, np.uint8)
        start = self._arena.ctypes.data
        self.place = FFI.cast("uint8_t *", start + -start % ALIGNMENT)

    def leave(self) -> object:
        """What holds the memory, on which something is at work still; what is taken next is other memory."""
        self._rooms, self.place = [], FFI.NULL
        return self._arena


class Team:
    """Threads that run a program together, this one counted in; they end with this object, or with the process."""

    def __init__(self, handle: Any, program: object, threads: int, state: RunState, running: threading.Lock):
        pool = handle.pool_new(threads, state.struct)
        if pool == FFI.NULL:
            raise UnavailableError(f"the system gives no {threads} threads: ask for fewer with threads=")
        self.pool, self._run = pool, handle.pool_run
        self._program = FFI.cast("void *", program)
        self._handle, self._process, self._state = handle, os.getpid(), state
        self._end = weakref.finalize(self, _end_when_idle, handle, pool, self._process, running, state)

    def runner(self) -> Callable[[object, object, object, object], int]:
        """``run(args, sizes, workspace, externals)`` on this team."""
        pool, run, program = self.pool, self._run, self._program
        return lambda args, sizes, workspace, externals: run(pool, program, args, sizes, workspace, externals)

    def end(self) -> None:
        """End the threads now. Requires that no run goes on."""
        if self._end.detach() is not None:
            _end_pool(self._handle, self.pool, self._process)


def _end_when_idle(handle: object, pool: object, process: int, running: threading.Lock, _state: RunState) -> None:
    """The end of a team that nobody holds any more, and of the state to which it points.

    At the process's end a thread may still be in a run.
    """
    if running.acquire(blocking=False):
        _end_pool(handle, pool, process)
        running.release()


def _end_pool(handle: Any, pool: object, process: int) -> None:
    if os.getpid() == process:  # the threads of a parent process are not in its child
        handle.pool_free(pool)
