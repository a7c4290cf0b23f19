"""A vendor's numbers: what a table means, and what is wrong in one."""

import json

import pytest

from byoc import relay
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.costs import Table, TableModel, cost_model
from byoc.relay.transform import InferType


def dense_call():
    x = relay.var("x", shape=(2, 3))
    w = relay.var("w", shape=(5, 3))
    func = relay.Function([x, w], relay.nn.dense(x, w))
    return InferType()(IRModule({"main": func}))["main"].body


def table(**more):
    return {"format": "byoc.costs/1", "operators": {"nn.dense": 1e-3}, **more}


def model(**more):
    return TableModel("acme", Table.from_json(table(**more)))


def test_an_entry_is_seconds_a_call():
    assert model().unit(dense_call(), "acme").seconds == 1e-3


def test_an_entry_adds_seconds_operations_and_bytes():
    entry = {"seconds": 1.0, "per_operation": 0.5, "per_byte": 0.25}
    found = model(operators={"nn.dense": entry}).unit(dense_call(), "acme")
    operations, moved = 2 * 2 * 3 * 5, 4 * (2 * 3 + 5 * 3 + 2 * 5)
    assert found.seconds == 1.0 + 0.5 * operations + 0.25 * moved


def test_a_precision_has_entries_of_its_own_and_else_the_general_ones():
    found = model(precisions={"int8": {"operators": {"nn.dense": 2e-4}}, "bf16": {"operators": {}}})
    seconds = [found.unit(dense_call(), "acme", p).seconds for p in ("", "int8", "bfloat16")]
    assert seconds == [1e-3, 2e-4, 1e-3]


def test_a_default_stands_for_what_is_not_named():
    assert model(operators={}, default=7.0).unit(dense_call(), "acme").seconds == 7.0


def test_launch_and_transfer_are_those_of_the_table():
    found = model(launch=3.0, transfer={"latency": 1.0, "upload": 10.0, "download": 5.0})
    assert found.launch("acme").seconds == 3.0
    assert found.transfer(20, "host", "acme").seconds == 1.0 + 2.0
    assert found.transfer(20, "acme", "host").seconds == 1.0 + 4.0


def test_the_source_names_the_file(tmp_path):
    path = tmp_path / "acme.json"
    path.write_text(json.dumps(table()))
    assert cost_model({"acme": str(path)}, ["acme"]).unit(dense_call(), "acme").source == "table acme.json"


def test_an_operator_that_a_table_lacks_is_named_with_the_backend():
    with pytest.raises(PartitionError, match=r"backend 'acme': a cost table has no cost of nn.dense.*\"operators\""):
        model(operators={}).unit(dense_call(), "acme")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], 'has "format"'),
        ({"format": "other"}, "got 'other'"),
        ({"format": "byoc.costs/1"}, 'has "operators", this one has none'),
        (table(operators={"add": -1.0}), "operators.add must be a finite number from 0, got -1.0"),
        (table(operators={"add": float("nan")}), "operators.add must be a finite number"),
        (table(operators={"add": "fast"}), "operators.add must be a finite number from 0, got 'fast'"),
        (table(operators={"add": 10**400}), "operators.add must be a finite number"),
        (table(operators={"add": {}}), "operators.add is empty"),
        (table(operators={"add": {"per_op": 1}}), "operators.add has no 'per_op'; known: seconds"),
        (table(operators=[1]), "operators must be an object"),
        (table(launches=1), "has no 'launches'"),
        (table(launch=True), "launch must be a finite number"),
        (table(transfer={"upload": 0}), "transfer.upload must be above 0"),
        (table(transfer={"speed": 1}), "transfer has no 'speed'"),
        (table(precisions={"int8": {"launch": 1}}), "precisions.int8 has no 'launch'"),
    ],
)
def test_a_wrong_table_is_refused_with_the_place_in_it(data, message):
    with pytest.raises(PartitionError) as caught:
        Table.from_json(data, "acme.json")
    assert str(caught.value).startswith("acme.json: ") and message in str(caught.value)


def test_a_file_that_is_missing_or_no_json_is_refused(tmp_path):
    with pytest.raises(PartitionError, match="cannot be read"):
        Table.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(PartitionError, match="must be JSON"):
        Table.load(tmp_path / "bad.json")
