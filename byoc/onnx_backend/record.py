"""The suite by a team of processes, with a file of what became of each case, in which a run that was cut off goes on.

A line of the file is one outcome as JSON, with the device and the version of onnx that it is of; the last line of a
case counts. What is wrong runs again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx

from byoc.base.progress import Progress, silent
from byoc.errors import UserError
from byoc.onnx_backend.cases import SuiteCase
from byoc.onnx_backend.coverage import Coverage
from byoc.onnx_backend.survey import KINDS, WRONG, Outcome, Survey, outcome
from byoc.onnx_backend.team import LostProcess, in_team


@dataclass(frozen=True)
class Processes:
    """*jobs* processes, of which each may take *seconds* for a case."""

    jobs: int = 1
    seconds: float = 120.0


class OutcomeFile:
    """The outcomes of *device* that the file at *path* has, and those that are added."""

    def __init__(self, path: Path, device: str):
        self._path = path
        self._about = {"device": device, "onnx": onnx.__version__}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        read = [self._read(text, number + 1) for number, text in enumerate(lines)]
        self.outcomes = {o.case: o for o in read if o is not None}

    def add(self, found: Outcome) -> None:
        """Write a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**self._about, **asdict(found)}) + "\n")

    def _read(self, text: str, number: int) -> Outcome | None:
        """The outcome of a line; None for one of another device or version."""
        try:
            line = json.loads(text)
            about = {name: line.pop(name) for name in self._about}
            return outcome_of(line) if about == self._about else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"--results {self._path}: line {number} is no outcome of a case ({type(error).__name__}: {error}); "
                "name another file"
            ) from error


def outcome_of(data: Mapping[str, object]) -> Outcome:
    """The outcome of which *data* are the fields. Raises TypeError and ValueError for others."""
    fields = dict(data)
    covered = fields.pop("coverage")
    if fields.get("kind") not in KINDS:
        raise ValueError(f"kind {fields.get('kind')!r}")
    known = Coverage(**covered) if isinstance(covered, dict) else None
    return Outcome(**{name: str(value) for name, value in fields.items()}, coverage=known)


def by_team(
    cases: Sequence[SuiteCase],
    device: str,
    team: Processes,
    record: OutcomeFile | None = None,
    progress: Progress = silent,
) -> Survey:
    """As ``survey``, by processes; a case whose process is lost, or that takes too long, is wrong.

    *progress* is called with the name of each case that is done, and their number.
    """
    known = {} if record is None else {o.case: o for o in record.outcomes.values() if o.kind != WRONG}
    found = {case.name: known[case.name] for case in cases if case.name in known}
    left = [case for case in cases if case.name not in found]
    for case, ended in in_team(lambda one: outcome(one, device), left, team.jobs, team.seconds):
        one = Outcome(case.name, case.operator, WRONG, ended.reason) if isinstance(ended, LostProcess) else ended
        found[case.name] = one
        if record is not None:
            record.add(one)
        progress(f"{len(found)} of {len(cases)}: {case.name}")
    return Survey(device, [found[case.name] for case in cases])


__all__ = ["OutcomeFile", "Processes", "by_team", "outcome_of"]
