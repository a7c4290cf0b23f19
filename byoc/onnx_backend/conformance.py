"""``python -m byoc.onnx_backend.conformance``: ONNX's own suite on a device, as a table by operator.

Each case runs in one of ``--jobs`` processes, in ``--seconds`` at most, and is written to ``--results`` as soon as it
is known; a run that was cut off goes on there. The suite is part of the package ``onnx``: nothing is fetched.

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

from byoc.cli.exit_codes import EXIT_MACHINE, EXIT_OK, EXIT_USER
from byoc.cli.main import diagnose
from byoc.contract.registration import get_backend
from byoc.errors import DeviceError, UserError
from byoc.onnx_backend.backend import DEVICES, TARGETS, ByocBackend
from byoc.onnx_backend.cases import SuiteCase, suite
from byoc.onnx_backend.page import page, short_table, table
from byoc.onnx_backend.record import OutcomeFile, Processes, by_team
from byoc.onnx_backend.survey import Survey
from byoc.onnx_backend.team import LostProcess, in_team
from byoc.options.declaration import Flag, Options, option
from byoc.options.flags import add_flags, given_options
from byoc.runtime.artefact.artifact import replace_file

NAME = "conformance"


ASKING_SECONDS = 120.0  # that a driver may take to say whether it has a device


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
    title: str | None = option(
        None, "the section's name on the page, if not the device's", flag=Flag("--title", metavar="NAME")
    )
    jobs: int = option(1, "how many processes run cases side by side", flag=Flag("--jobs", metavar="N"))
    seconds: float = option(
        120.0, "what one case may take before it counts as wrong", flag=Flag("--seconds", metavar="S")
    )
    results: str | None = option(
        None,
        "a file of a line of JSON for each case: what it has of this device and is not wrong does not run again",
        flag=Flag("--results", metavar="FILE.jsonl"),
    )
    short: bool = option(False, "print counts and reasons, and no line for each operator", flag=Flag("--short"))


def run(asked: ConformanceRequest, quiet: bool = True) -> Survey:
    """Run what is asked for, and write the page.

    Raises:
        UserError: for a pattern that is no regular expression, for one that no case has, for a page of some cases, and
            for a file of results that holds something else.
        DeviceError: where this machine lacks the device.
    """
    if asked.title is not None and asked.page is None:
        raise UserError(f"--title {asked.title}: it names a section of a page; give --page FILE.md too")
    if asked.page is not None and asked.only:
        raise UserError(f"--page {asked.page}: the page is of the whole suite; leave --only out")
    if asked.jobs < 1 or not asked.seconds > 0:
        raise UserError(f"--jobs {asked.jobs} --seconds {asked.seconds:g}: expected 1 or more, and more than 0")
    problem = _why_not_here(asked.device)
    if problem:
        raise DeviceError(f"device {asked.device} is not on this machine: {problem}; byoc doctor says what is missing")
    patterns = [_pattern(text) for text in asked.only]
    record = OutcomeFile(Path(asked.results), asked.device) if asked.results is not None else None
    progress = TerminalLine(quiet)
    progress("making the suite")
    cases = [case for case in suite() if _is_meant(case, patterns)]
    if not cases:
        raise UserError(f"--only {' '.join(asked.only)}: no case of the suite has that in its name or operator")
    found = by_team(cases, asked.device, Processes(asked.jobs, asked.seconds), record, progress)
    if asked.page is not None:
        path = Path(asked.page)
        text = page(path.read_text(encoding="utf-8") if path.exists() else "", found, asked.title)
        replace_file(path, lambda file: file.write(text.encode()))
    return found


def _why_not_here(device: str) -> str:
    """Why this machine lacks *device*, else empty; a process of its own is asked, since a context survives no fork."""
    ((_, found),) = in_team(_asked_for, [device], 1, ASKING_SECONDS)
    return found.reason if isinstance(found, LostProcess) else found


def _asked_for(device: str) -> str:
    if ByocBackend.supports_device(device):
        return ""
    return (get_backend(TARGETS[device][0]).unavailable() or "") if device in TARGETS else "unknown"


class TerminalLine:
    """Shows on a terminal which case was last, in one line that is written over; elsewhere nothing."""

    def __init__(self, quiet: bool):
        self._quiet = quiet or not sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if not self._quiet:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


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
    text = short_table(found) if asked.short else table(found)
    print(json.dumps(found.to_json(), indent=1) if arguments.json else f"{text}{wrote}")
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
