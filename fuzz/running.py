"""Run a library on feeds; needs ``byoc.runtime`` alone, for the process that loads artefacts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.runtime.library import Library
from fuzz.case import Feeds


def run_library(library: Library, feeds: Sequence[Feeds], executor: str, threads: int) -> list[list[np.ndarray]]:
    """The outputs for each of *feeds*; the first feeds once more at the end, to the same bits."""
    runner = library.graph_executor() if executor == "graph" else library.executor(threads)
    names = [spec.name for spec in library.inputs]
    found = [[np.array(v) for v in runner.compute([one[n] for n in names])] for one in feeds]
    again = runner.compute([feeds[0][n] for n in names])
    for first, second in zip(found[0], again, strict=True):
        if np.asarray(second).tobytes() != first.tobytes():
            raise RuntimeError("a second run gives other numbers")
    return found
