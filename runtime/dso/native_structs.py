"""The C structs by which generated code runs loops and other programs by itself; the same text in both languages.

Generated code has them from ``codegen/c/whole/natives.py``. A :data:`PROGRAM` is a pointer to a whole program.
"""

from __future__ import annotations

from byoc.runtime.dso.run_state import FFI

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
