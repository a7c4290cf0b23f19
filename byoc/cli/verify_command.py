"""``byoc verify``: whether an artefact is whole, and whether a key that one trusts signed it. Nothing of it is run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from byoc.runtime.artefact.artifact import read_artifact
from byoc.runtime.artefact.signing import fingerprint, trusted_keys
from byoc.runtime.core.errors import ArtifactError

HELP = "check that an artefact is whole and that a trusted key signed it"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc verify``."""
    command.add_argument("file", help="an artefact")
    command.add_argument(
        "--key",
        required=True,
        action="append",
        metavar="PUBLIC.pem",
        help="a public key in PEM form, of which one must have signed: openssl pkey -in PRIVATE.pem -pubout",
    )


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Check signature, hashes and seal. Raises ArtifactError with one sentence for what does not hold."""
    artifact = read_artifact(Path(arguments.file), trusted=trusted_keys(arguments.key))
    if artifact.edited:
        raise ArtifactError(f"{arguments.file}: {artifact.edited}")
    signer = artifact.signer or b""
    data = {"file": arguments.file, "key": signer.hex(), "members": len(artifact.members)}
    return data, f"{arguments.file}: whole, and signed by the key {fingerprint(signer)}", 0
