"""OpenCL kernels on Oclgrind, a device that checks every access: no sample of an operator reads or writes outside.

Oclgrind (``apt-get install oclgrind``) shows itself as an OpenCL platform; its reports are collected in a file.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).parents[1]
# Oclgrind finds no kernel by the name of one that is the same as another kernel of its program
SKIPPED = [
    "--deselect",
    "tests/codegen/test_opencl_every_operator.py::test_generated_kernels_equal_the_numpy_kernel[abs[3]]",
]
BROKEN = """
import numpy as np
from byoc import relay, te
from byoc.codegen.opencl.backend import compile_functions
from byoc.ir.op import register_op
from byoc.relay.expr import Call, Function, var

def behind(attrs, inputs, out_type):
    return [te.compute(inputs[0].shape, lambda i: inputs[0][i + 1], "behind")]

op = register_op("test_checked.behind", inputs=["x"], rel=lambda types, attrs: types[0], doc="-", compute=behind)
x = var("x", shape=(64,))
module = compile_functions({"f": Function([x], Call(op, [x]))})
module["f"](np.zeros(64, "float32"), np.empty(64, "float32"))
"""

pytestmark = [pytest.mark.slow, pytest.mark.needs_opencl]


def on_oclgrind(folder: pathlib.Path, command: list[str]) -> tuple[subprocess.CompletedProcess[str], str]:
    """``python <command>`` with Oclgrind as the device, and what that reported; skips where there is none."""
    pyopencl = pytest.importorskip("pyopencl")
    if "Oclgrind" not in [platform.name for platform in pyopencl.get_platforms()]:
        pytest.skip("Oclgrind is not among the OpenCL platforms of this machine: apt-get install oclgrind")
    log = folder / "oclgrind.log"
    env = {**os.environ, "BYOC_OPENCL_DEVICE": "Oclgrind", "OCLGRIND_CHECK_API": "1", "OCLGRIND_LOG": str(log)}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=env, cwd=TESTS.parent, check=False
    )
    return done, log.read_text() if log.is_file() else ""


def test_a_kernel_that_reads_behind_its_input_is_found(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    done, report = on_oclgrind(tmp_path, [str(tmp_path / "broken.py")])
    assert "Invalid read of size 4" in report, (done.stderr, report)


@pytest.mark.parametrize("file", ["codegen/test_opencl_every_operator.py", "codegen/test_opencl_codegen.py"])
def test_kernels_read_and_write_only_their_buffers(file, tmp_path):
    command = ["-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", "-m", "not slow", str(TESTS / file)]
    done, report = on_oclgrind(tmp_path, [*command, *SKIPPED])
    assert (done.returncode, report) == (0, ""), (done.stdout[-3000:], report[:3000])
