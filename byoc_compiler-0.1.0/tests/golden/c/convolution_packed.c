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

static inline f32x8 load_f32x8(const float *place) {
  f32x8 v;
  memcpy(&v, place, sizeof v);
  return v;
}

static inline void store_f32x8(float *place, f32x8 v) {
  memcpy(place, &v, sizeof v);
}

static inline int64_t max_i64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* p0: f32[1, 4, 5, 8], const_0: f32[1, 3, 3, 8, 8] -> conv2d: f32[1, 2, 3, 8] */
void nn_conv2d_b85dca17974e(const float *restrict p0, const float *restrict const_0, float *restrict conv2d, const Team *team) {
  const int64_t begin = 2 * team->thread / team->threads;
  const int64_t end = 2 * (team->thread + 1) / team->threads;
  for (int64_t i1 = begin; i1 < end; ++i1) {
    const int64_t i2 = 0;
    f32x8 sum_0_0 = {0};
    f32x8 sum_1_0 = {0};
    f32x8 sum_2_0 = {0};
    for (int64_t kh = max_i64(0, i1 * -2 + 1); kh < 3; ++kh) {
      for (int64_t ic = 0; ic < 8; ++ic) {
        f32x8 const_0_panel_0 = load_f32x8(const_0 + (kh * 192 + ic * 8));
        float image_1 = p0[i1 * 80 + kh * 40 + i2 * 16 + ic - 32];
        sum_1_0 = (sum_1_0 + image_1 * const_0_panel_0);
        float image_2 = p0[i1 * 80 + kh * 40 + i2 * 16 + ic - 16];
        sum_2_0 = (sum_2_0 + image_2 * const_0_panel_0);
      }
      for (int64_t ic = 0; ic < 8; ++ic) {
        f32x8 const_0_panel_0_1 = load_f32x8(const_0 + (kh * 192 + ic * 8 + 64));
        float image_0 = p0[i1 * 80 + kh * 40 + i2 * 16 + ic - 40];
        sum_0_0 = (sum_0_0 + image_0 * const_0_panel_0_1);
        float image_1_1 = p0[i1 * 80 + kh * 40 + i2 * 16 + ic - 24];
        sum_1_0 = (sum_1_0 + image_1_1 * const_0_panel_0_1);
        float image_2_1 = p0[i1 * 80 + kh * 40 + i2 * 16 + ic - 8];
        sum_2_0 = (sum_2_0 + image_2_1 * const_0_panel_0_1);
      }
      for (int64_t ic = 0; ic < 8; ++ic) {
        f32x8 const_0_panel_0_2 = load_f32x8(const_0 + (kh * 192 + ic * 8 + 128));
        float image_0_1 = p0[i1 * 80 + kh * 40 + i2 * 16 + ic - 32];
        sum_0_0 = (sum_0_0 + image_0_1 * const_0_panel_0_2);
        float image_1_2 = p0[i1 * 80 + kh * 40 + i2 * 16 + ic - 16];
        sum_1_0 = (sum_1_0 + image_1_2 * const_0_panel_0_2);
      }
    }
    store_f32x8(conv2d + (i1 * 24 + i2 * 8), sum_0_0);
    store_f32x8(conv2d + (i1 * 24 + i2 * 8 + 8), sum_1_0);
    store_f32x8(conv2d + (i1 * 24 + i2 * 8 + 16), sum_2_0);
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
  const float *const_0_panel = args[1];
  float *conv2d = args[2];
  nn_conv2d_b85dca17974e(image, const_0_panel, conv2d, team);
  return 0;
}
