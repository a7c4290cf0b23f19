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

typedef float f32x4 __attribute__((vector_size(16)));

static inline f32x4 load_f32x4(const float *place) {
  f32x4 v;
  memcpy(&v, place, sizeof v);
  return v;
}

static inline void store_f32x4(float *place, f32x4 v) {
  memcpy(place, &v, sizeof v);
}

static inline float sum_f32x4(f32x4 v) {
  float part[4];
  memcpy(part, &v, sizeof v);
  for (int width = 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k)
      part[k] += part[k + width];
  return part[0];
}

static inline float max_f32(float a, float b) {
  return a > b || a != a ? a : b;
}

/* p0: f32[batch, 3, 10, 20], const_0: f32[4, 3, 3, 3], const_1: f32[4, 1, 1] -> maximum: f32[batch, 4, 10, 20]; from Conv_0, Add_1, Relu_2 * / int injected; / * */
void fused_nn_conv2d_add_maximum_089a393305a4(const float *restrict p0, const float *restrict const_0, const float *restrict const_1, float *restrict pad, float *restrict maximum, int64_t batch, const Team *team) {
  const int64_t begin = batch * team->thread / team->threads;
  const int64_t end = batch * (team->thread + 1) / team->threads;
  for (int64_t i0 = begin; i0 < end; ++i0) {
    for (int64_t i1 = 0; i1 < 3; ++i1) {
      for (int64_t i2 = 0; i2 < 12; ++i2) {
        for (int64_t i3 = 0; i3 < 22; ++i3) {
          pad[i0 * 792 + i1 * 264 + i2 * 22 + i3] = i2 >= 1 && i2 < 11 && i3 >= 1 && i3 < 21 ? p0[i0 * 600 + i1 * 200 + i2 * 20 + i3 - 21] : 0.0f;
        }
      }
    }
  }
  team_wait(team);
  const int64_t begin_1 = batch * team->thread / team->threads;
  const int64_t end_1 = batch * (team->thread + 1) / team->threads;
  for (int64_t part = begin_1; part < end_1; ++part) {
    const int64_t i0 = part;
    for (int64_t i2 = 0; i2 < 10; ++i2) {
      for (int64_t row_block = 0; row_block < 2; ++row_block) {
        const int64_t i1 = row_block * 2;
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
              f32x4 pad_0 = load_f32x4(pad + (i0 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw));
              f32x4 pad_1 = load_f32x4(pad + (i0 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw + 4));
              f32x4 pad_2 = load_f32x4(pad + (i0 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw + 8));
              f32x4 pad_3 = load_f32x4(pad + (i0 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw + 12));
              f32x4 pad_4 = load_f32x4(pad + (i0 * 792 + ic * 264 + i2 * 22 + kh * 22 + kw + 16));
              float const_0_0 = const_0[i1 * 27 + ic * 9 + kh * 3 + kw];
              sum_0_0 = sum_0_0 + pad_0 * const_0_0;
              sum_0_1 = sum_0_1 + pad_1 * const_0_0;
              sum_0_2 = sum_0_2 + pad_2 * const_0_0;
              sum_0_3 = sum_0_3 + pad_3 * const_0_0;
              sum_0_4 = sum_0_4 + pad_4 * const_0_0;
              float const_0_1 = const_0[i1 * 27 + ic * 9 + kh * 3 + kw + 27];
              sum_1_0 = sum_1_0 + pad_0 * const_0_1;
              sum_1_1 = sum_1_1 + pad_1 * const_0_1;
              sum_1_2 = sum_1_2 + pad_2 * const_0_1;
              sum_1_3 = sum_1_3 + pad_3 * const_0_1;
              sum_1_4 = sum_1_4 + pad_4 * const_0_1;
            }
          }
        }
        float sums[40];
        store_f32x4(sums + 0, sum_0_0);
        store_f32x4(sums + 4, sum_0_1);
        store_f32x4(sums + 8, sum_0_2);
        store_f32x4(sums + 12, sum_0_3);
        store_f32x4(sums + 16, sum_0_4);
        store_f32x4(sums + 20, sum_1_0);
        store_f32x4(sums + 24, sum_1_1);
        store_f32x4(sums + 28, sum_1_2);
        store_f32x4(sums + 32, sum_1_3);
        store_f32x4(sums + 36, sum_1_4);
        for (int64_t y = 0; y < 2; ++y) {
          for (int64_t x = 0; x < 20; ++x) {
            maximum[i0 * 800 + i1 * 200 + y * 200 + i2 * 20 + x] = max_f32(sums[y * 20 + x] + const_1[i1 + y], 0.0f);
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
  fused_nn_conv2d_add_maximum_089a393305a4(data, const_0, const_1, pad, maximum, batch, team);
  return 0;
}
