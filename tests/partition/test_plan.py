"""The Plan: decisions, reasons, limits, exclusions, JSON, table and picture."""

import itertools
import json
import xml.dom.minidom

import numpy as np
import pytest

from byoc import relay
from byoc.contract import Limits, PatternEntry
from byoc.errors import PartitionError
from byoc.partition import Plan, make_plan, to_dot, to_svg
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.expr import Call
from byoc.relay.interpreter import evaluate


def named(expr: Call, name: str) -> Call:
    expr.span = relay.Span.named(name)
    return expr


def chain(*names: str):
    expr = relay.var("x", shape=(2, 3))
    for k, name in enumerate(names):
        expr = named(getattr(op, name)(expr), f"{name}_{k}")
    return relay.IRModule.from_expr(expr)


def assert_same_numbers(mod, cut):
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(evaluate(mod, [x]), evaluate(cut, [x]))


def test_a_plan_says_what_goes_where_and_what_it_moves(backend):
    backend("toy_a", ["abs", "exp"])
    mod = chain("abs", "exp", "tanh")
    plan = make_plan(mod, ["toy_a"])
    (region,) = plan.regions
    assert (region.symbol, region.target) == ("tvmgen_default_toy_a_main_0", "toy_a")
    assert (region.operators, region.nodes) == (("abs", "exp"), ("abs_0", "exp_1"))
    assert (region.input_bytes, region.output_bytes, region.constant_bytes) == (24, 24, 0)
    assert region.operations > 0 and not region.dynamic
    cut = plan.apply(mod)
    assert region.symbol in cut
    assert_same_numbers(mod, cut)


def test_an_operator_on_the_host_has_the_reason_of_each_target(backend):
    backend("toy_a", ["abs"])
    backend("toy_b", ["exp"])
    plan = make_plan(chain("tanh"), ["toy_a", "toy_b"])
    assert plan.host_reasons() == [("tanh", ("tanh_0",), ("toy_a: only abs, got tanh", "toy_b: only exp, got tanh"))]
    assert "tanh (tanh_0)\n    toy_a: only abs, got tanh\n    toy_b: only exp, got tanh" in str(plan)


def test_the_order_of_the_targets_is_their_priority(backend):
    backend("toy_a", ["abs"])
    backend("toy_b", ["abs"])
    for targets in (["toy_a", "toy_b"], ["toy_b", "toy_a"]):
        assert make_plan(chain("abs"), targets).regions[0].target == targets[0]


def test_composites_are_formed_and_those_a_backend_refuses_are_taken_apart(backend):
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))
    toy = backend("toy_a", ["abs"], entries=[pair])
    mod = chain("abs", "exp")
    plan = make_plan(mod, ["toy_a"])
    assert plan.regions[0].composites == ("toy_a.pair",)
    assert_same_numbers(mod, plan.apply(mod))
    toy.supports = lambda call: getattr(call.op, "name", "") == "abs"
    plan = make_plan(mod, ["toy_a"])
    assert plan.regions[0].operators == ("abs",) and plan.regions[0].composites == ()
    assert_same_numbers(mod, Plan.from_json(json.dumps(plan.to_json())).apply(mod))


def test_an_operator_is_explained_where_it_stands_in_composites_alone(backend):
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))
    backend("toy_a", ["abs"], entries=[pair])
    plan = make_plan(chain("abs", "exp", "tanh"), ["toy_a"])
    for read in (plan, Plan.from_json(json.dumps(plan.to_json()))):
        found = read.explain("abs")
        assert found.decisions == plan.explain("toy_a.pair").decisions == plan.explain("ab*").decisions
        shown = str(found).splitlines()
        assert shown[0].startswith("toy_a.pair (abs_0, exp_1): toy_a, region ")
        assert shown[1] == "  a composite of abs, exp"
        assert "composite" not in str(read.explain("tanh"))
    with pytest.raises(PartitionError, match="'abss'; the nearest: abs"):
        plan.explain("abss")


def test_an_excluded_node_stays_on_the_host_even_out_of_a_composite(backend):
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))
    backend("toy_a", ["abs", "exp"], entries=[pair])
    mod = chain("abs", "exp")
    plan = make_plan(mod, ["toy_a"], exclude=["exp_1"])
    assert [d.target for d in plan.decisions] == ["toy_a", None]
    assert plan.host_reasons() == [("exp", ("exp_1",), ("toy_a: the user excluded it",))]
    assert make_plan(mod, ["toy_a"], exclude=["abs", "exp"]).regions == ()


def test_an_exclusion_that_means_nothing_names_the_nearest(backend):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match="no operator or ONNX node of the model is called 'abs_1'.*abs_0"):
        make_plan(chain("abs"), ["toy_a"], exclude=["abs_1"])


@pytest.mark.parametrize(
    "limits, sizes, reason",
    [
        (Limits(min_operators=2), [3], "a region has at least 2 operators, got 1"),
        (Limits(max_operators=2), [1, 1, 2], None),
        (Limits(max_regions=1), [3], "at most 1 regions of toy_a, by operations, got 2"),
    ],
)
def test_the_limits_of_a_backend_hold_and_what_they_drop_is_reported(backend, limits, sizes, reason):
    backend("toy_a", ["abs"], limits=limits)
    mod = chain("abs", "tanh", "abs", "abs", "abs")
    plan = make_plan(mod, ["toy_a"])
    assert [len(r.operators) for r in plan.regions] == sizes
    shown = [sentence for _, _, why in plan.host_reasons() for sentence in why]
    assert reason is None or f"toy_a: {reason}" in shown
    assert_same_numbers(mod, plan.apply(mod))


def test_a_backend_that_fails_when_asked_has_refused(backend):
    toy = backend("toy_a", ["abs"])
    toy.supports = lambda call: 1 // 0
    ((_, _, why),) = make_plan(chain("abs"), ["toy_a"]).host_reasons()
    (sentence,) = why
    wanted = (
        "toy_a: the backend failed when asked: ZeroDivisionError: integer division or modulo by zero (test_plan.py:"
    )
    assert sentence.startswith(wanted)


def test_a_check_that_raises_is_a_note(backend):
    entry = PatternEntry("toy_a.x", is_op("abs")(wildcard()), lambda root: root.nothing)
    backend("toy_a", ["abs"], entries=[entry])
    plan = make_plan(chain("abs"), ["toy_a"])
    assert len(plan.notes) == 1 and "toy_a.x" in plan.notes[0] and "AttributeError" in str(plan)


def test_json_gives_the_same_plan_and_the_same_cut(backend):
    backend("toy_a", ["abs", "exp"], limits=Limits(max_operators=1))
    mod = chain("abs", "exp", "tanh")
    plan = make_plan(mod, ["toy_a"])
    again = Plan.from_json(json.dumps(plan.to_json()))
    assert again == plan and str(again) == str(plan)
    assert relay.structural.structural_equal(again.apply(mod), plan.apply(mod))


@pytest.mark.parametrize("text", ["nonsense", "{}", "[]", '{"version": 99}', '{"version": 1, "policy": 3}'])
def test_damaged_json_is_refused_in_one_sentence(text):
    with pytest.raises(PartitionError, match="plan"):
        Plan.from_json(text)


def test_a_plan_of_another_module_is_refused(backend):
    backend("toy_a", ["abs"])
    plan = make_plan(chain("abs", "tanh"), ["toy_a"])
    with pytest.raises(PartitionError, match="another module: operator 1 is exp, the plan has tanh"):
        plan.apply(chain("abs", "exp"))


def test_wrong_targets_and_policies_are_named(backend):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match="no backend is called 'nothing'"):
        make_plan(chain("abs"), ["nothing"])
    with pytest.raises(PartitionError, match="named twice"):
        make_plan(chain("abs"), ["toy_a", "toy_a"])
    with pytest.raises(PartitionError, match="policy is one of order, score, cost, got 'best'"):
        make_plan(chain("abs"), ["toy_a"], policy="best")


def test_a_backend_optimises_its_regions_when_they_are_outlined(backend):
    class Negating(type(backend("toy_b", []))):
        def optimize(self, region):
            return relay.Function(region.params, op.negative(region.body))

    backend("toy_a", ["abs"], kind=Negating)
    cut = make_plan(chain("abs"), ["toy_a"]).apply(chain("abs"))
    assert cut["tvmgen_default_toy_a_main_0"].body.op.name == "negative"


def test_dynamic_sizes_count_as_one_and_are_marked(backend):
    backend("toy_a", ["abs"])
    x = relay.var("x", relay.TensorType((relay.Any("N"), 3)))
    plan = make_plan(relay.IRModule.from_expr(op.abs(x)), ["toy_a"])
    assert plan.regions[0].input_bytes == 12 and plan.regions[0].dynamic
    assert "12*" in str(plan) and "count as 1" in str(plan)


def test_the_picture_is_well_formed_coloured_and_the_same_every_time(backend):
    backend("toy_a", ["abs"])
    mod = chain("abs", "tanh", "abs")
    mod["main"].body.span = relay.Span.named('<evil> & "name"\n\x00' + "é" * 60)
    plan = make_plan(mod, ["toy_a"])
    svg, dot = to_svg(mod, plan), to_dot(mod, plan)
    root = xml.dom.minidom.parseString(svg)
    assert len(root.getElementsByTagName("g")) == 4 and len(root.getElementsByTagName("path")) == 1 + 3
    assert "#cfe8ff" in svg and "&lt;evil&gt; &amp;" in svg
    assert dot.count("subgraph") == 2 and dot.count("->") == 3 and '\\"name\\"' in dot
    assert (svg, dot) == (to_svg(mod, plan), to_dot(mod, plan))


def test_boxes_of_a_large_picture_do_not_overlap(backend):
    backend("toy_a", ["abs"])
    values = [relay.var("x", shape=(2,))]
    for k in range(250):
        values.append(op.abs(values[-1]) if k % 3 else op.add(values[-1], values[k // 2]))
    mod = relay.IRModule.from_expr(values[-1])
    root = xml.dom.minidom.parseString(to_svg(mod, make_plan(mod, ["toy_a"])))
    corners = [
        (int(r.getAttribute("x")), int(r.getAttribute("y")))
        for g in root.getElementsByTagName("g")
        for r in g.getElementsByTagName("rect")
    ]
    assert len(set(corners)) == len(corners) == 251
    rows = sorted(corners, key=lambda corner: corner[::-1])
    for (x1, y1), (x2, y2) in itertools.pairwise(rows):
        assert y1 != y2 or x2 - x1 >= 172


def test_regions_know_their_calls_where_operators_have_no_node_or_share_one(backend):
    backend("toy_a", ["abs", "exp"])
    expr = relay.var("x", shape=(2, 3))
    for name in ("abs", "exp", "tanh", "exp", "abs"):
        expr = getattr(op, name)(expr)
        expr = named(expr, "shared") if name == "exp" else expr
    plan = make_plan(relay.IRModule.from_expr(expr), ["toy_a"])
    first, second = (region.symbol for region in plan.regions)
    assert plan.symbols() == (first, first, "", second, second)
    assert plan.explain("shared").symbols == (first, second)
    assert Plan.from_json(json.dumps(plan.to_json())).symbols() == plan.symbols()


def test_regions_know_their_calls_in_every_function(backend):
    backend("toy_a", ["abs"])
    mod = chain("abs", "tanh", "abs")
    mod[relay.GlobalVar("other")] = chain("tanh", "abs")["main"]
    plan = make_plan(mod, ["toy_a"])
    assert [region.calls for region in plan.regions] == [(0,), (2,), (4,)]
    assert {plan.decisions[number].target for region in plan.regions for number in region.calls} == {"toy_a"}


@pytest.mark.parametrize(
    "change, wanted",
    [
        ({"target": "toy_b"}, "decision 0 .abs. is on 'toy_b', which is none of its targets: toy_a"),
        ({"target": 5}, r"decisions\[0\].target is 5, expected a text or null"),
        ({"region": "first"}, r"decisions\[0\].region is 'first', expected a whole number from 0 or null"),
        ({"target": None, "region": 0}, "decision 0 .abs. is on the host and in region 0"),
    ],
)
def test_a_plan_whose_decisions_mean_nothing_is_damaged(backend, change, wanted):
    backend("toy_a", ["abs"])
    data = make_plan(chain("abs"), ["toy_a"]).to_json()
    data["decisions"][0].update(change)
    with pytest.raises(PartitionError, match=f"damaged: {wanted}"):
        Plan.from_json(data)


def test_a_file_that_puts_an_operator_where_nobody_takes_it_is_refused_when_it_is_used(backend):
    backend("toy_a", ["abs"])
    backend("toy_b", ["abs"])
    data = make_plan(chain("abs", "tanh"), ["toy_a", "toy_b"]).to_json()
    data["decisions"][0].update(target="toy_b")  # where priority alone was against it
    assert Plan.from_json(data).annotate(chain("abs", "tanh"))
    data["decisions"][1].update(target="toy_a")
    with pytest.raises(
        PartitionError,
        match=(
            r"^the plan has operator 1 on toy_a, which does not take it: tanh: only abs, got tanh \(node tanh_1\); make"
        ),
    ):
        Plan.from_json(data).apply(chain("abs", "tanh"))


def test_a_plan_of_endless_brackets_is_no_json():
    with pytest.raises(PartitionError, match="must be JSON"):
        Plan.from_json("[" * 100_000)
