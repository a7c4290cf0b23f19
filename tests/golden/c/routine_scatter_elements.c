
static inline int64_t check_index_i64(int64_t index, int64_t extent, uint64_t *outside) {
  const uint64_t place = (uint64_t)(index < 0 ? index + extent : index);
  const uint64_t seen = place == 0 && extent == 0 ? (uint64_t)1 << 63 : place;
  *outside = seen > *outside ? seen : *outside;
  return place < (uint64_t)extent ? (int64_t)place : extent > 0 ? extent - 1 : 0;
}

static inline float combine_add_float32(float a, float b) {
  return a + b;
}

/* Elements [first, last) of *data*, with each of *updates* at the position that *indices* hold. */
static void scatter_elements_add_float32_int64(
  const float *data, const int64_t *indices, const float *updates, float *result, int64_t first, int64_t last,
  int64_t rank, int64_t axis, const int64_t *extents, const int64_t *sizes, uint64_t *const *outside) {
  const int64_t extent = last - first;
  if (extent > 0) memcpy(result + first, data + first, (size_t)extent * sizeof *result);
  int64_t rows = 1, stride = 1;
  for (int64_t d = 0; d < rank - 1; ++d) rows *= extents[d];
  for (int64_t d = axis + 1; d < rank; ++d) stride *= sizes[d];
  const int64_t width = extents[rank - 1], step = axis != rank - 1;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t block = 0, inside = 0, scale = sizes[rank - 1];
    for (int64_t d = rank - 2, rest = r; d >= 0; scale *= sizes[d], rest /= extents[d], --d) {
      if (d < axis) block += rest % extents[d] * scale;
      if (d > axis) inside += rest % extents[d] * scale;
    }
    if (first < last && (block >= last || block + sizes[axis] * stride <= first)) continue;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t p = r * width + j;
      const int64_t k = block + inside + j * step + check_index_i64(indices[p], sizes[axis], &*outside[0]) * stride;
      if (k >= first && k < last) result[k] = combine_add_float32(result[k], updates[p]);
    }
  }
}

/* p0: f32[n, 6], p1: i64[1, 3], p2: f32[1, 3] -> output_0: f32[n, 6] */
void scatter_elements_HASH(const float *restrict p0, const int64_t *restrict p1, const float *restrict p2, float *restrict output_0, int64_t n, int64_t check_0, int64_t check_1, const Team *team) {
  uint64_t outside_1 = 0;
  uint64_t outside_0 = 0;
  const int64_t begin = n * 6 * team->thread / team->threads;
  const int64_t end = n * 6 * (team->thread + 1) / team->threads;
  scatter_elements_add_float32_int64(p0, p1, p2, output_0, begin, end, 2, 1, (const int64_t[]){check_index_i64(1, n + 1, &outside_1), 3}, (const int64_t[]){n, 6}, (uint64_t *const[]){&outside_0});
  if (outside_1 >= (uint64_t)(n + 1) && outside_1 != 0) run_outside(team->run, check_1, outside_1, n + 1);
  if (outside_0 >= (uint64_t)6 && outside_0 != 0) run_outside(team->run, check_0, outside_0, 6);
}
