"""What the user keeps away from targets."""

import pytest

from byoc.errors import PartitionError
from byoc.partition.exclusions import Exclusions


def test_a_list_keeps_names_from_every_target_and_a_mapping_from_its_own():
    every = Exclusions.of(["add"], ["a", "b"])
    assert every.covers("a", {"add", "node_3"})
    assert every.covers("b", {"add"})
    some = Exclusions.of({"a": ["add"]}, ["a", "b"])
    assert some.covers("a", {"add"})
    assert not some.covers("b", {"add"})


def test_a_name_that_means_nothing_offers_the_nearest():
    with pytest.raises(PartitionError, match="is called 'Conv_12'; the nearest: Conv_1"):
        Exclusions.of({"a": ["Conv_12"]}, ["a"]).check({"Conv_1", "Relu_7"})
    with pytest.raises(PartitionError, match="is called 'Conv_12'"):
        Exclusions.of(["Conv_12"], []).check({"Conv_1"})


def test_a_target_that_is_not_asked_for_is_refused():
    with pytest.raises(PartitionError, match="exclude names the target 'b', which is not asked for; asked: a"):
        Exclusions.of({"b": ["add"]}, ["a"])


def test_a_single_text_is_not_taken_for_a_list_of_letters():
    with pytest.raises(PartitionError, match=r"write exclude=\['add'\]"):
        Exclusions.of("add", ["a"])
