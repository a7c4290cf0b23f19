"""Layouts that backends ask for are honoured by every policy: transforms are inserted, inverse ones cancel."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.contract import Backend, Limits, PatternEntry, callee_name, constraint, judge
from byoc.partition.plan.planner import make_plan
from byoc.partition.policy import by_cost
from byoc.relay.bind import bind
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.interpreter import evaluate


def network(shape=(1, 3, 12, 12), branches=1):
    """Two convolutions with relu behind each other, the first of which *branches* others read."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=shape)

    def conv(data, channels, out):
        weight = relay.const(rng.standard_normal((out, channels, 3, 3)).astype("float32"))
        return relay.nn.relu(relay.nn.conv2d(data, weight, padding=(1, 1), channels=out, kernel_size=(3, 3)))

    first = conv(x, shape[1], 4)
    ends = [conv(first, 4, 4) for _ in range(branches)]
    body = ends[0]
    for end in ends[1:]:
        body = relay.add(body, end)
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], relay.exp(body))))


class Taking(Backend):
    """Takes *taken*, at places or under a constraint that want channels innermost."""

    def __init__(self, name, taken, places=(), constraints=(), rows=()):
        self.name, self.taken, self.rows, self.own = name, taken, rows, constraints
        self.at = places or (f"{name}/any/any",)

    def compile(self, function, options):
        raise AssertionError("nothing is compiled here")

    def places(self):
        return self.at

    def patterns(self):
        return self.rows

    def supports(self, call):
        @constraint("operator")
        def known(asked):
            """what it takes"""
            return None if callee_name(asked) in self.taken else callee_name(asked)

        return judge(call, (known, *self.own))


@constraint("layout", of="nn.conv2d")
def channels_last_only(call):
    """layout NHWC"""
    return None if call.attrs.data_layout == "NHWC" else call.attrs.data_layout


NOT_MADE = "asks asks for layout NHWC and is given the model's: "
CONVOLUTIONS = ("nn.conv2d", "nn.relu")


def transforms(mod):
    return mod["main"].astext(show_meta_data=False).count("layout_transform(")


def regions(mod, name):
    return [f for f in mod.functions.values() if f.attrs.get("Compiler") == name]


def convolutions(function):
    return str(function).count("nn.conv2d("), str(function).count('data_layout="NHWC"')


@pytest.mark.parametrize("policy", ["order", "score"])
def test_a_backends_only_place_is_honoured(backend, policy):
    backend("last", CONVOLUTIONS, ("last/float/NHWC",), kind=Taking)
    mod = network()
    plan = make_plan(mod, ["last"], policy=policy)
    cut = plan.apply(mod)
    found = regions(cut, "last")
    assert [convolutions(f) for f in found] == [(2, 2)]
    assert transforms(cut) == 2 or policy == "score"


def test_transforms_stand_at_the_ends_alone_and_numbers_stay(backend):
    backend("last", CONVOLUTIONS, ("last/float/NHWC",), kind=Taking)
    mod = network(branches=3)
    plan = make_plan(mod, ["last"])
    cut = plan.apply(mod)
    assert transforms(cut) == 2  # one for the input, one behind the sum of the branches
    data = np.random.default_rng(1).standard_normal((1, 3, 12, 12)).astype("float32")
    np.testing.assert_allclose(evaluate(cut, [data]), evaluate(mod, [data]), rtol=1e-4, atol=1e-4)


def test_a_constraint_on_layout_is_honoured(backend):
    backend("asks", CONVOLUTIONS, (), (channels_last_only,), kind=Taking)
    mod = network()
    cut = make_plan(mod, ["asks"]).apply(mod)
    assert [convolutions(f) for f in regions(cut, "asks")] == [(2, 2)]


def test_a_constraint_on_layout_is_asked_about_composites_too(backend):
    pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
    rows = [PatternEntry("asks.conv2d_relu", pattern, (channels_last_only,))]
    backend("asks", ("asks.conv2d_relu",), ("asks/float/NHWC",), (), rows, kind=Taking)
    mod = network()
    plan = make_plan(mod, ["asks"])
    assert [d.operator for d in plan.decisions if d.target] == ["asks.conv2d_relu"] * 2


@pytest.mark.parametrize("policy", ["order", "score", "cost"])
def test_a_layout_that_nobody_uses_in_the_end_is_not_made(backend, policy):
    """What limits or costs leave to the host is computed there in the layout of the model."""
    backend("asks", CONVOLUTIONS, (), (channels_last_only,), kind=Taking)
    mod = network()
    settings = {
        "order": {"limits": {"asks": Limits(min_operators=99)}},
        "score": {"limits": {"asks": Limits(min_operators=99)}},
        "cost": {"costs": lambda unit, place: 1.0 if place.target == "asks" else 1e-6},
    }
    plan = make_plan(mod, ["asks"], policy=policy, **settings[policy])
    assert {d.target for d in plan.decisions} == {None} and plan.layouts == ()
    assert transforms(plan.apply(mod)) == 0
    assert f"{NOT_MADE}no operator that needs it is in a region in the end" in plan.notes


def conv(data, layout):
    """A convolution of 3 channels."""
    weight = relay.const(np.random.default_rng(2).standard_normal((3, 3, 3, 3)).astype("float32"))
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    options = {"data_layout": layout, "kernel_layout": kernel, "channels": 3, "kernel_size": (3, 3)}
    return relay.nn.conv2d(data, weight, padding=(1, 1), **options)


def alone(data):
    """A convolution between operators that nobody takes but the host."""
    return relay.abs(conv(data, "NCHW"))


def partly(kind):
    """A convolution in the model's layout that is alone, and others of the backend's operators, by *kind*."""
    x, y = relay.var("x", shape=(1, 3, 8, 8)), relay.var("y", shape=(1, 8, 8, 3))
    other = {
        "pointwise": lambda: relay.tanh(relay.exp(relay.abs(y))),
        "its own layout": lambda: relay.tanh(relay.exp(conv(y, "NHWC"))),
        "turned too": lambda: relay.tanh(relay.exp(conv(relay.negative(x), "NCHW"))),
    }[kind]()
    func = relay.Function([x, y], relay.Tuple([alone(x), other]))
    return relay.transform.InferType()(byoc.IRModule.from_expr(func))


@pytest.mark.parametrize("kind", ["pointwise", "its own layout", "turned too"])
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("policy", ["order", "score"])
def test_a_layout_is_used_by_a_turned_call_in_a_region_and_by_no_other(backend, policy, rows, kind):
    """Limits leave the convolution that stands alone to the host; the others have their region."""
    entries = [PatternEntry("asks.exp_tanh", is_op("tanh")(is_op("exp")(wildcard())))] if rows else []
    taken = ("nn.conv2d", "exp", "tanh", "asks.exp_tanh")
    backend("asks", taken, (), (channels_last_only,), entries, kind=Taking)
    mod = partly(kind)
    plan = make_plan(mod, ["asks"], policy=policy, limits={"asks": Limits(min_operators=2)})
    in_regions = {n for d in plan.decisions if d.target == "asks" for n in (d.inside or (d.operator,))}
    assert in_regions == {"exp", "tanh"} | ({"nn.conv2d"} if kind != "pointwise" else set())
    assert bool(plan.layouts) == (kind == "turned too")
    cut = plan.apply(mod)
    assert (transforms(cut) == 0) == (kind != "turned too")
    rng = np.random.default_rng(1)
    data = [rng.standard_normal(shape).astype("float32") for shape in ((1, 3, 8, 8), (1, 8, 8, 3))]
    for got, wanted in zip(evaluate(cut, data), evaluate(mod, data), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chained, used", [(1, False), (2, True)])
@pytest.mark.parametrize("places", [(), ("asks/fp16/any",)])
@pytest.mark.parametrize("policy", ["order", "score"])
def test_which_of_two_alike_is_in_a_region_is_known(backend, policy, places, chained, used):
    """Both are convolutions of one shape: one stands alone, the other may be in a region that is large enough."""
    backend("asks", ("nn.conv2d",), places, (channels_last_only,), kind=Taking)
    x = relay.var("x", shape=(1, 3, 8, 8))
    other = relay.negative(x)
    for _ in range(chained):
        other = conv(other, "NCHW")
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], relay.Tuple([alone(x), other]))))
    plan = make_plan(mod, ["asks"], policy=policy, limits={"asks": Limits(min_operators=2)})
    assert bool(plan.layouts) == used
    assert {d.target for d in plan.decisions if d.operator == "nn.conv2d"} == ({None, "asks"} if used else {None})


@pytest.mark.parametrize("seconds, layouts", [(0.1, 2), (2.9, 0)])
def test_by_cost_a_layout_is_made_where_it_pays_with_its_transforms(backend, seconds, layouts):
    """The backend saves something of each convolution: more than what both transforms take, or less."""
    backend("asks", ("nn.conv2d",), (), (channels_last_only,), kind=Taking)

    def on_the_host(unit, place):
        return 3.0 if unit.op.name == "nn.conv2d" else 1.0

    mod = network()
    costs = {"host": on_the_host, "asks": lambda unit, place: seconds}
    plan = make_plan(mod, ["asks"], policy="cost", costs=costs)
    assert transforms(plan.apply(mod)) == layouts
    assert len([d for d in plan.decisions if d.target == "asks"]) == layouts
    notes = [note for note in plan.notes if "layout" in note]
    assert [note.startswith(NOT_MADE) for note in notes] == ([] if layouts else [True])


def test_by_cost_the_plans_of_both_layouts_share_the_time(backend, monkeypatch):
    backend("asks", ("nn.conv2d",), (), (channels_last_only,), kind=Taking)
    given, solve = [], by_cost.solve

    def recorded(problem, **options):
        given.append(options["time_limit"])
        return solve(problem, **options)

    monkeypatch.setattr(by_cost, "solve", recorded)
    costs = {"host": lambda unit, place: 1.0, "asks": lambda unit, place: 1e-3}
    mod = network()
    plan = make_plan(mod, ["asks"], policy="cost", costs=costs, time_limit=8.0)
    assert len(given) == 2 and given[0] == 4.0 and 4.0 <= given[1] < 8.0
    plan.edit({"exp": "host"})
    assert given[2] == 8.0


def test_weights_are_turned_when_compiling(backend):
    backend("last", CONVOLUTIONS, ("last/float/NHWC",), kind=Taking)
    mod = network()
    cut = make_plan(mod, ["last"]).apply(mod)
    assert "transpose(" not in "".join(str(f) for f in cut.functions.values())


def test_a_transform_of_the_model_and_its_inverse_cancel(backend):
    backend("last", CONVOLUTIONS, ("last/float/NHWC",), kind=Taking)
    inner = network()["main"]
    x = relay.var("x", shape=(1, 12, 12, 3))
    turned = relay.transpose(x, (0, 3, 1, 2))
    body = bind(inner.body, {inner.params[0]: turned})
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], body)))
    cut = make_plan(mod, ["last"]).apply(mod)
    text = cut["main"].astext(show_meta_data=False)
    first = text[: text.index("@tvmgen")]
    assert "transpose(" not in first
    assert "layout_transform(" not in first


def test_who_asks_for_nothing_gets_the_model_as_it_is(backend):
    backend("plain", CONVOLUTIONS, kind=Taking)
    mod = network()
    plan = make_plan(mod, ["plain"])
    assert plan.layouts == ()
    assert transforms(plan.apply(mod)) == 0


def test_the_first_target_that_takes_a_call_decides_its_layout(backend):
    backend("plain", ("nn.conv2d",), kind=Taking)
    backend("last", CONVOLUTIONS, ("last/float/NHWC",), kind=Taking)
    mod = network()
    cut = make_plan(mod, ["plain", "last"]).apply(mod)
    assert [convolutions(f) for f in regions(cut, "plain")] == [(1, 0)] * 2
    cut = make_plan(mod, ["last", "plain"]).apply(mod)
    assert [convolutions(f) for f in regions(cut, "last")] == [(2, 2)]


def test_a_plan_that_is_made_again_keeps_its_layouts(backend):
    backend("last", CONVOLUTIONS, ("last/float/NHWC",), kind=Taking)
    mod = network()
    plan = make_plan(mod, ["last"])
    again = plan.edit({"exp": "host"})
    assert again.layouts == plan.layouts
    assert transforms(again.apply(mod)) == 2
    read = type(plan).from_json(plan.to_json())
    assert str(read.apply(mod)["main"]) == str(plan.apply(mod)["main"])
