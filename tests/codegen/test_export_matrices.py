"""Exported C whose products are on matrix registers: built by make, run under the emulation of their instructions."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.errors import CompileError
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.processor import this_processor

pytestmark = [
    pytest.mark.needs_cc,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="AMX's intrinsics are x86-64's"),
]
EMULATION = Path(__file__).with_name("amx_emulation.h")
WARNINGS = "-O1 -Wall -Wextra -Werror"
NEEDED = "NEEDED=-std=gnu11 -march=native -fno-math-errno -D__AMX_TILE__=1"  # all but the registers is as here
BF16 = numpy_dtype("bfloat16")
X = np.random.default_rng(1).standard_normal((40, 64)).astype("float32")
WEIGHTS = np.random.default_rng(2).standard_normal((48, 64)).astype("float32")


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    """A product of bfloat16 for a processor with AMX."""
    try:
        find_compiler().machine_for(("-march=sapphirerapids",))
    except CompileError as error:
        pytest.skip(str(error))
    x = relay.var("x", shape=X.shape)
    weights = relay.cast(relay.const(WEIGHTS), "bfloat16")
    body = relay.nn.dense(relay.cast(x, "bfloat16"), weights, out_dtype="float32")
    folder = tmp_path_factory.mktemp("amx")
    byoc.export_c(IRModule.from_expr(Function([x], body)), folder, march="sapphirerapids", threads=True)
    return folder


def _made(exported: Path, folder: Path, *variables: str) -> Path:
    """The example of *exported*, built in *folder*."""
    shutil.copytree(exported, folder, dirs_exist_ok=True)
    done = subprocess.run(["make", "-s", "-C", str(folder), *variables], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return folder / "model"


needs_vectors = pytest.mark.skipif(
    "avx512f" not in (this_processor().features or ()), reason="its vectors are AVX-512's, which this processor lacks"
)


@needs_vectors
def test_it_computes_the_product_where_the_system_gives_leave(exported, tmp_path):
    flags = f"CFLAGS={WARNINGS} -DEMULATED_LEAVE -include {EMULATION}"
    program = _made(exported, tmp_path, flags, NEEDED)
    X.tofile(tmp_path / "x.raw")
    subprocess.run([program, "-o", tmp_path, tmp_path / "x.raw"], check=True, capture_output=True)
    (result,) = tmp_path.glob("*output*.bin")
    want = X.astype(BF16).astype("float64") @ WEIGHTS.astype(BF16).astype("float64").T
    np.testing.assert_allclose(np.fromfile(result, "float32").reshape(want.shape), want, rtol=0, atol=2**-20 * 40)


@needs_vectors
@pytest.mark.skipif("amx_tile" in (this_processor().features or ()), reason="here the system gives leave")
def test_it_says_so_where_the_system_refuses(exported, tmp_path):
    program = _made(exported, tmp_path, f"CFLAGS={WARNINGS} -include {EMULATION}", NEEDED)
    done = subprocess.run([program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "model_run: 4\n")
    assert "#define MODEL_NO_MATRICES 4" in (exported / "model.h").read_text()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compilers_take_it_without_a_warning(compiler, exported, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    _made(exported, tmp_path, f"CC={compiler}", f"CFLAGS={WARNINGS}")


def test_a_compiler_for_a_processor_without_them_is_reported(exported, tmp_path):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    flags = ["NEEDED=-std=gnu11", "CFLAGS=-march=x86-64"]
    done = subprocess.run(["make", "-s", "-C", str(tmp_path), *flags], capture_output=True, text=True)
    assert done.returncode != 0 and "this code is for processors with A" in done.stderr
