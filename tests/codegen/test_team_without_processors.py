"""Runs of a team whose threads wait for a processor: some are the caller's alone, whatever the machine has to do."""

from __future__ import annotations

import cffi
import pytest

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.whole.natives import NATIVES
from byoc.codegen.c.whole.support import POOL, PREAMBLE
from byoc.runtime.dso.library_file import LibraryFile
from byoc.runtime.dso.run_state import RunState

FFI = cffi.FFI()
DECLARED = """
void *pool_new(int64_t threads, void *run);
void pool_free(void *pool);
int32_t pool_run(void *pool, void *program, void **args, const int64_t *sizes, uint8_t *workspace, void *externals);
int32_t slow_beside(void **args, const int64_t *sizes, uint8_t *workspace, const void *team, void *externals);
"""
# the second thread takes sizes[0] microseconds, as one that has no processor; the first sizes[1] when it is alone
PROGRAM = """
int32_t slow_beside(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals);
int32_t slow_beside(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals) {
  const struct timespec beside = {0, 1000 * sizes[0]}, alone = {0, 1000 * sizes[1]};
  if (team->thread == 1) nanosleep(&beside, 0);
  if (team->threads == 1) nanosleep(&alone, 0);
  if (team->thread == 0) *(int64_t *)args[0] = team->threads;
  (void)workspace;
  (void)externals;
  return team_wait(team);
}
"""
STALL = 60_000


def threads_of_runs(beside: int, alone: int, runs: int) -> list[int]:
    """How many threads made each of *runs* runs of a team of two."""
    library = LibraryFile(find_compiler().build("\n".join([PREAMBLE, NATIVES, POOL, PROGRAM]))).open(DECLARED)
    state = RunState()
    pool = library.pool_new(2, state.struct)
    used = FFI.new("int64_t *")
    args, sizes = FFI.new("void *[1]", [used]), FFI.new("int64_t[2]", [beside, alone])
    program = FFI.cast("void *", library.slow_beside)
    found = []
    for _ in range(runs):
        assert library.pool_run(pool, program, args, sizes, FFI.NULL, FFI.NULL) == 0
        found.append(int(used[0]))
    library.pool_free(pool)
    return found


@pytest.mark.needs_cc
def test_a_team_that_waits_for_processors_is_done_without_more_each_time() -> None:
    assert threads_of_runs(STALL, 0, 16) == [2, *[1] * 4, 2, *[1] * 8, 2, 1]


@pytest.mark.needs_cc
def test_a_caller_that_takes_longer_alone_goes_on_with_the_team() -> None:
    assert threads_of_runs(STALL, 4 * STALL, 6) == [2, 1, 2, 2, 2, 2]
