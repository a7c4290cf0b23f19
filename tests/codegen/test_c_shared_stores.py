"""Threads that store side by side: no compiler may store again what another thread has stored."""

from __future__ import annotations

import ctypes

import pytest

from byoc.codegen.c.toolchain.compiler import find_compiler

pytestmark = [pytest.mark.needs_cc, pytest.mark.optimized]
# Two rows of two blocks: block 0's thread stores o[0:4] and o[8:12], block 1's counts in o[4:8] and o[12:16].
SOURCE = """
#include <pthread.h>
#include <stdint.h>
#include <string.h>

typedef double f64x4 __attribute__((vector_size(32)));

__attribute__((noinline)) void stored(double *restrict o, const double *restrict x, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    f64x4 v;
    memcpy(&v, x + i * 4, sizeof v);
    f64x4 first = v + 1.0, second = v * 2.0;
    memcpy(o + i * 4, &first, sizeof v);
    memcpy(o + i * 4 + 8, &second, sizeof v);
  }
}

static double out[16];
static const double in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static int32_t done;

static void *first_block(void *argument) {
  while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) stored(out, in, 0, 1);
  return argument;
}

/* How many of *rounds* stores of the second block were undone. */
int64_t lost(int64_t rounds) {
  pthread_t other;
  volatile double *mine = out + 4;
  int64_t count = 0;
  done = 0;
  if (pthread_create(&other, 0, first_block, 0)) return -1;
  for (int64_t k = 1; k <= rounds; ++k) {
    *mine = (double)k;
    for (int pause = 0; pause < 50; ++pause) count += *mine != (double)k;
  }
  __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
  pthread_join(other, 0);
  return count;
}
"""


def lost(compiler, path) -> int:
    path.write_bytes(compiler.build(SOURCE))
    function = ctypes.CDLL(str(path)).lost
    function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_int64]
    return function(1_000_000)


def test_what_one_thread_stores_no_other_thread_stores_again(tmp_path):
    assert lost(find_compiler(), tmp_path / "stores.so") == 0
