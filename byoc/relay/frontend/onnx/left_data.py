"""Large weights of a model's file stay in the file until each is wanted, and then become an array at once.

Parsing a file of 500 MB as a whole has it in memory three times: the file's bytes, the message's, and the arrays. Here
the file's top levels (model, graph, initialisers; field numbers of ``onnx.proto``) are walked without reading what is
large; a message without it is parsed, in which a random word stands for the bytes. A file that is not understood is
left to the parser, which says what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from byoc.errors import ImportModelError
from byoc.runtime.files.whole_file import open_file

LEAST_FILE, LEAST = 1 << 24, 1 << 16  # bytes: of a file, and of a weight, that are worth it
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_BYTES, _FIXED = 2, {1: 8, 5: 4}  # wire types
_WINDOW = 1 << 16


class _NotUnderstoodError(Exception):
    """The bytes are not what protobuf writes."""


class LeftData:
    """An open file, and where in it the bytes stand for which a word stands in the message.

    *message* is what is to be parsed.
    """

    def __init__(self, path: Path, file: BinaryIO):
        self._path, self._file = path, file
        self._state = _state(file)
        self._word = os.urandom(16)
        self._places: dict[bytes, tuple[int, int]] = {}
        self._window, self._start = b"", 0
        self.message = self._model(self._state[0])

    @classmethod
    def of_file(cls, path: Path) -> LeftData | None:
        """The file at *path*; None for one that is small, or is not understood. Raises OSError as ``open_file``."""
        file = open_file(path)
        try:
            if os.fstat(file.fileno()).st_size >= LEAST_FILE:
                return cls(path, file)
        except _NotUnderstoodError:
            pass
        file.close()
        return None

    def __contains__(self, word: bytes) -> bool:
        return len(word) == 24 and word in self._places

    def bytes_of(self, word: bytes) -> int:
        """How many bytes *word* stands for."""
        return self._places[word][1]

    def read(self, word: bytes, dtype: np.dtype) -> np.ndarray:
        """The bytes that *word* stands for, as a vector of *dtype*.

        Raises ImportModelError for a file that was changed since it was opened.
        """
        place, size = self._places[word]
        self._file.seek(place)
        found = np.fromfile(self._file, dtype, size // dtype.itemsize)
        if _state(self._file) != self._state:
            raise ImportModelError(f"{self._path}: was changed while it was read; read it again when it is complete")
        return found

    # the walk -------------------------------------------------------------------------------------------------------

    def _model(self, end: int) -> bytes:
        return self._copied(0, end, _GRAPH, self._graph)

    def _graph(self, start: int, end: int) -> bytes:
        return self._copied(start, end, _INITIALIZER, self._tensor)

    def _tensor(self, start: int, end: int) -> bytes:
        return self._copied(start, end, _RAW_DATA, self._left) if end - start >= LEAST else self._bytes(start, end)

    def _left(self, start: int, end: int) -> bytes:
        if end - start < LEAST:
            return self._bytes(start, end)
        word = self._word + len(self._places).to_bytes(8, "little")
        self._places[word] = start, end - start
        return word

    def _copied(self, start: int, end: int, wanted: int, inner: Callable[[int, int], bytes]) -> bytes:
        """The message between *start* and *end* with *inner* of each field *wanted*."""
        parts = []
        place = start
        while place < end:
            begin = place
            key, place = self._varint(place, end)
            wire = key & 7
            if wire == _BYTES:
                size, place = self._varint(place, end)
                stop = place + size
            elif wire == 0:
                stop = self._varint(place, end)[1]
            elif wire in _FIXED:
                stop = place + _FIXED[wire]
            else:
                raise _NotUnderstoodError
            if stop > end:
                raise _NotUnderstoodError
            if wire == _BYTES and key >> 3 == wanted:
                made = inner(place, stop)
                parts += [_varint(key), _varint(len(made)), made]
            else:
                parts.append(self._bytes(begin, stop))
            place = stop
        return b"".join(parts)

    def _varint(self, place: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if place >= end:
                break
            if not self._start <= place < self._start + len(self._window):
                self._window, self._start = self._bytes(place, min(place + _WINDOW, self._state[0])), place
            byte = self._window[place - self._start]
            value, place = value | (byte & 127) << shift, place + 1
            if byte < 128:
                return value, place
        raise _NotUnderstoodError

    def _bytes(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        found = self._file.read(end - start)
        if len(found) != end - start:
            raise _NotUnderstoodError
        return found


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def _state(file: BinaryIO) -> tuple[int, int, int]:
    """The size of *file*, when it was changed, and which one it is."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ino
