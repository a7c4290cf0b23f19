"""The policy ``score`` over a module: the first place that has a kernel, the host behind all, every row explained."""

import json

import numpy as np
import pytest

from byoc import relay
from byoc.contract import Limits
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
def test_the_first_wish_wins_and_what_it_cannot_do_lands_on_the_host(backend, formula):
    backend("toy_a", ["abs", "exp"])
    backend("toy_b", ["abs", "tanh"])
    mod = chain("abs", "tanh", "sin", "exp")
    plan = make_plan(mod, ["toy_a", "toy_b"], policy="score", formula=formula)
    assert targets(plan) == ["toy_a", "toy_b", None, "toy_a"]
    assert plan.decisions[2].codes == ("toy_a:operator", "toy_b:operator")
    shown = str(plan.explain("sin_2"))
    assert "no toy_a kernel for sin: only abs, exp, got sin" in shown
    assert plan.decisions[0].verdicts[1][1].reasons[0].code == "score"
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(evaluate(mod, [x]), evaluate(plan.apply(mod), [x]))
    again = Plan.from_json(json.dumps(plan.to_json()))
    assert again == plan and again.apply(mod).astext() == plan.apply(mod).astext()


def test_an_ordered_wish_is_followed_and_one_without_a_host_names_what_nobody_runs(backend):
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


def half(backend, operators):
    """A backend whose kernels compute in float16, products in NHWC."""

    class Half(backend.Toy):
        def places(self):
            return (f"{self.name}/fp16/NHWC", f"{self.name}/fp16/any")

    return backend("toy_half", operators, kind=Half)


def conv_chain():
    rng = np.random.default_rng(3)

    def conv(x, k):
        weight = relay.const(rng.standard_normal((4, 4, 3, 3)).astype("float32") / 6)
        made = op.nn.conv2d(x, weight, padding=(1, 1), kernel_size=(3, 3), channels=4)
        made.span = relay.Span.named(f"conv_{k}")
        return made

    x = relay.var("x", shape=(1, 4, 5, 5))
    first = op.nn.relu(conv(x, 0))
    return relay.IRModule.from_expr(op.tanh(op.add(conv(first, 1), first)))


def test_places_of_another_precision_and_layout_get_their_casts_and_no_more(backend):
    half(backend, ["nn.conv2d", "nn.relu", "add", "cast", "layout_transform"])
    mod = conv_chain()
    plan = make_plan(mod, ["toy_half"], policy="score")
    names = [d.operator for d in plan.decisions]
    assert names.count("nn.conv2d") == 2 and names.count("cast") == 2, "one at each end"
    assert {d.target for d in plan.decisions if d.operator not in ("tanh",)} == {"toy_half"}
    assert len(plan.regions) == 1
    assert all(d.chosen.startswith("toy_half/fp16") for d in plan.decisions if d.operator == "nn.conv2d")
    x = np.random.default_rng(0).standard_normal((1, 4, 5, 5)).astype("float32")
    want, got = evaluate(mod, [x]), evaluate(plan.apply(mod), [x])
    assert got.dtype == want.dtype and 0 < np.abs(got - want).max() < 5e-3
    again = Plan.from_json(json.dumps(plan.to_json()))
    assert again == plan and again.apply(mod).astext() == plan.apply(mod).astext()


def test_a_cast_that_no_target_takes_stays_on_the_host_with_a_code(backend):
    half(backend, ["nn.conv2d", "nn.relu", "add"])
    plan = make_plan(conv_chain(), ["toy_half"], policy="score")
    casts = [d for d in plan.decisions if d.operator in ("cast", "layout_transform")]
    assert casts and all(d.target is None and d.codes == ("toy_half:operator",) for d in casts)


def test_what_a_limit_sends_home_is_computed_there_as_it_comes(backend):
    half(backend, ["abs", "exp", "cast"])
    mod = chain("abs", "exp")
    wish = ["toy_half/fp16/any", "host"]
    assert next(d.operator for d in make_plan(mod, ["toy_half"], policy="score", valid_places=wish).decisions) == "cast"
    none = {"toy_half": Limits(max_regions=0)}
    plan = make_plan(mod, ["toy_half"], policy="score", valid_places=wish, limits=none)
    assert [(d.operator, d.target) for d in plan.decisions] == [("abs", None), ("exp", None)] and plan.places == ()
    assert all(d.codes == ("toy_half:max_regions",) for d in plan.decisions) and "dropped from" in plan.notes[0]
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(evaluate(mod, [x]), evaluate(plan.apply(mod), [x]))
