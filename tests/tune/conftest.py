"""What the tests of tuning share: an answer that has to be the same under any seed of Python's hashes.

Makes ``opencl_network`` importable: pytest's importlib mode adds no folder.
"""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

SEEDS = ("1", "2", "3")


@pytest.fixture
def same_under_any_hash_seed():
    """``same_under_any_hash_seed(code)``: what Python prints for *code*, which must not depend on the seed."""

    def check(code):
        def printed(seed):
            done = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        found = {printed(seed) for seed in SEEDS}
        assert len(found) == 1
        return found.pop()

    return check
