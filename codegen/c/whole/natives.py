"""What a whole program calls beside its own functions, and how a loop's runs follow each other.

An external is a function of the runtime, called back, or a *native*: a program of another library (a branch, the body
of a loop) that is called without going back to the runtime, on memory that was made ready for it, by thread 0 alone.
The runtime's side is ``runtime/dso/native_block.py`` and ``native_loop.py``.
"""

from __future__ import annotations

from byoc.runtime.dso.run_state import DECISION, LOOP, STRUCTS

_TURNS = """/* The arguments of the next run of a loop. */
static __attribute__((unused)) void loop_next(void **args, const Loop *loop) {
  for (int64_t k = 0; k < loop->moves; ++k) args[loop->to[k]] = args[loop->from[k]];
  for (int64_t k = 0; k < loop->outputs; ++k) {
    void *const now = args[loop->places[k]];
    if (loop->bytes[k] < 0) {
      args[loop->places[k]] = loop->others[k];
      loop->others[k] = now;
    } else {
      args[loop->places[k]] = (uint8_t *)now + loop->bytes[k];
    }
  }
}

/* Whether a loop, whose program has run once more, ends here. */
static __attribute__((unused)) bool loop_ends(void **args, Loop *loop, const Team *team) {
  ++loop->done;
  loop->is_going = *(const uint8_t *)args[loop->going] != 0;
  loop_next(args, loop);
  if (!loop->is_going || loop->done >= loop->most) return true;
  if (team->run->is_watched) run_look(team);
  return run_status(team) != 0;
}
"""
_CALLS = f"""/* An argument that a program fills, or hands on as what nobody fills. */
static void *writable(const void *array) {{
  return (void *)(uintptr_t)array;
}}

static int32_t run_native(Native *native, const void **arrays, const Team *team);

static int32_t run_native_loop(Native *native, const void **arrays, const Team *team) {{
  Loop *loop = native->loop;
  if (*(const uint8_t *)arrays[native->test] == 0) {{
    for (int64_t k = 0; k < native->results; ++k)
      memcpy(writable(arrays[native->result_at[k]]), arrays[native->result_given[k]], (size_t)native->result_bytes[k]);
    return 0;
  }}
  for (int64_t k = 0; k < loop->outputs; ++k) {{
    native->args[loop->places[k]] = native->first[k];
    loop->others[k] = native->second[k];
  }}
  loop->done = 0;
  do {{
    const int32_t status = native->program(native->args, native->sizes, native->workspace, team, native->externals);
    if (status != 0) return status;
  }} while (!loop_ends(native->args, loop, team));
  if (loop->is_going) return run_status(team);
  for (int64_t k = 0; k < native->results; ++k) {{
    const int64_t from = native->result_from[k];
    const void *source = from < 0 ? arrays[native->result_given[k]] : loop->others[from];
    memcpy(writable(arrays[native->result_at[k]]), source, (size_t)native->result_bytes[k]);
  }}
  return 0;
}}

static int32_t run_native(Native *native, const void **arrays, const Team *team) {{
  if (native->kind == {DECISION})
    native->failed = run_native(*(const uint8_t *)arrays[native->test] ? native->then : native->other, arrays, team);
  else {{
    for (int64_t k = 0; k < native->count; ++k) native->args[native->to[k]] = writable(arrays[native->from[k]]);
    native->failed = native->kind == {LOOP}
      ? run_native_loop(native, arrays, team)
      : native->program(native->args, native->sizes, native->workspace, team, native->externals);
  }}
  return (int32_t)native->failed;
}}

/* Thread 0 calls, the others wait; all get what it gave, or why they leave. */
static __attribute__((unused)) int32_t call_external(
  Externals *externals, int64_t which, const void **arrays, const Team *team) {{
  if (team->thread == 0) {{
    Native *native = externals->natives[which];
    const Team alone = {{0, 1, 0, team->run}};
    externals->status = native ? run_native(native, arrays, &alone) : externals->functions[which](arrays);
  }}
  const int32_t stopped = team_wait(team);
  return externals->status != 0 ? externals->status : stopped;
}}
"""
NATIVES = "\n".join([STRUCTS, _TURNS, _CALLS])
LOOPS = """int32_t growing_run(Pool *pool, const Team *alone, Program program, void **args, const int64_t *sizes,
                    int64_t row, uint8_t *workspace, Externals *table, Loop *loop);
/* Run a program until it says that it was the last time, or `most` times: by the threads of the pool, or alone. The
   sizes of each run stand `row` numbers behind those of the run before. */
int32_t growing_run(Pool *pool, const Team *alone, Program program, void **args, const int64_t *sizes,
                    int64_t row, uint8_t *workspace, Externals *table, Loop *loop) {
  const Team *team = pool ? &pool_workers(pool)->team : alone;
  loop->done = 0;
  do {
    const int64_t *now = sizes + loop->done * row;
    const int32_t status = pool ? pool_run(pool, program, args, now, workspace, table)
                                : program(args, now, workspace, team, table);
    if (status != 0) return status;
  } while (!loop_ends(args, loop, team));
  return loop->is_going ? run_status(team) : 0;
}

int32_t loop_run(Pool *pool, const Team *alone, Program program, void **args, const int64_t *sizes,
                 uint8_t *workspace, Externals *table, Loop *loop);
/* The same, where the sizes stay. */
int32_t loop_run(Pool *pool, const Team *alone, Program program, void **args, const int64_t *sizes,
                 uint8_t *workspace, Externals *table, Loop *loop) {
  return growing_run(pool, alone, program, args, sizes, 0, workspace, table, loop);
}
"""
