"""The policy ``score`` over a module: the first wish that has a kernel, the host behind all, every row explained."""

import json

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.backend import Limits
from byoc.errors import PartitionError
from byoc.partition import Plan, make_plan
from byoc.relay import op
from byoc.relay.interpreter import evaluate


def chain(*names):
    expr = relay.var("x", shape=(2, 3))
    for k, name in enumerate(names):
        expr = getattr(op, name)(expr)
        expr.span = relay.Span.named(f"{name}_{k}")
    return relay.IRModule.from_expr(expr)


def targets(plan):
    return [d.target for d in plan.decisions]


@pytest.mark.parametrize("formula", ["code", "document"])
def test_A3_the_first_wish_wins_and_what_it_cannot_do_lands_on_the_host(backend, formula):
    backend("toy_a", ["abs", "exp"])
    backend("toy_b", ["abs", "tanh"])
    mod = chain("abs", "tanh", "sin", "exp")
    plan = make_plan(mod, ["toy_a", "toy_b"], policy="score", formula=formula)
    assert targets(plan) == ["toy_a", "toy_b", None, "toy_a"]
    assert plan.decisions[2].codes == ("toy_a:operator", "toy_b:operator")
    told = str(plan.explain("sin_2"))
    assert "no toy_a kernel for sin: only abs, exp, got sin" in told
    assert plan.decisions[0].verdicts[1][1].reasons[0].code == "score"
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(evaluate(mod, [x]), evaluate(plan.apply(mod), [x]))
    again = Plan.from_json(json.dumps(plan.to_json()))
    assert again == plan and again.apply(mod).astext() == plan.apply(mod).astext()


def test_A3_an_ordered_wish_is_followed_and_one_without_a_host_names_what_nobody_runs(backend):
    backend("toy_a", ["abs"])
    backend("toy_b", ["abs"])
    mod = chain("abs")
    both = ["toy_a", "toy_b"]
    assert targets(make_plan(mod, both, policy="score", valid_places=["toy_b", "toy_a", "host"])) == ["toy_b"]
    assert targets(make_plan(mod, both, policy="score", valid_places=["host", "toy_a"])) == [None]
    with pytest.raises(PartitionError, match="sin"):
        make_plan(chain("sin"), both, policy="score", valid_places=["toy_b", "toy_a"])
    with pytest.raises(PartitionError, match="nobody has a kernel for place"):
        make_plan(mod, both, policy="score", valid_places=["opencl", "host"])


def test_limits_and_edits_hold_under_the_score_too(backend):
    backend("toy_a", ["abs"], limits=Limits(min_operators=2))
    mod = chain("abs", "sin", "abs", "abs")
    plan = make_plan(mod, ["toy_a"], policy="score")
    assert targets(plan) == [None, None, "toy_a", "toy_a"]
    assert targets(plan.edit({"abs_3": "host"})) == [None] * 4
