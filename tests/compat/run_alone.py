"""A saved library in a process of the runtime alone, which the tests of sources share."""

import subprocess
import sys

import numpy as np

CODE = """
import sys, numpy as np, byoc.runtime
library = byoc.runtime.load(sys.argv[1])
np.save(sys.argv[3], library.run({"x": np.load(sys.argv[2])})[0])
library.save(sys.argv[4])
assert not any(m.startswith(("byoc.relay", "byoc.compat")) for m in sys.modules)
"""


def run_alone(folder, name, x):
    """The output of the library *name* in *folder* for *x*; it is saved there once more, as ``again-`` and its name."""
    np.save(folder / "x.npy", x)
    words = [str(folder / file) for file in (name, "x.npy", "y.npy", f"again-{name}")]
    subprocess.run([sys.executable, "-c", CODE, *words], check=True, timeout=120)
    return np.load(folder / "y.npy")
