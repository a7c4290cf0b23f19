"""What was measured, kept in the cache folder: profiles of devices, and seconds of units, each for one context.

A context is a set of facts: backend, device, processor, compiler, versions, threads. Profiles are files that appear
whole; measurements are lines that are added under a lock. What is damaged, or of another context, is passed over and
measured again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from byoc.errors import PartitionError
from byoc.partition.costs.profile import Profile
from byoc.runtime.files.whole_file import read_file, read_text, write_whole

FOLDER = "costs"
CHECK_DIGITS = 16
LOCK_SECONDS = 20.0  # that another process may take to add its lines
Facts = Mapping[str, str]


@dataclass(frozen=True)
class Measurement:
    """The seconds of the unit *key*; None where it could not be built or run, for *reason*."""

    key: str
    seconds: float | None
    reason: str = ""

    def to_line(self) -> str:
        """One line of JSON, with a check of its content."""
        data = {"key": self.key, "seconds": self.seconds, "reason": self.reason}
        return json.dumps({**data, "check": _check(data)})

    @staticmethod
    def from_line(line: str) -> Measurement:
        """Raises ValueError, KeyError or TypeError for a line that is not whole, or none of ours."""
        data = json.loads(line)
        if data.pop("check") != _check(data):
            raise ValueError("the line is damaged")
        seconds = data["seconds"]
        if seconds is not None and not (isinstance(seconds, float) and math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"seconds are a number from 0 or null, got {seconds!r}")
        return Measurement(str(data["key"]), seconds, str(data["reason"]))


class CostStore:
    """Profiles and measurements in *folder*."""

    def __init__(self, folder: Path):
        self.folder = folder

    def profile(self, facts: Facts) -> Profile | None:
        """What was found where *facts* hold; None where nothing whole is there."""
        try:
            data = json.loads(read_text(self._file("profile", facts, ".json")))
            if data["check"] != _check({"facts": data["facts"], "profile": data["profile"]}):
                return None
            return Profile.from_json(data["profile"]) if data["facts"] == dict(facts) else None
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
            PartitionError,
        ):
            return None

    def age(self, facts: Facts) -> float:
        """The seconds since the profile of *facts* was kept; infinite where there is none."""
        try:
            return time.time() - self._file("profile", facts, ".json").stat().st_mtime
        except OSError:
            return math.inf

    def keep_profile(self, facts: Facts, profile: Profile) -> str | None:
        """Keep *profile*, whole or not at all. Returns why that was not possible, or None."""
        data = {"facts": dict(facts), "profile": profile.to_json()}
        text = json.dumps({**data, "check": _check(data)}, indent=1, sort_keys=True)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._file("profile", facts, ".json"), lambda out: out.write(text.encode()))
        except OSError as error:
            return f"{self.folder} cannot be written: {error.strerror or error}"
        return None

    def measurements(self, facts: Facts) -> dict[str, Measurement]:
        """What was measured where *facts* hold, by key; of several the last."""
        try:
            lines = read_file(self._file("units", facts, ".jsonl")).splitlines()
        except OSError:
            return {}
        return {m.key: m for m in map(_measurement, lines) if m is not None}

    def add(self, facts: Facts, found: Iterable[Measurement]) -> str | None:
        """Keep what was measured. Returns why that was not possible, or None."""
        from filelock import FileLock  # which commands that run artefacts do without

        text = "".join(f"{m.to_line()}\n" for m in found)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = self._file("units", facts, ".jsonl")
            with FileLock(f"{file}.lock", timeout=LOCK_SECONDS), file.open("ab+") as out:
                if out.tell() > 0:
                    out.seek(-1, os.SEEK_END)
                    text = text if out.read(1) == b"\n" else f"\n{text}"
                out.write(text.encode())
        except OSError as error:
            return f"{self.folder} cannot be written: {error.strerror or error}"
        return None

    def _file(self, what: str, facts: Facts, suffix: str) -> Path:
        digest = hashlib.sha256(json.dumps(sorted(facts.items())).encode()).hexdigest()[:32]
        return self.folder / f"{what}_{digest}{suffix}"


def _measurement(line: bytes) -> Measurement | None:
    try:
        return Measurement.from_line(line.decode())
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _check(data: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:CHECK_DIGITS]
