"""The members of an artefact's zip file, by a reader that takes what our writer writes and nothing else.

A zip file is read from its end, may hold gaps, two members of a name, members over each other, and sizes that disagree;
readers differ in what they make of that. Here the members lie one behind the other from the first byte on, each stored
as it is, the directory follows them and ends the file. Nothing is read twice, nothing is larger than the file, and the
directory is limited before it is walked. Source: APPNOTE.TXT 6.3.10 of PKWARE, sections 4.3 and 4.5.3 (zip64).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MOST_MEMBERS = 20_000
MOST_DIRECTORY = 16 << 20  # bytes
_LOCAL, _CENTRAL, _END = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s4H2IH")
_END64, _LOCATOR = struct.Struct("<4sQ2H2I4Q"), struct.Struct("<4sIQI")
_IN_ZIP64 = 0xFFFFFFFF
_UTF8 = 0x800  # the one flag that our writer sets


@dataclass(frozen=True)
class Member:
    """The bytes of a member, and the CRC-32 that the directory gives for it."""

    data: memoryview
    checksum: int


def read_directory(view: memoryview) -> dict[str, Member]:
    """The members in *view*, by name. Raises ValueError that says what is wrong with the file."""
    count, start, size = _directory(view)
    if count > MOST_MEMBERS or size > MOST_DIRECTORY:
        raise ValueError(f"it has {count} members, and byoc reads at most {MOST_MEMBERS}")
    members: dict[str, Member] = {}
    at, end = start, 0
    for _ in range(count):
        name, member, end, at = _entry(view, at, start + size, end)
        if name in members:
            raise ValueError(f"member {name} stands in it twice")
        members[name] = member
    if at != start + size or end != start:
        raise ValueError("it holds bytes that belong to no member")
    return members


def _directory(view: memoryview) -> tuple[int, int, int]:
    """How many members there are, and where the directory begins and how long it is."""
    end = len(view) - _END.size
    if end < 0:
        raise ValueError("it is too short for one")
    mark, disk, first_disk, here, count, size, start, comment = _END.unpack(view[end:])
    if mark != b"PK\x05\x06" or comment:
        raise ValueError("it does not end as one")
    if disk or first_disk or here != count:
        raise ValueError("it is a part of several")
    if start + size != end:  # the records of a large file lie between, which zipfile writes from 2 GB on
        end, count, size, start = _directory64(view, end)
    if start + size != end:
        raise ValueError("its directory does not lie where it should")
    return count, start, size


def _directory64(view: memoryview, end: int) -> tuple[int, int, int, int]:
    """As :func:`_directory`, from the records of a large file, with where these begin."""
    locator = end - _LOCATOR.size
    place = locator - _END64.size
    if place < 0:
        raise ValueError("it is too short for one of its size")
    mark, disk, found, disks = _LOCATOR.unpack(view[locator:end])
    record = _END64.unpack(view[place:locator])
    if mark != b"PK\x06\x07" or record[0] != b"PK\x06\x06" or found != place or record[1] != _END64.size - 12:
        raise ValueError("the records of its size are damaged")
    if disk or disks != 1 or record[4] or record[5] or record[6] != record[7]:
        raise ValueError("it is a part of several")
    return place, record[7], record[8], record[9]


def _entry(view: memoryview, at: int, stop: int, expected: int) -> tuple[str, Member, int, int]:
    """The member whose directory entry is at *at*, which must begin at *expected*; its end, and the next entry."""
    if at + _CENTRAL.size > stop:
        raise ValueError("its directory is cut off")
    fields = _CENTRAL.unpack(view[at : at + _CENTRAL.size])
    mark, _, _, flags, method, _, _, checksum, packed, size, name_size, extra_size, comment, disk, _, _, offset = fields
    after = at + _CENTRAL.size + name_size + extra_size
    if mark != b"PK\x01\x02" or after > stop or comment or disk:
        raise ValueError("its directory is damaged")
    raw = bytes(view[at + _CENTRAL.size : at + _CENTRAL.size + name_size])
    name = _name(raw)
    if method or flags & ~_UTF8:
        raise ValueError(f"member {name} is compressed" if method else f"member {name} is encrypted")
    size, packed, offset = _large(view[at + _CENTRAL.size + name_size : after], [size, packed, offset])
    if size != packed or offset != expected:
        raise ValueError(f"member {name} does not lie where it should")
    begin = _content(view, offset, raw, name, (checksum, size))
    if begin + size > at:
        raise ValueError(f"member {name} is cut off")
    return name, Member(view[begin : begin + size], checksum), begin + size, after


def _content(view: memoryview, offset: int, raw: bytes, name: str, recorded: tuple[int, int]) -> int:
    """Where the content of the member begins whose header is at *offset*; *recorded* is its checksum and its size."""
    if offset + _LOCAL.size + len(raw) > len(view):
        raise ValueError(f"member {name} is cut off")
    header = _LOCAL.unpack(view[offset : offset + _LOCAL.size])
    behind = offset + _LOCAL.size + len(raw)
    if header[0] != b"PK\x03\x04" or header[9] != len(raw) or view[offset + _LOCAL.size : behind] != raw:
        raise ValueError(f"the header of member {name} is damaged")
    sizes = {recorded[1]} if header[7] != _IN_ZIP64 else {_IN_ZIP64}
    if header[3] or header[6] != recorded[0] or {header[7], header[8]} != sizes:
        raise ValueError(f"the header of member {name} says another size or checksum than the directory")
    return behind + int(header[10])


def _name(raw: bytes) -> str:
    name = raw.decode("utf-8")
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{name!r} is no name of a member")
    return name


def _large(extra: memoryview, numbers: list[int]) -> list[int]:
    """*numbers* with those that do not fit 32 bits from the zip64 field of *extra*."""
    wide = [k for k, number in enumerate(numbers) if number == _IN_ZIP64]
    if not wide:
        return numbers
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack("<HH", extra[at : at + 4])
        if kind == 1 and size == 8 * len(wide) and at + 4 + size <= len(extra):
            values = struct.unpack(f"<{len(wide)}Q", extra[at + 4 : at + 4 + size])
            return [values[wide.index(k)] if k in wide else number for k, number in enumerate(numbers)]
        at += 4 + size
    raise ValueError("a size that does not fit 32 bits is missing")
