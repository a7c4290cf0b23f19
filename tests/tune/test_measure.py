"""Interleaving, early drops and statistics, with a clock that the candidates themselves move."""

import pytest

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.tune.measure import FIRST_ROUNDS, measure
from byoc.codegen.tune.record import Trial
from byoc.codegen.tune.trials import winner


class World:
    """A clock, and calls that move it by their times, one after the other, and are written down."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def clock(self):
        return self.now

    def call(self, name, *seconds):
        turns = iter(range(10**9))

        def run():
            self.now += seconds[next(turns) % len(seconds)]
            self.calls.append(name)

        return run


def test_a_candidate_gets_the_seconds_of_one_call():
    world = World()
    (times,) = measure([[world.call("a", 0.5)]], 4, world.clock)
    assert times.samples == [0.5] * 4 and times.shortest == times.median == 0.5 and not times.dropped


def test_short_calls_are_repeated_and_long_ones_are_not():
    world = World()
    measure([[world.call("short", 0.0001)], [world.call("long", 1.0)]], 1, world.clock)
    assert world.calls.count("short") > 15 and world.calls.count("long") == 4  # two to warm up, one before, one timed


def test_candidates_take_turns_and_another_one_begins_each_round():
    world = World()
    measure([[world.call("a", 1.0)], [world.call("b", 1.0)], [world.call("c", 1.0)]], 3, world.clock)
    assert "".join(world.calls[6::2]) == "abcbcacab"


def test_copies_of_a_candidate_take_turns_within_a_sample():
    world = World()
    (times,) = measure([[world.call("1", 1.0), world.call("2", 3.0)]], 2, world.clock)
    assert times.samples == [2.0, 2.0]


def test_a_clear_loser_is_dropped_early_and_a_close_one_is_not():
    world = World()
    fast, close, slow = measure(
        [[world.call("fast", 1.0)], [world.call("close", 1.05)], [world.call("slow", 2.0)]], 10, world.clock
    )
    assert (fast.dropped, close.dropped, slow.dropped) == (False, False, True)
    assert len(fast.samples) == len(close.samples) == 10 and len(slow.samples) == FIRST_ROUNDS


def test_the_last_one_standing_ends_it():
    world = World()
    fast, slow = measure([[world.call("fast", 1.0)], [world.call("slow", 2.0)]], 10, world.clock)
    assert len(fast.samples) == FIRST_ROUNDS and slow.dropped


def test_a_disturbed_sample_neither_drops_nor_decides():
    world = World()
    (times, other) = measure([[world.call("a", 1.0, 1.0, 1.0, 1.0, 9.0)], [world.call("b", 1.01)]], 6, world.clock)
    assert not times.dropped and times.shortest == 1.0 and times.median < 2.0 and not other.dropped


def trial(rows, shortest):
    return Trial(Choice.of("tile", rows=rows), shortest, shortest)


@pytest.mark.parametrize(
    "times, best",
    [
        ({1: 1.0, 2: 0.9, 3: 0.8}, 3),
        ({1: 1.0, 2: 0.99, 3: 1.2}, 1),  # no gain that could not be chance
        ({1: None, 2: 5.0, 3: 4.0}, 3),  # the model's own failed
        ({1: None, 2: None, 3: None}, 1),
    ],
)
def test_the_shortest_wins_where_it_is_clearly_shorter_than_the_models_own(times, best):
    assert winner([trial(rows, t) for rows, t in times.items()], Choice.of("tile", rows=1))["rows"] == best
