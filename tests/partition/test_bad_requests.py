"""What a plan cannot be asked for: one sentence each."""

import pytest

from byoc import relay
from byoc.contract import Limits
from byoc.errors import PartitionError, UserError
from byoc.partition import make_plan
from byoc.relay import op


@pytest.fixture
def mod():
    expr = op.exp(op.abs(relay.var("x", shape=(2, 3))))
    return relay.IRModule.from_expr(expr)


@pytest.mark.parametrize(
    "limits, message",
    [
        ({"max_operators": -1}, "^limit max_operators is -1: give a whole number from 0, or None$"),
        ({"max_operators": 1.5}, "^limit max_operators is 1.5: give a whole number from 0, or None$"),
        ({"max_regions": True}, "^limit max_regions is True: give a whole number"),
        ({"max_bytes": "10"}, "^limit max_bytes is '10': give a whole number"),
        ({"min_operators": None}, "^limit min_operators is None: give a whole number from 0$"),
        ({"min_gain": float("nan")}, "^limit min_gain is nan: give a number from 0$"),
    ],
)
def test_a_limit_that_is_no_number_from_0_is_refused_where_it_is_written(limits, message):
    with pytest.raises(PartitionError, match=message):
        Limits(**limits)


def test_limits_may_be_given_by_name(backend, mod):
    backend("toy_a", ["abs", "exp"])
    plan = make_plan(mod, ["toy_a"], limits={"toy_a": {"max_operators": 1}})
    assert plan == make_plan(mod, ["toy_a"], limits={"toy_a": Limits(max_operators=1)}) and len(plan.regions) == 2


@pytest.mark.parametrize(
    "limits, message",
    [
        ({"toy_a": {"max_operators": -1}}, "^toy_a: limit max_operators is -1: give a whole number"),
        ({"toy_a": {"size": 1}}, "^toy_a: limits are Limits.*max_operators, .*, got {'size': 1}$"),
        ({"toy_a": 3}, "^toy_a: limits are Limits.*, got 3$"),
        ([Limits()], r"^limits is Mapping\[str, Limits\] \| None, got \[Limits"),
    ],
)
def test_what_are_no_limits_of_a_target_is_refused(backend, mod, limits, message):
    backend("toy_a", ["abs"])
    with pytest.raises(UserError, match=message):
        make_plan(mod, ["toy_a"], limits=limits)


@pytest.mark.parametrize("limit", [-1, "3", None, float("nan")])
def test_a_time_limit_is_a_number_from_0(backend, mod, limit):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match=f"^time_limit is a number from 0 on, got {limit!r}$"):
        make_plan(mod, ["toy_a"], policy="cost", time_limit=limit)


@pytest.mark.parametrize("policy", ["order", "score", "cost"])
@pytest.mark.parametrize(
    "values, message",
    [
        ([-1], "^limit max_regions is -1: give a whole number from 0, or None$"),
        (["a"], "^limit max_regions is 'a': give a whole number"),
        (1, r"^sweep takes a list of values: sweep\(max_regions=\[1\]\)$"),
        ("12", r"^sweep takes a list of values: sweep\(max_regions=\['12'\]\)$"),
    ],
)
def test_a_sweep_over_what_is_no_limit_is_refused(backend, mod, policy, values, message):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match=message):
        make_plan(mod, ["toy_a"], policy=policy, costs="typical").sweep(max_regions=values)


def test_an_edit_is_a_mapping_to_targets(backend, mod):
    backend("toy_a", ["abs"])
    plan = make_plan(mod, ["toy_a"])
    with pytest.raises(PartitionError, match=r"^edit takes names with their targets, as .*, got \['abs'\]$"):
        plan.edit(["abs"])
    with pytest.raises(PartitionError, match="^edit names the target None, which is not asked for; asked: toy_a$"):
        plan.edit({"abs": None})


def test_a_name_is_a_text(backend, mod):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match="^an operator or ONNX node is named by its name, a text, got 3$"):
        make_plan(mod, ["toy_a"]).explain(3)


def test_of_what_a_backend_raises_the_text_is_reported_as_one_line(backend, mod):
    def raises(call):
        raise ValueError("no such\nkernel")

    backend("toy_a", ["abs"]).supports = raises
    plan = make_plan(mod, ["toy_a"])
    (sentence,) = plan.host_reasons()[0][2]
    assert sentence.startswith(
        "toy_a: the backend failed when asked: ValueError: no such kernel (test_bad_requests.py:"
    )
    assert "\n" not in sentence
