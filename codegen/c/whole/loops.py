"""A whole program that is the body of a loop, run again and again without going back to the runtime in between.

``loop_run`` makes up to ``most`` runs. After each the values that are carried become inputs: addresses change, nothing
is copied. An output takes turns between two places, or goes on by the bytes of one element, where a loop collects it.
The runtime's side is ``runtime/dso/native_loop.py``, whose struct has the same fields.
"""

from __future__ import annotations

from byoc.runtime.dso.native_program import LOOP_FIELDS

LOOPS = f"""/* How the arguments of a program change from one run of a loop to the next. */
typedef struct {{
{LOOP_FIELDS}
}} Loop;

static void loop_next(void **args, const Loop *loop) {{
  for (int64_t k = 0; k < loop->moves; ++k) args[loop->to[k]] = args[loop->from[k]];
  for (int64_t k = 0; k < loop->outputs; ++k) {{
    void *const now = args[loop->places[k]];
    if (loop->bytes[k] < 0) {{
      args[loop->places[k]] = loop->others[k];
      loop->others[k] = now;
    }} else {{
      args[loop->places[k]] = (uint8_t *)now + loop->bytes[k];
    }}
  }}
}}

int32_t loop_run(Pool *pool, const Team *alone, Program program, void **args, const int64_t *sizes,
                 uint8_t *workspace, Externals *table, Loop *loop);
/* Run a program until it says that it was the last time, or `most` times: by the threads of the pool, or alone. */
int32_t loop_run(Pool *pool, const Team *alone, Program program, void **args, const int64_t *sizes,
                 uint8_t *workspace, Externals *table, Loop *loop) {{
  const Team *team = pool ? &pool_workers(pool)->team : alone;
  for (loop->done = 0; loop->done < loop->most;) {{
    const int32_t status = pool ? pool_run(pool, program, args, sizes, workspace, table)
                                : program(args, sizes, workspace, team, table);
    if (status != 0) return status;
    ++loop->done;
    loop->is_going = *(const uint8_t *)args[loop->going] != 0;
    loop_next(args, loop);
    if (!loop->is_going) return 0;
    if (team->run->is_watched) run_look(team);
    if (run_status(team) != 0) return run_status(team);
  }}
  return 0;
}}
"""
