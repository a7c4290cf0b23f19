"""The fuzzer of files: it finds what it should, and a bounded run of it finds nothing."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT))

from byoc.runtime.core.errors import ArtifactError  # noqa: E402
from fuzz.files import edit as files_edit  # noqa: E402
from fuzz.files import run as files  # noqa: E402


class Subject:
    """A file whose reader does what its first byte says."""

    name, data = "subject", b"\0" * 8

    def edit(self, rng, other):
        return "bytes", "", bytes([rng.randrange(6)])

    def read(self, path, how):
        kind = path.read_bytes()[0]
        if kind == 0:
            raise KeyError("raw")
        if kind == 1:
            os.abort()
        if kind == 2:
            time.sleep(60)
        if kind == 3:
            raise ArtifactError("refused")
        return "refused" if kind == 4 else files.WRONG


def test_raw_errors_crashes_hangs_and_wrong_numbers_are_findings(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SECONDS", 1.0)
    numbers = list(range(40))
    first = {files.edit([Subject()], 0, n)[3][0]: n for n in reversed(numbers)}
    chosen = sorted(first.values())
    assert len(chosen) == 6
    counts, findings = files.run([Subject()], 0, chosen, time.monotonic() + 60, tmp_path)
    kinds = [finding.split("): ", 1)[1].split("\n")[0] for finding in findings]
    assert counts["files"] == 6 and counts["refused"] == 1
    assert sorted(kind.split(":")[0] for kind in kinds) == [
        "CRASH",
        "HANG",
        "RAW ArtifactError",
        "RAW KeyError",
        "WRONG",
    ]
    assert {p.name for p in tmp_path.iterdir()} == {finding.split(" ", 1)[0] for finding in findings}


def test_an_edit_depends_on_its_number_alone():
    data = {"a": [1, 2, {"b": "c"}], "d": 3}
    texts = [[files_edit.edited_json(data, random.Random(n)) for n in range(50)] for _ in range(2)]
    assert texts[0] == texts[1] and len(set(texts[0])) > 30
    assert data == {"a": [1, 2, {"b": "c"}], "d": 3}


@pytest.mark.slow
@pytest.mark.needs_cc
def test_a_bounded_run_over_every_kind_of_file_finds_nothing(tmp_path):
    command = [sys.executable, "-m", "fuzz.files", "--inputs", "5000", "--seed", "7", "--findings", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "5000 files in" in done.stdout and "0 findings" in done.stdout
