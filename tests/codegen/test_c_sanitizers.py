"""The schedules' cases under the address and the undefined-behaviour sanitizer, in a process of their own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from byoc.codegen.c.compiler import find_compiler

FOLDER = pathlib.Path(__file__).parent


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.parametrize("cases", [
    "codegen/test_c_schedules.py", "codegen/test_winograd.py", "codegen/test_contraction.py", "codegen/test_c_rows.py",
    "relay/test_onnx_node_tests_compiled.py", "end_to_end/test_random_models.py",
])
def test_generated_code_reads_and_writes_only_its_buffers_and_has_no_undefined_behaviour(cases, tmp_path):
    runtime = [  # the second for exceptions of C++ libraries, which the first passes on
        subprocess.run(
            [*find_compiler().command, f"-print-file-name={name}"], capture_output=True, text=True, check=False
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")
    ]
    if not all(os.path.isabs(path) for path in runtime):
        pytest.skip("the compiler has no libasan.so or no libstdc++.so.6")
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all -O1 -g"
    compiler = " ".join([*find_compiler().command, *flags.split()])  # for what is compiled by the library itself
    env = {
        **os.environ, "LD_PRELOAD": " ".join(runtime), "CC": compiler, "ASAN_OPTIONS": "detect_leaks=0",
        "BYOC_TEST_CFLAGS": flags,
        "BYOC_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-n", "auto", "-m", "not slow or slow", "-p", "no:cacheprovider",
         *(["-k", "generated_c_alone"] if "random" in cases else []), str(FOLDER.parent / cases)],
        capture_output=True, text=True, env=env, check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
