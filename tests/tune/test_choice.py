"""Choices and search spaces as data, and which candidates a level takes of them."""

import json

import pytest

from byoc.codegen.kernel.choice import Choice, Fixed, SearchSpace, SpaceCollector
from byoc.codegen.tune.level import LEVELS, level_named
from byoc.errors import UserError
from byoc.te import placeholder

STAGE = placeholder((4,), "float32", "x")


def space(kernel="kernel", costs=(1.0,)):
    ranked = tuple((cost, Choice.of("tile", rows=k)) for k, cost in enumerate(costs))
    return SearchSpace(kernel, ranked, STAGE)


def test_a_choice_is_the_same_after_json_whatever_the_order_of_its_parameters():
    choice = Choice.of("winograd", size=4, blocked=True, order="rows")
    data = dict(reversed(list(json.loads(json.dumps(choice.to_json())).items())))
    assert Choice.from_json(data) == choice and Choice.from_json(data)["size"] == 4


@pytest.mark.parametrize("data", [None, [], {}, {"rows": 1}, {"kind": 3}, {"kind": "tile", "rows": [1]}])
def test_what_is_no_choice_is_refused(data):
    with pytest.raises(ValueError):
        Choice.from_json(data)


def test_a_fixed_answer_is_given_only_where_the_schedule_can_do_it():
    good, bad = Choice.of("tile", rows=0), Choice.of("tile", rows=99)
    assert Fixed({"kernel": good}).choose(space()) == good
    assert Fixed({"kernel": bad}).choose(space()) is None
    assert Fixed({"other": good}).choose(space()) is None


def test_levels_take_ever_more_candidates_no_one_twice_and_the_models_own_first():
    costs = [1.0 + k / 50 for k in range(120)]
    asked = SearchSpace("kernel", (*space(costs=costs).ranked, (9.0, Choice.of("tile", rows=0))), STAGE)
    taken = {name: level.of(asked) for name, level in LEVELS.items()}
    assert list(taken) == ["none", "fast", "normal", "wide", "heavy"]
    counts = [len(found) for found in taken.values()]
    assert counts == sorted(set(counts)) and counts[0] == 1
    for found in taken.values():
        assert len(set(found)) == len(found) and found[0] == asked.expected


@pytest.mark.parametrize("name", ["fast", "normal", "heavy"])
def test_what_the_model_thinks_hopeless_is_not_tried(name):
    asked = space(costs=(1.0, 1.1, 50.0))
    assert LEVELS[name].of(asked) == [c for _, c in asked.ranked[:2]]


def test_kernels_are_worth_tuning_until_the_rest_is_a_small_share_of_the_time_of_all():
    asked = SpaceCollector()
    for kernel, cost, times in [("short", 1.0, 1), ("often", 10.0, 6), ("long", 36.0, 1), ("brief", 3.0, 1)]:
        for _ in range(times):
            assert asked.choose(space(kernel, (cost,))) is None
    assert [q.kernel for q in LEVELS["fast"].worth(asked)] == ["often", "long"]  # 4 of 100 remain
    assert [q.kernel for q in LEVELS["normal"].worth(asked)] == ["often", "long", "brief"]
    assert [q.kernel for q in LEVELS["heavy"].worth(asked)] == ["often", "long", "brief", "short"]
    assert LEVELS["none"].worth(asked) == []


def test_nothing_asked_is_nothing_worth():
    assert LEVELS["heavy"].worth(SpaceCollector()) == []


def test_an_unknown_level_is_named_with_the_known_ones():
    with pytest.raises(UserError, match="one of none, fast, normal, wide, heavy, got 'broad'"):
        level_named("broad")


def test_a_higher_level_covers_a_lower_one_only():
    assert LEVELS["normal"].covers("fast") and LEVELS["fast"].covers("fast") and not LEVELS["fast"].covers("heavy")


def test_the_best_of_each_kind_is_tried_before_more_of_one_kind():
    ranked = [(1.0 + k / 100, Choice.of("winograd", blocks=k)) for k in range(9)] + [(1.2, Choice.of("direct"))]
    kinds = [c.kind for c in LEVELS["fast"].of(SearchSpace("kernel", tuple(ranked), STAGE))]
    assert kinds == ["winograd", "direct", "winograd"]
    hopeless = (*ranked[:-1], (9.0, Choice.of("direct")))
    assert {c.kind for c in LEVELS["fast"].of(SearchSpace("kernel", hopeless, STAGE))} == {"winograd"}
