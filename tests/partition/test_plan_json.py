"""The JSON of a plan: what is of another type than it should be is refused with its place, whatever it is."""

import contextlib
import copy
import json

import pytest

from byoc import relay
from byoc.contract import Limits, PatternEntry
from byoc.errors import PartitionError
from byoc.partition import Plan, make_plan
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, wildcard

VALUES = (None, True, 5, -1, 1.5, "x", [], [5], ["x"], {}, {"a": 5}, [{"a": 1}])
MAY_BE_NULL = ("target", "region", "seconds", "total", "bound", "gap", "max_operators", "max_bytes", "max_regions")


def chain(*names):
    expr = relay.var("x", shape=(2, relay.Any("N")))
    for k, name in enumerate(names):
        expr = getattr(op, name)(expr)
        expr.span = relay.Span.named(f"{name}_{k}")
    return relay.IRModule.from_expr(expr)


@pytest.fixture
def made(backend):
    """A plan by cost of ``chain("abs", "exp", "tanh", "abs")``."""
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())), lambda call: True)
    backend("toy_a", ["abs", "exp"], entries=[pair])
    prices = {"toy_a": lambda unit, place: 1e-9, "host": lambda unit, place: 1.0}
    return make_plan(
        chain("abs", "exp", "tanh", "abs"),
        ["toy_a"],
        policy="cost",
        costs=prices,
        limits={"toy_a": Limits(max_operators=4)},
        exclude=["abs_3"],
    ).with_measured({"total": 1.5})


@pytest.fixture
def plan(made):
    """A plan with something in each of its fields."""
    data = made.to_json()
    data.update(dissolved={"toy_a": [1]}, notes=["a note"], places=["host/any/any"], preferred=True)
    data["decisions"][0]["verdicts"][0]["matches"] = [
        {"code": "a", "text": "b", "actual": "c", "at": "d", "pattern": "e"}
    ]
    data["decisions"][0].update(precision="bf16", precision_reason="slow", chosen="toy_a/any/any", detail="rows")
    assert all(data[name] for name in ("regions", "composites", "moves", "total"))
    return Plan.from_json(json.dumps(data))


def places(data, path=()):
    """The path of every value inside *data* with the value, the inner ones after what they are in."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, key), value
        yield from places(value, (*path, key))


def changed(data, path, value):
    copied = copy.deepcopy(data)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copied


def kind(value):
    """Numbers are of one kind where they may be counts of something or seconds."""
    return "number" if type(value) in (int, float) else type(value)


def test_every_value_of_another_type_is_refused_or_means_nothing(plan):
    data = json.loads(json.dumps(plan.to_json()))
    refused = 0
    for path, inside in places(data):
        for value in VALUES:
            of_its_type = kind(value) == kind(inside) or (path[-1] in MAY_BE_NULL and None in (value, inside))
            if of_its_type or (path[-2:-1] == ("shape",) and (isinstance(value, str) or type(value) is int)):
                continue
            mutant = changed(data, path, value)
            try:
                got = Plan.from_json(mutant)
            except PartitionError as error:
                refused += 1
                assert path[0] == "version" or str(path[0]) in str(error), (path, value, str(error))
                assert "\n" not in str(error)
                continue
            assert got == plan, (path, value)
    assert refused > 1000


def test_every_plan_that_is_read_can_be_shown_and_applied_or_refused(made):
    """Values of the right type, and null where it may be, but without sense."""
    data = json.loads(json.dumps(made.to_json()))
    assert Plan.from_json(data).apply(chain("abs", "exp", "tanh", "abs"))
    for path, _ in places(data):
        for value in VALUES:
            with contextlib.suppress(PartitionError):
                got = Plan.from_json(changed(data, path, value))
                str(got), got._repr_html_(), str(got.diff(made)), str(got.explain("tanh_2"))
                got.apply(chain("abs", "exp", "tanh", "abs"))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d: d["total"].update(work="1"), "total.work is '1', expected a number$"),
        (lambda d: d["regions"][0].update(symbol=5), r"regions\[0\].symbol is 5, expected a text$"),
        (
            lambda d: d["decisions"][0]["verdicts"][0].update(accepted=1),
            r"decisions\[0\].verdicts\[0\].accepted is 1, expected true or false$",
        ),
        (
            lambda d: d["limits"]["toy_a"].update(max_operators=-1),
            "limits.toy_a.max_operators is -1, expected a whole number from 0$",
        ),
        (
            lambda d: d["limits"]["toy_a"].update(min_gain=float("nan")),
            "limits.toy_a cannot be: limit min_gain is nan: give a number from 0$",
        ),
        (lambda d: d["composites"][0].pop("row"), r"composites\[0\] lacks row$"),
        (lambda d: d["moves"][0].update(size=3), r"moves\[0\] has 'size', which is none of tensor, source, "),
        (lambda d: d.update(measured="x"), "measured is 'x', expected an object$"),
        (lambda d: d.update(total=10**400), "total is 1000.*000, expected an object or null$"),
    ],
)
def test_the_place_of_what_is_wrong_is_named(plan, change, message):
    data = json.loads(json.dumps(plan.to_json()))
    change(data)
    with pytest.raises(PartitionError, match=f"^the plan's JSON is damaged: {message}"):
        Plan.from_json(data)
