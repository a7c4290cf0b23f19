"""Products of bfloat16 and of bytes by Arm's dot-product instructions: cross-compiled, and run under an emulator."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.toolchain.machine import Machine, machine_of, processor_of
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.region import fuse_body
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.relay.transform import FoldConstant, InferType
from byoc.runtime.core.ndarray import numpy_dtype

GCC, QEMU = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
needs_arm = pytest.mark.skipif(GCC is None or QEMU is None, reason="needs aarch64-linux-gnu-gcc and qemu-aarch64")
MACHINE = Machine(16, 24, 32, frozenset(["dot_bf16", "dot_u8s8"]))
FLAGS = ("-std=gnu11", "-O2", "-fwrapv", "-fno-math-errno", "-static", "-Wall", "-Wextra", "-Werror")
BF16 = numpy_dtype("bfloat16")
M, K, N = 9, 44, 22
# where a processor has them, and the instruction that words are multiplied by
TARGETS = [
    ("armv8.6-a", "bfloat16", "bfdot"),
    ("armv8.2-a+bf16", "bfloat16", "bfdot"),
    ("armv8-a", "bfloat16", "fmla"),
    ("armv8.6-a", "uint8", "usdot"),
    ("armv8.2-a+dotprod", "uint8", "sdot"),
    ("armv8-a", "uint8", "mla"),
]
MAIN = """
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  void *args[8];
  const size_t sizes[] = {@sizes@};
  Run run = {0};
  const Team team = {0, 1, 0, &run};
  for (int k = 0; k < argc - 1; ++k) {
    args[k] = malloc(sizes[k]);
    FILE *file = fopen(argv[k + 1], "rb");
    if (file && fread(args[k], 1, sizes[k], file) != sizes[k]) return 1;
    if (file) fclose(file);
  }
  if (f(args, 0, aligned_alloc(64, (f_workspace(0) + 64) / 64 * 64), &team)) return 1;
  FILE *file = fopen(argv[argc - 1], "wb");
  return fwrite(args[argc - 2], 1, sizes[argc - 2], file) != sizes[argc - 2] || fclose(file);
}
"""


def _case(dtype: str) -> tuple[Program, np.ndarray, np.ndarray]:
    """A product of *dtype* with constant weights, its data, and the sums in wide numbers."""
    rng = np.random.default_rng(3)
    if dtype == "uint8":
        data = np.where(rng.random((M, K)) < 0.3, 255, rng.integers(0, 256, (M, K))).astype(dtype)
        weights = np.where(rng.random((N, K)) < 0.3, -128, rng.integers(-128, 128, (N, K))).astype("int8")
    else:
        data, weights = rng.standard_normal((M, K)).astype(BF16), rng.standard_normal((N, K)).astype(BF16)
    total = "int32" if dtype == "uint8" else "float32"
    body = relay.nn.dense(relay.var("x", shape=(M, K), dtype=dtype), relay.const(weights), out_dtype=total)
    mod = IRModule.from_expr(Function(relay.analysis.free_vars(body), body))
    function = fuse_body(FoldConstant()(InferType()(mod))["main"].with_attr("global_symbol", "f"))
    wide = "int64" if dtype == "uint8" else "float64"
    return prepare(lower_function(function, "f"), MACHINE), data, data.astype(wide) @ weights.astype(wide).T


def _compiled(program: Program, arrays: list[np.ndarray], march: str, folder: Path) -> str:
    """The assembly of *program* with a ``main`` for *arrays*; the program lies in *folder*."""
    assert GCC is not None
    sizes = ", ".join(str(a.nbytes) for a in arrays)
    source = folder / "f.c"
    source.write_text(emit_programs([program], MACHINE) + MAIN.replace("@sizes@", sizes), encoding="utf-8")
    for more in (("-S", "-o", str(folder / "f.s")), ("-o", str(folder / "f"))):
        done = subprocess.run([GCC, *FLAGS, f"-march={march}", *more, str(source)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return (folder / "f.s").read_text()


@needs_arm
@pytest.mark.parametrize(("march", "dtype", "instruction"), TARGETS)
def test_a_narrow_product_on_arm_is_that_of_wide_numbers(march, dtype, instruction, tmp_path):
    program, data, want = _case(dtype)
    result = np.zeros(want.shape, "int32" if dtype == "uint8" else "float32")
    arrays = [data, *(a.numpy() for _, a in program.constants), result]
    assembly = _compiled(program, arrays, march, tmp_path)
    assert f"\t{instruction}\t" in assembly
    names = []
    for k, array in enumerate(arrays):
        names.append(str(tmp_path / f"{k}.bin"))
        array.tofile(names[-1])
    done = subprocess.run([QEMU, "-cpu", "max", str(tmp_path / "f"), *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got = np.fromfile(names[-1], result.dtype).reshape(result.shape)
    if dtype == "uint8":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=0, atol=2**-22 * (np.abs(want).max() + np.sqrt(K)))


def test_the_machine_says_which_dot_products_arm_has():
    arm = {"__aarch64__": "1"}
    assert machine_of(arm).dots == frozenset()
    assert machine_of({**arm, "__ARM_FEATURE_DOTPROD": "1"}).dots == {"dot_u8s8"}
    assert machine_of({**arm, "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC": "1"}).dots == {"dot_bf16"}
    assert processor_of({**arm, "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC": "1"}).features == ("bf16",)
