"""A plan explained, compared, pinned, edited, swept and made again without a target."""

import json

import numpy as np
import pytest

from byoc import relay
from byoc.contract import PatternEntry, Reason
from byoc.errors import PartitionError
from byoc.partition import Plan, make_plan
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.interpreter import evaluate


def chain(*names):
    expr = relay.var("x", shape=(2, 3))
    for k, name in enumerate(names):
        expr = getattr(op, name)(expr)
        expr.span = relay.Span.named(f"{name}_{k}")
    return relay.IRModule.from_expr(expr)


def targets(plan):
    return [d.target for d in plan.decisions]


@pytest.fixture
def two(backend):
    backend("toy_a", ["abs", "exp"])
    backend("toy_b", ["abs", "exp", "tanh"])
    return ["toy_a", "toy_b"]


def test_explain_prints_the_place_the_region_and_every_verdict(two):
    plan = make_plan(chain("abs", "tanh", "sin"), two)
    assert str(plan.explain("abs_0")) == (
        "abs (abs_0): toy_a, region tvmgen_default_toy_a_main_0\n  toy_a: accepted\n"
        "  toy_b: no [priority]: toy_a comes before it in the order of targets"
    )
    assert str(plan.explain("tanh_1")).splitlines()[1:] == [
        "  toy_a: no [operator]: only abs, exp, got tanh",
        "  toy_b: accepted",
    ]
    assert str(plan.explain("sin*")).splitlines()[0] == "sin (sin_2): on the host"
    assert [d.operator for d in plan.explain("*_*").decisions] == ["abs", "tanh", "sin"]
    with pytest.raises(PartitionError, match="no operator .* of the plan is called 'sin_1'; the nearest: .*sin_2"):
        plan.explain("sin_1")


def test_every_operator_on_the_host_has_a_code(two):
    plan = make_plan(chain("abs", "sin"), two, exclude=["abs"])
    assert [d.codes for d in plan.decisions] == [
        ("toy_a:excluded", "toy_b:excluded"),
        ("toy_a:operator", "toy_b:operator"),
    ]
    assert [d.codes for d in make_plan(chain("abs"), []).decisions] == [("no_target",)]


def test_diff_lists_what_moved(two):
    mod = chain("abs", "tanh", "exp")
    before, after = make_plan(mod, two), make_plan(mod, two, exclude={"toy_a": ["exp"]})
    assert [(m.node, m.before, m.after) for m in before.diff(after).moved] == [("exp_2", "toy_a", "toy_b")]
    assert str(before.diff(after)) == "1 nodes moved; regions 3 -> 2\n  exp_2: toy_a -> toy_b"
    assert not before.diff(make_plan(mod, two))


def test_a_pinned_operator_stays_and_an_edited_one_goes(two):
    mod = chain("abs", "tanh", "exp")
    plan = make_plan(mod, two)
    pinned = plan.pin({"abs_0": "toy_b"})
    assert targets(pinned) == ["toy_b", "toy_b", "toy_a"]
    again = pinned.edit({"tanh_1": "host"})
    assert targets(again) == ["toy_b", None, "toy_a"]
    held = plan.pin("exp_2").without({"toy_b": Reason("unavailable", "its device is not here")})
    assert targets(held) == ["toy_a", None, "toy_a"]
    assert held.decisions[1].codes == ("toy_a:operator", "toy_b:unavailable")
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    for each in (pinned, again, held):
        np.testing.assert_array_equal(evaluate(mod, [x]), evaluate(each.apply(mod), [x]))
    with pytest.raises(PartitionError, match="edit: tanh_1 to toy_a: tanh .* cannot go there: only abs, exp, got tanh"):
        plan.edit({"tanh_1": "toy_a"})
    with pytest.raises(PartitionError, match="pin: no operator .* is called 'none'"):
        plan.pin({"none": "toy_a"})


def test_editing_one_operator_of_a_composite_takes_it_apart(backend):
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))
    backend("toy_a", ["abs", "exp"], entries=[pair])
    plan = make_plan(chain("abs", "exp"), ["toy_a"])
    assert [d.operator for d in plan.decisions] == ["toy_a.pair"]
    edited = plan.edit({"exp_1": "host"})
    assert [(d.operator, d.target) for d in edited.decisions] == [("abs", "toy_a"), ("exp", None)]
    assert [(m.node, m.before, m.after) for m in plan.diff(edited).moved] == [
        ("abs_0", "toy_a as toy_a.pair", "toy_a"),
        ("exp_1", "toy_a as toy_a.pair", "host"),
    ]


def test_sweep_makes_a_plan_for_each_value_of_a_limit(two):
    plan = make_plan(chain("abs", "sin", "abs", "abs"), two)
    found = plan.sweep(min_operators=[1, 2, 3])
    assert [len(p.regions) for _, p in found] == [2, 1, 0]
    assert str(found).splitlines()[0].split() == ["min_operators", "regions", "offloaded", "estimate"]
    with pytest.raises(PartitionError, match="no limit is called 'size'; one of max_operators"):
        plan.sweep(size=[1])
    with pytest.raises(PartitionError, match="sweep takes the values of one limit, got none"):
        plan.sweep()


def test_a_plan_from_a_file_says_that_it_has_no_module(two):
    plan = Plan.from_json(json.dumps(make_plan(chain("abs"), two).to_json()))
    with pytest.raises(PartitionError, match="pin needs the module that the plan was made for"):
        plan.pin({"abs_0": "toy_b"})
    assert str(plan.explain("abs_0")).startswith("abs (abs_0): toy_a")
