
static inline uint64_t order_key_float16(uint16_t x) {
  uint64_t bits = x;
  const uint64_t size = bits & UINT64_C(0x7fff);
  if (size > UINT64_C(0x7c00)) return UINT64_MAX;
  return bits & UINT64_C(0x8000) ? UINT64_C(0x8000) - size : UINT64_C(0x8000) + size;
}

/* An element by its order, and its place. */
typedef struct {
  uint64_t key;
  int64_t place;
} Ranked;

/* Sort by the keys, equal ones as they stand; the result is in one of the two arrays. */
static inline Ranked *ranked_sort(Ranked *from, Ranked *to, int64_t count) {
  const int64_t run = 16;
  for (int64_t start = 0; start < count; start += run) {
    const int64_t end = count - start < run ? count : start + run;
    for (int64_t k = start + 1; k < end; ++k) {
      const Ranked entry = from[k];
      int64_t hole = k;
      for (; hole > start && entry.key < from[hole - 1].key; --hole) from[hole] = from[hole - 1];
      from[hole] = entry;
    }
  }
  for (int64_t width = run; width < count; width *= 2) {
    for (int64_t start = 0; start < count; start += 2 * width) {
      const int64_t middle = count - start < width ? count : start + width;
      const int64_t end = count - middle < width ? count : middle + width;
      int64_t left = start, right = middle, place = start;
      if (middle < end && from[middle].key < from[middle - 1].key) {
        while (left < middle && right < end) {
          const bool takes = from[right].key < from[left].key;
          to[place++] = from[takes ? right : left];
          right += takes;
          left += !takes;
        }
      }
      for (; left < middle; ++left) to[place++] = from[left];
      for (; right < end; ++right) to[place++] = from[right];
    }
    Ranked *const other = from;
    from = to;
    to = other;
  }
  return from;
}

/* The order of rows [begin, end); *values* or *places* may be nobody's. */
static void sort_rows_float16_int32(
  const uint16_t *data, uint16_t *values, int32_t *places, int64_t *scratch,
  int64_t begin, int64_t end, int64_t count, int64_t kept, int64_t inner, int64_t descends) {
  const uint64_t flip = descends ? UINT64_MAX : 0;
  for (int64_t r = begin; r < end; ++r) {
    const uint16_t *row = data + (r / inner * count * inner + r % inner);
    Ranked *own = (Ranked *)scratch + 2 * r * count;
    for (int64_t k = 0; k < count; ++k) own[k] = (Ranked){order_key_float16(row[k * inner]) ^ flip, k};
    const Ranked *ranked = ranked_sort(own, own + count, count);
    const int64_t first = r / inner * kept * inner + r % inner;
    if (values)
      for (int64_t k = 0; k < kept; ++k) values[first + k * inner] = row[ranked[k].place * inner];
    if (places)
      for (int64_t k = 0; k < kept; ++k) places[first + k * inner] = (int32_t)ranked[k].place;
  }
}

/* p0: f16[5, 6] -> output_0: i32[5, 6] */
void argsort_HASH(const uint16_t *restrict p0, int64_t *restrict ranked, int32_t *restrict output_0, const Team *team) {
  const int64_t begin = 5 * team->thread / team->threads;
  const int64_t end = 5 * (team->thread + 1) / team->threads;
  sort_rows_float16_int32(p0, 0, output_0, ranked, begin, end, 6, 6, 1, 1);
}
