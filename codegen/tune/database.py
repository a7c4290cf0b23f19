"""The database of what was found out: JSON lines in files, one for each context, or one for many to be handed on.

Lines are added under a lock and read without one; a line that is damaged, or was written by an older version, is passed
over. Of several about one kernel that of the highest level counts, of equal ones the last. A folder that cannot be
written keeps nothing, and says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from filelock import FileLock

from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.record import Record
from byoc.errors import UserError
from byoc.runtime.artefact.artifact import replace_file
from byoc.runtime.files.whole_file import read_file

FOLDER = "tune"
SUFFIX = ".jsonl"
LOCK_SECONDS = 20.0  # that another process may take to add its lines


class Database:
    """The records in *folder*."""

    def __init__(self, folder: Path):
        self.folder = folder

    def read(self, context: str) -> dict[str, Record]:
        """What is known where *context* holds, by kernel."""
        found = best_of(read_records(self._file(context)))
        return {record.kernel: record for record in found if record.context == context}

    def read_all(self) -> list[Record]:
        """What is known anywhere."""
        return best_of(r for file in sorted(self.folder.glob(f"*{SUFFIX}")) for r in read_records(file))

    def add(self, records: Iterable[Record]) -> str | None:
        """Keep *records*. Returns why that was not possible, or None."""
        by_context: dict[str, list[Record]] = {}
        for record in records:
            by_context.setdefault(record.context, []).append(record)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for context, found in by_context.items():
                file = self._file(context)
                with FileLock(f"{file}.lock", timeout=LOCK_SECONDS):
                    _append(file, found)
        except OSError as error:
            return f"{self.folder} cannot be written: {error.strerror or error}"
        return None

    def _file(self, context: str) -> Path:
        return self.folder / f"{context}{SUFFIX}"


def read_records(file: Path) -> list[Record]:
    """The whole records in *file*, in order; none where it is missing or cannot be read."""
    try:
        lines = read_file(file).splitlines()
    except OSError:
        return []
    return [record for record in map(_record, lines) if record is not None]


def _record(line: bytes) -> Record | None:
    try:
        record = Record.from_line(line.decode())
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return record if record.level in LEVELS else None


def best_of(records: Iterable[Record]) -> list[Record]:
    """One record for each context and kernel, in the order of their first."""
    best: dict[tuple[str, str], Record] = {}
    for record in records:
        key = (record.context, record.kernel)
        if key not in best or _rank(record) >= _rank(best[key]):
            best[key] = record
    return list(best.values())


def _rank(record: Record) -> tuple[bool, int]:
    return record.complete, list(LEVELS).index(record.level)


def import_records(file: Path) -> list[Record]:
    """The records of a file that was handed on. Raises UserError for one that is missing or has none."""
    if not file.is_file():
        raise UserError(f"{file}: there is no such file of records; byoc tune --export writes one")
    records = read_records(file)
    if not records:
        raise UserError(f"{file}: no records of tuning in it; write such a file with byoc tune --export")
    return best_of(records)


def export_records(file: Path, records: Sequence[Record]) -> None:
    """Write *records* to *file*, whole or not at all. Raises UserError where it cannot be written."""
    text = "".join(f"{r.to_line()}\n" for r in sorted(records, key=lambda r: (r.context, r.kernel)))
    replace_file(file, lambda out: out.write(text.encode()))


def _append(file: Path, records: Sequence[Record]) -> None:
    """Add lines in one write; what another left without an end of line stays a line of its own."""
    text = "".join(f"{r.to_line()}\n" for r in records)
    with file.open("ab+") as out:
        if out.tell() > 0:
            out.seek(-1, os.SEEK_END)
            text = text if out.read(1) == b"\n" else f"\n{text}"
        out.write(text.encode())
