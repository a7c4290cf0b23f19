"""The function that is a whole model, as native code: how it is called, alone or with a team of threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from byoc.runtime.core.errors import ArtifactError, UnavailableError
from byoc.runtime.dso.library_file import LibraryFile
from byoc.runtime.dso.run_state import FFI, RunState
from byoc.runtime.dso.whole_program import WholeProgram

_PROGRAM = """
int32_t {symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const void *team, void *externals);
void *pool_new(int64_t threads, void *run);
void pool_free(void *pool);
int32_t pool_run(
  void *pool, void *program, void **args, const int64_t *sizes, uint8_t *workspace, void *externals);
int32_t loop_run(void *pool, const void *alone, void *program, void **args, const int64_t *sizes, uint8_t *workspace,
  void *externals, void *loop);
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
