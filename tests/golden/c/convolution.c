#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* One thread of the threads that run a function together, and where they meet. */
typedef struct {
  int64_t thread, threads;
  int32_t *meeting; /* how many have arrived, and how often all have */
} Team;

static inline void team_wait(const Team *team) {
  if (team->threads == 1) return;
  int32_t *arrived = team->meeting, *turn = team->meeting + 16;
  const int32_t now = __atomic_load_n(turn, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL) == team->threads) {
    __atomic_store_n(arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(turn, now + 1, __ATOMIC_RELEASE);
    return;
  }
  while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) == now) {
  }
}

typedef float f32x16 __attribute__((vector_size(64)));

static inline f32x16 load_f32x16(const float *place) {
  f32x16 v;
  memcpy(&v, place, sizeof v);
  return v;
}

static inline void store_f32x16(float *place, f32x16 v) {
  memcpy(place, &v, sizeof v);
}

static inline float sum_f32x16(f32x16 v) {
  float part[16];
  memcpy(part, &v, sizeof v);
  for (int width = 8; width > 0; width /= 2)
    for (int k = 0; k < width; ++k)
      part[k] += part[k + width];
  return part[0];
}

static inline int64_t min_i64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline float max_f32(float a, float b) {
  return a > b || a != a ? a : b;
}

/* data: f32[batch, 3, 10, 20], const_0: f32[4, 3, 3, 3], const_1: f32[4, 1, 1] -> maximum: f32[batch, 4, 10, 20]; from Conv_0, Add_1, Relu_2 * / int injected; / * */
static void fused_nn_conv2d_add_maximum(const float *restrict data, const float *restrict const_0, const float *restrict const_1, float *restrict pad, float *restrict maximum, int64_t batch, const Team *team) {
  const int64_t begin = batch * team->thread / team->threads;
  const int64_t end = batch * (team->thread + 1) / team->threads;
  for (int64_t i0 = begin; i0 < end; ++i0) {
    for (int64_t i1 = 0; i1 < 3; ++i1) {
      for (int64_t i2 = 0; i2 < 12; ++i2) {
        for (int64_t i3 = 0; i3 < 22; ++i3) {
          pad[i0 * 792 + i1 * 264 + i2 * 22 + i3] = i2 >= 1 && i2 < 11 && i3 >= 1 && i3 < 21 ? data[i0 * 600 + i1 * 200 + i2 * 20 + i3 - 21] : 0.0f;
        }
      }
    }
  }
  team_wait(team);
  const int64_t begin_1 = batch * team->thread / team->threads;
  const int64_t end_1 = batch * (team->thread + 1) / team->threads;
  for (int64_t i0 = begin_1; i0 < end_1; ++i0) {
    for (int64_t i2 = 0; i2 < 10; ++i2) {
      for (int64_t i3_block = 0; i3_block < 2; ++i3_block) {
        const int64_t i3 = min_i64(i3_block * 16, 4);
        const int64_t i1 = 0;
        f32x16 acc_0_0 = {0};
        f32x16 acc_1_0 = {0};
        f32x16 acc_2_0 = {0};
        f32x16 acc_3_0 = {0};
        for (int64_t ic = 0; ic < 3; ++ic) {
          for (int64_t kh = 0; kh < 3; ++kh) {
            for (int64_t kw = 0; kw < 3; ++kw) {
              f32x16 pad_0 = load_f32x16(pad + (i0 * 792 + ic * 264 + i2 * 22 + kh * 22 + i3 + kw));
              float const_0_0 = const_0[i1 * 27 + ic * 9 + kh * 3 + kw];
              acc_0_0 = acc_0_0 + pad_0 * const_0_0;
              float const_0_1 = const_0[i1 * 27 + ic * 9 + kh * 3 + kw + 27];
              acc_1_0 = acc_1_0 + pad_0 * const_0_1;
              float const_0_2 = const_0[i1 * 27 + ic * 9 + kh * 3 + kw + 54];
              acc_2_0 = acc_2_0 + pad_0 * const_0_2;
              float const_0_3 = const_0[i1 * 27 + ic * 9 + kh * 3 + kw + 81];
              acc_3_0 = acc_3_0 + pad_0 * const_0_3;
            }
          }
        }
        float sums[64];
        store_f32x16(sums + 0, acc_0_0);
        store_f32x16(sums + 16, acc_1_0);
        store_f32x16(sums + 32, acc_2_0);
        store_f32x16(sums + 48, acc_3_0);
        for (int64_t y = 0; y < 4; ++y) {
          for (int64_t x = 0; x < 16; ++x) {
            maximum[i0 * 800 + i1 * 200 + y * 200 + i2 * 20 + i3 + x] = max_f32(sums[y * 16 + x] + const_1[i1 + y], 0.0f);
          }
        }
      }
    }
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
  fused_nn_conv2d_add_maximum(data, const_0, const_1, pad, maximum, batch, team);
  return 0;
}
