"""A tuner over kernels of our own making: what is asked, tried, known, left and reported; no compiler, no clock."""

import contextlib
import dataclasses

import pytest

from byoc.codegen.kernel.choice import Choice, SearchSpace
from byoc.codegen.tune.context import Context
from byoc.codegen.tune.database import Database
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.record import Trial
from byoc.codegen.tune.trials import HostBench
from byoc.codegen.tune.tuner import Tuner, tuner_of
from byoc.errors import UserError
from byoc.te import placeholder

COSTS = {"big": 100.0, "middle": 50.0, "tiny": 1.0, **{f"layer {k}": 30.0 - k for k in range(6)}}
CHOICES = [Choice.of("tile", rows=k) for k in range(8)]


def space(kernel):
    return SearchSpace(kernel, tuple((COSTS[kernel], c) for c in CHOICES), placeholder((4,), "float32", kernel))


def prepare(program, choices):
    """A program is a list of kernels, a prepared one the choices for them."""
    if choices is None:
        return ["model's own" for _ in program]
    return [choices.choose(space(kernel)) for kernel in program]


class World:
    """Tuners on one database, the kernels that they try, and a clock that each trial moves by a second."""

    def __init__(self, tmp_path, context="here"):
        self.database, self.tried, self.now = Database(tmp_path / "tune"), [], 0.0
        self.bench = HostBench(prepare, lambda programs: None, self.context)
        self.name, self.opened = context, []

    def tuner(self, level="fast", **options):
        return Tuner(LEVELS[level], self.database, trial_runner=self.trial_runner, clock=lambda: self.now, **options)

    def context(self, threads):
        return Context.of({"name": self.name, "threads": str(threads)})

    @contextlib.contextmanager
    def trial_runner(self, bench, rounds, threads):
        self.opened.append(threads)
        yield self.attempt

    def attempt(self, asked, candidates, rest):
        self.tried.append(asked.kernel)
        self.now += 10.0
        return [Trial(c, 1.0 / (1 + int(c["rows"])), 1.0) for c in candidates]

    def prepared(self, programs, level="fast", **options):
        tuner = self.tuner(level, **options)
        return tuner.prepared(programs, self.bench), tuner.report


def test_what_matters_is_tried_and_what_won_is_used_the_rest_is_left(tmp_path):
    world = World(tmp_path)
    programs, report = world.prepared([["big", "tiny"], ["middle", "big"]])
    last = CHOICES[LEVELS["fast"].candidates - 1]  # the fastest of those that were tried
    assert programs == [[last, None], [last, last]]
    assert world.tried == ["big", "middle"]
    assert (len(report.tuned), len(report.known), report.left, report.trials) == (2, 0, 1, 6)


def test_a_second_tuner_tries_nothing_and_decides_the_same(tmp_path):
    world = World(tmp_path)
    first, _ = world.prepared([["big", "middle", "tiny"]])
    world.tried.clear()
    second, report = world.prepared([["big", "middle", "tiny"]])
    assert second == first and world.tried == []
    assert (len(report.tuned), len(report.known), report.trials) == (0, 2, 0)


def test_a_higher_level_tries_again_and_a_lower_one_takes_what_that_found(tmp_path):
    world = World(tmp_path)
    world.prepared([["big"]])
    found, _ = world.prepared([["big"]], "normal")
    assert found == [[CHOICES[-1]]] and world.tried == ["big", "big"]
    assert world.prepared([["big"]])[0] == found and world.tried == ["big", "big"]


def test_another_context_knows_nothing_of_it(tmp_path):
    World(tmp_path).prepared([["big"]])
    other = World(tmp_path, context="there")
    other.prepared([["big"]])
    assert other.tried == ["big"]


def test_level_none_asks_nobody_even_where_something_is_known(tmp_path):
    world = World(tmp_path)
    world.prepared([["big"]])
    programs, report = world.prepared([["big"]], "none")
    assert programs == [["model's own"]] and report.known == []


def test_what_is_not_reached_in_time_is_left_to_the_model_and_tried_only_when_asked_again(tmp_path):
    world = World(tmp_path)
    kernels = [k for k in COSTS if k.startswith("layer")]
    programs, report = world.prepared([kernels])  # 25 seconds, 10 each
    assert world.tried == kernels[:2] and programs[0][2:] == [CHOICES[0]] * 4 and world.now <= 25.0
    assert "4 not reached in time" in report.text()
    assert world.prepared([kernels])[0] == programs and len(world.tried) == 2
    world.prepared([kernels], again=True)
    assert world.tried[2:] == kernels[2:4]


def test_a_known_choice_that_is_no_longer_legal_is_tried_anew(tmp_path):
    world = World(tmp_path)
    world.prepared([["big"]])
    short = [Choice.of("tile", rows=0), Choice.of("tile", rows=1)]
    asked = SearchSpace("big", tuple((1.0, c) for c in short), placeholder((4,), "float32", "big"))
    bench = HostBench(lambda program, choices: [choices.choose(asked)], lambda programs: None, world.bench.context)
    tuner = world.tuner()
    assert tuner.prepared([["big"]], bench) == [[short[1]]] and world.tried == ["big", "big"]


def test_failures_are_kept_with_their_reasons_and_the_models_choice_stands(tmp_path):
    world = World(tmp_path)
    world.attempt = lambda asked, candidates, rest: [Trial(c, state="failed: no") for c in candidates]
    programs, report = world.prepared([["big"]])
    assert programs == [[CHOICES[0]]]
    (kept,) = world.database.read_all()
    assert [t.state for t in kept.trials] == ["failed: no"] * 3 and report.tuned == [kept]
    assert "tile rows=1 failed: no: big" in report.text()


def test_candidates_are_timed_with_the_models_threads_and_times_of_one_thread_are_not_those_of_two(tmp_path):
    world = World(tmp_path)
    world.bench = dataclasses.replace(world.bench, threads=2)
    _, report = world.prepared([["big"]])
    assert world.opened == [2] and report.to_json()["threads"] == [2]
    world.prepared([["big"]], threads=1)
    assert world.opened == [2, 1]
    world.prepared([["big"]])
    world.prepared([["big"]], threads=1)
    assert world.opened == [2, 1] and world.tried == ["big", "big"]
    with pytest.raises(UserError, match="threads is a number from 1 on, got 0"):
        world.tuner(threads=0)


def test_what_was_found_before_an_interruption_is_kept(tmp_path):
    world = World(tmp_path)

    def interrupted(asked, candidates, rest):
        if asked.kernel == "middle":
            raise KeyboardInterrupt
        return World.attempt(world, asked, candidates, rest)

    world.attempt = interrupted
    with pytest.raises(KeyboardInterrupt):
        world.prepared([["big", "middle"]])
    assert [r.kernel for r in world.database.read_all()] == ["big"]


def test_where_nothing_can_be_written_it_works_and_says_so(tmp_path):
    world = World(tmp_path)
    (tmp_path / "tune").write_text("no folder")
    programs, report = world.prepared([["big"]])
    assert programs == [[CHOICES[2]]]
    assert "not kept" in report.text() and "cannot be written" in report.to_json()["not_kept"]


def test_the_report_says_what_was_won_over_the_model(tmp_path):
    world = World(tmp_path)
    _, report = world.prepared([["big", "tiny"]])
    assert "tuning, level fast, 1 thread: 1 kernels" in report.text()
    assert "1 kernels tuned with 3 candidates in 10.0 s, 0 known, 1 left to the cost model" in report.text()
    assert "3.00x  tile rows=2, not tile rows=0: big" in report.text()
    (row,) = report.to_json()["tuned"]
    assert row["gain"] == pytest.approx(3.0) and len(row["trials"]) == 3


def test_an_option_is_a_level_or_a_tuner(tmp_path):
    tuner = World(tmp_path).tuner()
    assert tuner_of(tuner) is tuner and tuner_of("heavy").level is LEVELS["heavy"] and not tuner_of("none").tunes
    for wrong in ("fastest", 3, None, ["fast"]):
        with pytest.raises(UserError, match="the level of tuning is one of"):
            tuner_of(wrong)


def test_an_answer_that_leads_to_another_space_has_that_tuned_too_and_a_second_tuner_asks_nothing_more(tmp_path):
    world = World(tmp_path)

    def nested(program, choices):
        first = choices.choose(space("big"))
        return (first, choices.choose(space("middle")) if first == CHOICES[2] else None)

    bench = HostBench(nested, lambda programs: None, world.bench.context)
    assert world.tuner().prepared([["big"]], bench) == [(CHOICES[2], CHOICES[2])]
    assert world.tried == ["big", "middle"]
    assert world.tuner().prepared([["big"]], bench) == [(CHOICES[2], CHOICES[2])] and len(world.tried) == 2
