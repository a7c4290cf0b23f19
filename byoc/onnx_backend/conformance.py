"""``python -m byoc.onnx_backend.conformance``: ONNX's own suite on a device, as a table by operator.

Exit codes are those of the command line: 0 where nothing is wrong, 2 where something is or for a mistake of the user,
3 for something that this machine lacks.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from byoc.cli.main import EXIT_MACHINE, EXIT_OK, EXIT_USER, diagnose
from byoc.cli.progress import StageProgress
from byoc.errors import DeviceError, UserError
from byoc.onnx_backend.backend import DEVICES, ByocBackend
from byoc.onnx_backend.cases import SuiteCase, suite
from byoc.onnx_backend.page import page, table
from byoc.onnx_backend.survey import Survey, survey
from byoc.options.declaration import Flag, Options, option
from byoc.options.flags import add_flags, given_options
from byoc.runtime.artefact.artifact import replace_file

NAME = "conformance"


@dataclass(frozen=True, kw_only=True)
class ConformanceRequest(Options):
    """What is run, and where it is written."""

    device: str = option(
        "CPU",
        "where the models run: by generated C, by OpenCL, or by the interpreter on numpy kernels",
        choices=DEVICES,
        flag=Flag("--device"),
    )
    only: Sequence[str] = option(
        (),
        "the cases whose name or operator a regular expression is found in",
        flag=Flag("--only", metavar="PATTERN", many=True),
    )
    page: str | None = option(
        None,
        "the page of the documentation, of which the device's section is written anew",
        flag=Flag("--page", metavar="FILE.md"),
    )


def run(asked: ConformanceRequest, quiet: bool = True) -> Survey:
    """Run what is asked for, and write the page.

    Raises:
        UserError: for a pattern that is no regular expression, for one that no case has, and for a page of some cases.
        DeviceError: where this machine lacks the device.
    """
    if asked.page is not None and asked.only:
        raise UserError(f"--page {asked.page}: the page is of the whole suite; leave --only out")
    if not ByocBackend.supports_device(asked.device):
        raise DeviceError(f"device {asked.device} is not on this machine; byoc doctor says what is missing")
    patterns = [_pattern(text) for text in asked.only]
    with StageProgress(quiet=quiet) as tell:
        found = survey((case for case in suite() if _is_meant(case, patterns)), asked.device, tell)
    if not found.outcomes:
        raise UserError(f"--only {' '.join(asked.only)}: no case of the suite has that in its name or operator")
    if asked.page is not None:
        path = Path(asked.page)
        text = page(path.read_text(encoding="utf-8") if path.exists() else "", found)
        replace_file(path, lambda file: file.write(text.encode()))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"python -m byoc.onnx_backend.{NAME}",
        description="Run ONNX's own test suite and print what passes, what is refused and why, and what is wrong.",
        epilog="exit codes: 0 nothing is wrong, 2 something is, or a mistake in the command, 3 no such device here",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.set_defaults(command=NAME)
    add_flags(parser, NAME, ConformanceRequest)
    arguments = parser.parse_args(argv)
    try:
        asked = ConformanceRequest(**given_options(arguments, ConformanceRequest))
        found = run(asked, quiet=arguments.json)
    except (UserError, OSError) as error:
        code, sentence = diagnose(error)
        print(f"{NAME}: {sentence}", file=sys.stderr)
        return EXIT_MACHINE if isinstance(error, DeviceError) else code
    wrote = f"\nwrote {asked.page}" if asked.page is not None else ""
    print(json.dumps(found.to_json(), indent=1) if arguments.json else f"{table(found)}{wrote}")
    return EXIT_OK if found.ok else EXIT_USER


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UserError(f"--only {text}: not a regular expression: {error}") from error


def _is_meant(case: SuiteCase, patterns: Sequence[re.Pattern[str]]) -> bool:
    return not patterns or any(p.search(case.name) or p.search(case.operator) for p in patterns)


if __name__ == "__main__":
    sys.exit(main())
