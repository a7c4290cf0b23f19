"""Regions: marking, dropping, convexity, and priorities."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from byoc import relay
from byoc.contract import Limits, PatternEntry
from byoc.errors import PartitionError
from byoc.partition import Plan, make_plan
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, wildcard

ROOT = pathlib.Path(__file__).parents[2]


def named(expr, name):
    expr.span = relay.Span.named(name)
    return expr


def ten_operators():
    """Paddle Lite's example: Op1, Op3 and Op10 are not taken, Op2 stands alone, Op4 to Op9 hang together."""
    x = relay.var("x", shape=(2, 8))
    op1 = named(op.tanh(x), "Op1")
    op2 = named(op.abs(op1), "Op2")
    op3 = named(op.tanh(op2), "Op3")
    op4 = named(op.abs(op3), "Op4")
    op5 = named(op.exp(op4), "Op5")
    op6 = named(op.abs(op4), "Op6")
    op7 = named(op.exp(op6), "Op7")
    op8 = named(op.add(op5, op7), "Op8")
    op9 = named(op.abs(op8), "Op9")
    return relay.IRModule.from_expr(named(op.tanh(op9), "Op10"))


def regions(plan):
    return [set(r.nodes) for r in plan.regions]


TAKEN = ["abs", "exp", "add"]
SIX = {f"Op{k}" for k in range(4, 10)}


def test_the_example_of_ten_operators(backend):
    backend("toy_a", TAKEN)
    plan = make_plan(ten_operators(), ["toy_a"])
    assert regions(plan) == [{"Op2"}, SIX]
    assert [d.nodes for d in plan.host] == [("Op1",), ("Op3",), ("Op10",)]


def test_a_region_of_too_few_operators_is_dropped_by_name(backend):
    backend("toy_a", TAKEN, limits=Limits(min_operators=2))
    plan = make_plan(ten_operators(), ["toy_a"])
    assert regions(plan) == [SIX]
    assert "dropped from toy_a: Op2: a region has at least 2 operators, got 1" in plan.notes
    assert "dropped from toy_a: Op2" in str(plan)
    assert plan.explain("Op2").decisions[0].codes == ("toy_a:min_operators",)


@pytest.mark.parametrize("least, kept", [(16, [{"Op2"}, SIX]), (17, [SIX]), (96, [SIX]), (97, [])])
def test_a_region_of_too_few_operations_is_dropped_at_the_edge(backend, least, kept):
    backend("toy_a", TAKEN, limits=Limits(min_operations=least))  # 16 elements, one operation each
    plan = make_plan(ten_operators(), ["toy_a"])
    assert regions(plan) == kept
    dropped = [d.nodes[0] for d in plan.host if "toy_a:min_operations" in d.codes]
    assert dropped == [f"Op{k}" for k in (2, *range(4, 10)) if not any(f"Op{k}" in r for r in kept)]
    assert all("at least" in note for note in plan.notes) and len(plan.notes) == 2 - len(kept)


def test_both_sides_of_a_refused_operator_are_not_joined_around_it(backend):
    backend("toy_a", TAKEN)
    a = named(op.abs(relay.var("x", shape=(2,))), "A")
    b = named(op.tanh(a), "B")
    plan = make_plan(relay.IRModule.from_expr(named(op.add(a, b), "C")), ["toy_a"])
    assert regions(plan) == [{"A"}, {"C"}]


def test_what_one_target_loses_by_a_limit_the_next_one_gets(backend):
    backend("toy_a", TAKEN, limits=Limits(min_operators=2))
    backend("toy_b", ["abs"])
    plan = make_plan(ten_operators(), ["toy_a", "toy_b"])
    assert {r.target: set(r.nodes) for r in plan.regions} == {"toy_a": SIX, "toy_b": {"Op2"}}
    verdicts = dict(plan.explain("Op2").decisions[0].verdicts)
    assert verdicts["toy_b"] and verdicts["toy_a"].reasons[0].code == "min_operators"


def test_policy_cost_says_which_operator_no_region_can_hold_and_what_it_does_not_ask(backend):
    backend("toy_a", TAKEN, limits=Limits(max_bytes=1, min_operations=5))
    plan = make_plan(ten_operators(), ["toy_a"], policy="cost")
    assert not plan.regions
    assert plan.explain("Op2").decisions[0].codes == ("toy_a:max_bytes",)
    assert "at most 1" in str(plan.explain("Op2"))
    assert "policy cost does not ask for min_operations of toy_a: use min_gain" in plan.notes


SCRIPT = """
import sys; sys.path[:0] = [{folder!r}]
import conftest, test_regions_and_priorities as t
from byoc.contract import Limits, register_backend
from byoc.partition import make_plan
import json
register_backend(conftest.ToyBackend("toy_a", t.TAKEN, limits=Limits(max_operators=2)))
print(json.dumps(make_plan(t.ten_operators(), ["toy_a"]).to_json()))
"""


def test_regions_are_numbered_alike_whatever_hashes_are():
    script = SCRIPT.format(folder=str(pathlib.Path(__file__).parent))
    texts = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


@pytest.fixture
def two(backend):
    backend("acme1", ["abs", "exp", "tanh"])
    backend("acme2", ["abs", "exp"])
    return ["acme1", "acme2"]


def chain(*names):
    expr = relay.var("x", shape=(2, 3))
    for k, name in enumerate(names):
        expr = named(getattr(op, name)(expr), f"{name}_{k}")
    return relay.IRModule.from_expr(expr)


def targets(plan):
    return [d.target for d in plan.decisions]


def test_priority_of_the_targets_decides_where_both_take_an_operator(two):
    mod = chain("abs", "exp", "tanh")
    assert targets(make_plan(mod, two)) == ["acme1", "acme1", "acme1"]
    assert targets(make_plan(mod, two[::-1])) == ["acme2", "acme2", "acme1"]


def test_priority_of_one_operator_changes_that_operator_alone(two):
    mod = chain("abs", "exp", "tanh")
    assert targets(make_plan(mod, two, prefer={"exp": ["acme2", "acme1"]})) == ["acme1", "acme2", "acme1"]
    assert targets(make_plan(mod, two, prefer={"exp": ["acme1", "acme2"]})) == ["acme1", "acme1", "acme1"]
    assert targets(make_plan(mod, two, prefer={"abs_*": ["acme2"]})) == ["acme2", "acme1", "acme1"]
    assert targets(make_plan(mod, two, prefer={"tanh": ["acme2"]})) == ["acme1", "acme1", "acme1"]  # acme2 has none


def test_priority_explains_ties(two):
    mod = chain("abs", "exp")
    plan = make_plan(mod, two, prefer={"exp": ["acme2", "acme1"]})
    assert "acme2: no [priority]: acme1 comes before it in the order of targets" in str(plan.explain("abs_0"))
    assert "acme1: no [priority]: acme2 comes before it in the list of exp" in str(plan.explain("exp_1"))


def pair(name):
    return PatternEntry(f"{name}.pair", is_op("exp")(is_op("abs")(wildcard())))


def test_priority_holds_between_composites_too(backend):
    backend("acme1", ["abs", "exp"], entries=[pair("acme1")])
    backend("acme2", ["abs"], entries=[pair("acme2")])
    mod = chain("abs", "exp", "abs")
    both = ["acme1", "acme2"]
    assert [d.operator for d in make_plan(mod, both).decisions] == ["acme1.pair", "abs"]
    plan = make_plan(mod, both, prefer={"exp": ["acme2", "acme1"]})
    assert [(d.operator, d.target) for d in plan.decisions] == [("acme2.pair", "acme2"), ("abs", "acme1")]
    again = Plan.from_json(json.dumps(plan.to_json()))
    assert again == plan
    assert relay.structural.structural_equal(again.apply(mod), plan.apply(mod))


def test_priority_takes_an_operator_out_of_the_composite_of_a_lower_target(backend):
    backend("acme1", ["abs", "exp"], entries=[pair("acme1")])
    backend("acme2", ["exp"])
    plan = make_plan(chain("abs", "exp"), ["acme1", "acme2"], prefer={"exp": ["acme2", "acme1"]})
    assert [(d.operator, d.target) for d in plan.decisions] == [("abs", "acme1"), ("exp", "acme2")]
    assert plan.apply(chain("abs", "exp"))


@pytest.mark.parametrize(
    "prefer, message",
    [
        ({"exp": ["acme3"]}, "prefer: 'exp' names the target 'acme3', which is not asked for; asked: acme1, acme2"),
        ({"exp": ["acme2", "acme2"]}, "names the target 'acme2' twice"),
        ({"exp": "acme2"}, r"write 'exp': \['acme2'\]"),
        ({"exq": ["acme2"]}, "no operator or ONNX node of the model is called 'exq'; the nearest: exp"),
    ],
)
def test_priority_that_means_nothing_is_refused(two, prefer, message):
    with pytest.raises(PartitionError, match=message):
        make_plan(chain("abs", "exp"), two, prefer=prefer)


def test_priority_is_for_policy_order(two):
    with pytest.raises(PartitionError, match="prefer is for policy \"order\", not for 'cost'"):
        make_plan(chain("abs"), two, policy="cost", prefer={"abs": ["acme2"]})
