#pragma OPENCL FP_CONTRACT OFF

#ifndef __clang__
#error these kernels need the vectors of clang: compile the model with schedules=gpu for the backend opencl
#endif
#undef __AVX512BF16__
#undef __AVX512VNNI__
#undef __AVXVNNI__
#undef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#undef __ARM_FEATURE_DOTPROD
#undef __ARM_FEATURE_MATMUL_INT8
typedef char int8_t;
typedef uchar uint8_t;
#define INT8_MAX CHAR_MAX
typedef short int16_t;
typedef ushort uint16_t;
#define INT16_MAX SHRT_MAX
typedef int int32_t;
typedef uint uint32_t;
#define INT32_MAX INT_MAX
typedef long int64_t;
typedef ulong uint64_t;
#define INT64_MAX LONG_MAX
#define memcpy __builtin_memcpy
#define acosf acos
#define acoshf acosh
#define asinf asin
#define asinhf asinh
#define atanf atan
#define atan2f atan2
#define atanhf atanh
#define ceilf ceil
#define cosf cos
#define coshf cosh
#define erff erf
#define expf exp
#define exp2f exp2
#define expm1f expm1
#define fabsf fabs
#define floorf floor
#define fmodf fmod
#define logf log
#define log10f log10
#define log1pf log1p
#define log2f log2
#define powf pow
#define rintf rint
#define sinf sin
#define sinhf sinh
#define sqrtf sqrt
#define tanf tan
#define tanhf tanh
#define truncf trunc

#pragma OPENCL FP_CONTRACT ON
typedef float f32x8 __attribute__((vector_size(32)));
static inline f32x8 splat_f32x8(float x) {
  return x - (f32x8){};
}
static inline void __attribute__((overloadable)) store_f32x8(__global float *place, f32x8 v) {
  memcpy(place, &v, sizeof v);
}
static inline void __attribute__((overloadable)) store_f32x8(__private float *place, f32x8 v) {
  memcpy(place, &v, sizeof v);
}
static inline f32x8 __attribute__((overloadable)) load_f32x8(__global const float *place) {
  f32x8 v;
  memcpy(&v, place, sizeof v);
  return v;
}
static inline f32x8 __attribute__((overloadable)) load_f32x8(__private const float *place) {
  f32x8 v;
  memcpy(&v, place, sizeof v);
  return v;
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
static inline f32x8 max_number_f32x8(float number, f32x8 x) {
  return greater_f32x8(splat_f32x8(number), x);
}
#pragma OPENCL FP_CONTRACT OFF

/* data: f32[1, 16, 24, 24] -> pad: f32[1, 16, 26, 26] */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void kernel_fused_nn_conv2d_nn_relu_0(__global const float *restrict p0_piece, __global float *restrict pad_piece, const long p0_begin, const long pad_begin) {
  #pragma OPENCL FP_CONTRACT ON
  const long part = get_group_id(0), parts = get_num_groups(0);
  __global const float *restrict p0 = p0_piece + 16 * p0_begin;
  __global float *restrict pad = pad_piece + 16 * pad_begin;
  const int64_t begin = 16 * part / parts;
  const int64_t end = 16 * (part + 1) / parts;
  for (int64_t i0 = begin; i0 < end; ++i0) {
    for (int64_t i2_block = 0; i2_block < 3; ++i2_block) {
      store_f32x8(pad + (i0 * 676 + i2_block * 8), splat_f32x8(0.0f));
    }
    store_f32x8(pad + (i0 * 676 + 18), splat_f32x8(0.0f));
    for (int64_t i2 = 0; i2 < 24; ++i2) {
      pad[i0 * 676 + i2 * 26 + 26] = 0.0f;
      for (int64_t i3_block = 0; i3_block < 3; ++i3_block) {
        store_f32x8(pad + (i0 * 676 + i2 * 26 + i3_block * 8 + 27), load_f32x8(p0 + (i0 * 576 + i2 * 24 + i3_block * 8)));
      }
      pad[i0 * 676 + i2 * 26 + 51] = 0.0f;
    }
    for (int64_t i2_block = 0; i2_block < 3; ++i2_block) {
      store_f32x8(pad + (i0 * 676 + i2_block * 8 + 650), splat_f32x8(0.0f));
    }
    store_f32x8(pad + (i0 * 676 + 668), splat_f32x8(0.0f));
  }
}

/* const_0: f32[32, 16, 3, 3] -> pad: f32[1, 16, 26, 26], relu: f32[1, 32, 24, 24] */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void kernel_fused_nn_conv2d_nn_relu_1(__global const float *restrict p1, __global float *restrict pad_piece, __global float *restrict relu_piece, const long pad_begin, const long relu_begin) {
  #pragma OPENCL FP_CONTRACT ON
  const long part = get_group_id(0), parts = get_num_groups(0);
  __global float *restrict pad = pad_piece + 16 * pad_begin;
  __global float *restrict relu = relu_piece + 16 * relu_begin;
  const int64_t begin = 192 * part / parts;
  const int64_t end = 192 * (part + 1) / parts;
  for (int64_t part_1 = begin; part_1 < end; ++part_1) {
    const int64_t i2 = part_1 / 8;
    const int64_t row_block = part_1 % 8;
    const int64_t i0 = row_block * 4;
    f32x8 sum_0_0 = {};
    f32x8 sum_0_1 = {};
    f32x8 sum_0_2 = {};
    f32x8 sum_1_0 = {};
    f32x8 sum_1_1 = {};
    f32x8 sum_1_2 = {};
    f32x8 sum_2_0 = {};
    f32x8 sum_2_1 = {};
    f32x8 sum_2_2 = {};
    f32x8 sum_3_0 = {};
    f32x8 sum_3_1 = {};
    f32x8 sum_3_2 = {};
    for (int64_t ic = 0; ic < 16; ++ic) {
      for (int64_t kh = 0; kh < 3; ++kh) {
        for (int64_t kw = 0; kw < 3; ++kw) {
          f32x8 pad_0 = load_f32x8(pad + (ic * 676 + i2 * 26 + kh * 26 + kw));
          f32x8 pad_1 = load_f32x8(pad + (ic * 676 + i2 * 26 + kh * 26 + kw + 8));
          f32x8 pad_2 = load_f32x8(pad + (ic * 676 + i2 * 26 + kh * 26 + kw + 16));
          float const_0_0 = p1[i0 * 144 + ic * 9 + kh * 3 + kw];
          sum_0_0 = (sum_0_0 + pad_0 * const_0_0);
          sum_0_1 = (sum_0_1 + pad_1 * const_0_0);
          sum_0_2 = (sum_0_2 + pad_2 * const_0_0);
          float const_0_1 = p1[i0 * 144 + ic * 9 + kh * 3 + kw + 144];
          sum_1_0 = (sum_1_0 + pad_0 * const_0_1);
          sum_1_1 = (sum_1_1 + pad_1 * const_0_1);
          sum_1_2 = (sum_1_2 + pad_2 * const_0_1);
          float const_0_2 = p1[i0 * 144 + ic * 9 + kh * 3 + kw + 288];
          sum_2_0 = (sum_2_0 + pad_0 * const_0_2);
          sum_2_1 = (sum_2_1 + pad_1 * const_0_2);
          sum_2_2 = (sum_2_2 + pad_2 * const_0_2);
          float const_0_3 = p1[i0 * 144 + ic * 9 + kh * 3 + kw + 432];
          sum_3_0 = (sum_3_0 + pad_0 * const_0_3);
          sum_3_1 = (sum_3_1 + pad_1 * const_0_3);
          sum_3_2 = (sum_3_2 + pad_2 * const_0_3);
        }
      }
    }
    store_f32x8(relu + (i0 * 576 + i2 * 24), max_number_f32x8(0.0f, sum_0_0));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 8), max_number_f32x8(0.0f, sum_0_1));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 16), max_number_f32x8(0.0f, sum_0_2));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 576), max_number_f32x8(0.0f, sum_1_0));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 584), max_number_f32x8(0.0f, sum_1_1));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 592), max_number_f32x8(0.0f, sum_1_2));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 1152), max_number_f32x8(0.0f, sum_2_0));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 1160), max_number_f32x8(0.0f, sum_2_1));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 1168), max_number_f32x8(0.0f, sum_2_2));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 1728), max_number_f32x8(0.0f, sum_3_0));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 1736), max_number_f32x8(0.0f, sum_3_1));
    store_f32x8(relu + (i0 * 576 + i2 * 24 + 1744), max_number_f32x8(0.0f, sum_3_2));
  }
}
