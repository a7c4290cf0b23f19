#pragma OPENCL FP_CONTRACT OFF

static inline float step_f32(float sum, float a, float b) {
#pragma OPENCL FP_CONTRACT ON
  return sum + a * b;
}

static inline float max_f32(float a, float b) {
  return a > b || a != a ? a : b;
}

/* data: f32[1, 16, 64, 64], const_0: f32[32, 16, 3, 3] -> relu: f32[1, 32, 64, 64] */
__kernel void kernel_fused_nn_conv2d_nn_relu(__global const float *restrict data_piece, __global const float *restrict const_0, __global float *restrict relu_piece, const long data_begin, const long relu_begin) {
  __global const float *restrict data = data_piece + 16 * data_begin;
  __global float *restrict relu = relu_piece + 16 * relu_begin;
  const int item = get_global_id(0);
  const int block = item / 4096;
  const int i2 = item / 64 % 64;
  const int i3 = item % 64;
  float acc0 = 0.0f;
  float acc1 = 0.0f;
  float acc2 = 0.0f;
  float acc3 = 0.0f;
  float acc4 = 0.0f;
  float acc5 = 0.0f;
  float acc6 = 0.0f;
  float acc7 = 0.0f;
  for (int ic = 0; ic < 16; ++ic) {
    for (int kh = 0; kh < 3; ++kh) {
      for (int kw = 0; kw < 3; ++kw) {
        acc0 = step_f32(acc0, i2 + kh >= 1 && i2 + kh < 65 && i3 + kw >= 1 && i3 + kw < 65 ? data[ic * 4096 + i2 * 64 + kh * 64 + i3 + kw - 65] : 0.0f, const_0[block * 1152 + ic * 9 + kh * 3 + kw]);
        acc1 = step_f32(acc1, i2 + kh >= 1 && i2 + kh < 65 && i3 + kw >= 1 && i3 + kw < 65 ? data[ic * 4096 + i2 * 64 + kh * 64 + i3 + kw - 65] : 0.0f, const_0[block * 1152 + ic * 9 + kh * 3 + kw + 144]);
        acc2 = step_f32(acc2, i2 + kh >= 1 && i2 + kh < 65 && i3 + kw >= 1 && i3 + kw < 65 ? data[ic * 4096 + i2 * 64 + kh * 64 + i3 + kw - 65] : 0.0f, const_0[block * 1152 + ic * 9 + kh * 3 + kw + 288]);
        acc3 = step_f32(acc3, i2 + kh >= 1 && i2 + kh < 65 && i3 + kw >= 1 && i3 + kw < 65 ? data[ic * 4096 + i2 * 64 + kh * 64 + i3 + kw - 65] : 0.0f, const_0[block * 1152 + ic * 9 + kh * 3 + kw + 432]);
        acc4 = step_f32(acc4, i2 + kh >= 1 && i2 + kh < 65 && i3 + kw >= 1 && i3 + kw < 65 ? data[ic * 4096 + i2 * 64 + kh * 64 + i3 + kw - 65] : 0.0f, const_0[block * 1152 + ic * 9 + kh * 3 + kw + 576]);
        acc5 = step_f32(acc5, i2 + kh >= 1 && i2 + kh < 65 && i3 + kw >= 1 && i3 + kw < 65 ? data[ic * 4096 + i2 * 64 + kh * 64 + i3 + kw - 65] : 0.0f, const_0[block * 1152 + ic * 9 + kh * 3 + kw + 720]);
        acc6 = step_f32(acc6, i2 + kh >= 1 && i2 + kh < 65 && i3 + kw >= 1 && i3 + kw < 65 ? data[ic * 4096 + i2 * 64 + kh * 64 + i3 + kw - 65] : 0.0f, const_0[block * 1152 + ic * 9 + kh * 3 + kw + 864]);
        acc7 = step_f32(acc7, i2 + kh >= 1 && i2 + kh < 65 && i3 + kw >= 1 && i3 + kw < 65 ? data[ic * 4096 + i2 * 64 + kh * 64 + i3 + kw - 65] : 0.0f, const_0[block * 1152 + ic * 9 + kh * 3 + kw + 1008]);
      }
    }
  }
  relu[block * 32768 + i2 * 64 + i3] = max_f32(acc0, 0.0f);
  relu[block * 32768 + i2 * 64 + i3 + 4096] = max_f32(acc1, 0.0f);
  relu[block * 32768 + i2 * 64 + i3 + 8192] = max_f32(acc2, 0.0f);
  relu[block * 32768 + i2 * 64 + i3 + 12288] = max_f32(acc3, 0.0f);
  relu[block * 32768 + i2 * 64 + i3 + 16384] = max_f32(acc4, 0.0f);
  relu[block * 32768 + i2 * 64 + i3 + 20480] = max_f32(acc5, 0.0f);
  relu[block * 32768 + i2 * 64 + i3 + 24576] = max_f32(acc6, 0.0f);
  relu[block * 32768 + i2 * 64 + i3 + 28672] = max_f32(acc7, 0.0f);
}
