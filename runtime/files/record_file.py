"""A file of records under keys, which many processes read and add to: small files gathered in one.

The file begins with a mark and a random name of its own; behind them stands record after record. A record has a header
of fixed length (its own mark, the key, two lengths, the SHA-256 of what follows, and a check of the header itself), a
text about it, and its data. Opening reads headers alone, so that many records cost little; data are read, and compared
with their SHA-256, when they are asked for. Of several records of a key the last whole one counts.

Records are added under a lock on the file (``flock``), and a file is replaced by whoever holds that lock alone. A file
that lacks its mark, or is of another format, has no records, and the next addition makes it anew. What stands between
two records and is none is passed over; a record that was cut off at the end counts as none, and is cut away by the
next addition. Above a limit the records that were added first go, and the file is replaced whole, under another name of
its own, by which readers see that.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from byoc.runtime.core.fork import new_rlock
from byoc.runtime.files.whole_file import open_file, require_writable_kind, write_whole
from byoc.runtime.files.work_folder import lock

FILE_MARK = b"byoc records 1\n\0"
_NAME_BYTES = 16
_HEAD_BYTES = len(FILE_MARK) + _NAME_BYTES
_RECORD_MARK = b"\xb7record\n"
_FIELDS = struct.Struct("<8s32sQQ32s")  # mark, key, bytes of the text, bytes of the data, SHA-256 of both
_CHECK_BYTES = 8
_HEADER_BYTES = _FIELDS.size + _CHECK_BYTES
_CHUNK = 1 << 20  # bytes that are searched for the next record at once


@dataclass(frozen=True)
class FileRecord:
    """A record: its key (32 bytes), the text *about* it, and its data."""

    key: bytes
    about: bytes
    data: bytes


@dataclass(frozen=True)
class _Place:
    """Where a record stands in the file."""

    offset: int
    key: bytes
    about: int
    data: int
    digest: bytes

    @property
    def end(self) -> int:
        return self.offset + _HEADER_BYTES + self.about + self.data


class RecordFile:
    """The records in the file at *path*, which need not be there. Any number of threads may use it."""

    def __init__(self, path: Path):
        self.path = path
        self._places: dict[bytes, list[_Place]] = {}  # of a key, the last first
        self._name = b""
        self._end = _HEAD_BYTES  # of the last record that was found
        self._lock = new_rlock()

    def find(self, key: bytes) -> FileRecord | None:
        """The last whole record of *key*, or None."""
        with self._lock, contextlib.suppress(OSError), open_file(self.path) as file:
            self._look(file)
            return self._whole(file, key)
        return None

    def records(self) -> list[FileRecord]:
        """The last whole record of each key, those first that were added first."""
        with self._lock, contextlib.suppress(OSError), open_file(self.path) as file:
            self._look(file)
            found = sorted(self._places.values(), key=lambda places: places[0].offset)
            return list(filter(None, [self._whole(file, places[0].key) for places in found]))
        return []

    def is_foreign(self) -> bool:
        """Whether the file is not of this form. Raises OSError where there is none that can be read."""
        with open_file(self.path) as file:
            return file.read(len(FILE_MARK)) != FILE_MARK

    def add(self, record: FileRecord, limit: int = 1 << 62) -> bool:
        """Add *record*, unless the same stands there; whether it was added.

        Above *limit* bytes those that were added first go, until half of it is free. Raises OSError where the file
        cannot be written, which then has the records that it had.
        """
        with self._lock, self._writable() as file:
            self._look(file)
            if self._whole(file, record.key) == record:
                return False
            file.truncate(self._end)  # what another process had no time to finish
            try:
                file.seek(self._end)
                file.write(_packed(record))
                file.flush()
            except BaseException:
                with contextlib.suppress(OSError):
                    file.truncate(self._end)
                raise
            self._look(file)
            if self._end > limit:
                self._shrink(file, limit // 2)
            return True

    def remove(self, is_unwanted: Callable[[FileRecord], bool]) -> int:
        """Remove the records that are unwanted, and older ones of their keys; how many keys. Raises OSError."""
        if not self.path.exists():
            return 0
        with self._lock, self._writable() as file:
            self._look(file)
            unwanted = {record.key for record in self.records() if is_unwanted(record)}
            if unwanted:
                self._replace(file, [p for p in self._last_places() if p.key not in unwanted])
            return len(unwanted)

    @contextlib.contextmanager
    def _writable(self) -> Iterator[BinaryIO]:
        """The file, made where it is not there or is foreign, and locked. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            require_writable_kind(self.path)
            with open(self.path, "r+b", opener=_open_or_make) as file:
                lock(file.fileno())  # until it is closed
                if not _stands_at(file, self.path):  # somebody who held it replaced it meanwhile
                    continue
                if file.read(len(FILE_MARK)) == FILE_MARK:
                    yield file
                    return
                self._replace(file, ())

    def _look(self, file: BinaryIO) -> None:
        """Find the records that were added since the file was looked at."""
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        head = file.read(_HEAD_BYTES)
        name = head[len(FILE_MARK) :] if head.startswith(FILE_MARK) else b""
        if name != self._name or size < self._end:
            self._places.clear()
            self._name, self._end = name, _HEAD_BYTES
        if len(name) == _NAME_BYTES:
            for place in _places(file, self._end, size):
                self._places.setdefault(place.key, []).insert(0, place)
                self._end = place.end

    def _whole(self, file: BinaryIO, key: bytes) -> FileRecord | None:
        for place in self._places.get(key, ()):
            file.seek(place.offset + _HEADER_BYTES)
            content = file.read(place.about + place.data)
            if hashlib.sha256(content).digest() == place.digest:
                return FileRecord(key, content[: place.about], content[place.about :])
        return None

    def _last_places(self) -> list[_Place]:
        """The last place of each key, in the file's order."""
        return sorted((places[0] for places in self._places.values()), key=lambda place: place.offset)

    def _shrink(self, file: BinaryIO, most: int) -> None:
        """Keep the records that were added last, of at most *most* bytes."""
        kept: list[_Place] = []
        total = _HEAD_BYTES
        for place in reversed(self._last_places()):
            total += place.end - place.offset
            if total > most:
                break
            kept.insert(0, place)
        self._replace(file, kept)

    def _replace(self, file: BinaryIO, kept: Sequence[_Place]) -> None:
        def write(out: BinaryIO) -> None:
            out.write(FILE_MARK + secrets.token_bytes(_NAME_BYTES))
            for place in kept:
                file.seek(place.offset)
                out.write(file.read(place.end - place.offset))

        write_whole(self.path, write)


def _open_or_make(path: str, flags: int) -> int:
    """The file at *path*, empty where there was none: whoever comes first makes it, and nobody replaces it unlocked."""
    return os.open(path, flags | os.O_CREAT, 0o666)


def _stands_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _packed(record: FileRecord) -> bytes:
    content = record.about + record.data
    digest = hashlib.sha256(content).digest()
    fields = _FIELDS.pack(_RECORD_MARK, record.key, len(record.about), len(record.data), digest)
    return fields + _check(fields) + content


def _check(fields: bytes) -> bytes:
    return hashlib.sha256(fields).digest()[:_CHECK_BYTES]


def _places(file: BinaryIO, start: int, size: int) -> Iterator[_Place]:
    """The records from *start* on, up to one that ends beyond *size*."""
    offset: int | None = start
    while offset is not None and offset + _HEADER_BYTES <= size:
        place = _place(file, offset)
        if place is None:
            offset = _next_mark(file, offset + 1)
        elif place.end > size:
            return
        else:
            yield place
            offset = place.end


def _place(file: BinaryIO, offset: int) -> _Place | None:
    """The record whose header stands at *offset*, or None."""
    file.seek(offset)
    header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or _check(header[: _FIELDS.size]) != header[_FIELDS.size :]:
        return None
    mark, key, about, data, digest = _FIELDS.unpack(header[: _FIELDS.size])
    return _Place(offset, key, about, data, digest) if mark == _RECORD_MARK else None


def _next_mark(file: BinaryIO, offset: int) -> int | None:
    """Where the mark of a record stands at or behind *offset*, or None."""
    while True:
        file.seek(offset)
        chunk = file.read(_CHUNK)
        found = chunk.find(_RECORD_MARK)
        if found >= 0:
            return offset + found
        if len(chunk) < _CHUNK:
            return None
        offset += len(chunk) - len(_RECORD_MARK) + 1
