"""What the kernels of a function found of indices outside their dimensions: a few words on the device, read with the
outputs of each call.

Kernels write them only when they find something, so that they are 0 before a call unless one before it did, or may
have: then, and only then, a call sets them anew. Calls stand in one queue in their order.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.errors import index_outside
from byoc.runtime.core.signature import Signature
from byoc.runtime.opencl.launches import FOUND_WORDS

if TYPE_CHECKING:
    import pyopencl


class FoundIndices:
    """The words of one function, in *queue*. ``begin`` and ``read`` are called under the lock of the queue."""

    def __init__(self, cl: ModuleType, context: pyopencl.Context, queue: pyopencl.CommandQueue):
        self._cl, self._queue = cl, queue
        self._zeros = np.zeros(FOUND_WORDS, np.int64)
        self._open = 0  # calls whose words nobody has seen yet
        self._is_set = True
        self.buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, self._zeros.nbytes)

    def begin(self) -> None:
        """Have the words be 0 when the kernels of a call run."""
        if self._is_set or self._open:
            self._cl.enqueue_copy(self._queue, self.buffer, self._zeros, is_blocking=False)
            self._is_set = False
        self._open += 1

    def read(self) -> tuple[np.ndarray, pyopencl.Event]:
        """The words as they are behind the kernels of a call, when the event is done."""
        words = np.zeros(FOUND_WORDS, np.int64)
        return words, self._cl.enqueue_copy(self._queue, words, self.buffer, is_blocking=False)

    def done(self, words: np.ndarray) -> None:
        """A call's *words* were seen."""
        self._open -= 1
        self._is_set = self._is_set or bool(words[0])


def check_found(words: np.ndarray, signature: Signature) -> None:
    """Raises IndexOutsideError where a call's *words* report an index outside its dimension."""
    check, place, extent = (int(w) for w in words)
    if check:
        names = signature.checks
        raise index_outside(names[check - 1] if check <= len(names) else "", place % (1 << 64), extent)
