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

/* One thread of the threads that run a function together, and where they meet. */
typedef struct {
  int64_t thread, threads;
  int32_t *meeting; /* how many have arrived; 64 bytes on, how often all have */
} Team;

static inline void team_pause(int64_t rounds) {
  const struct timespec moment = {0, 50000};
  if (rounds < 4096) PAUSE();
  else if (rounds < 65536) sched_yield();
  else nanosleep(&moment, 0);
}

static inline void team_wait(const Team *team) {
  if (team->threads == 1) return;
  int32_t *arrived = team->meeting, *turn = team->meeting + 16;
  const int32_t now = __atomic_load_n(turn, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL) == team->threads) {
    __atomic_store_n(arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(turn, now + 1, __ATOMIC_RELEASE);
    return;
  }
  for (int64_t rounds = 0; __atomic_load_n(turn, __ATOMIC_ACQUIRE) == now; ++rounds) team_pause(rounds);
}

typedef float f32x8 __attribute__((vector_size(32)));

static inline void store_f32x8(float *place, f32x8 v) {
  memcpy(place, &v, sizeof v);
}

static inline int64_t min_i64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* p0: f32[1, 4, 5, 8] -> transpose: f32[1, 8, 4, 5] */
void transpose_ddf4f0bd377f(const float *restrict p0, float *restrict transpose, const Team *team) {
  const int64_t begin = 3 * team->thread / team->threads;
  const int64_t end = 3 * (team->thread + 1) / team->threads;
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
  transpose_ddf4f0bd377f(image, transpose, team);
  return 0;
}
