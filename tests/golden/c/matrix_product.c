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

typedef int32_t i32x16 __attribute__((vector_size(64)));

static inline f32x16 select_f32x16(i32x16 mask, f32x16 a, f32x16 b) {
  return (f32x16)(((i32x16)a & mask) | ((i32x16)b & ~mask));
}

static inline f32x16 greater_f32x16(f32x16 a, f32x16 b) {
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
  return __builtin_ia32_maxps512_mask(a, b, b, (uint16_t)-1, 4);
#else
  return select_f32x16(a > b, a, b);
#endif
}

static inline f32x16 splat_f32x16(float x) {
  return x - (f32x16){0};
}

static inline f32x16 max_number_f32x16(float number, f32x16 x) {
  return greater_f32x16(splat_f32x16(number), x);
}

static inline f32x16 load_f32x16(const float *place) {
  f32x16 v;
  memcpy(&v, place, sizeof v);
  return v;
}

static inline void store_f32x16(float *place, f32x16 v) {
  memcpy(place, &v, sizeof v);
}

#if !defined(__AMX_TILE__) && !defined(__AMXTILE__)
#error "this code is for processors with AMX: compile for such a one, or generate it again for another"
#endif
#include <immintrin.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>

/* Whether the system lets this process use the registers; it is asked with ARCH_REQ_XCOMP_PERM, for all threads. */
static inline int matrices_permitted(void) {
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
#else
static inline int matrices_permitted(void) {
  return 1;
}
#endif

static __attribute__((constructor)) void ask_for_matrices(void) {
  (void)matrices_permitted();
}

/* The shapes of the matrix registers, as LDTILECFG takes them. */
typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} MatrixShapes;


static inline int64_t max_i64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static inline int64_t min_i64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Lines of 64 bytes for rows of a register: from first up to end what lies at place and step bytes on, else zeros. */
static inline void matrix_rows(
  uint8_t *restrict lines, const void *restrict place, int64_t step, size_t bytes, int first, int end, int count
) {
  memset(lines, 0, 64 * (size_t)count);
  for (int row = first; row < end; ++row)
    memcpy(lines + 64 * row, (const uint8_t *)place + (row - first) * step, bytes);
}

/* p0: b16[1, 3, 56, 64], const_0: u32[1, 3, 3, 32, 32], const_1: f32[32] -> maximum: f32[1, 3, 56, 32] */
void fused_nn_conv2d_add_maximum_0c0cea9cfd3f(const uint16_t *restrict p0, const uint32_t *restrict const_0, const float *restrict const_1, float *restrict maximum, const Team *team) {
  static _Alignas(64) const MatrixShapes shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0}, {14, 14, 14, 14, 14, 14, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0}};
  __asm__ volatile("" : : : "memory");
  _tile_loadconfig(&shapes);
  const int64_t begin = 6 * team->thread / team->threads;
  const int64_t end = 6 * (team->thread + 1) / team->threads;
  for (int64_t part = begin; part < end; ++part) {
    const int64_t i1 = part / 2;
    const int64_t row_block = part % 2;
    const int64_t i2 = row_block * 28;
    if (row_block == 0) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int64_t kh = max_i64(0, i1 * -1 + 1); kh < min_i64(3, i1 * -1 + 4); ++kh) {
        for (int64_t ic = 0; ic < 2; ++ic) {
          _Alignas(64) uint8_t lines[896];
          matrix_rows(lines, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 3584), 128, 64, 1, 14, 14);
          __asm__ volatile("" : : : "memory");
          _tile_loadd(4, lines, 64);
          __asm__ volatile("" : : : "memory");
          _tile_loadd(5, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 2752), 128);
          _tile_loadd(6, const_0 + (kh * 3072 + ic * 512), 128);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(2, 5, 6);
          _tile_loadd(7, const_0 + (kh * 3072 + ic * 512 + 16), 128);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(3, 5, 7);
        }
        for (int64_t ic = 0; ic < 2; ++ic) {
          _tile_loadd(4, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 3584), 128);
          _tile_loadd(5, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 2688), 128);
          _tile_loadd(6, const_0 + (kh * 3072 + ic * 512 + 1024), 128);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(2, 5, 6);
          _tile_loadd(7, const_0 + (kh * 3072 + ic * 512 + 1040), 128);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(3, 5, 7);
        }
        for (int64_t ic = 0; ic < 2; ++ic) {
          _tile_loadd(4, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 3520), 128);
          _tile_loadd(5, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 2624), 128);
          _tile_loadd(6, const_0 + (kh * 3072 + ic * 512 + 2048), 128);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(2, 5, 6);
          _tile_loadd(7, const_0 + (kh * 3072 + ic * 512 + 2064), 128);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(3, 5, 7);
        }
      }
      _Alignas(64) float sums[896];
      _tile_stored(0, sums, 128);
      _tile_stored(1, sums + 16, 128);
      _tile_stored(2, sums + 448, 128);
      _tile_stored(3, sums + 464, 128);
      for (int64_t y = 0; y < 28; ++y) {
        for (int64_t x = 0; x < 2; ++x) {
          store_f32x16(maximum + (i1 * 1792 + i2 * 32 + y * 32 + x * 16), max_number_f32x16(3.0f, load_f32x16(sums + (y * 32 + x * 16)) + load_f32x16(const_1 + x * 16)));
        }
      }
    }
    if (row_block == 1) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int64_t kh = max_i64(0, i1 * -1 + 1); kh < min_i64(3, i1 * -1 + 4); ++kh) {
        for (int64_t ic = 0; ic < 2; ++ic) {
          _tile_loadd(4, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 3648), 128);
          _tile_loadd(5, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 2752), 128);
          _tile_loadd(6, const_0 + (kh * 3072 + ic * 512), 128);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(2, 5, 6);
          _tile_loadd(7, const_0 + (kh * 3072 + ic * 512 + 16), 128);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(3, 5, 7);
        }
        for (int64_t ic = 0; ic < 2; ++ic) {
          _tile_loadd(4, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 3584), 128);
          _tile_loadd(5, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 2688), 128);
          _tile_loadd(6, const_0 + (kh * 3072 + ic * 512 + 1024), 128);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(2, 5, 6);
          _tile_loadd(7, const_0 + (kh * 3072 + ic * 512 + 1040), 128);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(3, 5, 7);
        }
        for (int64_t ic = 0; ic < 2; ++ic) {
          _tile_loadd(4, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 3520), 128);
          _Alignas(64) uint8_t lines_1[896];
          matrix_rows(lines_1, p0 + (i1 * 3584 + kh * 3584 + i2 * 64 + ic * 32 - 2624), 128, 64, 0, 13, 14);
          __asm__ volatile("" : : : "memory");
          _tile_loadd(5, lines_1, 64);
          __asm__ volatile("" : : : "memory");
          _tile_loadd(6, const_0 + (kh * 3072 + ic * 512 + 2048), 128);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(2, 5, 6);
          _tile_loadd(7, const_0 + (kh * 3072 + ic * 512 + 2064), 128);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(3, 5, 7);
        }
      }
      _Alignas(64) float sums_1[896];
      _tile_stored(0, sums_1, 128);
      _tile_stored(1, sums_1 + 16, 128);
      _tile_stored(2, sums_1 + 448, 128);
      _tile_stored(3, sums_1 + 464, 128);
      for (int64_t y = 0; y < 28; ++y) {
        for (int64_t x = 0; x < 2; ++x) {
          store_f32x16(maximum + (i1 * 1792 + i2 * 32 + y * 32 + x * 16), max_number_f32x16(3.0f, load_f32x16(sums_1 + (y * 32 + x * 16)) + load_f32x16(const_1 + x * 16)));
        }
      }
    }
  }
  __asm__ volatile("" : : : "memory");
  _tile_release();
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
  const uint16_t *x = args[0];
  const float *const_1 = args[1];
  const uint32_t *const_0_words_panel = args[2];
  float *maximum = args[3];
  fused_nn_conv2d_add_maximum_0c0cea9cfd3f(x, const_0_words_panel, const_1, maximum, team);
  return run_status(team);
}
