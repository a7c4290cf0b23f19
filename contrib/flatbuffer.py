"""FlatBuffers, as far as they are written: tables, numbers, vectors and strings as the bytes that their readers map.

A table is a mapping from the numbers of its slots to values; what a slot means, and what it is where nothing stands in
it, is the schema's. Everything that a table refers to lies behind it, so that all offsets point forwards but those to
the lists of slots (vtables), each of which lies right before its table. Source: "FlatBuffers Internals".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

OFFSET = 4  # bytes of an offset, of a length, and of the number of elements


@dataclass(frozen=True)
class Number:
    """A number in a slot of its own; *code* is that of the ``struct`` module, of 4 bytes at most."""

    code: str
    value: int | float | bool


@dataclass(frozen=True)
class Vector:
    """Numbers one after the other, of the struct *code*."""

    code: str
    values: Sequence[int]


@dataclass(frozen=True)
class Data:
    """Bytes that begin at a multiple of *alignment*."""

    content: bytes
    alignment: int = 16


@dataclass(frozen=True)
class Tables:
    """A vector of tables."""

    tables: Sequence[Table]


Value: TypeAlias = "Number | Vector | Data | Tables | Table | str"
Table: TypeAlias = "Mapping[int, Value]"


def encoded(root: Table, identifier: bytes) -> bytes:
    """The file whose root table is *root*, with the four letters that say what it is."""
    out = bytearray(OFFSET) + identifier
    struct.pack_into("<I", out, 0, _put_table(out, root))
    return bytes(out)


def _put_table(out: bytearray, table: Table) -> int:
    """Append *table* and what it refers to; where it begins."""
    places: dict[int, int] = {}
    size = OFFSET  # which lead to the list of slots
    for slot in sorted(table, key=lambda s: -_width(table[s])):  # the widest first, so that nothing lies between
        places[slot] = size
        size += _width(table[slot])
    slots = [places.get(k, 0) for k in range(max(table, default=-1) + 1)]
    listed = struct.pack(f"<{2 + len(slots)}H", 2 * (2 + len(slots)), size, *slots)
    out += bytes(-(len(out) + len(listed)) % OFFSET)
    out += listed
    begin = len(out)
    out += struct.pack("<i", len(listed)) + bytes(size - OFFSET)
    for slot, value in table.items():
        place = begin + places[slot]
        if isinstance(value, Number):
            struct.pack_into(f"<{value.code}", out, place, value.value)
        else:
            struct.pack_into("<I", out, place, _put(out, value) - place)
    return begin


def _width(value: Value) -> int:
    return struct.calcsize(value.code) if isinstance(value, Number) else OFFSET


def _put(out: bytearray, value: Value) -> int:
    """Append *value*, which is no number; where it begins."""
    if isinstance(value, Mapping):
        return _put_table(out, value)
    if isinstance(value, str):
        text = value.encode()
        return _put_bytes(out, len(text), text + b"\0", OFFSET)
    if isinstance(value, Data):
        return _put_bytes(out, len(value.content), value.content, value.alignment)
    if isinstance(value, Tables):
        begin = _put_bytes(out, len(value.tables), bytes(OFFSET * len(value.tables)), OFFSET)
        for k, table in enumerate(value.tables):
            place = begin + OFFSET * (1 + k)
            struct.pack_into("<I", out, place, _put_table(out, table) - place)
        return begin
    assert isinstance(value, Vector)
    content = struct.pack(f"<{len(value.values)}{value.code}", *value.values)
    return _put_bytes(out, len(value.values), content, OFFSET)


def _put_bytes(out: bytearray, count: int, content: bytes, alignment: int) -> int:
    """Append a number of elements and *content*, which begins at a multiple of *alignment*; where the number stands."""
    out += bytes(-(len(out) + OFFSET) % alignment)
    begin = len(out)
    out += struct.pack("<I", count)
    out += content
    return begin
