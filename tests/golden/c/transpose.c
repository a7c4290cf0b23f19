#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* The processor's word for "I am only waiting". */
#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

/* One run as all its threads see it: what it was asked and agreed to, and an index that was outside. */
typedef struct {
  int32_t is_watched; /* whether there is a deadline or a poll */
  int32_t asked; /* why the threads shall leave, or 0 */
  int32_t agreed; /* why all leave the present barrier, or 0 */
  int32_t writing, found; /* an index that was outside its dimension */
  int64_t check, extent;
  uint64_t place; /* the index, counted from the end where it is negative */
  int64_t deadline, next_poll; /* nanoseconds of the monotonic clock */
  int32_t (*poll)(void); /* whether to stop */
} Run;

/* One thread of the threads that run a function together, and where they meet. */
typedef struct {
  int64_t thread, threads;
  int32_t *meeting; /* how many have arrived; 48 bytes on, microseconds that the first waited; 64, how often all have */
  Run *run;
} Team;

/* Ask for an end of the run; the first reason stays. */
static inline void run_stop(Run *run, int32_t why) {
  int32_t none = 0;
  __atomic_compare_exchange_n(&run->asked, &none, why, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* 0, or why the run was asked to end. */
static inline int32_t run_status(const Team *team) {
  return __atomic_load_n(&team->run->asked, __ATOMIC_RELAXED);
}

/* Look at the time, and as the first thread now and then ask the caller whether to go on. */
static __attribute__((noinline, unused)) void run_look(const Team *team) {
  Run *run = team->run;
  struct timespec time;
#ifdef CLOCK_MONOTONIC_COARSE
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
#else
  clock_gettime(CLOCK_MONOTONIC, &time);
#endif
  const int64_t now = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
  if (run->deadline != 0 && now >= run->deadline) run_stop(run, 3);
  if (team->thread != 0 || run->poll == 0 || now < run->next_poll) return;
  run->next_poll = now + 40000000;
  if (run->poll() != 0) run_stop(run, 4);
}

/* Keep what is known of an index outside its dimension: that of the first check, the largest of its places. */
static __attribute__((noinline, unused)) void run_outside(Run *run, int64_t check, uint64_t place, int64_t extent) {
  while (__atomic_exchange_n(&run->writing, 1, __ATOMIC_ACQUIRE) != 0) PAUSE();
  if (run->found == 0 || check < run->check || (check == run->check && place > run->place)) {
    run->found = 1;
    run->check = check;
    run->place = place;
    run->extent = extent;
  }
  __atomic_store_n(&run->writing, 0, __ATOMIC_RELEASE);
  run_stop(run, 2);
}

/* Microseconds of a clock that never goes back. */
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

typedef float f32x8 __attribute__((vector_size(32)));

static inline void store_f32x8(float *place, f32x8 v) {
  memcpy(place, &v, sizeof v);
}

static inline int64_t pair_start_i64(int64_t place, int64_t row) {
  return place % row == row - 1 ? place + 1 : place;
}

static inline int64_t min_i64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* p0: f32[1, 4, 5, 8] -> transpose: f32[1, 8, 4, 5] */
void transpose_1c5f1026c308(const float *restrict p0, float *restrict transpose, const Team *team) {
  const int64_t begin = pair_start_i64(3 * team->thread / team->threads, 3);
  const int64_t end = pair_start_i64(3 * (team->thread + 1) / team->threads, 3);
  for (int64_t i2_block = begin; i2_block < end; ++i2_block) {
    const int64_t i2 = min_i64(i2_block * 8, 12);
    for (int64_t i0_step = 0; i0_step < 8; ++i0_step) {
      store_f32x8(transpose + (i0_step * 20 + i2), (f32x8){(p0 + (i0_step + i2 * 8))[0], (p0 + (i0_step + i2 * 8))[8], (p0 + (i0_step + i2 * 8))[16], (p0 + (i0_step + i2 * 8))[24], (p0 + (i0_step + i2 * 8))[32], (p0 + (i0_step + i2 * 8))[40], (p0 + (i0_step + i2 * 8))[48], (p0 + (i0_step + i2 * 8))[56]});
    }
  }
}

int64_t kernel_0_workspace(const int64_t *sizes);
int64_t kernel_0_workspace(const int64_t *sizes) {
  (void)sizes;
  return 0;
}

int32_t kernel_0(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team);
int32_t kernel_0(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team) {
  (void)sizes;
  (void)workspace;
  const float *image = args[0];
  float *transpose = args[1];
  transpose_1c5f1026c308(image, transpose, team);
  return run_status(team);
}
