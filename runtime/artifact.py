"""The artefact: one zip file, its members stored uncompressed and aligned, so that they are used where they lie.

``manifest.json`` comes first: the schema's version, what made the file, what it needs, and the SHA-256 of every other
member. The same content gives the same bytes. Nothing in it is executed to read it; there is no pickle.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from byoc.runtime.errors import ArtifactError, UserError
from byoc.runtime.file_memory import FileWatch, copy_of, mapping_of
from byoc.runtime.whole_file import write_whole

SCHEMA_VERSION = 1
JSON_GRAPH_VERSION = 1
ALIGNMENT = 64
MANIFEST = "manifest.json"
FORMAT = "byoc-artifact"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LOCAL_HEADER = 30
_OF_THE_FOLDER = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR)
_PADDING_FIELD = 0xD935  # the extra field that Android's zipalign uses for padding


@dataclass(frozen=True)
class Artifact:
    """The manifest, every member as a view of the file in memory, and the watch over the file where it is mapped."""

    manifest: Mapping[str, object]
    members: Mapping[str, memoryview]
    watch: FileWatch | None = None


def write_artifact(path: Path, manifest: Mapping[str, object], members: Mapping[str, bytes]) -> Path:
    """Write the file whole or not at all. Raises UserError when the folder cannot be written."""
    full = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "json_graph_version": JSON_GRAPH_VERSION,
        **manifest,
        "members": {n: {"sha256": hashlib.sha256(d).hexdigest(), "bytes": len(d)} for n, d in members.items()},
    }
    content = {MANIFEST: json.dumps(full, indent=1).encode(), **members}
    return replace_file(path, lambda file: _write_zip(file, content))


def _write_zip(file: BinaryIO, content: Mapping[str, bytes]) -> None:
    """The members one after another, each stored at a multiple of the alignment."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in content.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            padding = -(file.tell() + _LOCAL_HEADER + len(name.encode()) + 4) % ALIGNMENT
            info.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
            archive.writestr(info, data)


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> Path:
    """Let *write*, which may be called twice, fill the file at *path* whole or not at all.

    Raises UserError when that fails.
    """
    try:
        write_whole(path, write)
    except IsADirectoryError as error:
        raise UserError(f"{path}: this is a folder; give the name of a file") from error
    except OSError as error:
        if error.errno in _OF_THE_FOLDER:
            raise UserError(f"{path}: the folder cannot be written ({error.strerror}); choose another") from error
        raise UserError(f"{path}: the file cannot be written ({error.strerror}); nothing was left there") from error
    return path


def read_artifact(path: Path, mapped: bool = False) -> Artifact:
    """Read *path* and check it: format, schema version, and the hash of every member.

    With *mapped* the file is mapped, to be shared with other processes, and must not be written into.

    Raises ArtifactError with one sentence for whatever is wrong.
    """
    view, watch = _read(path, mapped)
    try:
        with zipfile.ZipFile(_Reader(view)) as archive:
            members = {info.filename: _member(view, info) for info in archive.infolist()}
            checksum = archive.getinfo(MANIFEST).CRC
        manifest = json.loads(bytes(members[MANIFEST]))
        if not isinstance(manifest, dict):
            raise ValueError("the manifest is not an object")
    except KeyError as error:
        raise ArtifactError(f"{path}: there is no {MANIFEST} in it; this is not a byoc artefact") from error
    except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError) as error:
        raise ArtifactError(f"{path}: not a byoc artefact, or a damaged one ({error}); save the model again") from error
    _check_version(path, manifest)
    if zlib.crc32(members[MANIFEST]) != checksum:
        raise ArtifactError(f"{path}: {MANIFEST} is damaged (its checksum differs); save the model again")
    _check_members(path, manifest, members)
    return Artifact(manifest, members, watch)


def _read(path: Path, mapped: bool) -> tuple[memoryview, FileWatch | None]:
    try:
        return mapping_of(path) if mapped else (copy_of(path), None)
    except OSError as error:
        raise ArtifactError(f"{path}: the artefact cannot be read ({error.strerror})") from error


class _Reader(io.RawIOBase):
    """A file over a memory view, for zipfile: reads the directory only."""

    def __init__(self, view: memoryview):
        self._view, self._position = view, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = (0, self._position, len(self._view))[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        stop = len(self._view) if size is None or size < 0 else self._position + size
        data = bytes(self._view[self._position : stop])
        self._position += len(data)
        return data


def _member(view: memoryview, info: zipfile.ZipInfo) -> memoryview:
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"member {info.filename} is compressed")
    header = info.header_offset
    name_length, extra_length = struct.unpack("<HH", view[header + 26 : header + 30])
    start = header + _LOCAL_HEADER + name_length + extra_length
    if start + info.file_size > len(view):
        raise ValueError(f"member {info.filename} is cut off")
    return view[start : start + info.file_size]


def _check_version(path: Path, manifest: Mapping[str, object]) -> None:
    if manifest.get("format") != FORMAT:
        raise ArtifactError(f"{path}: its manifest is not one of a byoc artefact")
    version = manifest.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise ArtifactError(
            f"{path}: written with schema {version}, this byoc reads up to {SCHEMA_VERSION}; upgrade byoc"
        )


def _check_members(path: Path, manifest: Mapping[str, object], members: Mapping[str, memoryview]) -> None:
    listed = manifest.get("members")
    if not isinstance(listed, dict) or not all(isinstance(entry, dict) for entry in listed.values()):
        raise ArtifactError(f"{path}: its manifest lists no members; save the model again")
    for name, entry in listed.items():
        if name not in members:
            raise ArtifactError(f"{path}: member {name} is missing; save the model again")
        if hashlib.sha256(members[name]).hexdigest() != entry.get("sha256"):
            raise ArtifactError(f"{path}: member {name} is damaged (its SHA-256 differs); save the model again")
    extra = sorted(set(members) - set(listed) - {MANIFEST})
    if extra:
        raise ArtifactError(f"{path}: member {extra[0]} is not in the manifest; save the model again")
