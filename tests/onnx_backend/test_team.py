"""Pieces of work in processes of their own: results, crashes, time limits; and what of a survey a file keeps."""

import json
import os
import signal
import subprocess
import time

import pytest

from byoc.errors import UserError
from byoc.onnx_backend.conformance import main
from byoc.onnx_backend.coverage import Coverage
from byoc.onnx_backend.record import OutcomeFile, Processes, by_team, outcome_of
from byoc.onnx_backend.survey import Outcome
from byoc.onnx_backend.team import LostProcess, in_team
from tests.onnx_backend.test_backend import X, case, helper


def doing(piece):
    if piece == "ends":
        os.kill(os.getpid(), signal.SIGKILL)
    if piece == "leaves":
        os._exit(3)
    if piece == "hangs":
        with open(os.environ["BYOC_TEST_CHILD"], "w") as file:
            file.write(str(subprocess.Popen(["sleep", "600"]).pid))
        time.sleep(600)
    return piece * 2


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_piece_is_done_once_and_a_lost_process_costs_its_piece_alone(jobs):
    found = dict(in_team(doing, ["a", "ends", "b", "leaves", "c"], jobs, 60.0))
    assert {k: found[k] for k in "abc"} == {"a": "aa", "b": "bb", "c": "cc"}
    assert found["ends"] == LostProcess("its process was ended by SIGKILL")
    assert found["leaves"] == LostProcess("its process ended with code 3")


def test_what_takes_too_long_is_stopped_with_what_it_started(tmp_path, monkeypatch):
    child = tmp_path / "child"
    monkeypatch.setenv("BYOC_TEST_CHILD", str(child))
    found = dict(in_team(doing, ["hangs", "a"], 1, 1.0))
    assert found == {"hangs": LostProcess("stopped after 1 s"), "a": "aa"}
    for _ in range(100):
        if not running(int(child.read_text())):
            return
        time.sleep(0.05)
    raise AssertionError("what the stopped process had started goes on")


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_survey_by_a_team_goes_on_where_its_file_ends(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    right = case([helper.make_node("Neg", ["x"], ["y"])], [-X])
    wrong = case([helper.make_node("Neg", ["x"], ["y"])], [X])
    wrong = type(wrong)("test_wrong", *[getattr(wrong, f) for f in ("operator", "model", "data", "rtol", "atol")])
    first = by_team([right, wrong], "NUMPY", Processes(2), OutcomeFile(path, "NUMPY"))
    assert first.counts()["passed"] == first.counts()["wrong"] == 1
    assert len(path.read_text().splitlines()) == 2
    heard = []
    again = by_team([right, wrong], "NUMPY", Processes(), OutcomeFile(path, "NUMPY"), heard.append)
    assert again == first and heard == ["2 of 2: test_wrong"]  # what is wrong runs again, what passed does not
    assert OutcomeFile(path, "CPU").outcomes == {}


def test_outcomes_are_read_as_they_were_written():
    covered = Coverage({"f": "why"}, {"add 0": "size"}, [], 3, [])
    one = Outcome("test_a", "A", "passed", "", covered)
    line = json.loads(json.dumps({**vars(one), "coverage": vars(covered)}))
    assert outcome_of(line) == one


def test_a_file_of_something_else_is_said(tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    path.write_text('{"device": "NUMPY"}\n')
    with pytest.raises(UserError, match=r"line 1 is no outcome of a case .*; name another file"):
        OutcomeFile(path, "NUMPY")
    assert main(["--jobs", "0"]) == 2
    assert "--jobs 0 --seconds 120: expected 1 or more" in capsys.readouterr().err
