"""The state of a native run that its threads share with Python, and the C structs of loops and inner programs.

:data:`RUN_FIELDS` are the fields of the C struct ``Run``, the same text in generated C and in what cffi reads. Native
code looks at the time and calls :class:`RunState`'s poll at its barriers, so that a run ends between two groups; a
signal's handler of Python runs in that call, with what it raises kept and raised again behind the native code. The
state belongs to one executor or one thread, for one run at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import cffi

from byoc.runtime.core.errors import InternalError, index_outside
from byoc.runtime.core.time_limit import LIMIT, timed_out

FAILED, OUTSIDE, TIMED_OUT, INTERRUPTED = 1, 2, 3, 4  # what a native run gives beside 0
POLL_NANOSECONDS = 40_000_000  # how often a long run lets Python handle signals
RUN_FIELDS = """\
  int32_t is_watched; /* whether there is a deadline or a poll */
  int32_t asked; /* why the threads shall leave, or 0 */
  int32_t agreed; /* why all leave the present barrier, or 0 */
  int32_t writing, found; /* an index that was outside its dimension */
  int64_t check, extent;
  uint64_t place; /* the index, counted from the end where it is negative */
  int64_t deadline, next_poll; /* nanoseconds of the monotonic clock */
  int32_t (*poll)(void); /* whether to stop */"""

FFI = cffi.FFI()
FFI.cdef(f"typedef struct {{\n{RUN_FIELDS}\n}} Run;")
FFI.cdef("typedef struct { int64_t thread, threads; void *meeting; Run *run; } Team;")
_MAIN = threading.main_thread().ident


class RunState:
    """The C struct of a run, and ``alone``: the team of a single thread that runs with it."""

    def __init__(self) -> None:
        self.struct = FFI.new("Run *")
        self.alone = FFI.new("Team *", [0, 1, FFI.NULL, self.struct])
        self.is_watched = self.has_deadline = False
        self._error: BaseException | None = None
        self._poll = FFI.callback("int32_t(void)", _go_on, error=1, onerror=self._keep)

    def watch(self, is_long: bool) -> None:
        """Have the next run keep to this thread's deadline and, where it *is_long*, notice signals."""
        struct, deadline = self.struct, LIMIT.deadline
        polls = is_long and threading.get_ident() == _MAIN
        is_watched = polls or deadline != 0
        if is_watched == self.is_watched and not deadline and not self.has_deadline:
            return
        struct.deadline, self.has_deadline = deadline, deadline != 0
        struct.poll = self._poll if polls else FFI.NULL
        self.is_watched = struct.is_watched = is_watched

    def error_of(self, status: int, checks: Sequence[str]) -> BaseException | None:
        """What a run that gave *status* came to, which is ready for another now; None where a function failed.

        *checks* name the checks of indices by their numbers. An InputError for an index outside its dimension, a
        RunTimeoutError, or whatever a signal's handler raised.
        """
        struct, error, self._error = self.struct, self._error, None
        check, place, extent = struct.check, struct.place, struct.extent
        struct.asked = struct.agreed = struct.found = 0
        if error is not None:
            return error
        if status == OUTSIDE:
            return index_outside(checks[check] if 0 <= check < len(checks) else "", place, extent)
        if status == TIMED_OUT:
            return timed_out()
        return None if status == FAILED else InternalError(f"the compiled program ended with {status}")

    def _keep(self, kind: object, error: BaseException, traceback: object) -> None:
        self._error = error


def _go_on() -> int:
    """Nothing: a function of Python, at whose beginning the handlers of signals run."""
    return 0


# The C structs by which generated code runs loops and other programs, the same text as in
# ``codegen/c/whole/natives.py``. A :data:`PROGRAM` is a pointer to a whole program.

CALL, DECISION, LOOP = 0, 1, 2  # kinds of Native
TURNS = -1  # instead of bytes: an output that takes turns between two places
STRUCTS = """\
/* How the arguments of a program change from one run of a loop to the next. */
typedef struct {
  int64_t most, done; /* runs: at most, and made */
  int64_t going; /* the argument that says whether there is another run */
  int64_t is_going; /* what it said last */
  int64_t moves; /* how many inputs get what an output was */
  const int64_t *to, *from;
  int64_t outputs; /* how many outputs change their place */
  const int64_t *places;
  const int64_t *bytes; /* how far each goes on; below 0: it takes turns with the other place */
  void **others;
} Loop;

struct Externals;
typedef int32_t (*Program)(void **, const int64_t *, uint8_t *, const Team *, struct Externals *);

/* A program of another library that is called as a function of arrays: once, if one of them says so, or repeatedly. */
typedef struct Native {
  int64_t kind; /* 0: a call, 1: a decision, 2: a loop */
  int64_t failed; /* what the last call gave */
  Program program;
  void **args;
  const int64_t *sizes;
  uint8_t *workspace;
  struct Externals *externals;
  int64_t count; /* how many arguments are arrays of the call */
  const int64_t *to, *from;
  int64_t test; /* the array that decides: which of both, or whether there is a first run */
  struct Native *then, *other;
  Loop *loop;
  void **first, **second; /* the places of the loop's outputs in its first run */
  int64_t results; /* arrays that the loop fills */
  const int64_t *result_at, *result_from; /* from: an output that takes turns, or below 0 an array that stays */
  const int64_t *result_given; /* the array that holds it where there is no run */
  const int64_t *result_bytes;
} Native;

/* Functions that are not in this source, and what the last one that was called gave: 0, or an error. */
typedef struct Externals {
  int32_t (**functions)(const void **arrays);
  int32_t status;
  Native **natives; /* what is called instead of a function, where it is not 0 */
} Externals;
"""
FFI.cdef(STRUCTS)
