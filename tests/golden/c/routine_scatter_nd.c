
static inline int64_t check_index_i64(int64_t index, int64_t extent, uint64_t *outside) {
  const uint64_t place = (uint64_t)(index < 0 ? index + extent : index);
  const uint64_t seen = place == 0 && extent == 0 ? (uint64_t)1 << 63 : place;
  *outside = seen > *outside ? seen : *outside;
  return place < (uint64_t)extent ? (int64_t)place : extent > 0 ? extent - 1 : 0;
}

/* Elements [first, last) of *data*, with rows of *updates* at the coordinates along axis 0 of *indices*. */
static void scatter_nd_update_float32_int64(
  const float *data, const int64_t *indices, const float *updates, float *result, int64_t first, int64_t last,
  int64_t stride, int64_t places, int64_t width, int64_t axes, const int64_t *sizes, uint64_t *const *outside) {
  const int64_t extent = last - first;
  if (extent > 0) memcpy(result + first, data + first, (size_t)extent * sizeof *result);
  for (int64_t p = 0; p < places; ++p) {
    int64_t start = 0;
    for (int64_t axis = 0; axis < axes; ++axis)
      start = start * sizes[axis] + check_index_i64(indices[axis * stride + p], sizes[axis], &*outside[axis]);
    start *= width;
    const int64_t from = start < first ? first : start, to = last < start + width ? last : start + width;
    for (int64_t k = from; k < to; ++k) result[k] = updates[p * width + k - start];
  }
}

/* p0: f32[n, 6], p1: i64[1, 3], p2: f32[3, 6] -> output_0: f32[n, 6] */
void scatter_nd_HASH(const float *restrict p0, const int64_t *restrict p1, const float *restrict p2, float *restrict output_0, int64_t n, int64_t check_0, const Team *team) {
  uint64_t outside_0 = 0;
  const int64_t begin = n * 6 * team->thread / team->threads;
  const int64_t end = n * 6 * (team->thread + 1) / team->threads;
  scatter_nd_update_float32_int64(p0, p1, p2, output_0, begin, end, 3, 3, 6, 1, (const int64_t[]){n}, (uint64_t *const[]){&outside_0});
  if (outside_0 >= (uint64_t)n && outside_0 != 0) run_outside(team->run, check_0, outside_0, n);
}
