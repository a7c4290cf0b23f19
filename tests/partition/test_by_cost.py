"""The policy ``cost``: places, patterns and regions chosen together, by costs that a test gives."""

import json
import math

import numpy as np
import pytest

from byoc import relay
from byoc.contract import Limits, PatternEntry, callee_name
from byoc.errors import PartitionError
from byoc.partition import Plan, make_plan
from byoc.partition.costs import CostModel, Estimate
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.interpreter import evaluate


class Costs(CostModel):
    """Seconds by target and name, ``*`` for all others; a transfer costs *move*, a launch *start*."""

    name = "test"

    def __init__(self, table, move=1.0, start=0.0):
        self.table, self.move, self.start = table, move, start

    def units(self, calls, target, precision=""):
        prices = self.table[target]
        return [Estimate(prices.get(callee_name(c), prices.get("*", 1.0)), "test") for c in calls]

    def transfer(self, size, source, destination):
        return Estimate(self.move, "test")

    def launch(self, target):
        return Estimate(self.start, "test")


def chain(*names):
    expr = relay.var("x", shape=(2, 3))
    for k, name in enumerate(names):
        expr = getattr(op, name)(expr)
        expr.span = relay.Span.named(f"{name}_{k}")
    return relay.IRModule.from_expr(expr)


def targets(plan):
    return [d.target for d in plan.decisions]


def assert_same_numbers(mod, plan):
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(evaluate(mod, [x]), evaluate(plan.apply(mod), [x]))


@pytest.mark.parametrize("move, placed", [(0.4, ["toy_a", None, "toy_a"]), (2.0, [None, None, None])])
def test_what_is_faster_elsewhere_goes_where_the_way_pays(backend, move, placed):
    backend("toy_a", ["abs", "exp"])
    mod = chain("abs", "tanh", "exp")
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=Costs({"host": {"*": 2.0}, "toy_a": {"*": 1.0}}, move))
    assert targets(plan) == placed
    assert plan.total.gap == pytest.approx(0.0) and plan.total.seconds == pytest.approx(min(6.0, 4.0 + 4 * move))
    assert [(m.source, m.destination) for m in plan.moves] == (
        [] if move > 1 else [("host", "toy_a"), ("toy_a", "host"), ("host", "toy_a"), ("toy_a", "host")]
    )
    assert_same_numbers(mod, plan)


def test_a_tiny_operator_between_stays_with_its_neighbours_unless_copies_are_cheap(backend):
    backend("toy_a", ["abs", "exp", "tanh"])
    backend("toy_b", ["abs", "exp"])
    mod = chain("abs", "tanh", "exp")
    table = {"host": {"*": 9.0, "tanh": 0.1}, "toy_a": {"*": 1.0, "tanh": 0.5}, "toy_b": {"*": 0.9}}
    near, far = (make_plan(mod, ["toy_a", "toy_b"], policy="cost", costs=Costs(table, move)) for move in (0.01, 1.0))
    assert targets(near) == ["toy_b", None, "toy_b"] and len(near.moves) == 4
    assert targets(far) == ["toy_a"] * 3 and len(far.moves) == 2


def test_overlapping_patterns_are_a_choice(backend):
    first = PatternEntry("toy_a.abs_exp", is_op("exp")(is_op("abs")(wildcard())))
    second = PatternEntry("toy_a.exp_tanh", is_op("tanh")(is_op("exp")(wildcard())))
    backend("toy_a", ["abs", "exp", "tanh"], entries=[first, second])
    mod = chain("abs", "exp", "tanh")
    prices = {"*": 1.0, "toy_a.abs_exp": 1.5, "toy_a.exp_tanh": 0.5}
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=Costs({"host": {"*": 9.0}, "toy_a": prices}))
    assert [d.operator for d in plan.decisions] == ["abs", "toy_a.exp_tanh"]
    assert [d.operator for d in make_plan(mod, ["toy_a"]).decisions] == ["toy_a.abs_exp", "tanh"]
    assert plan.regions[0].composites == ("toy_a.exp_tanh",)
    assert_same_numbers(mod, plan)


def test_a_match_that_costs_as_much_as_its_parts_is_taken_whole(backend):
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))
    backend("toy_a", ["abs", "exp"], entries=[pair])
    table = {"host": {"*": 9.0}, "toy_a": {"*": 1.0, "toy_a.pair": 2.0}}
    plan = make_plan(chain("abs", "exp", "abs", "exp"), ["toy_a"], policy="cost", costs=Costs(table))
    assert [d.operator for d in plan.decisions] == ["toy_a.pair"] * 2


def test_an_operator_that_a_target_takes_but_does_not_get_says_so(backend):
    backend("toy_a", ["abs"])
    plan = make_plan(chain("abs"), ["toy_a"], policy="cost", costs=Costs({"host": {"*": 1.0}, "toy_a": {"*": 1.0}}))
    assert plan.decisions[0].codes == ("toy_a:cost",)
    assert "instead: toy_a, 1 s" in str(plan.explain("abs_0"))


def test_neighbours_may_be_two_regions_and_limits_hold(backend):
    backend("toy_a", ["abs"], limits=Limits(max_operators=3))
    mod = chain(*["abs"] * 9)
    table = {"host": {"*": 9.0}, "toy_a": {"*": 1.0}}
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=Costs(table, 0.1, 0.1))
    assert [len(r.operators) for r in plan.regions] == [3, 3, 3]
    assert_same_numbers(mod, plan)
    assert [len(r.operators) for r in plan.sweep(max_operators=[None]).plans[0].regions] == [9]
    one = {"toy_a": Limits(max_regions=1)}
    few = make_plan(mod, ["toy_a"], policy="cost", costs=Costs(table, 0.1, 0.1), limits=one)
    assert len(few.regions) == 1


def test_min_gain_is_what_a_region_must_save(backend):
    backend("toy_a", ["abs"])
    mod = chain("abs", "tanh")
    costs = Costs({"host": {"*": 3e-5}, "toy_a": {"*": 1e-5}}, 0.0)
    found = make_plan(mod, ["toy_a"], policy="cost", costs=costs).sweep(min_gain=[0.0, 19.0, 21.0])
    assert [len(p.regions) for _, p in found] == [1, 1, 0]


def test_an_edited_plan_leaves_the_rest_where_it_is(backend):
    backend("toy_a", ["abs", "exp", "tanh"])
    mod = chain("abs", "exp", "tanh")
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=Costs({"host": {"*": 2.0}, "toy_a": {"*": 1.5}}, 0.2))
    assert targets(plan) == ["toy_a"] * 3
    assert targets(plan.edit({"exp_1": "host"})) == ["toy_a", None, "toy_a"]
    assert targets(plan.pin({"exp_1": "host"})) == ["toy_a", None, "toy_a"]
    dear = make_plan(mod, ["toy_a"], policy="cost", costs=Costs({"host": {"*": 2.0}, "toy_a": {"*": 1.5}}, 0.4))
    assert targets(dear.edit({"exp_1": "host"})) == ["toy_a", None, "toy_a"]
    assert targets(dear.pin({"exp_1": "host"})) == [None, None, None]


def test_a_plan_by_cost_survives_json_and_applies(backend):
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))
    backend("toy_a", ["abs", "exp"], entries=[pair], limits=Limits(max_operators=2))
    mod = chain("abs", "exp", "abs", "exp")
    table = {"host": {"*": 9.0}, "toy_a": {"*": 1.0, "toy_a.pair": 1.0}}
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=Costs(table, 0.1))
    again = Plan.from_json(json.dumps(plan.to_json()))
    assert again == plan
    assert again.apply(mod).astext() == plan.apply(mod).astext() and len(plan.regions) == 2
    assert_same_numbers(mod, again)
    with pytest.raises(PartitionError, match="the plan was made for another module"):
        again.apply(chain("abs", "abs", "exp", "exp"))


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, None, "3"])
def test_a_cost_that_is_no_number_names_backend_and_operator(backend, bad):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match="toy_a.*abs"):
        make_plan(chain("abs"), ["toy_a"], policy="cost", costs={"toy_a": lambda unit, place: bad})


def test_a_cost_function_that_raises_names_backend_and_operator(backend):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match="toy_a.*abs.*ZeroDivisionError"):
        make_plan(chain("abs"), ["toy_a"], policy="cost", costs={"toy_a": lambda unit, place: 1 / 0})


def test_what_no_policy_or_objective_is_called_is_refused(backend):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match="objective is one of latency, makespan, got 'speed'"):
        make_plan(chain("abs"), ["toy_a"], policy="cost", objective="speed")
    with pytest.raises(PartitionError, match="limits name the target 'toy_b', which is not asked for"):
        make_plan(chain("abs"), ["toy_a"], limits={"toy_b": Limits()})


def test_what_a_measurement_could_not_build_is_no_candidate_and_says_why(backend):
    class Measured(Costs):
        def units(self, calls, target, precision=""):
            found = super().units(calls, target, precision)
            broken = Estimate(math.inf, "measured: CompileError: no such tile")
            return [
                broken if target == "toy_a" and callee_name(c) == "abs" else e
                for c, e in zip(calls, found, strict=True)
            ]

    backend("toy_a", ["abs", "exp"])
    plan = make_plan(
        chain("abs", "exp"), ["toy_a"], policy="cost", costs=Measured({"host": {"*": 9.0}, "toy_a": {"*": 1.0}})
    )
    assert targets(plan) == [None, "toy_a"]
    assert plan.decisions[0].codes == ("toy_a:not_built",) and "no such tile" in str(plan.explain("abs_0"))


def test_a_backend_with_several_places_is_a_choice_of_precision_with_its_casts(backend):
    class Both(backend.Toy):
        def places(self):
            return ("toy_a/float/any", "toy_a/fp16/any")

    class ByPrecision(Costs):
        def units(self, calls, target, precision=""):
            found = super().units(calls, target, precision)
            return [Estimate(e.seconds * (0.25 if precision == "fp16" else 1.0), e.source) for e in found]

    backend("toy_a", ["abs", "exp", "cast"], kind=Both)
    mod = chain("abs", "exp", "abs", "tanh")
    table = {"host": {"*": 9.0, "cast": 0.1}, "toy_a": {"*": 1.0, "cast": 0.1}}
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=ByPrecision(table, 0.1))
    assert [d.operator for d in plan.decisions].count("cast") == 2 and len(plan.regions) == 1
    assert {d.chosen for d in plan.decisions if d.operator in ("abs", "exp")} == {"toy_a/fp16/any"}
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(evaluate(mod, [x]), evaluate(plan.apply(mod), [x]), rtol=5e-3)
    again = Plan.from_json(json.dumps(plan.to_json()))
    assert again.apply(mod).astext() == plan.apply(mod).astext()
    dear = ByPrecision({"host": {"*": 9.0, "cast": 9.0}, "toy_a": {"*": 1.0, "cast": 9.0}}, 0.1)
    exact = make_plan(mod, ["toy_a"], policy="cost", costs=dear)
    assert {d.chosen for d in exact.decisions if d.target} == {"toy_a/float/any"} and not exact.places


@pytest.mark.parametrize(
    "limit, code",
    [
        ({"max_regions": 0}, "max_regions"),
        ({"max_regions": 1}, "max_regions"),
        ({"min_operators": 2}, "min_operators"),
        ({"min_gain": 5e6}, "min_gain"),
        ({"max_bytes": 1}, "max_bytes"),
        ({"max_operators": 0}, "max_operators"),
    ],
)
def test_what_a_limit_keeps_at_home_names_it_and_what_is_dearer_does_not(backend, limit, code):
    backend("toy_a", ["abs", "exp", "tanh"])
    table = {"host": {"*": 1.0, "tanh": 0.01}, "toy_a": {"*": 0.1, "tanh": 5.0}}
    mod = chain("abs", "tanh", "exp")
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=Costs(table, 0.1), limits={"toy_a": Limits(**limit)})
    codes = [d.codes for d in plan.decisions]
    assert codes[1] == ("toy_a:cost",) or code in ("max_bytes", "max_operators")
    assert [c for c in (codes[0], codes[2]) if c] == [(f"toy_a:{code}",)] * (1 if limit == {"max_regions": 1} else 2)


def test_a_limit_on_regions_holds_over_all_places_of_a_backend(backend):
    class Places(backend.Toy):
        def places(self):
            return ("toy_a/fp16/NCHW", "toy_a/float/NCHW")

    class ByPlace(Costs):
        def units(self, calls, target, precision=""):
            def seconds(name):
                if target == "host" or name == "cast":
                    return 10.0 if target == "host" and name != "cast" else 1e-9
                return 1e-9 if (name == "abs") == (precision == "fp16") else 1.0

            return [Estimate(seconds(callee_name(c)), "test") for c in calls]

    backend("toy_a", ["abs", "exp", "cast"], kind=Places, limits=Limits(max_regions=1))
    mod = chain("abs", "tanh", "exp")
    free = make_plan(mod, ["toy_a"], policy="cost", costs=ByPlace({}, 1e-6), limits={"toy_a": Limits()})
    assert {d.chosen for d in free.decisions if d.operator in ("abs", "exp")} == set(Places.places(None))
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=ByPlace({}, 1e-6))
    assert len(free.regions) == 2 and len(plan.regions) == 1 and plan.total.gap == 0


def test_a_match_that_would_wait_for_itself_stays_in_its_operators(backend):
    """The sigmoid reads the product that the match would hide."""
    silu = PatternEntry("toy_a.dense_mul", is_op("multiply")(is_op("nn.dense")(wildcard(), wildcard()), wildcard()))
    backend("toy_a", ["nn.dense", "sigmoid", "multiply"], entries=[silu])
    x, weight = relay.var("x", shape=(2, 3)), relay.const(np.eye(3, dtype="float32"))
    product = op.nn.dense(x, weight)
    mod = relay.IRModule.from_expr(op.multiply(product, op.sigmoid(product)))
    table = {"host": {"*": 9.0}, "toy_a": {"*": 1.0, "toy_a.dense_mul": 0.5}}
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=Costs(table))
    assert [d.operator for d in plan.decisions] == ["nn.dense", "sigmoid", "multiply"] and len(plan.regions) == 1
    assert_same_numbers(mod, plan)


def test_a_makespan_with_matches_is_that_of_its_jobs(backend):
    """The host's part takes longest: a match on the other device makes nothing shorter."""
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))
    backend("toy_a", ["abs", "exp"], entries=[pair])
    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule.from_expr(relay.Tuple([op.exp(op.abs(x)), op.tanh(op.tanh(x))]))
    table = {"host": {"*": 6.0, "abs": 20.0, "exp": 20.0}, "toy_a": {"*": 5.0, "toy_a.pair": 1.0}}
    plan = make_plan(mod, ["toy_a"], policy="cost", costs=Costs(table, 0.0), objective="makespan")
    assert "toy_a.pair" in [d.operator for d in plan.decisions]
    assert plan.total.seconds == plan.total.bound == 12.0


@pytest.mark.parametrize("policy", ["order", "score", "cost"])
def test_no_region_spans_an_if(backend, policy):
    backend("toy_a", ["abs", "exp", "add"], limits=Limits(max_operators=5))
    x, flag = relay.var("x", shape=(2, 3)), relay.var("flag", shape=(), dtype="bool")
    first = op.abs(x)
    chosen = relay.If(flag, op.exp(first), op.tanh(first))
    mod = relay.IRModule.from_expr(relay.Function([x, flag], op.add(chosen, first)))
    plan = make_plan(mod, ["toy_a"], policy=policy, costs=Costs({"host": {"*": 9.0}, "toy_a": {"*": 1.0}}, 0.1))
    regions = {d.operator: d.region for d in plan.decisions}
    assert regions["abs"] is not None and regions["add"] not in (None, regions["abs"])
    value = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    for which in (True, False):
        inputs = [value, np.array(which)]
        np.testing.assert_array_equal(evaluate(mod, inputs), evaluate(plan.apply(mod), inputs))
