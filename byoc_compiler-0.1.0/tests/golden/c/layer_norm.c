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

static inline void store_f32x8(float *place, f32x8 v) {
  memcpy(place, &v, sizeof v);
}

/* p0: f32[3, 40], const_0: f32[40], const_1: f32[40] -> layer_norm: f32[3, 40] */
void nn_layer_norm_aeeee4fadbfc(const float *restrict p0, const float *restrict const_0, const float *restrict const_1, float *restrict layer_norm, const Team *team) {
  const int64_t begin = 3 * team->thread / team->threads;
  const int64_t end = 3 * (team->thread + 1) / team->threads;
  for (int64_t i0 = begin; i0 < end; ++i0) {
    float mean;
    float sum = 0.0f;
    f32x8 acc_0 = {0};
    f32x8 acc_1 = {0};
    f32x8 acc_2 = {0};
    f32x8 acc_3 = {0};
    acc_0 = (acc_0 + load_f32x8(p0 + i0 * 40));
    acc_1 = (acc_1 + load_f32x8(p0 + (i0 * 40 + 8)));
    acc_2 = (acc_2 + load_f32x8(p0 + (i0 * 40 + 16)));
    acc_3 = (acc_3 + load_f32x8(p0 + (i0 * 40 + 24)));
    acc_0 = (acc_0 + load_f32x8(p0 + (i0 * 40 + 32)));
    acc_0 = (acc_0 + acc_2);
    acc_1 = (acc_1 + acc_3);
    acc_0 = (acc_0 + acc_1);
    float part;
    part = sum_f32x8(acc_0);
    sum = sum + part;
    mean = sum / 40.0f;
    float variance;
    float sum_1 = 0.0f;
    f32x8 acc_0_1 = {0};
    f32x8 acc_1_1 = {0};
    f32x8 acc_2_1 = {0};
    f32x8 acc_3_1 = {0};
    const f32x8 t = load_f32x8(p0 + i0 * 40) - mean;
    acc_0_1 = (acc_0_1 + t * t);
    const f32x8 t_1 = load_f32x8(p0 + (i0 * 40 + 8)) - mean;
    acc_1_1 = (acc_1_1 + t_1 * t_1);
    const f32x8 t_2 = load_f32x8(p0 + (i0 * 40 + 16)) - mean;
    acc_2_1 = (acc_2_1 + t_2 * t_2);
    const f32x8 t_3 = load_f32x8(p0 + (i0 * 40 + 24)) - mean;
    acc_3_1 = (acc_3_1 + t_3 * t_3);
    const f32x8 t_4 = load_f32x8(p0 + (i0 * 40 + 32)) - mean;
    acc_0_1 = (acc_0_1 + t_4 * t_4);
    acc_0_1 = (acc_0_1 + acc_2_1);
    acc_1_1 = (acc_1_1 + acc_3_1);
    acc_0_1 = (acc_0_1 + acc_1_1);
    float part_1;
    part_1 = sum_f32x8(acc_0_1);
    sum_1 = sum_1 + part_1;
    variance = sum_1 / 40.0f;
    for (int64_t i1_block = 0; i1_block < 5; ++i1_block) {
      store_f32x8(layer_norm + (i0 * 40 + i1_block * 8), ((load_f32x8(p0 + (i0 * 40 + i1_block * 8)) - mean) / sqrtf(variance + 1e-05f) * load_f32x8(const_0 + i1_block * 8) + load_f32x8(const_1 + i1_block * 8)));
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
  const float *const_0 = args[1];
  const float *const_1 = args[2];
  float *layer_norm = args[3];
  nn_layer_norm_aeeee4fadbfc(rows, const_0, const_1, layer_norm, team);
  return 0;
}
