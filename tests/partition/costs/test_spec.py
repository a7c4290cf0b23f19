"""What users write for costs, and mixes of models."""

import json

import pytest

from byoc import relay
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.costs import CostModel, Estimate, UnitPlace, cost_model, total
from byoc.relay.transform import InferType


class Fixed(CostModel):
    """The same seconds for everything."""

    def __init__(self, name, seconds):
        self.name, self.seconds = name, seconds

    def units(self, calls, target, precision=""):
        return [Estimate(self.seconds, self.name) for _ in calls]

    def transfer(self, size, source, destination):
        return Estimate(self.seconds * size, self.name)

    def launch(self, target):
        return Estimate(self.seconds, self.name)


def relu_call():
    x = relay.var("x", shape=(2, 3))
    return InferType()(IRModule({"main": relay.Function([x], relay.nn.relu(x))}))["main"].body


def test_a_word_is_a_model_for_all():
    assert cost_model("analytic", ["opencl"]).name == "analytic"


def test_a_mapping_gives_each_backend_its_own_and_the_others_analytic():
    model = cost_model({"acme": Fixed("acme's", 2.0)}, ["acme"])
    assert model.unit(relu_call(), "acme") == Estimate(2.0, "acme's")
    assert model.unit(relu_call(), "host").source == "analytic"
    assert model.launch("acme").seconds == 2.0


def test_the_host_is_named_by_either_of_its_names():
    for name in ("c", "host"):
        model = cost_model({name: Fixed("mine", 1.0)}, ["acme"])
        assert [model.unit(relu_call(), t).source for t in ("c", "host")] == ["mine", "mine"]


def test_a_transfer_between_two_devices_goes_by_the_host_each_half_by_its_model():
    model = cost_model({"a": Fixed("of a", 1.0), "b": Fixed("of b", 10.0)}, ["a", "b"])
    assert model.transfer(3, "a", "b") == Estimate(33.0, "of a, of b")
    assert model.transfer(3, "a", "host") == Estimate(3.0, "of a")
    assert model.transfer(3, "a", "a").seconds == 0


def test_a_function_gets_the_unit_and_its_place():
    asked = []

    def price(unit, place):
        asked.append((unit.op.name, place))
        return 4

    model = cost_model({"acme": price}, ["acme"])
    assert model.unit(relu_call(), "acme", "bf16") == Estimate(4.0, "function price")
    assert asked == [("nn.relu", UnitPlace("acme", "bfloat16"))]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (-1.0, "a negative one"),
        (None, "nothing"),
        (float("nan"), "nan"),
        ("1", "'1'"),
        (float("inf"), "inf"),
        (True, "True"),
        (10**400, "inf"),
        (-(10**400), "a negative one"),
    ],
)
def test_a_cost_that_is_no_number_of_seconds_is_refused_with_backend_and_operator(value, found):
    model = cost_model({"acme": lambda unit, place: value}, ["acme"])
    with pytest.raises(PartitionError) as caught:
        model.unit(relu_call(), "acme")
    text = str(caught.value)
    assert text.startswith("backend 'acme': the cost of nn.relu") and text.endswith(f"got {found}")


def test_a_cost_function_that_raises_is_named_with_backend_and_operator():
    def price(unit, place):
        raise ZeroDivisionError("no cores")

    with pytest.raises(
        PartitionError,
        match=r"backend 'acme': its cost function price failed on nn.relu: "
        r"ZeroDivisionError: no cores",
    ) as caught:
        cost_model({"acme": price}, ["acme"]).unit(relu_call(), "acme")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_of_what_a_cost_function_raises_the_text_is_reported_as_one_line():
    def price(unit, place):
        raise ValueError("\nno table\n  of this size")

    with pytest.raises(PartitionError, match=r"function price failed on nn.relu: ValueError: no table of this size$"):
        cost_model({"acme": price}, ["acme"]).unit(relu_call(), "acme")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("analytical", "no costs are called 'analytical'.*did you mean 'analytic'"),
        ({"acne": "analytic"}, "costs name the backend 'acne', which is not asked for; asked: acme, c"),
        ({"acme": 3}, "backend 'acme': costs are one of analytic, auto, typical, a .json file, a function .*, got 3"),
        (
            {"acme": None},
            "backend 'acme': costs are one of analytic, auto, typical, a .json file, a function .*, got None",
        ),
        ({"host": "typical", "c": "analytic"}, "costs name the host twice, as 'host' and as 'c': drop one of both"),
        ({"acme": "no_such.json"}, "no_such.json: the cost table cannot be read"),
        (7, "backend 'acme': costs are one of analytic, auto, typical"),
    ],
)
def test_what_is_no_description_of_costs_is_refused(spec, message):
    with pytest.raises(PartitionError, match=message):
        cost_model(spec, ["acme"])


def test_a_table_for_all_leaves_the_host_to_analytic(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"format": "byoc.costs/1", "operators": {"nn.relu": 5}}))
    model = cost_model(str(path), ["acme"])
    assert model.unit(relu_call(), "acme").seconds == 5
    assert model.unit(relu_call(), "host").source == "analytic"


def test_sums_keep_each_source_once():
    assert total([Estimate(1, "a"), Estimate(2, "b"), Estimate(3, "a")]) == Estimate(6, "a, b")
    assert total([]).seconds == 0
