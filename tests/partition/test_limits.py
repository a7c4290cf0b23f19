"""Limits of regions under every policy: split where the cut costs least, what fits in none at home with a record."""

import itertools
import json

import numpy as np
import pytest

from byoc import relay
from byoc.contract import Limits
from byoc.partition import Plan, make_plan
from byoc.partition.costs import Table
from byoc.relay import op
from byoc.relay.interpreter import evaluate


def chain(widths):
    """Products of a vector by matrices of these widths, so that the bytes between operators differ."""
    expr = relay.var("x", shape=(1, widths[0]))
    rng = np.random.default_rng(0)
    for k, (before, after) in enumerate(itertools.pairwise(widths)):
        weight = relay.const(rng.standard_normal((after, before)).astype("float32"))
        expr = op.nn.dense(expr, weight)
        expr.span = relay.Span.named(f"dense_{k}")
    return relay.IRModule.from_expr(expr)


def cut_bytes(widths, most, size):
    """An independent search: the fewest parts within *size* bytes (weights and peak), then the fewest bytes between."""
    count = len(widths) - 1

    def fits(begin, end):
        weights = sum(4 * widths[k] * widths[k + 1] for k in range(begin, end))
        entering, live = 4 * widths[begin], []
        for k in range(begin, end):
            made = 4 * widths[k + 1]
            live.append(entering + made if k == begin else 4 * widths[k] + made)
        return weights + max(live) <= size and end - begin <= most

    best = None
    for parts in range(1, count + 1):
        for ends in itertools.combinations(range(1, count), parts - 1):
            bounds = [0, *ends, count]
            if all(fits(a, b) for a, b in itertools.pairwise(bounds)):
                between = sum(4 * widths[e] for e in ends)
                best = between if best is None else min(best, between)
        if best is not None:
            return parts, best
    return None


@pytest.mark.parametrize("policy", ["order", "score"])
@pytest.mark.parametrize("seed", range(12))
def test_a_chain_is_split_into_the_fewest_parts_where_the_cut_costs_least(backend, policy, seed):
    rng = np.random.default_rng(seed)
    widths = [int(w) for w in rng.integers(2, 12, size=int(rng.integers(4, 9)))]
    most, size = int(rng.integers(2, 5)), int(rng.integers(900, 1600))
    backend("toy_a", ["nn.dense"], limits=Limits(max_operators=most, max_bytes=size))
    mod = chain(widths)
    plan = make_plan(mod, ["toy_a"], policy=policy)
    wanted = cut_bytes(widths, most, size)
    assert wanted is not None and (len(plan.regions), sum(r.output_bytes for r in plan.regions[:-1])) == wanted
    x = np.ones((1, widths[0]), "float32")
    np.testing.assert_allclose(evaluate(mod, [x]), evaluate(plan.apply(mod), [x]), rtol=1e-5)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_of_4N_and_1_operators_the_larger_part_has_2N_and_1(backend, n):
    backend("toy_a", ["abs"], limits=Limits(max_operators=2 * n + 1))
    expr = relay.var("x", shape=(2, 3))
    for _ in range(4 * n + 1):
        expr = op.abs(expr)
    plan = make_plan(relay.IRModule.from_expr(expr), ["toy_a"])
    assert sorted(len(r.operators) for r in plan.regions) == [2 * n, 2 * n + 1]
    assert len(plan.sweep(max_operators=[None]).plans[0].regions) == 1


@pytest.mark.parametrize("policy", ["order", "score"])
def test_an_operator_alone_over_the_limit_goes_home_with_a_record(backend, policy):
    backend("toy_a", ["nn.dense"], limits=Limits(max_bytes=500))
    plan = make_plan(chain([4, 4, 40, 4]), ["toy_a"], policy=policy)
    assert [d.target for d in plan.decisions] == ["toy_a", None, None]
    reason = plan.decisions[1].verdicts[0][1].reasons[0]
    assert (reason.code, reason.actual) == ("max_bytes", "816")


def test_a_region_with_too_little_work_goes_home(backend):
    backend("toy_a", ["nn.dense"], limits=Limits(min_operations=1000))
    plan = make_plan(chain([4, 4]), ["toy_a"])
    assert plan.decisions[0].codes == ("toy_a:min_operations",)


@pytest.mark.parametrize("policy", ["order", "score", "cost"])
def test_a_weight_that_two_operators_read_counts_once(backend, policy):
    """256 bytes of weights, and 64 of two values of 8 floats."""
    backend("toy_a", ["nn.dense", "nn.relu"])
    one, two = (relay.const(np.eye(8, dtype="float32")) for _ in range(2))
    x = relay.var("x", shape=(1, 8))
    costs = {"toy_a": lambda unit, place: 1e-9, "c": lambda unit, place: 1.0}
    for second, regions in ((one, 1), (two, 2)):
        mod = relay.IRModule.from_expr(op.nn.dense(op.nn.relu(op.nn.dense(x, one)), second))
        limits = {"toy_a": Limits(max_bytes=256 + 64)}
        plan = make_plan(mod, ["toy_a"], policy=policy, limits=limits, costs=costs)
        assert [r.constant_bytes for r in plan.regions] == [256] * regions


def test_what_a_limit_drops_is_in_no_region_and_the_plan_can_be_read_again(backend):
    backend("toy_a", ["nn.dense"], limits=Limits(min_operators=2))
    backend("toy_b", ["exp", "nn.dense"], limits=Limits(max_regions=1))
    x, weight = relay.var("x", shape=(1, 4)), relay.const(np.eye(4, dtype="float32"))
    mod = relay.IRModule.from_expr(op.nn.dense(op.tanh(op.exp(x)), weight))
    plan = make_plan(mod, ["toy_a", "toy_b"])
    assert all((d.target is None) == (d.region is None) for d in plan.decisions) and len(plan.regions) == 1
    assert Plan.from_json(json.dumps(plan.to_json())) == plan


@pytest.mark.parametrize("policy", ["order", "score", "cost"])
def test_a_region_that_gains_too_little_goes_home_under_every_policy(backend, policy):
    """Three products of 10 us each on the host and 1 us there; a way is 3 us, a launch 4 us."""
    backend("toy_a", ["nn.dense"])
    table = Table.from_json(
        {
            "format": "byoc.costs/1",
            "operators": {},
            "default": {"seconds": 1e-6},
            "launch": 4e-6,
            "transfer": {"latency": 3e-6},
        }
    )
    costs = {"toy_a": table, "c": lambda unit, place: 10e-6}
    for least, stays in ((17, False), (17.1, True)):  # 30 - (3 + 4 + 2 * 3)
        limits = {"toy_a": Limits(min_gain=least)}
        plan = make_plan(chain([4, 4, 4, 4]), ["toy_a"], policy=policy, limits=limits, costs=costs)
        assert len(plan.regions) == (0 if stays else 1)
        assert {d.codes for d in plan.decisions} == {("toy_a:min_gain",) if stays else ()}
    sweep = make_plan(chain([4, 4]), ["toy_a"], policy=policy, costs=costs).sweep(min_gain=[0, 5])
    assert [len(plan.regions) for plan in sweep.plans] == ([1, 0] if policy != "cost" else [0, 0])
