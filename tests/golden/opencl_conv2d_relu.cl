static inline float max_f32(float a, float b) {
  return a > b || a != a ? a : b;
}

/* data: f32[1, 16, 64, 64] -> pad: f32[1, 16, 66, 66] */
__kernel void kernel_fused_nn_conv2d_nn_relu_pad(__global const float *restrict data, __global float *restrict pad) {
  const int item = get_global_id(0);
  if (item >= 69696) return;
  const int i0 = item / 4356;
  const int i2 = item / 66 % 66;
  const int i3 = item % 66;
  pad[item] = i2 >= 1 && i2 < 65 && i3 >= 1 && i3 < 65 ? data[i0 * 4096 + i2 * 64 + i3 - 65] : 0.0f;
}

/* pad: f32[1, 16, 66, 66], const_0: f32[32, 16, 3, 3] -> relu: f32[1, 32, 64, 64] */
__kernel void kernel_fused_nn_conv2d_nn_relu_relu(__global const float *restrict pad, __global const float *restrict const_0, __global float *restrict relu) {
  const int item = get_global_id(0);
  if (item >= 16384) return;
  const int i0 = item / 512;
  const int block = item / 64 % 8;
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
        acc0 = acc0 + pad[ic * 4356 + block * 528 + kh * 66 + i3 + kw] * const_0[i0 * 144 + ic * 9 + kh * 3 + kw];
        acc1 = acc1 + pad[ic * 4356 + block * 528 + kh * 66 + i3 + kw + 66] * const_0[i0 * 144 + ic * 9 + kh * 3 + kw];
        acc2 = acc2 + pad[ic * 4356 + block * 528 + kh * 66 + i3 + kw + 132] * const_0[i0 * 144 + ic * 9 + kh * 3 + kw];
        acc3 = acc3 + pad[ic * 4356 + block * 528 + kh * 66 + i3 + kw + 198] * const_0[i0 * 144 + ic * 9 + kh * 3 + kw];
        acc4 = acc4 + pad[ic * 4356 + block * 528 + kh * 66 + i3 + kw + 264] * const_0[i0 * 144 + ic * 9 + kh * 3 + kw];
        acc5 = acc5 + pad[ic * 4356 + block * 528 + kh * 66 + i3 + kw + 330] * const_0[i0 * 144 + ic * 9 + kh * 3 + kw];
        acc6 = acc6 + pad[ic * 4356 + block * 528 + kh * 66 + i3 + kw + 396] * const_0[i0 * 144 + ic * 9 + kh * 3 + kw];
        acc7 = acc7 + pad[ic * 4356 + block * 528 + kh * 66 + i3 + kw + 462] * const_0[i0 * 144 + ic * 9 + kh * 3 + kw];
      }
    }
  }
  relu[i0 * 4096 + block * 512 + i3] = max_f32(acc0, 0.0f);
  relu[i0 * 4096 + block * 512 + i3 + 64] = max_f32(acc1, 0.0f);
  relu[i0 * 4096 + block * 512 + i3 + 128] = max_f32(acc2, 0.0f);
  relu[i0 * 4096 + block * 512 + i3 + 192] = max_f32(acc3, 0.0f);
  relu[i0 * 4096 + block * 512 + i3 + 256] = max_f32(acc4, 0.0f);
  relu[i0 * 4096 + block * 512 + i3 + 320] = max_f32(acc5, 0.0f);
  relu[i0 * 4096 + block * 512 + i3 + 384] = max_f32(acc6, 0.0f);
  relu[i0 * 4096 + block * 512 + i3 + 448] = max_f32(acc7, 0.0f);
}
