"""The seal: one SHA-256 over everything in an artefact, which the compiled code carries as well.

The hashes in the manifest find damage; whoever edits a member and writes its hash anew gets past them. The seal is
taken over the manifest and all members, and stands in the manifest and behind the last byte of every member that is
code: a shared library, OpenCL source. So a graph, a weight, a lifetime or an extent that is edited, with hashes made
valid again, no longer fits the code, and is refused before the code is loaded. It protects against edits that leave the
code alone, not against somebody who writes all of it anew: that is what signing is for (``signing.py``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

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
    told = manifest.get(KEY)
    seals = {told if isinstance(told, str) or told is None else BROKEN}
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
