"""Kernels of the tests in C and OpenCL C."""

from byoc.kernels import CSource, OpenCLSource

LEAKY_C = CSource("""
static float UNIQUE(bent)(float value) { return value < 0 ? value * (float)(ATTR_alpha) : value; }
void KERNEL(const IN0_TYPE *x, OUT0_TYPE *out SIZES) {
  for (int64_t i = 0; i < OUT0_SIZE; ++i) out[i] = UNIQUE(bent)(x[i]);
}""")
EXP_OPENCL = OpenCLSource("""
__kernel void KERNEL(__global const IN0_TYPE *x, __global OUT0_TYPE *out SIZES) {
  const long i = get_global_id(0);
  if (i < OUT0_SIZE) out[i] = exp(x[i]);
}""")
SPLIT_C = CSource("""
void KERNEL(const IN0_TYPE *x, OUT0_TYPE *first, OUT1_TYPE *second SIZES) {
  for (int64_t row = 0; row < IN0_DIM0; ++row)
    for (int64_t k = 0; k < IN0_DIM1; ++k) {
      if (k < OUT0_DIM1) first[row * OUT0_DIM1 + k] = x[row * IN0_DIM1 + k];
      else second[row * OUT1_DIM1 + k - OUT0_DIM1] = x[row * IN0_DIM1 + k];
    }
}""")
CONCAT_C = CSource("""
void KERNEL(const IN0_TYPE *a, const IN1_TYPE *b, OUT0_TYPE *out SIZES) {
  const int axis = ATTR_axis; (void)axis;
  memcpy(out, a, IN0_SIZE * sizeof(*a));
  memcpy(out + IN0_SIZE, b, IN1_SIZE * sizeof(*b));
}""")
