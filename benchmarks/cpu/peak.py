"""The most multiply-adds a second that the processor can do, measured by a loop of nothing else.

The loop is C, written here and built by the same compiler and flags as our code: independent accumulators, enough of
them to hide the latency of a fused multiply-add, in vectors as wide as the processor's. bf16 pairs and int8 fours are
measured by the processor's own dot-product instructions, where it has them.
"""

from __future__ import annotations

import ctypes
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from byoc.codegen.c.toolchain.compiler import CCompiler, find_compiler

INNER = 1000
TRIES, SECONDS = 5, 0.03


@dataclass(frozen=True)
class Instruction:
    """A multiply-add of one vector: the C type, how one is done, and the multiply-adds in it for 64 bytes of vector."""

    ctype: str
    step: str
    per_64_bytes: int
    feature: str = ""


INSTRUCTIONS = {
    "f32": Instruction("vector", "a{k} = a{k} * x + y;", 16),
    "bf16": Instruction("__m512", "a{k} = _mm512_dpbf16_ps(a{k}, (__m512bh)x, (__m512bh)y);", 32, "avx512_bf16"),
    "int8": Instruction("__m512i", "a{k} = _mm512_dpbusd_epi32(a{k}, (__m512i)x, (__m512i)y);", 64, "avx512_vnni"),
}


def accumulators(vector_bytes: int) -> int:
    """As many as stay in registers beside the operands: of 32, or of 16 where vectors have less than 64 bytes."""
    return 16 if vector_bytes >= 64 else 12


def source(instruction: Instruction, vector_bytes: int) -> str:
    """C: ``float burn(int64_t rounds)``, each round INNER times an instruction for each accumulator."""
    names = [f"a{k}" for k in range(accumulators(vector_bytes))]
    steps = "\n      ".join(instruction.step.format(k=k) for k in range(len(names)))
    # the compiler must neither drop the loop nor know its operands
    opaque = "\n      ".join(f'__asm__ volatile("" : "+m"({n}));' for n in names)
    return f"""#include <stdint.h>
{"#include <immintrin.h>" if instruction.feature else ""}
typedef float vector __attribute__((vector_size({vector_bytes})));
float burn(int64_t rounds) {{
  vector x = {{0}}, y = {{0}};
  __asm__ volatile("" : "+m"(x), "+m"(y));
  {instruction.ctype} {", ".join(f"{n} = {{0}}" for n in names)};
  for (int64_t r = 0; r < rounds; r++) {{
    for (int64_t i = 0; i < {INNER}; i++) {{
      {steps}
    }}
    {opaque}
  }}
  return {" + ".join(f"(float)(({instruction.ctype}){n})[0]" for n in names)};
}}
"""


def has(precision: str, compiler: CCompiler) -> bool:
    """Whether this processor and compiler have the instruction for *precision*."""
    features = compiler.processor().features or ()
    return not INSTRUCTIONS[precision].feature or INSTRUCTIONS[precision].feature in features


class Burner:
    """A call of the loop on so many threads: *work* multiply-adds in all, some hundredths of a second."""

    def __init__(self, threads: int, precision: str):
        compiler = find_compiler()
        instruction, width = INSTRUCTIONS[precision], compiler.machine.vector_bytes
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "burn.so"
            path.write_bytes(compiler.build(source(instruction, width)))
            self._burn = ctypes.CDLL(str(path)).burn
        self._burn.argtypes, self._burn.restype = [ctypes.c_int64], ctypes.c_float
        self._threads, self._rounds = threads, _rounds_for(self._burn, SECONDS)
        self.work = threads * self._rounds * INNER * accumulators(width) * instruction.per_64_bytes * width / 64

    def __call__(self) -> float:
        """Do the work; returns its seconds."""
        return _together(self._burn, self._rounds, self._threads)


def burner(threads: int, precision: str = "f32") -> Burner | None:
    """The loop for *threads* in *precision*; None where the processor or the compiler lacks the instruction."""
    return Burner(threads, precision) if has(precision, find_compiler()) else None


def peak(threads: int, precision: str = "f32") -> float | None:
    """Multiply-adds a second of *threads* threads together, the best of a few tries; None without the instruction."""
    made = burner(threads, precision)
    return None if made is None else made.work / min(made() for _ in range(TRIES))


def _rounds_for(burn: ctypes._CFuncPtr, seconds: float) -> int:
    rounds = 1
    while True:
        taken = _together(burn, rounds, 1)
        if taken > seconds / 4:
            return max(1, int(rounds * seconds / taken))
        rounds *= 2


def _together(burn: ctypes._CFuncPtr, rounds: int, threads: int) -> float:
    """Seconds until all *threads* have burnt *rounds*; the calls hold no lock of Python's."""
    start = threading.Barrier(threads + 1)

    def work() -> None:
        start.wait()
        burn(rounds)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    begin = time.perf_counter()
    for worker in workers:
        worker.join()
    return time.perf_counter() - begin
