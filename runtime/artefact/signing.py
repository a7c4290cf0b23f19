"""Signatures of artefacts: Ed25519 over the manifest, which has the SHA-256 of every member.

They stand in a member of their own, ``signatures.json``, which the manifest does not list: several keys may sign one
artefact, and who signs again replaces his own signature. Keys are PEM files, as ``openssl genpkey -algorithm ed25519``
writes them. A signature is looked at before anything else of the file is. What is signed is a text of ours in front of
the manifest, so that the key's signature of nothing else can stand here. Source: RFC 8032, by the package cryptography.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from byoc.runtime.core.entry_points import install_command
from byoc.runtime.core.errors import ArtifactError, UnavailableError, UserError
from byoc.runtime.core.strict_json import at, numbered, object_of, read_json, text_of
from byoc.runtime.files.whole_file import open_file

SIGNATURES = "signatures.json"
TRUSTED_VARIABLE = "BYOC_TRUSTED_KEYS"  # a folder of public keys: nothing else is loaded then
MOST_KEY = 1 << 16  # bytes of a key's file
MOST_SIGNATURES = 64
_CONTEXT = b"byoc artefact signature 1\n"
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64
Key = str | os.PathLike[str] | bytes


def public_key(key: Key) -> bytes:
    """The 32 bytes of a public key: *key* is a PEM file, its content, or these bytes.

    Raises UserError for anything else, UnavailableError without the package cryptography.
    """
    if isinstance(key, bytes) and len(key) == _KEY_BYTES:
        return key
    where, data = _content(key)
    serialization, ed25519 = _cryptography()
    try:
        found = serialization.load_pem_public_key(data)
    except (ValueError, TypeError, _unsupported()) as error:
        raise UserError(f"{where}: this is no public key in PEM form ({_first_line(error)})") from error
    if not isinstance(found, ed25519.Ed25519PublicKey):
        raise UserError(f"{where}: expected an Ed25519 key, found a {type(found).__name__}")
    raw: bytes = found.public_bytes_raw()
    return raw


def sign(manifest: bytes | memoryview, key: Key) -> tuple[bytes, bytes]:
    """The public key that belongs to the private *key* (a PEM file or its content), and its signature.

    Raises UserError for a file of another kind, UnavailableError without the package cryptography.
    """
    where, data = _content(key)
    serialization, ed25519 = _cryptography()
    try:
        private = serialization.load_pem_private_key(data, password=None)
    except TypeError as error:
        raise UserError(f"{where}: the key is encrypted; decrypt it with openssl pkey first") from error
    except (ValueError, _unsupported()) as error:
        raise UserError(f"{where}: this is no private key in PEM form ({_first_line(error)})") from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise UserError(f"{where}: expected an Ed25519 key, found a {type(private).__name__}")
    return private.public_key().public_bytes_raw(), private.sign(_CONTEXT + bytes(manifest))


def check_signature(manifest: memoryview, signatures: memoryview | None, trusted: Sequence[bytes]) -> bytes:
    """The first of the *trusted* keys that signed *manifest*. Raises ArtifactError when none did."""
    if signatures is None:
        raise ArtifactError("it is not signed, and only artefacts that a trusted key signed are loaded")
    found = read_signatures(signatures)
    _, ed25519 = _cryptography()
    for key in trusted:
        if key in found and _is_valid(ed25519, key, found[key], _CONTEXT + bytes(manifest)):
            return key
    if any(key in found for key in trusted):
        raise ArtifactError("its signature does not fit its manifest: it was changed after it had been signed")
    raise ArtifactError(f"it is signed by {', '.join(map(fingerprint, found)) or 'nobody'}, which is no trusted key")


def _is_valid(ed25519: ModuleType, key: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_signatures(data: memoryview) -> dict[bytes, bytes]:
    """The signatures in a ``signatures.json`` by public key. Raises ArtifactError for a damaged one."""
    fields = object_of(read_json(data[: 1 << 20], SIGNATURES), SIGNATURES, ("signatures",))
    listed = numbered(fields, "signatures", SIGNATURES)
    if len(listed) > MOST_SIGNATURES:
        raise ArtifactError(f"{SIGNATURES}: {len(listed)} signatures, and at most {MOST_SIGNATURES} are read")
    found: dict[bytes, bytes] = {}
    for where, item in listed:
        entry = object_of(item, where, ("key", "signature"))
        key = _hexadecimal(entry["key"], at(where, "key"), _KEY_BYTES)
        if key in found:
            raise ArtifactError(f"{where}: the key signed twice")
        found[key] = _hexadecimal(entry["signature"], at(where, "signature"), _SIGNATURE_BYTES)
    return found


def write_signatures(signatures: Mapping[bytes, bytes]) -> bytes:
    """The content of ``signatures.json``, in the order of the keys."""
    listed = [{"key": key.hex(), "signature": signatures[key].hex()} for key in sorted(signatures)]
    return json.dumps({"signatures": listed}, indent=1).encode()


def fingerprint(key: bytes) -> str:
    """The public key as people compare it: its first 16 hexadecimal digits."""
    return key.hex()[:16]


def trusted_keys(trusted: Iterable[Key] | None) -> list[bytes] | None:
    """The public keys of *trusted*, else of the folder ``$BYOC_TRUSTED_KEYS``; None where anybody's artefact is loaded.

    Raises UserError where no key is in them: then nothing could be loaded.
    """
    where = "trusted"
    if trusted is None:
        folder = os.environ.get(TRUSTED_VARIABLE, "").strip()
        if not folder:
            return None
        where = f"${TRUSTED_VARIABLE} ({folder})"
        try:
            trusted = sorted(p for p in Path(folder).iterdir() if p.suffix == ".pem")
        except OSError as error:
            raise UserError(f"{where}: the folder of trusted keys cannot be read ({error.strerror})") from error
    elif isinstance(trusted, (str, bytes, os.PathLike)):
        trusted = [trusted]
    keys = [public_key(key) for key in trusted]
    if not keys:
        raise UserError(
            f"{where}: there is no key in it, so that nothing could be loaded; give a public key in PEM form"
        )
    return keys


def _content(key: Key) -> tuple[str, bytes]:
    """How *key* is called in a sentence, and its content."""
    if isinstance(key, bytes):
        return "the key", key
    try:
        with open_file(key) as file:
            data = file.read(MOST_KEY + 1)
    except OSError as error:
        raise UserError(f"{os.fspath(key)}: the key cannot be read ({error.strerror})") from error
    if len(data) > MOST_KEY:
        raise UserError(f"{os.fspath(key)}: this is no key: it has more than {MOST_KEY} bytes")
    return os.fspath(key), data


def _hexadecimal(data: object, where: str, size: int) -> bytes:
    text = text_of(data, where)
    if len(text) != 2 * size or not set(text) <= set("0123456789abcdef"):
        raise ArtifactError(f"{where}: expected {2 * size} hexadecimal digits")
    return bytes.fromhex(text)


def _cryptography() -> tuple[ModuleType, ModuleType]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise UnavailableError(
            f"signatures need the package cryptography, which is missing here: {install_command('sign')}"
        ) from error
    return serialization, ed25519


def _unsupported() -> type[Exception]:
    from cryptography.exceptions import UnsupportedAlgorithm

    return UnsupportedAlgorithm


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:120]
