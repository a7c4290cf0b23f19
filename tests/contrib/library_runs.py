"""Runs of a library that the tests of several backends make: by threads, and from its artefact in a new process."""

import json
import subprocess
import sys
import threading

import numpy as np

CODE = """
import sys, json, numpy as np, byoc.runtime
library = byoc.runtime.load(sys.argv[1])
np.savez(sys.argv[3], *library.run({"x": np.load(sys.argv[2])}))
print(json.dumps([m for m in sys.modules if m.startswith(("byoc.ir", "byoc.relay", "byoc.contract"))]))
"""


def run_without_the_compiler(library, array, folder):
    """The outputs of *library*, saved in *folder* and loaded in a process that imports nothing of the compiler."""
    library.save(folder / "m.byoc")
    np.save(folder / "x.npy", array)
    words = [str(folder / name) for name in ("m.byoc", "x.npy", "out.npz")]
    done = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
    with np.load(folder / "out.npz") as saved:
        return [saved[name] for name in saved.files]


def run_by_threads(library, arrays):
    """The one output of *library* for each of *arrays*, which a thread of its own gives five times."""
    found = [None] * len(arrays)

    def run(k):
        for _ in range(5):
            (found[k],) = library.run({"x": arrays[k]})

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(arrays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
