/* The intrinsics of Intel's AMX in plain C, for processors without it, as the Architecture Instruction Set Extensions
 * reference says what the instructions do: whatever would raise an exception ends the program. Included before the code
 * that uses them, with -D__AMX_TILE__ -D__AMX_BF16__ -D__AMX_INT8__. Each thread has its own registers. */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
  uint8_t palette;
  uint8_t rows[8];
  uint16_t bytes[8];
  uint8_t data[8][16][64];
} EmulatedTiles;

static __thread EmulatedTiles emulated_tiles;

__attribute__((unused)) static void emulated_require(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "AMX: %s\n", what);
  abort();
}

/* LDTILECFG */
__attribute__((unused)) static void emulated_loadconfig(const void *place) {
  uint8_t config[64];
  memcpy(config, place, 64);
  memset(&emulated_tiles, 0, sizeof emulated_tiles);
  emulated_require(config[0] <= 1, "the palette is 0 or 1");
  if (config[0] == 0) return;
  for (int k = 2; k < 16; ++k) emulated_require(config[k] == 0, "reserved bytes are 0");
  for (int k = 0; k < 16; ++k) {
    const unsigned bytes = config[16 + 2 * k] | config[17 + 2 * k] << 8, rows = config[48 + k];
    if (k >= 8) {
      emulated_require(bytes == 0 && rows == 0, "there are 8 tiles");
      continue;
    }
    emulated_require(bytes <= 64 && rows <= 16, "a tile has 16 rows of 64 bytes");
    emulated_require((bytes == 0) == (rows == 0), "rows and bytes are both 0, or neither");
    emulated_tiles.bytes[k] = (uint16_t)bytes;
    emulated_tiles.rows[k] = (uint8_t)rows;
  }
  emulated_tiles.palette = 1;
}

static inline void emulated_check(int tile) {
  emulated_require(emulated_tiles.palette == 1, "no configuration is loaded");
  emulated_require(tile >= 0 && tile < 8 && emulated_tiles.rows[tile] > 0, "the tile has a shape");
}

/* TILERELEASE */
__attribute__((unused)) static void emulated_release(void) {
  memset(&emulated_tiles, 0, sizeof emulated_tiles);
}

/* TILEZERO */
__attribute__((unused)) static void emulated_zero(int tile) {
  emulated_check(tile);
  memset(emulated_tiles.data[tile], 0, sizeof emulated_tiles.data[tile]);
}

/* TILELOADD, TILELOADDT1: bytes and rows beyond the shape are zeroed */
__attribute__((unused)) static void emulated_load(int tile, const void *base, long stride) {
  emulated_check(tile);
  memset(emulated_tiles.data[tile], 0, sizeof emulated_tiles.data[tile]);
  for (int row = 0; row < emulated_tiles.rows[tile]; ++row)
    memcpy(emulated_tiles.data[tile][row], (const uint8_t *)base + row * stride, emulated_tiles.bytes[tile]);
}

/* TILESTORED */
__attribute__((unused)) static void emulated_store(int tile, void *base, long stride) {
  emulated_check(tile);
  for (int row = 0; row < emulated_tiles.rows[tile]; ++row)
    memcpy((uint8_t *)base + row * stride, emulated_tiles.data[tile][row], emulated_tiles.bytes[tile]);
}

/* What all products demand of their operands: c is M x N, a is M x K, b is K x N words. */
static inline void emulated_check_product(int c, int a, int b) {
  const EmulatedTiles *t = &emulated_tiles;
  emulated_check(c);
  emulated_check(a);
  emulated_check(b);
  emulated_require(c != a && c != b && a != b, "the operands are three tiles");
  emulated_require(t->bytes[a] % 4 == 0 && t->bytes[b] % 4 == 0 && t->bytes[c] % 4 == 0, "rows are whole words");
  emulated_require(t->rows[c] == t->rows[a], "the sums have as many rows as the left operand");
  emulated_require(t->bytes[c] == t->bytes[b], "the sums have as many columns as the right operand");
  emulated_require(t->rows[b] == t->bytes[a] / 4, "the right operand has a row for each word of the left one");
}

static inline float emulated_flushed(float x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}

static inline float emulated_bf16(const uint8_t *place) {
  const uint32_t bits = (uint32_t)(place[0] | place[1] << 8) << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return emulated_flushed(x);
}

/* TDPBF16PS: even and odd terms are summed apart by fused operations, denormals are 0 going in and coming out */
__attribute__((unused)) static void emulated_dpbf16ps(int c, int a, int b) {
  EmulatedTiles *t = &emulated_tiles;
  emulated_check_product(c, a, b);
  for (int m = 0; m < t->rows[c]; ++m)
    for (int n = 0; n < t->bytes[c] / 4; ++n) {
      float part[2] = {0, 0}, sum;
      for (int k = 0; k < t->bytes[a] / 4; ++k)
        for (int odd = 0; odd < 2; ++odd) {
          const float x = emulated_bf16(&t->data[a][m][4 * k + 2 * odd]);
          const float y = emulated_bf16(&t->data[b][k][4 * n + 2 * odd]);
          part[odd] = emulated_flushed(__builtin_fmaf(x, y, part[odd]));
        }
      memcpy(&sum, &t->data[c][m][4 * n], sizeof sum);
      sum = emulated_flushed(emulated_flushed(sum) + emulated_flushed(part[0] + part[1]));
      memcpy(&t->data[c][m][4 * n], &sum, sizeof sum);
    }
}

/* TDPBUSD, TDPBSUD: sums wrap */
__attribute__((unused)) static void emulated_dpb(int c, int a, int b, int left_is_signed) {
  EmulatedTiles *t = &emulated_tiles;
  emulated_check_product(c, a, b);
  for (int m = 0; m < t->rows[c]; ++m)
    for (int n = 0; n < t->bytes[c] / 4; ++n) {
      uint32_t sum;
      memcpy(&sum, &t->data[c][m][4 * n], sizeof sum);
      for (int k = 0; k < t->bytes[a]; ++k) {
        const uint8_t x = t->data[a][m][k], y = t->data[b][k / 4][4 * n + k % 4];
        sum += (uint32_t)(left_is_signed ? (int8_t)x * (int)y : (int)x * (int8_t)y);
      }
      memcpy(&t->data[c][m][4 * n], &sum, sizeof sum);
    }
}

#ifdef EMULATED_LEAVE /* the system gives leave to use the registers, whatever it says */
#define syscall(...) 0L
#endif

#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#undef _tile_dpbsud
#define _tile_loadconfig(place) emulated_loadconfig(place)
#define _tile_release() emulated_release()
#define _tile_zero(tile) emulated_zero(tile)
#define _tile_loadd(tile, base, stride) emulated_load(tile, base, stride)
#define _tile_stream_loadd(tile, base, stride) emulated_load(tile, base, stride)
#define _tile_stored(tile, base, stride) emulated_store(tile, base, stride)
#define _tile_dpbf16ps(c, a, b) emulated_dpbf16ps(c, a, b)
#define _tile_dpbusd(c, a, b) emulated_dpb(c, a, b, 0)
#define _tile_dpbsud(c, a, b) emulated_dpb(c, a, b, 1)
