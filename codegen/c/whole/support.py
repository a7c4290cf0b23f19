"""What stands above the functions of every source: the headers, and the team of threads that runs them.

A team's threads call the same functions with the same arguments, but for their own ``Team``. They meet at barriers:
who waits spins for a short while, then leaves the processor to others, then sleeps, so that a machine with fewer
processors than threads goes on. The pool of threads behind a team lives on the heap of whoever made it. Where the
caller of a run waits most of it for threads that have no processor, it makes some of the next runs by itself, with the
same bits.

A run can be asked to stop: because its time is over, because the program was interrupted, or because an index is
outside its dimension. Whoever notices writes so into the ``Run`` that the team shares; the last thread to arrive at a
barrier makes it what all agree on, so that all leave at the same barrier. ``team_wait`` returns it.
"""

from __future__ import annotations

from byoc.runtime.dso.run_state import INTERRUPTED, OUTSIDE, POLL_NANOSECONDS, RUN_FIELDS, TIMED_OUT

HEADERS = ("math.h", "sched.h", "stdbool.h", "stdint.h", "string.h", "time.h")
_PAUSE = """/* The processor's word for "I am only waiting". */
#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif
"""
_RUN = """/* One run as all its threads see it: what it was asked and agreed to, and an index that was outside. */
typedef struct {
@FIELDS@
} Run;

/* One thread of the threads that run a function together, and where they meet. */
typedef struct {
  int64_t thread, threads;
  int32_t *meeting; /* how many have arrived; 48 bytes on, microseconds that the first waited; 64, how often all have */
  Run *run;
} Team;
""".replace("@FIELDS@", RUN_FIELDS)
_STOP = f"""/* Ask for an end of the run; the first reason stays. */
static inline void run_stop(Run *run, int32_t why) {{
  int32_t none = 0;
  __atomic_compare_exchange_n(&run->asked, &none, why, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}}

/* 0, or why the run was asked to end. */
static inline int32_t run_status(const Team *team) {{
  return __atomic_load_n(&team->run->asked, __ATOMIC_RELAXED);
}}

/* Look at the time, and as the first thread now and then ask the caller whether to go on. */
static __attribute__((noinline, unused)) void run_look(const Team *team) {{
  Run *run = team->run;
  struct timespec time;
#ifdef CLOCK_MONOTONIC_COARSE
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
#else
  clock_gettime(CLOCK_MONOTONIC, &time);
#endif
  const int64_t now = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
  if (run->deadline != 0 && now >= run->deadline) run_stop(run, {TIMED_OUT});
  if (team->thread != 0 || run->poll == 0 || now < run->next_poll) return;
  run->next_poll = now + {POLL_NANOSECONDS};
  if (run->poll() != 0) run_stop(run, {INTERRUPTED});
}}

/* Keep what is known of an index outside its dimension: that of the first check, the largest of its places. */
static __attribute__((noinline, unused)) void run_outside(Run *run, int64_t check, uint64_t place, int64_t extent) {{
  while (__atomic_exchange_n(&run->writing, 1, __ATOMIC_ACQUIRE) != 0) PAUSE();
  if (run->found == 0 || check < run->check || (check == run->check && place > run->place)) {{
    run->found = 1;
    run->check = check;
    run->place = place;
    run->extent = extent;
  }}
  __atomic_store_n(&run->writing, 0, __ATOMIC_RELEASE);
  run_stop(run, {OUTSIDE});
}}
"""
_BARRIER = """/* Microseconds of a clock that never goes back. */
static inline int64_t team_clock(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static inline void team_pause(const Team *team, int64_t rounds) {
  const struct timespec moment = {0, 50000};
  if (rounds < 4096) PAUSE();
  else if (rounds < 65536) sched_yield();
  else {
    if (team->run->is_watched) run_look(team);
    nanosleep(&moment, 0);
  }
}

/* Wait for the others. What all threads get: 0, or why they leave. */
static inline int32_t team_wait(const Team *team) {
  Run *run = team->run;
  if (run->is_watched) run_look(team);
  if (team->threads == 1) return run_status(team);
  int32_t *arrived = team->meeting, *turn = team->meeting + 16;
  const int32_t now = __atomic_load_n(turn, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL) == team->threads) {
    __atomic_store_n(arrived, 0, __ATOMIC_RELAXED);
    run->agreed = run_status(team);
    __atomic_store_n(turn, now + 1, __ATOMIC_RELEASE);
    return run->agreed;
  }
  int64_t since = 0; /* when the first thread found that others have no processor */
  for (int64_t rounds = 0; __atomic_load_n(turn, __ATOMIC_ACQUIRE) == now; ++rounds) {
    if (rounds == 4096 && team->thread == 0) since = team_clock();
    team_pause(team, rounds);
  }
  if (since != 0) team->meeting[12] += (int32_t)(team_clock() - since);
  return run->agreed;
}
"""
PREAMBLE = "\n".join([*(f"#include <{h}>" for h in HEADERS), "", _PAUSE, _RUN, _STOP, _BARRIER])

POOL = """#include <pthread.h>
#include <stdlib.h>

#ifndef ALONE /* whether runs may do without the team where it waits for processors */
#define ALONE 1
#endif

/* The threads of a team beside the one that calls, and the run that they share. */
typedef struct {
  _Alignas(64) int32_t meeting[32];
  _Alignas(64) int32_t run; /* the number of the present run */
  int32_t asleep, stop;
  int64_t threads;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  Program program;
  void **args;
  const int64_t *sizes;
  uint8_t *workspace;
  Externals *externals;
  Program stalled; /* what the team last took long for, since its threads had no processor */
  int64_t stall; /* the microseconds of that */
  int32_t alone, next; /* how many runs the caller makes by itself from now on, and after the next stall */
  int32_t together; /* how many runs the team makes whatever it takes, since the caller alone took longer */
} Pool;

typedef struct {
  Pool *pool;
  Team team;
  pthread_t id;
} Worker;

/* Wait for another run than *seen*: awake at first, for the next one often follows at once. */
static int32_t pool_next(Pool *pool, int32_t seen) {
  for (int64_t rounds = 0; rounds < 8192; ++rounds) {
    const int32_t run = __atomic_load_n(&pool->run, __ATOMIC_ACQUIRE);
    if (run != seen) return run;
    PAUSE();
  }
  pthread_mutex_lock(&pool->lock);
  __atomic_add_fetch(&pool->asleep, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&pool->run, __ATOMIC_SEQ_CST) == seen) pthread_cond_wait(&pool->wake, &pool->lock);
  __atomic_sub_fetch(&pool->asleep, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&pool->lock);
  return __atomic_load_n(&pool->run, __ATOMIC_ACQUIRE);
}

static void *pool_work(void *argument) {
  const Worker *worker = argument;
  Pool *pool = worker->pool;
  for (int32_t seen = 0;;) {
    seen = pool_next(pool, seen);
    if (pool->stop) return 0;
    pool->program(pool->args, pool->sizes, pool->workspace, &worker->team, pool->externals);
    team_wait(&worker->team);
  }
}

static Worker *pool_workers(Pool *pool) {
  return (Worker *)(pool + 1);
}

static void pool_start_run(Pool *pool) {
  __atomic_add_fetch(&pool->run, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool->asleep, __ATOMIC_SEQ_CST) == 0) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
}

void pool_free(Pool *pool);
/* End the threads of a pool, which must not be in a run, and give its memory back. */
void pool_free(Pool *pool) {
  Worker *workers = pool_workers(pool);
  pool->stop = 1;
  pool_start_run(pool);
  for (int64_t k = 1; k < pool->threads; ++k) pthread_join(workers[k].id, 0);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

Pool *pool_new(int64_t threads, Run *run);
/* A pool of so many threads, the caller counted in; 0 where the system gives no memory or no threads. */
Pool *pool_new(int64_t threads, Run *run) {
  const size_t size = sizeof(Pool) + (size_t)threads * sizeof(Worker);
  Pool *pool = aligned_alloc(64, (size + 63) / 64 * 64);
  if (!pool) return 0;
  memset(pool, 0, sizeof *pool);
  pthread_mutex_init(&pool->lock, 0);
  pthread_cond_init(&pool->wake, 0);
  Worker *workers = pool_workers(pool);
  for (int64_t k = 0; k < threads; ++k) {
    workers[k].pool = pool;
    workers[k].team = (Team){k, threads, pool->meeting, run};
  }
  for (pool->threads = 1; pool->threads < threads; ++pool->threads)
    if (pthread_create(&workers[pool->threads].id, 0, pool_work, &workers[pool->threads])) {
      pool_free(pool);
      return 0;
    }
  return pool;
}

/* The run by the caller alone, while other work has the processors of the team. */
static int32_t pool_run_alone(Pool *pool, Program program, int64_t begin) {
  const Team alone = {0, 1, pool->meeting, pool_workers(pool)->team.run};
  const int32_t status = program(pool->args, pool->sizes, pool->workspace, &alone, pool->externals);
  const int32_t stop = team_wait(&alone);
  if (program == pool->stalled && team_clock() - begin > pool->stall) {
    pool->alone = pool->next = 0;
    pool->together = 64;
  }
  return status != 0 ? status : stop;
}

#define LONG_WAIT 1000 /* microseconds; a thread that sleeps is awake in a tenth of it */

/* What a run of the team says of the next ones: where the caller waited most of it for threads without a processor,
 * as they have none on a busy machine, it makes some by itself; more of them each time in succession. */
static void pool_look_back(Pool *pool, Program program, int64_t took) {
  if (pool->together > 0) {
    --pool->together;
  } else if (pool->meeting[12] > LONG_WAIT && pool->meeting[12] > took / 2) {
    pool->stalled = program;
    pool->stall = took;
    pool->next = pool->next == 0 ? 4 : pool->next < 256 ? pool->next * 2 : pool->next;
    pool->alone = pool->next;
  } else {
    pool->next = 0;
  }
}

int32_t pool_run(Pool *pool, Program program, void **args, const int64_t *sizes, uint8_t *workspace, Externals *table);
/* Run a program with all threads of the pool; one run at a time. What it gave, or why it stopped. */
int32_t pool_run(Pool *pool, Program program, void **args, const int64_t *sizes, uint8_t *workspace, Externals *table) {
  pool->program = program;
  pool->args = args;
  pool->sizes = sizes;
  pool->workspace = workspace;
  pool->externals = table;
  const int64_t begin = team_clock();
  if (ALONE && pool->alone > 0) {
    --pool->alone;
    return pool_run_alone(pool, program, begin);
  }
  pool->meeting[12] = 0;
  pool_start_run(pool);
  const Team *team = &pool_workers(pool)->team;
  const int32_t status = program(args, sizes, workspace, team, table);
  team_wait(team);
  pool_look_back(pool, program, team_clock() - begin);
  return status != 0 ? status : run_status(team);
}
"""
