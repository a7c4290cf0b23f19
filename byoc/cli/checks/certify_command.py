"""``byoc certify``: try a backend on everything that it says it takes, or a device on what devices do."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from byoc.cli.report.progress import StageProgress
from byoc.errors import UserError
from byoc.options.flags import add_flags, given_options
from byoc.testing.certificate import read_certificate
from byoc.testing.certifying import INTERRUPTED, certify
from byoc.testing.devices.certificate import certify_device
from byoc.testing.options import CertifyRequest

HELP = "try a backend on everything that it says it takes, or a device, and write a certificate"
EXIT_FAILED, EXIT_INTERRUPTED = 2, 130
CASES = ".cases"  # the ending of the folder for smallest cases, beside a certificate


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc certify``."""
    command.add_argument("backend", nargs="?", help="the name under which it is registered")
    command.add_argument(
        "--device",
        metavar="NAME",
        help="in the place of a backend, a device: host, opencl, emulated:seconds=0.001, or a vendor's (with --only, "
        "--skip and --output)",
    )
    command.add_argument("-o", "--output", metavar="FILE.json", help="write the certificate, and its page as FILE.md")
    command.add_argument("--against", metavar="OLD.json", help="an earlier certificate: show what changed since")
    add_flags(command, "certify", CertifyRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """What is covered, wrong, crashed, refused late and slow; the exit code is 0 where nothing failed or was left."""
    if (arguments.backend is None) == (arguments.device is None):
        raise UserError("name a backend to certify, or a device by --device, and one of both")
    if arguments.output and not arguments.output.endswith(".json"):
        raise UserError(f"--output {arguments.output}: a certificate is a .json file; its page is written beside it")
    if arguments.device is not None:
        return _device(arguments)
    old = read_certificate(arguments.against) if arguments.against else None
    given = given_options(arguments, CertifyRequest)
    if arguments.output:
        given.setdefault("cases", arguments.output.removesuffix(".json") + CASES)
    with StageProgress(quiet=arguments.json) as progress:
        found = certify(arguments.backend, **given, progress=progress)
    data, lines = found.to_json(), [str(found)]
    if old is not None:
        changes = found.changes(old)
        data["changes"] = changes.to_json()
        lines.append(str(changes))
    if arguments.output:
        found.save(arguments.output)
        lines.append(f"wrote {arguments.output} and its page")
    if found.unfinished.startswith(INTERRUPTED):
        return data, "\n".join(lines), EXIT_INTERRUPTED
    return data, "\n".join(lines), 0 if found.ok else EXIT_FAILED


def _device(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """What became of the checks of a device."""
    unused = [name for name in given_options(arguments, CertifyRequest) if name not in ("only", "skip")]
    if unused or arguments.against:
        named = (unused or ["against"])[0].replace("_", "-")
        raise UserError(f"--{named} is about backends; leave it out to certify the device {arguments.device}")
    found = certify_device(arguments.device, only=arguments.only or (), skip=arguments.skip or ())
    lines = [str(found)]
    if arguments.output:
        lines.append(f"wrote {found.save(arguments.output)}")
    return found.to_json(), "\n".join(lines), 0 if found.ok else EXIT_FAILED
