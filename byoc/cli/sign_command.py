"""``byoc sign``: sign an artefact with a private key, so that who trusts the key can refuse everything else."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from byoc.runtime.artefact.artifact import sign_artifact
from byoc.runtime.artefact.signing import fingerprint

HELP = "sign an artefact with an Ed25519 key"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc sign``."""
    command.add_argument("file", help="an artefact, into which the signature is written")
    command.add_argument(
        "--key",
        required=True,
        metavar="PRIVATE.pem",
        help="a private key in PEM form: openssl genpkey -algorithm ed25519 -out PRIVATE.pem",
    )


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """Write the signature. Raises UserError with one sentence."""
    public = sign_artifact(Path(arguments.file), arguments.key)
    data = {"file": arguments.file, "key": public.hex()}
    return data, f"{arguments.file}: signed by the key {fingerprint(public)}", 0
