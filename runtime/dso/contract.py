"""The contract of generated code: a SHA-256 of what it takes and gives, written into the code when it is generated.

Native code trusts the sizes, the order and the lifetimes that stand beside it in JSON. The code carries the hash of
just these, and it is compared before the code is loaded: a description that was edited is not that of the code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.signature import Signature
from byoc.runtime.dso.whole_program import WholeProgram

_MARK = re.compile(rb"byoc-contract ([0-9a-f]{64})")


def contract_of(
    signatures: Sequence[Signature], whole: WholeProgram | None = None, sanitizers: Sequence[str] = ()
) -> str:
    """The contract of code with these functions, built with *sanitizers*, in hexadecimal digits."""
    facts: list[object] = [[s.to_json() for s in signatures], None if whole is None else whole.to_json()]
    return digest_of([*facts, list(sanitizers)] if sanitizers else facts)


def digest_of(facts: object) -> str:
    """The SHA-256 of *facts*, values that JSON holds, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def contract_text(contract: str) -> str:
    """What stands in the code for *contract*, in a constant or in a comment."""
    return f"byoc-contract {contract}"


def check_contract(code: bytes, expected: str, what: str) -> None:
    """Raises ArtifactError unless *code* carries the contract *expected*; *what* names the code in the sentence."""
    found = {match[1].decode() for match in _MARK.finditer(code)}
    if found != {expected}:
        why = "was compiled for other functions than are described beside it" if found else "says not what it is for"
        raise ArtifactError(f"{what} {why}; compile the model again")
