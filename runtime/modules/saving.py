"""What a vendor's module saves, marked with its format, version and check values, and looked at when it is loaded.

    def save(self):
        return sealed("acme", 2, {"engine.bin": self.engine})

    @classmethod
    def load(cls, members):
        version, own = opened(members, "acme", 2)
        return cls(own["engine.bin"], upgrade=version < 2)

An artefact seals all its members already (``artefact/artifact.py``). This says more: which format of the vendor's the
members are of, so that an engine of a newer or another product is refused in one sentence, not read as something else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.strict_json import at, mapping_of, number_of, object_of, read_json, text_of

SEAL_MEMBER = "module.json"
Members = Mapping[str, bytes | memoryview]


def sealed(kind: str, version: int, members: Mapping[str, bytes]) -> dict[str, bytes]:
    """*members* with one more, ``module.json``: the format *kind*, its *version*, and a SHA-256 of each.

    >>> sorted(sealed("acme", 2, {"engine.bin": b"..."}))
    ['engine.bin', 'module.json']
    """
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    seal = {"format": kind, "version": version, "sha256": digests}
    return {**members, SEAL_MEMBER: json.dumps(seal, indent=1).encode()}


def opened(members: Members, kind: str, newest: int) -> tuple[int, dict[str, bytes]]:
    """The version, and the members, of what :func:`sealed` gave.

    >>> opened(sealed("acme", 2, {"engine.bin": b"..."}), "acme", 3)
    (2, {'engine.bin': b'...'})

    Args:
        members: what ``Module.load`` is given.
        kind: the format that is expected.
        newest: the newest version of it that can be read.

    Raises:
        ArtifactError: they are of another format, or newer, or not as they were written.
    """
    if SEAL_MEMBER not in members:
        raise ArtifactError(f"a module of format {kind!r} has a member {SEAL_MEMBER}, and it is missing")
    seal = object_of(read_json(members[SEAL_MEMBER], SEAL_MEMBER), SEAL_MEMBER, ("format", "version", "sha256"))
    found = text_of(seal["format"], at(SEAL_MEMBER, "format"))
    version = number_of(seal["version"], at(SEAL_MEMBER, "version"))
    if found != kind:
        raise ArtifactError(f"{SEAL_MEMBER}: the module is of format {found!r}, and {kind!r} is expected")
    if version > newest:
        raise ArtifactError(
            f"{SEAL_MEMBER}: the module is of version {version} of {kind!r}, and {newest} is the newest that is known "
            "here: install a newer package of its vendor"
        )
    digests = mapping_of(seal["sha256"], at(SEAL_MEMBER, "sha256"))
    own = {name: bytes(data) for name, data in members.items() if name != SEAL_MEMBER}
    if digests.keys() != own.keys():
        raise ArtifactError(f"{SEAL_MEMBER}: it lists {', '.join(digests)}, and there are {', '.join(own)}")
    for name, data in own.items():
        if digests[name] != hashlib.sha256(data).hexdigest():
            raise ArtifactError(f"the member {name} of a module of format {kind!r} is damaged: save the model again")
    return version, own
