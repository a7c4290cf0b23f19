"""Regions and composites as a plan gives them: annotated there and nowhere else, the numbers kept."""

import numpy as np
import pytest

from byoc import relay
from byoc.contract import PatternEntry
from byoc.errors import PartitionError
from byoc.ir.types import TupleType
from byoc.partition.calls import calls_of
from byoc.partition.cut.matches import ChosenMatch, matches_of, with_composites
from byoc.partition.cut.regions import annotated_calls
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.interpreter import evaluate
from byoc.relay.transform import CompositeRecord, InferType, PartitionGraph


def module():
    """Two branches that meet, one of them split and put together again."""
    x = relay.var("x", shape=(4, 6))
    left = op.exp(op.abs(x))
    parts = op.split(op.tanh(x), 2, axis=1)
    right = op.concatenate([op.negative(parts[1]), parts[0]], axis=1)
    return InferType()(relay.IRModule.from_expr(op.abs(op.add(left, right))))


def cut(mod, region_of):
    result = mod.shallow_copy()
    calls = list(calls_of(mod["main"]))
    result["main"] = annotated_calls(mod["main"], {calls[k]: r for k, r in region_of.items()})[0]
    return PartitionGraph("default")(result)


def regions(mod):
    return [f for f in mod.functions.values() if "Compiler" in f.attrs]


def names(mod):
    return [getattr(c.op, "name", "composite") for c in calls_of(mod["main"])]


def assert_same(mod, after):
    x = np.linspace(-2, 2, 24, dtype="float32").reshape(4, 6)
    np.testing.assert_array_equal(evaluate(mod, [x]), evaluate(after, [x]))


def test_regions_are_those_that_were_given():
    mod = module()
    number = {name: k for k, name in enumerate(names(mod))}
    chosen = {number[n]: ("toy", 0) for n in ("exp", "tanh", "split", "negative", "concatenate", "add")}
    after = cut(mod, chosen)
    assert len(regions(after)) == 1  # the tuple and the projections are inside
    assert_same(mod, after)


def test_neighbours_of_one_target_stay_apart_where_the_plan_says_so():
    mod = module()
    number = {name: k for k, name in enumerate(names(mod))}
    after = cut(
        mod,
        {
            number["tanh"]: ("toy", 0),
            number["split"]: ("toy", 0),
            number["negative"]: ("toy", 1),
            number["concatenate"]: ("toy", 2),
            number["add"]: ("other", 3),
        },
    )
    found = regions(after)
    assert sorted(str(f.attrs["Compiler"]) for f in found) == ["other", "toy", "toy", "toy"]
    assert sum(isinstance(f.ret_type, TupleType) for f in found) == 1  # the split gives both halves
    assert_same(mod, after)


def test_a_tuple_is_made_where_it_is_read():
    mod = module()
    number = {name: k for k, name in enumerate(names(mod))}
    for chosen in ({"concatenate"}, {"negative", "concatenate"}, {"split"}, {"split", "concatenate"}):
        regions_given = {
            number[n]: ("toy", 0 if chosen != {"split", "concatenate"} else k) for k, n in enumerate(sorted(chosen))
        }
        after = cut(mod, regions_given)
        assert len(regions(after)) == len(set(regions_given.values()))
        assert_same(mod, after)


def test_all_matches_are_found_and_the_chosen_become_composites(backend):
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))
    add = PatternEntry("toy_a.add", is_op("add")(is_op("exp")(wildcard()), wildcard()))
    toy = backend("toy_a", [], entries=[pair, add])
    mod = module()
    found = matches_of("main", mod["main"], [toy], CompositeRecord())
    assert [m.name for m in found] == ["toy_a.pair", "toy_a.add"]
    assert set(found[0].numbers) & set(found[1].numbers)  # they overlap
    for match in found:
        after, numbers = with_composites(mod, [match.chosen])
        kept = [k for k in range(len(names(mod))) if k not in match.numbers or k == match.chosen.root]
        assert sorted(numbers) == kept
        (composite,) = (c for c in calls_of(after["main"]) if not hasattr(c.op, "name"))
        assert str(composite.op.attrs["Composite"]) == match.name
        assert numbers[list(calls_of(after["main"])).index(composite)] == match.chosen.root
        assert_same(mod, after)


def test_a_match_that_is_not_there_is_reported(backend):
    backend("toy_a", [], entries=[PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))])
    with pytest.raises(PartitionError, match="row 0 does not match operator 3 of main; make the plan again"):
        with_composites(module(), [ChosenMatch("main", "toy_a", 0, 3)])
