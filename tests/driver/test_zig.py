"""A machine without a C compiler: the one of the package index, through the ``ziglang`` package."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
WORK = """
import sys
import numpy as np
import byoc
from byoc.codegen.c.toolchain.compiler import find_compiler

print(*find_compiler().command)
library = byoc.compile(sys.argv[1], targets=["c"])
library.save(sys.argv[2])
np.save(sys.argv[4], byoc.runtime.load(sys.argv[2])(np.load(sys.argv[3])))
"""


@pytest.mark.slow
def test_a_model_is_compiled_by_zig_where_there_is_no_other_compiler(tmp_path):
    zig, empty = tmp_path / "zig", tmp_path / "empty"
    empty.mkdir()
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", zig, "ziglang"], capture_output=True, text=True
    )
    if installed.returncode:
        pytest.skip(f"ziglang cannot be installed here: {installed.stderr.strip()}")
    images = np.load(ROOT / "examples" / "digits" / "unseen.npz")
    np.save(tmp_path / "x.npy", images["images"].astype("float32"))
    environment = {k: v for k, v in os.environ.items() if k != "CC"}
    environment |= {"PATH": str(empty), "PYTHONPATH": str(zig), "BYOC_CACHE_DIR": str(tmp_path / "cache")}
    arguments = [DIGITS, tmp_path / "m.byoc", tmp_path / "x.npy", tmp_path / "y.npy"]
    done = subprocess.run(
        [sys.executable, "-c", WORK, *arguments], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{sys.executable} -m ziglang cc"
    answers = np.load(tmp_path / "y.npy").argmax(1)
    assert (answers == images["labels"]).mean() > 0.95
