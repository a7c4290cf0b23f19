"""Records in files: kept, merged, damaged, written by two at once, and where nothing can be written."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.tune.database import Database, best_of, export_records, import_records
from byoc.codegen.tune.record import DROPPED, Record, Trial
from byoc.errors import UserError

A, B, C = (Choice.of("tile", rows=rows, lanes_first=rows < 8) for rows in (6, 8, 9))
TRIALS = (Trial(A, 0.25, 0.5), Trial(B, 0.125, 0.25, DROPPED), Trial(C, state="failed: it does not compile"))


def record(kernel="k", context="c", level="fast", choice=B, complete=True):
    return Record(context, kernel, level, choice, A, TRIALS, complete)


def test_a_record_is_the_same_after_its_line_with_all_its_trials():
    assert Record.from_line(record().to_line()) == record()
    assert record().gain == 2.0 and record(choice=A).gain == 1.0


def test_what_was_added_is_read_again_by_context_and_kernel(tmp_path):
    database = Database(tmp_path / "new" / "folder")
    assert database.read("c") == {}
    assert database.add([record("k1"), record("k2"), record("k1", "other")]) is None
    assert database.read("c") == {"k1": record("k1"), "k2": record("k2")}
    assert database.read("other") == {"k1": record("k1", "other")}
    assert len(database.read_all()) == 3


def test_a_higher_level_counts_then_the_later_one_and_what_was_tried_before_what_was_not():
    fast, again, heavy = record(choice=A), record(choice=B), record(level="heavy", choice=A)
    late = record(level="heavy", complete=False)
    assert best_of([fast, again]) == [again] and best_of([heavy, again]) == [heavy]
    assert best_of([fast, late]) == [fast] and best_of([late, fast]) == [fast]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"rows": 8', b'"rows": 9'),
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: b"\xff\x00" + data,
        lambda data: b"[" * 100_000 + b"\n",
        lambda data: b'{"check": ""}\n',
        lambda data: b"",
    ],
)
def test_a_damaged_line_is_passed_over_and_the_next_is_whole(tmp_path, damage):
    database = Database(tmp_path)
    database.add([record("first")])
    (file,) = tmp_path.glob("*.jsonl")
    file.write_bytes(damage(file.read_bytes()))
    assert database.read("c") == {}
    database.add([record("second")])
    assert database.read("c") == {"second": record("second")}


def test_a_line_of_another_version_with_an_unknown_level_is_passed_over(tmp_path):
    database = Database(tmp_path)
    database.add([dataclasses.replace(record(), level="broad")])
    assert database.read("c") == {}


def test_a_line_says_what_it_is_in_json(tmp_path):
    Database(tmp_path).add([record()])
    (line,) = next(tmp_path.glob("*.jsonl")).read_text().splitlines()
    data = json.loads(line)
    assert data["choice"] == {"kind": "tile", "lanes_first": False, "rows": 8}
    assert [t["shortest"] for t in data["trials"]] == [0.25, 0.125, None]


WRITER = """
import sys
from pathlib import Path
from byoc.codegen.kernel.choice import Choice
from byoc.codegen.tune.database import Database
from byoc.codegen.tune.record import Record
a = Choice.of("tile", rows=6)
for k in range(50):
    Database(Path(sys.argv[1])).add([Record("c", f"{sys.argv[2]} {k}", "fast", a, a)])
"""


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in ("left", "right")]
    assert [w.wait(120) for w in writers] == [0, 0]
    assert len(Database(tmp_path).read("c")) == 100


def test_a_place_that_cannot_be_written_is_reported_and_not_fatal(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("here is no folder")
    problem = Database(blocked).add([record()])
    assert problem is not None and str(blocked) in problem and "cannot be written" in problem
    assert Database(blocked).read("c") == {}


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may write everywhere")
def test_a_read_only_folder_is_reported_and_not_fatal(tmp_path):
    tmp_path.chmod(0o500)
    assert "cannot be written" in Database(tmp_path).add([record()])


def test_files_are_handed_on_and_merged(tmp_path):
    export_records(tmp_path / "left", [record("k1"), record("k2", choice=A)])
    export_records(tmp_path / "right", [record("k2", level="normal"), record("k3")])
    both = best_of([*import_records(tmp_path / "left"), *import_records(tmp_path / "right")])
    assert {(r.kernel, r.level) for r in both} == {("k1", "fast"), ("k2", "normal"), ("k3", "fast")}
    export_records(tmp_path / "one", both)
    export_records(tmp_path / "two", both[::-1])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_file_without_records_and_a_place_that_cannot_be_written_are_errors(tmp_path):
    (tmp_path / "empty").write_text("nothing\n")
    with pytest.raises(UserError, match="empty: no records of tuning in it"):
        import_records(tmp_path / "empty")
    with pytest.raises(UserError, match="missing: there is no such file of records"):
        import_records(tmp_path / "missing")
    with pytest.raises(UserError, match="cannot be written"):
        export_records(tmp_path / "no" / "folder", [record()])


def test_a_line_is_the_same_under_any_hash_seed(same_under_any_hash_seed):
    line = same_under_any_hash_seed(
        "from byoc.codegen.kernel.choice import Choice; from byoc.codegen.tune.record import Record\n"
        "a = Choice.of('tile', rows=6, vectors=4)\nprint(Record('c', 'k', 'fast', a, a).to_line())"
    )
    assert Record.from_line(line).choice == Choice.of("tile", rows=6, vectors=4)
