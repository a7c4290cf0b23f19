"""What is kept of measurements: found again where its facts hold, and measured again where it is damaged."""

import json

import pytest

from byoc.driver.costs.store import CostStore, Measurement
from byoc.partition.costs.profile import HOST_DEFAULTS

FACTS = {"backend": "c", "version": "1"}


def test_a_profile_is_found_where_its_facts_hold_and_nowhere_else(tmp_path):
    store = CostStore(tmp_path / "costs")
    assert store.profile(FACTS) is None
    assert store.keep_profile(FACTS, HOST_DEFAULTS) is None
    assert store.profile(FACTS) == HOST_DEFAULTS
    assert store.profile({**FACTS, "version": "2"}) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t[: len(t) // 2],
        lambda t: t.replace("depthwise", "deepwise"),
        lambda t: "[]",
        lambda t: t.replace("16", "17"),
    ],
)
def test_a_damaged_profile_is_none(tmp_path, damage):
    store = CostStore(tmp_path)
    store.keep_profile(FACTS, HOST_DEFAULTS)
    file = next(tmp_path.glob("profile_*.json"))
    file.write_text(damage(file.read_text()))
    assert store.profile(FACTS) is None


def test_measurements_are_added_and_the_last_holds(tmp_path):
    store = CostStore(tmp_path)
    store.add(FACTS, [Measurement("a", 1.0), Measurement("b", None, "no such kernel")])
    store.add(FACTS, [Measurement("a", 2.0)])
    assert CostStore(tmp_path).measurements(FACTS) == {
        "a": Measurement("a", 2.0),
        "b": Measurement("b", None, "no such kernel"),
    }
    assert store.measurements({}) == {}


def test_damaged_lines_are_passed_over_and_do_not_take_their_neighbours_along(tmp_path):
    store = CostStore(tmp_path)
    store.add(FACTS, [Measurement("a", 1.0), Measurement("b", 2.0)])
    file = next(tmp_path.glob("units_*.jsonl"))
    first, second = file.read_text().splitlines()
    wrong = json.dumps({**json.loads(second), "seconds": 0.5})  # its check is another's
    file.write_text("\n".join(["", "[]", "{", first[:-9], wrong, first]))  # and no end of line
    store.add(FACTS, [Measurement("c", 3.0)])
    assert list(store.measurements(FACTS)) == ["a", "c"]


def test_a_folder_that_cannot_be_written_is_said_and_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    store = CostStore(tmp_path / "file")
    assert "cannot be written" in store.keep_profile(FACTS, HOST_DEFAULTS)
    assert "cannot be written" in store.add(FACTS, [Measurement("a", 1.0)])
