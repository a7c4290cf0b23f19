
static inline int64_t check_index_i64(int64_t index, int64_t extent, uint64_t *outside) {
  const uint64_t place = (uint64_t)(index < 0 ? index + extent : index);
  const uint64_t seen = place == 0 && extent == 0 ? (uint64_t)1 << 63 : place;
  *outside = seen > *outside ? seen : *outside;
  return place < (uint64_t)extent ? (int64_t)place : extent > 0 ? extent - 1 : 0;
}

static inline uint64_t order_key_float32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint64_t size = bits & UINT64_C(0x7fffffff);
  if (size > UINT64_C(0x7f800000)) return UINT64_MAX;
  return bits & UINT64_C(0x80000000) ? UINT64_C(0x80000000) - size : UINT64_C(0x80000000) + size;
}

/* An element by its order, and its place. */
typedef struct {
  uint64_t key;
  int64_t place;
} Ranked;

static inline bool ranked_before(const Ranked *a, const Ranked *b) {
  return a->key < b->key || (a->key == b->key && a->place < b->place);
}

/* Put an entry at a hole of a heap whose last entry is on top. */
static inline void ranked_sink(Ranked *heap, int64_t count, int64_t hole, Ranked entry) {
  for (int64_t child; (child = 2 * hole + 1) < count; hole = child) {
    if (child + 1 < count && ranked_before(&heap[child], &heap[child + 1])) ++child;
    if (!ranked_before(&entry, &heap[child])) break;
    heap[hole] = heap[child];
  }
  heap[hole] = entry;
}

/* The first in order of rows [begin, end); *values* or *places* may be nobody's. */
static void select_rows_float32_int32(
  const float *data, float *values, int32_t *places, int64_t *scratch,
  int64_t begin, int64_t end, int64_t count, int64_t kept, int64_t inner, int64_t descends) {
  const uint64_t flip = descends ? UINT64_MAX : 0;
  for (int64_t r = begin; r < end; ++r) {
    const float *row = data + (r / inner * count * inner + r % inner);
    Ranked *ranked = (Ranked *)scratch + r * kept;
    for (int64_t k = 0; k < kept; ++k) ranked[k] = (Ranked){order_key_float32(row[k * inner]) ^ flip, k};
    for (int64_t hole = kept / 2; hole-- > 0;) ranked_sink(ranked, kept, hole, ranked[hole]);
    for (int64_t k = kept; kept > 0 && k < count; ++k) {
      const uint64_t key = order_key_float32(row[k * inner]) ^ flip;
      if (key < ranked[0].key) ranked_sink(ranked, kept, 0, (Ranked){key, k});
    }
    for (int64_t last = kept - 1; last > 0; --last) {
      const Ranked entry = ranked[last];
      ranked[last] = ranked[0];
      ranked_sink(ranked, last, 0, entry);
    }
    const int64_t first = r / inner * kept * inner + r % inner;
    if (values)
      for (int64_t k = 0; k < kept; ++k) values[first + k * inner] = row[ranked[k].place * inner];
    if (places)
      for (int64_t k = 0; k < kept; ++k) places[first + k * inner] = (int32_t)ranked[k].place;
  }
}

/* p0: f32[n, 6] -> output_1: i32[4, 6] */
void topk_HASH(const float *restrict p0, int64_t *restrict ranked, float *restrict output_0, int32_t *restrict output_1, int64_t n, int64_t check_0, const Team *team) {
  uint64_t outside_0 = 0;
  const int64_t begin = 6 * team->thread / team->threads;
  const int64_t end = 6 * (team->thread + 1) / team->threads;
  select_rows_float32_int32(p0, output_0, output_1, ranked, begin, end, n, check_index_i64(4, n + 1, &outside_0), 6, 1);
  if (outside_0 >= (uint64_t)(n + 1) && outside_0 != 0) run_outside(team->run, check_0, outside_0, n + 1);
}
