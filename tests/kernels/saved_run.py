"""A saved region of the tests of checked kernels, run in a new process by the runtime alone."""

import subprocess
import sys

RUN = """
import sys, numpy, byoc.runtime as r
print(*(a.tolist() for a in r.load(sys.argv[1])(numpy.float32([[-1, 2, -3, 4]]))))
"""
NEGATIVE_OF_RELU = "[[-1.0, -0.0, -3.0, -0.0]] [[1.0, -2.0, 3.0, -4.0]]\n"  # what the tests' model gives


def run_saved(path):
    """What a process prints that loads *path* and runs it, and what it says of errors."""
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], capture_output=True, text=True)
    return done.stdout, done.stderr
