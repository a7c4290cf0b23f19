"""Arrays of a call as copies with fenced memory before and behind them, so that a step over an edge is seen.

A function that writes beside its arrays leaves another pattern there, and one that reads there finds NaNs, where the
array is of floats. Source: the red zones of address sanitizers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.runtime.core.ndarray import ALIGNMENT

ZONE = 4096  # bytes on either side
FLOATS, OTHERS = b"\xff", b"\xa5"  # the byte of which a fence is made


class FencedArrays:
    """Copies of *arrays*, of which the first *count* are inputs; those of strings are themselves."""

    def __init__(self, arrays: Sequence[np.ndarray], count: int):
        self._own, self._count = list(arrays), count
        self._pieces = [None if a.dtype.hasobject else Fenced(a, _byte(a), k >= count) for k, a in enumerate(arrays)]
        self.arrays = [a if p is None else p.seen for a, p in zip(arrays, self._pieces, strict=True)]

    def raise_fences(self) -> None:
        """Make the fences anew, and copy the inputs."""
        for k, (own, piece) in enumerate(zip(self._own, self._pieces, strict=True)):
            if piece is not None:
                piece.raise_fences()
                if k < self._count:
                    np.copyto(piece.array, own)

    def broken(self) -> tuple[int, str] | None:
        """The number of the first array over whose edge something was written, and where; None where nothing was."""
        for k, piece in enumerate(self._pieces):
            where = None if piece is None else piece.broken()
            if where is not None:
                return k, where
        return None

    def give(self) -> None:
        """Copy what was computed into the outputs that there are."""
        for own, piece in zip(self._own[self._count :], self._pieces[self._count :], strict=True):
            if piece is not None:
                np.copyto(own, piece.array)


class Fenced:
    """An array like *like* between two fences of the number *byte*; ``seen`` is what a function gets of it."""

    def __init__(self, like: np.ndarray, byte: int, writeable: bool = True):
        size = like.nbytes
        memory = np.empty(size + 2 * ZONE + ALIGNMENT, np.uint8)
        begin = ZONE + -(memory.ctypes.data + ZONE) % ALIGNMENT
        self._before, self._behind = memory[begin - ZONE : begin], memory[begin + size : begin + size + ZONE]
        self.bytes = memory[begin : begin + size]
        self.array = self.bytes.view(like.dtype).reshape(like.shape)
        self.seen = self.array.view()
        self.seen.flags.writeable = writeable
        self._byte = byte

    def raise_fences(self) -> None:
        """Make the fences anew."""
        self._before[...] = self._behind[...] = self._byte

    def broken(self) -> str | None:
        """Where something was written beside the array; None where nothing was."""
        behind = np.flatnonzero(self._behind != self._byte)
        if behind.size:
            return f"{_bytes(int(behind[-1]) + 1)} behind the end"
        before = np.flatnonzero(self._before != self._byte)
        return f"{_bytes(ZONE - int(before[0]))} before the beginning" if before.size else None


def _byte(array: np.ndarray) -> int:
    return (FLOATS if is_float(array) else OTHERS)[0]


def _bytes(count: int) -> str:
    return f"{'at least ' if count == ZONE else ''}{count} {'byte' if count == 1 else 'bytes'}"


def is_float(array: np.ndarray) -> bool:
    """Whether a pattern of ones is a NaN there."""
    return array.dtype.kind in "fc" or "float" in array.dtype.name
