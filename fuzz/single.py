"""``python -m fuzz replay`` and ``reduce``: what to do with the file of one case."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fuzz.case import Case
from fuzz.configurations import BACKENDS, alone
from fuzz.judge.oracle import NotApplicable, wanted
from fuzz.printer import as_test
from fuzz.reducer import Prober, reduced


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of both."""
    parser.add_argument("files", nargs="+", type=Path, help="cases, as a run keeps them in out/fuzz")
    parser.add_argument("--configuration", action="append", help="instead of the file's own; may be given again")


def add_reduce_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``reduce``."""
    add_arguments(parser)
    parser.add_argument("--seconds", type=float, default=300, help="for each file (300)")
    parser.add_argument("--corpus", type=Path, help="write the reduced cases into this folder too")


@contextmanager
def prober() -> Iterator[Prober]:
    """A prober with a folder of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        os.environ["BYOC_CACHE_DIR"] = str(Path(scratch) / "cache")
        os.environ["BYOC_LIBRARY_CACHE_MB"] = "0"
        found = Prober(Path(scratch))
        try:
            yield found
        finally:
            found.close()


def names_of(case: Case, options: argparse.Namespace) -> tuple[str, ...]:
    """The configurations under which a case is run: those asked for, its own, or each backend alone."""
    return tuple(options.configuration or case.configurations or [alone(b).name for b in BACKENDS])


def replay(options: argparse.Namespace) -> int:
    """Run each file; 1 when one fails. A case that has no answer by now is reported, and is no failure."""
    bad = 0
    with prober() as probe:
        for path in options.files:
            case = Case.read(path)
            try:
                outcomes = probe.outcomes(case, names_of(case, options))
            except NotApplicable as error:
                print(f"{path.name}: nothing to compare with, {error}")
                continue
            for name, outcome in outcomes.items():
                bad += outcome.is_bad
                print(f"{path.name} {name}: {outcome.verdict} {outcome.text}")
    return 1 if bad else 0


def reduce_files(options: argparse.Namespace) -> int:
    """Reduce each file and print the test that is left of it; 1 when a file does not fail."""
    failed = 0
    with prober() as probe:
        for path in options.files:
            case = Case.read(path)
            for name in names_of(case, options):
                try:
                    small, outcome = reduced(case, name, probe, options.seconds)
                except ValueError as error:
                    print(error)
                    failed = 1
                    continue
                print(as_test(replace(small, wanted=wanted(small.model, small.feeds))))
                if options.corpus:
                    print(f"# {small.write(options.corpus / path.name)}: {outcome.verdict}")
    return failed
