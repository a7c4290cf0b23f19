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

typedef float f32x16 __attribute__((vector_size(64)));

static inline f32x16 splat_f32x16(float x) {
  return x - (f32x16){0};
}

static inline void store_f32x16(float *place, f32x16 v) {
  memcpy(place, &v, sizeof v);
}

static inline f32x16 load_f32x16(const float *place) {
  f32x16 v;
  memcpy(&v, place, sizeof v);
  return v;
}

typedef float f32x4 __attribute__((vector_size(16)));

static inline f32x4 load_f32x4(const float *place) {
  f32x4 v;
  memcpy(&v, place, sizeof v);
  return v;
}

static inline f32x4 held_f32x4(f32x4 v) {
#if defined(__SSE4_1__) && defined(__GNUC__) && !defined(__clang__)
  __asm__("" : "+v"(v));
#endif
  return v;
}

typedef int32_t i32x4 __attribute__((vector_size(16)));

static inline f32x4 select_f32x4(i32x4 mask, f32x4 a, f32x4 b) {
  return (f32x4)(((i32x4)a & mask) | ((i32x4)b & ~mask));
}

static inline f32x4 greater_f32x4(f32x4 a, f32x4 b) {
#if defined(__SSE4_1__) && defined(__GNUC__) && !defined(__clang__)
  return __builtin_ia32_maxps(a, b);
#else
  return select_f32x4(a > b, a, b);
#endif
}

static inline f32x4 splat_f32x4(float x) {
  return x - (f32x4){0};
}

static inline f32x4 max_number_f32x4(float number, f32x4 x) {
  return greater_f32x4(splat_f32x4(number), x);
}

static inline void store_f32x4(float *place, f32x4 v) {
  memcpy(place, &v, sizeof v);
}

/* p0: f32[batch, 3, 10, 20], const_0: f32[4, 3, 3, 3], const_1: f32[4, 1, 1] -> maximum: f32[batch, 4, 10, 20]; from Conv_0, Add_1, Relu_2 * / int injected; / * */
void fused_nn_conv2d_add_maximum_e26640bd0668(const float *restrict p0, const float *restrict const_0, const float *restrict const_1, float *restrict pad, float *restrict maximum, int64_t batch, const Team *team) {
  const int64_t begin = batch * 3 * team->thread / team->threads;
  const int64_t end = batch * 3 * (team->thread + 1) / team->threads;
  for (int64_t joined = begin; joined < end; ++joined) {
    const int64_t i0 = joined / 3;
    const int64_t i1 = joined % 3;
    store_f32x16(pad + (i0 * 792 + i1 * 264), splat_f32x16(0.0f));
    store_f32x16(pad + (i0 * 792 + i1 * 264 + 6), splat_f32x16(0.0f));
    for (int64_t i2 = 0; i2 < 10; ++i2) {
      pad[i0 * 792 + i1 * 264 + i2 * 22 + 22] = 0.0f;
      store_f32x16(pad + (i0 * 792 + i1 * 264 + i2 * 22 + 23), load_f32x16(p0 + (i0 * 600 + i1 * 200 + i2 * 20)));
      store_f32x16(pad + (i0 * 792 + i1 * 264 + i2 * 22 + 27), load_f32x16(p0 + (i0 * 600 + i1 * 200 + i2 * 20 + 4)));
      pad[i0 * 792 + i1 * 264 + i2 * 22 + 43] = 0.0f;
    }
    store_f32x16(pad + (i0 * 792 + i1 * 264 + 242), splat_f32x16(0.0f));
    store_f32x16(pad + (i0 * 792 + i1 * 264 + 248), splat_f32x16(0.0f));
  }
  if (team_wait(team)) return;
  const int64_t begin_1 = batch * 20 * team->thread / team->threads;
  const int64_t end_1 = batch * 20 * (team->thread + 1) / team->threads;
  for (int64_t part = begin_1; part < end_1; ++part) {
    const int64_t i0_1 = part / 20;
    const int64_t i2 = part / 2 % 10;
    const int64_t row_block = part % 2;
    const int64_t i1_1 = row_block * 2;
    f32x4 sum_0_0 = {0};
    f32x4 sum_0_1 = {0};
    f32x4 sum_0_2 = {0};
    f32x4 sum_0_3 = {0};
    f32x4 sum_0_4 = {0};
    f32x4 sum_1_0 = {0};
    f32x4 sum_1_1 = {0};
    f32x4 sum_1_2 = {0};
    f32x4 sum_1_3 = {0};
    f32x4 sum_1_4 = {0};
    for (int64_t ic = 0; ic < 3; ++ic) {
      for (int64_t kh = 0; kh < 3; ++kh) {
        for (int64_t kw = 0; kw < 3; ++kw) {
          f32x4 pad_0 = held_f32x4(load_f32x4(pad + (i0_1 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw)));
          f32x4 pad_1 = held_f32x4(load_f32x4(pad + (i0_1 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw + 4)));
          f32x4 pad_2 = held_f32x4(load_f32x4(pad + (i0_1 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw + 8)));
          f32x4 pad_3 = held_f32x4(load_f32x4(pad + (i0_1 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw + 12)));
          f32x4 pad_4 = held_f32x4(load_f32x4(pad + (i0_1 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw + 16)));
          float const_0_0 = const_0[i1_1 * 27 + ic * 9 + kh * 3 + kw];
          sum_0_0 = (sum_0_0 + pad_0 * const_0_0);
          sum_0_1 = (sum_0_1 + pad_1 * const_0_0);
          sum_0_2 = (sum_0_2 + pad_2 * const_0_0);
          sum_0_3 = (sum_0_3 + pad_3 * const_0_0);
          sum_0_4 = (sum_0_4 + pad_4 * const_0_0);
          float const_0_1 = const_0[i1_1 * 27 + ic * 9 + kh * 3 + kw + 27];
          sum_1_0 = (sum_1_0 + pad_0 * const_0_1);
          sum_1_1 = (sum_1_1 + pad_1 * const_0_1);
          sum_1_2 = (sum_1_2 + pad_2 * const_0_1);
          sum_1_3 = (sum_1_3 + pad_3 * const_0_1);
          sum_1_4 = (sum_1_4 + pad_4 * const_0_1);
        }
      }
    }
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20), max_number_f32x4(0.0f, sum_0_0 + const_1[i1_1]));
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20 + 4), max_number_f32x4(0.0f, sum_0_1 + const_1[i1_1]));
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20 + 8), max_number_f32x4(0.0f, sum_0_2 + const_1[i1_1]));
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20 + 12), max_number_f32x4(0.0f, sum_0_3 + const_1[i1_1]));
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20 + 16), max_number_f32x4(0.0f, sum_0_4 + const_1[i1_1]));
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20 + 200), max_number_f32x4(0.0f, sum_1_0 + const_1[i1_1 + 1]));
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20 + 204), max_number_f32x4(0.0f, sum_1_1 + const_1[i1_1 + 1]));
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20 + 208), max_number_f32x4(0.0f, sum_1_2 + const_1[i1_1 + 1]));
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20 + 212), max_number_f32x4(0.0f, sum_1_3 + const_1[i1_1 + 1]));
    store_f32x4(maximum + (i0_1 * 800 + i1_1 * 200 + i2 * 20 + 216), max_number_f32x4(0.0f, sum_1_4 + const_1[i1_1 + 1]));
  }
}

int64_t kernel_0_workspace(const int64_t *sizes);
int64_t kernel_0_workspace(const int64_t *sizes) {
  const int64_t batch = sizes[0];
  return 0 + (batch * 3168 + 63) / 64 * 64;
}

int32_t kernel_0(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team);
int32_t kernel_0(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team) {
  const int64_t batch = sizes[0];
  const float *data = args[0];
  const float *const_0 = args[1];
  const float *const_1 = args[2];
  float *maximum = args[3];
  int64_t offset = 0;
  float *pad = (float *)(workspace + offset);
  fused_nn_conv2d_add_maximum_e26640bd0668(data, const_0, const_1, pad, maximum, batch, team);
  return run_status(team);
}
