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

static inline f32x8 splat_f32x8(float x) {
  return x - (f32x8){0};
}

typedef int32_t i32x8 __attribute__((vector_size(32)));

static inline f32x8 select_f32x8(i32x8 mask, f32x8 a, f32x8 b) {
  return (f32x8)(((i32x8)a & mask) | ((i32x8)b & ~mask));
}

static inline f32x8 greater_f32x8(f32x8 a, f32x8 b) {
#if defined(__AVX__) && defined(__GNUC__) && !defined(__clang__)
  return __builtin_ia32_maxps256(a, b);
#else
  return select_f32x8(a > b, a, b);
#endif
}

static inline f32x8 max_f32x8(f32x8 a, f32x8 b) {
  return select_f32x8(a != a, a, greater_f32x8(a, b));
}

static inline f32x8 load_f32x8(const float *place) {
  f32x8 v;
  memcpy(&v, place, sizeof v);
  return v;
}

static inline float fold_max_f32x8(f32x8 v) {
#if defined(__clang__) || __GNUC__ >= 12
  v = max_f32x8(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = max_f32x8(v, __builtin_shufflevector(v, v, 2, 3, 4, 5, 6, 7, 0, 1));
  v = max_f32x8(v, __builtin_shufflevector(v, v, 1, 2, 3, 4, 5, 6, 7, 0));
  return v[0];
#else
  float part[8];
  memcpy(part, &v, sizeof v);
  for (int width = 8 / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) {
      const float a = part[k], b = part[k + width];
      part[k] = a > b || a != a ? a : b;
    }
  return part[0];
#endif
}

static inline f32x8 lesser_f32x8(f32x8 a, f32x8 b) {
#if defined(__AVX__) && defined(__GNUC__) && !defined(__clang__)
  return __builtin_ia32_minps256(a, b);
#else
  return select_f32x8(a < b, a, b);
#endif
}

static inline f32x8 min_number_f32x8(float number, f32x8 x) {
  return lesser_f32x8(splat_f32x8(number), x);
}

static inline f32x8 max_number_f32x8(float number, f32x8 x) {
  return greater_f32x8(splat_f32x8(number), x);
}

typedef uint32_t u32x8 __attribute__((vector_size(32)));

static inline f32x8 scaled_f32x8(f32x8 x, f32x8 whole /* a number from -149 to 128 */) {
  const i32x8 n = (i32x8)(whole + 12582912.0f) - 0x4b400000;
  const i32x8 low = n >> 1;
  const f32x8 first = (f32x8)((u32x8)(low + 127) << 23), second = (f32x8)((u32x8)(n - low + 127) << 23);
  return x * first * second;
}

static inline f32x8 exp_f32x8(f32x8 x) {
  x = min_number_f32x8(89.0f, max_number_f32x8(-104.0f, x));
  const f32x8 turns = x * 1.44269504f + 12582912.0f;
  const f32x8 whole = turns - 12582912.0f;
  const f32x8 r = (x - whole * 0.693145752f) - whole * 1.42860677e-6f;
  const f32x8 p = (((((0.000199089043f * r + 0.00139345442f) * r + 0.00833328411f) * r + 0.0416664568f) * r + 0.166666668f) * r + 0.500000001f) * (r * r) + r + 1.0f;
  return scaled_f32x8(p, whole);
}

static inline void store_f32x8(float *place, f32x8 v) {
  memcpy(place, &v, sizeof v);
}

static inline float sum_f32x8(f32x8 v) {
#if defined(__clang__) || __GNUC__ >= 12
  v = v + __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  v = v + __builtin_shufflevector(v, v, 2, 3, 4, 5, 6, 7, 0, 1);
  v = v + __builtin_shufflevector(v, v, 1, 2, 3, 4, 5, 6, 7, 0);
  return v[0];
#else
  float part[8];
  memcpy(part, &v, sizeof v);
  for (int width = 8 / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) {
      const float a = part[k], b = part[k + width];
      part[k] = a + b;
    }
  return part[0];
#endif
}

static inline float max_f32(float a, float b) {
  return a > b || a != a ? a : b;
}

/* p0: f32[3, 40] -> softmax: f32[3, 40] */
void nn_softmax_2637db46f282(const float *restrict p0, float *restrict softmax, const Team *team) {
  const int64_t begin = 3 * team->thread / team->threads;
  const int64_t end = 3 * (team->thread + 1) / team->threads;
  for (int64_t i0 = begin; i0 < end; ++i0) {
    float softmax_max;
    float max = -INFINITY;
    f32x8 acc_0 = splat_f32x8(-INFINITY);
    f32x8 acc_1 = splat_f32x8(-INFINITY);
    f32x8 acc_2 = splat_f32x8(-INFINITY);
    f32x8 acc_3 = splat_f32x8(-INFINITY);
    acc_0 = max_f32x8(load_f32x8(p0 + i0 * 40), acc_0);
    acc_1 = max_f32x8(load_f32x8(p0 + (i0 * 40 + 8)), acc_1);
    acc_2 = max_f32x8(load_f32x8(p0 + (i0 * 40 + 16)), acc_2);
    acc_3 = max_f32x8(load_f32x8(p0 + (i0 * 40 + 24)), acc_3);
    acc_0 = max_f32x8(load_f32x8(p0 + (i0 * 40 + 32)), acc_0);
    acc_0 = max_f32x8(acc_0, acc_2);
    acc_1 = max_f32x8(acc_1, acc_3);
    acc_0 = max_f32x8(acc_0, acc_1);
    float part;
    part = fold_max_f32x8(acc_0);
    max = max_f32(max, part);
    softmax_max = max;
    _Alignas(64) float softmax_exp[40];
    for (int64_t i1_block = 0; i1_block < 5; ++i1_block) {
      store_f32x8(softmax_exp + i1_block * 8, exp_f32x8(load_f32x8(p0 + (i0 * 40 + i1_block * 8)) - softmax_max));
    }
    float softmax_inverse;
    float sum = 0.0f;
    f32x8 acc_0_1 = {0};
    f32x8 acc_1_1 = {0};
    f32x8 acc_2_1 = {0};
    f32x8 acc_3_1 = {0};
    acc_0_1 = (acc_0_1 + load_f32x8(softmax_exp + 0));
    acc_1_1 = (acc_1_1 + load_f32x8(softmax_exp + 8));
    acc_2_1 = (acc_2_1 + load_f32x8(softmax_exp + 16));
    acc_3_1 = (acc_3_1 + load_f32x8(softmax_exp + 24));
    acc_0_1 = (acc_0_1 + load_f32x8(softmax_exp + 32));
    acc_0_1 = (acc_0_1 + acc_2_1);
    acc_1_1 = (acc_1_1 + acc_3_1);
    acc_0_1 = (acc_0_1 + acc_1_1);
    float part_1;
    part_1 = sum_f32x8(acc_0_1);
    sum = sum + part_1;
    softmax_inverse = 1.0f / sum;
    for (int64_t i1_block = 0; i1_block < 5; ++i1_block) {
      store_f32x8(softmax + (i0 * 40 + i1_block * 8), (load_f32x8(softmax_exp + i1_block * 8) * softmax_inverse));
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
  const float *rows = args[0];
  float *softmax = args[1];
  nn_softmax_2637db46f282(rows, softmax, team);
  return run_status(team);
}
