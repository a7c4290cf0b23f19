"""Arrays of a call as copies with fenced memory before and behind them, so that a step over an edge is seen.

A function that writes beside its arrays leaves another pattern there, and one that reads there finds NaNs, where the
array is of floats. No two fences of a call are alike, nor are two elements beside one another, nor two bytes of
integers; a fence has none of the bytes that results are often made of. So what writes one number again and again, or
copies an array and more, is seen as well. Source: the red zones of address sanitizers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from byoc.runtime.core.ndarray import ALIGNMENT

ZONE = 4096  # bytes on either side
FLOATS, OTHERS = b"\xff", b"\xa5"  # the byte of which outputs are made that nobody has filled
NEVER_WRITTEN = 0xFF  # a byte of memory between steps that none has filled: of floats that are no numbers
_KINDS = 16  # how many arrays of a call have fences of their own, before those of the first come again
_FREQUENT = (0x00, 0x01, 0x7F, 0x80, 0xFF)
# of a little-endian float by its bytes: the bits that make a quiet NaN of any others
_NAN = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}
_NAN_BFLOAT16 = 0x7FC4  # and none whose low byte is 0xFF or 0xC0, as bit 3 is cleared


class FencedArrays:
    """Copies of *arrays*, of which the first *count* are inputs; those of strings are themselves.

    Their fences are numbered from *first* on: others of the same call have other ones.
    """

    def __init__(self, arrays: Sequence[np.ndarray], count: int, first: int = 0):
        self._own, self._count = list(arrays), count
        self._pieces = [None if a.dtype.hasobject else Fenced(a, first + k, k >= count) for k, a in enumerate(arrays)]
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
    """An array like *like* between two fences, those of array *number* of a call; ``seen`` is what a function gets."""

    def __init__(self, like: np.ndarray, number: int = 0, writeable: bool = True):
        size = like.nbytes
        memory = np.empty(size + 2 * ZONE + ALIGNMENT, np.uint8)
        begin = ZONE + -(memory.ctypes.data + ZONE) % ALIGNMENT
        self._before, self._behind = memory[begin - ZONE : begin], memory[begin + size : begin + size + ZONE]
        self.bytes = memory[begin : begin + size]
        self.array = self.bytes.view(like.dtype).reshape(like.shape)
        self.seen = self.array.view()
        self.seen.flags.writeable = writeable
        self._patterns = [_pattern(like.dtype, 2 * (number % _KINDS) + side) for side in range(2)]

    def raise_fences(self) -> None:
        """Make the fences anew."""
        self._before[...], self._behind[...] = self._patterns

    def broken(self) -> str | None:
        """Where something was written beside the array; None where nothing was."""
        before, behind = self._patterns
        written = np.flatnonzero(self._behind != behind)
        if written.size:
            return f"{_bytes(int(written[-1]) + 1)} behind the end"
        written = np.flatnonzero(self._before != before)
        return f"{_bytes(ZONE - int(written[0]))} before the beginning" if written.size else None


@functools.cache
def _pattern(dtype: np.dtype, number: int) -> np.ndarray:
    """The bytes of fence *number* around arrays of *dtype*."""
    made = _mixed(np.arange(ZONE // 4, dtype=np.uint32) + np.uint32(number * ZONE)).view(np.uint8)
    turn = (np.arange(ZONE) + number // 2) % 2  # beside one another, and from one array to the next
    width = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if not is_float(np.empty(0, dtype)) or width not in (1, *_NAN):
        made[...] = made & 0x7E | 0x20 | turn << 7
    elif width == 1:
        made[...] = np.where(turn, *_small_nans(dtype))
    else:
        elements = made.view(f"<u{width}")
        elements[...] = elements & ~elements.dtype.type(2) | turn[: elements.size].astype(elements.dtype) << 1
        made ^= np.where(np.isin(made, _FREQUENT), 0x55, 0).astype(np.uint8)
        if "bfloat16" in dtype.name:
            elements[...] = elements & 0xFFF7 | _NAN_BFLOAT16
        else:
            elements |= elements.dtype.type(_NAN[width])
    made.flags.writeable = False
    return made


def _small_nans(dtype: np.dtype) -> tuple[int, int]:
    """Two bytes that are NaNs of *dtype*, a float of one byte, as far as it has any."""
    every = np.arange(256, dtype=np.uint8)
    nans = [int(byte) for byte in every[np.isnan(every.view(dtype).astype(np.float32))]]
    first, second = [*nans[-2:], 0xA5, 0x5A][:2]
    return first, second


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Others for *numbers*, without an order that one sees. Source: Wellons, "Prospecting for hash functions"."""
    mixed = numbers ^ numbers >> 16
    mixed = mixed * np.uint32(0x7FEB352D)
    mixed ^= mixed >> 15
    mixed = mixed * np.uint32(0x846CA68B)
    return np.asarray(mixed ^ mixed >> 16)


def _bytes(count: int) -> str:
    return f"{'at least ' if count == ZONE else ''}{count} {'byte' if count == 1 else 'bytes'}"


def is_float(array: np.ndarray) -> bool:
    """Whether a pattern of ones is a NaN there."""
    return array.dtype.kind in "fc" or "float" in array.dtype.name
