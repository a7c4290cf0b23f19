"""The artefact: one zip file, its members stored uncompressed and aligned to be used where they lie, and its seal.

``manifest.json`` comes first: the schema's version, what made the file, what it needs, and the SHA-256 of every other
member. A seal over all of it stands in the manifest and behind the code (``seal.py``). The same content gives the same
bytes. Nothing in it is executed to read it; there is no pickle.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import reprlib
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.core.ndarray import ALIGNMENT
from byoc.runtime.core.strict_json import mapping_of as object_of
from byoc.runtime.core.strict_json import read_json
from byoc.runtime.files.whole_file import write_whole

if TYPE_CHECKING:
    from byoc.runtime.artefact.signing import Key
    from byoc.runtime.files.file_memory import FileWatch


# The seal: one SHA-256 over the manifest and all members, in the manifest and behind the last byte of every member that
# is code (a shared library, OpenCL source). Hashes in the manifest find damage; the seal also finds a graph, a weight
# or an extent that was edited and hashed anew, before the code is loaded. Against somebody who writes everything anew
# there are signatures (``signing.py``).

KEY = "seal"
BROKEN = "its seal does not fit what is in it: something was edited after the model was compiled; compile it again"
MISSING = "it carries no seal, without which nothing shows that its parts belong together; compile the model again"
CODE_MEMBERS = frozenset(["lib.so", "kernels.cl"])  # the last part of their names; a vendor's member has others
_TRAILER = re.compile(rb"\n// byoc-seal ([0-9a-f]{64})\n\Z")
TRAILER_BYTES = len(b"\n// byoc-seal ") + 64 + 1


def is_code(name: str) -> bool:
    """Whether the member *name* carries the seal."""
    return name.rsplit("/", 1)[-1] in CODE_MEMBERS


def seal_of(manifest: Mapping[str, object], hashes: Mapping[str, str]) -> str:
    """The seal of a *manifest*, its own entries for members and seal left out, over members with these *hashes*."""
    facts = {key: value for key, value in manifest.items() if key not in (KEY, "members")}
    text = json.dumps({"manifest": facts, "members": hashes}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sealed(seal: str, members: Mapping[str, bytes]) -> dict[str, bytes]:
    """*members* with the seal behind those that are code."""
    trailer = b"\n// byoc-seal " + seal.encode() + b"\n"
    return {name: data + trailer if is_code(name) else data for name, data in members.items()}


def open_seal(
    manifest: Mapping[str, Any], members: Mapping[str, memoryview]
) -> tuple[dict[str, memoryview], str | None]:
    """*members* with the seals taken off, and what is wrong with these in one sentence, or None.

    Requires that the manifest lists all *members* with their hashes.
    """
    listed: Mapping[str, Mapping[str, str]] = manifest["members"]
    content = dict(members)
    hashes = {name: entry["sha256"] for name, entry in listed.items()}
    seal = manifest.get(KEY)
    seals = {seal if isinstance(seal, str) or seal is None else BROKEN}
    for name in filter(is_code, members):
        data = members[name]
        found = _TRAILER.match(data[-TRAILER_BYTES:]) if len(data) >= TRAILER_BYTES else None
        seals.add(found[1].decode() if found else None)
        if found:
            content[name] = data[:-TRAILER_BYTES]
            hashes[name] = hashlib.sha256(content[name]).hexdigest()
    if seals == {None}:
        return content, MISSING
    return content, None if seals == {seal_of(manifest, hashes)} else BROKEN


SCHEMA_VERSION = 1
JSON_GRAPH_VERSION = 1
MANIFEST = "manifest.json"
FORMAT = "byoc-artifact"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LOCAL_HEADER = 30
_OF_THE_FOLDER = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR)
_PADDING_FIELD = 0xD935  # the extra field that Android's zipalign uses for padding


@dataclass(frozen=True)
class Artifact:
    """The manifest, every member as a view of the file in memory (code without the seal behind it), and how it stands.

    ``edited`` is what is wrong with the seal, in one sentence: such an artefact may be looked into, and is not run.
    ``watch`` is the watch over the file where it is mapped, ``signer`` the trusted key that signed, if one was asked
    for.
    """

    manifest: Mapping[str, object]
    members: Mapping[str, memoryview]
    edited: str | None = None
    watch: FileWatch | None = None
    signer: bytes | None = None


def write_artifact(path: Path, manifest: Mapping[str, object], members: Mapping[str, bytes]) -> Path:
    """Write the file whole or not at all. Raises UserError when the folder cannot be written.

    A *manifest* that has a seal keeps it, which fits the very members alone that it was made for; else it gets one.
    """
    facts = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "json_graph_version": JSON_GRAPH_VERSION, **manifest}
    if KEY not in facts:
        seal = seal_of(facts, {name: hashlib.sha256(data).hexdigest() for name, data in members.items()})
        facts, members = {**facts, KEY: seal}, sealed(seal, members)
    listed = {n: {"sha256": hashlib.sha256(d).hexdigest(), "bytes": len(d)} for n, d in members.items()}
    full = {**facts, "members": listed}
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


def sign_artifact(path: Path, key: Key) -> bytes:
    """Sign the artefact at *path* with the private *key*, and return the public one; others' signatures stay.

    Raises ArtifactError for a file that is damaged or was edited, UserError for what is no key, UnavailableError.
    """
    from byoc.runtime.artefact.signing import SIGNATURES, read_signatures, sign, write_signatures
    from byoc.runtime.artefact.zip_directory import read_directory

    edited = read_artifact(path).edited
    if edited:
        raise ArtifactError(f"{path}: {edited}")
    found = read_directory(_read(path, False)[0])
    signatures = read_signatures(found[SIGNATURES].data) if SIGNATURES in found else {}
    public, signature = sign(found[MANIFEST].data, key)
    text = write_signatures({**signatures, public: signature})
    kept = {n: bytes(m.data) for n, m in found.items() if n not in (MANIFEST, SIGNATURES)}
    content = {MANIFEST: bytes(found[MANIFEST].data), SIGNATURES: text, **kept}
    replace_file(path, lambda file: _write_zip(file, content))
    return public


def read_artifact(path: Path, mapped: bool = False, trusted: Sequence[bytes] | None = None) -> Artifact:
    """Read *path* and check it: format, schema version, the hash of every member, and the seal.

    With *mapped* the file is mapped, to be shared with other processes, and must not be written into. With *trusted*,
    public keys, it must be signed by one of them, which is looked at first.

    Raises ArtifactError with one sentence for whatever is wrong; a seal that does not fit is recorded in ``edited``.
    """
    from byoc.runtime.artefact.signing import SIGNATURES, check_signature
    from byoc.runtime.artefact.zip_directory import read_directory

    view, watch = _read(path, mapped)
    try:
        found = read_directory(view)
        if MANIFEST not in found:
            raise ArtifactError(f"{path}: there is no {MANIFEST} in it; this is not a byoc artefact")
        signatures = found.pop(SIGNATURES, None)
        signer = None
        if trusted is not None:
            signer = check_signature(found[MANIFEST].data, signatures.data if signatures else None, trusted)
        manifest = object_of(read_json(found[MANIFEST].data, MANIFEST), MANIFEST)
        _check_version(manifest)
        if zlib.crc32(found[MANIFEST].data) != found[MANIFEST].checksum:
            raise ArtifactError(f"{MANIFEST} is damaged (its checksum differs); save the model again")
        members = {name: member.data for name, member in found.items()}
        _check_members(manifest, members)
    except ArtifactError as error:
        raise error if str(path) in str(error) else type(error)(f"{path}: {error}") from error
    except ValueError as error:
        raise ArtifactError(f"{path}: not a byoc artefact, or a damaged one ({error}); save the model again") from error
    content, edited = open_seal(manifest, {n: d for n, d in members.items() if n != MANIFEST})
    return Artifact(manifest, {MANIFEST: members[MANIFEST], **content}, edited, watch, signer)


def _read(path: Path, mapped: bool) -> tuple[memoryview, FileWatch | None]:
    from byoc.runtime.files.file_memory import copy_of, mapping_of

    try:
        return mapping_of(path) if mapped else (copy_of(path), None)
    except OSError as error:
        raise ArtifactError(f"{path}: the artefact cannot be read ({error.strerror})") from error


def _check_version(manifest: Mapping[str, object]) -> None:
    if manifest.get("format") != FORMAT:
        raise ArtifactError("its manifest is not one of a byoc artefact")
    version = manifest.get("schema_version")
    if type(version) is not int or version > SCHEMA_VERSION:
        raise ArtifactError(
            f"written with schema {reprlib.repr(version)}, this byoc reads up to {SCHEMA_VERSION}; upgrade byoc"
        )


def _check_members(manifest: Mapping[str, object], members: Mapping[str, memoryview]) -> None:
    listed = manifest.get("members")
    if not isinstance(listed, dict) or not all(isinstance(entry, dict) for entry in listed.values()):
        raise ArtifactError("its manifest lists no members; save the model again")
    for name, entry in listed.items():
        if name not in members or name == MANIFEST:
            raise ArtifactError(f"member {name} is missing; save the model again")
        recorded = (entry.get("sha256"), entry.get("bytes"))
        if recorded != (hashlib.sha256(members[name]).hexdigest(), len(members[name])):
            raise ArtifactError(f"member {name} is damaged (its SHA-256 differs); save the model again")
    extra = sorted(set(members) - set(listed) - {MANIFEST})
    if extra:
        raise ArtifactError(f"member {extra[0]} is not in the manifest; save the model again")
