"""The support table of a backend: made of its constraints, tried on every operator's samples, and current in docs."""

import json
import pathlib

import pytest

from byoc.cli.main import main
from byoc.contract import Backend, PatternEntry, callee_name, constraint, get_backend
from byoc.contract import constraints as ready
from byoc.contract.support_table import (
    OperatorRow,
    SupportTable,
    registered_operators,
    sample_call,
    support_table,
    supported_ops,
)
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.expr import Constant

ROOT = pathlib.Path(__file__).parents[2]
OURS = ("c", "json", "onnxruntime", "opencl", "openvino", "torch", "xnnpack")
LONG = ("openvino",)


@constraint("operator")
def known(call):
    """relu and convolutions"""
    return None if callee_name(call) in ("nn.relu", "nn.conv2d") else callee_name(call)


@constraint("groups", of="nn.conv2d")
def one_group(call):
    """one group"""
    return call.attrs.groups if call.attrs.groups > 1 else None


@constraint("moon", machine=True)
def full_moon(call):
    """a full moon"""
    return "a new moon"


class Acme(Backend):
    """Convolutions by acme."""

    name = "acme"
    constraints = (known, one_group, full_moon)

    def patterns(self):
        pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
        return [PatternEntry("acme.conv2d_relu", pattern, [one_group])]


def rows(table):
    return {row.name: row for row in table.operators}


def test_the_table_has_every_operator_with_what_was_taken_and_which_constraint_refused():
    table = support_table(Acme())
    assert sorted(r.name for r in table.operators) == [op.name for op in registered_operators()]
    found = rows(table)
    assert found["nn.relu"].state == "yes" and found["nn.relu"].reasons == ()  # whatever the moon
    assert found["nn.conv2d"].state == "partly"
    assert {(r.code, r.text) for r in found["nn.conv2d"].reasons} == {("groups", "one group")}
    assert all(int(r.actual) > 1 for r in found["nn.conv2d"].reasons)
    assert [r.code for r in found["abs"].reasons] == ["operator"]
    assert table.supported == supported_ops(Acme()) == ("nn.conv2d", "nn.relu")


@constraint("weights", of=("nn.conv2d", "nn.dense"))
def constant_weights(call):
    """constant weights"""
    return None if isinstance(call.args[1], Constant) else "a variable"


class WithWeights(Backend):
    """Products of constant weights."""

    name = "with_weights"
    constraints = (known, constant_weights, one_group)


def test_a_backend_that_wants_constants_is_asked_with_constants():
    table = support_table(WithWeights())
    found = rows(table)
    conv = found["nn.conv2d"]
    assert conv.constant == conv.taken > 0 and conv.taken < conv.samples
    assert (found["nn.relu"].constant, found["nn.relu"].state) == (0, "yes")
    text = str(table)
    assert f"{conv.taken} of {conv.samples}, with constant weights  groups" in text
    assert "nn.conv2d" in supported_ops(WithWeights())
    assert "| `nn.conv2d` | " + f"{conv.taken} of {conv.samples}, with constant weights" in table.markdown()
    assert table.to_json()["operators"][0]["constant"] == conv.taken


def test_what_is_taken_comes_first_and_what_has_no_samples_last():
    names = [r.name for r in support_table(WithWeights()).operators]
    states = [r.state for r in support_table(WithWeights()).operators]
    assert names[:2] == ["nn.conv2d", "nn.relu"]
    assert states.index("untried") > max(k for k, state in enumerate(states) if state == "no")


def test_a_row_that_some_samples_need_constants_for_says_how_many():
    row = OperatorRow("nn.dense", 8, 8, (), 3)
    assert str(SupportTable("a", "b", (), (), (row,))).endswith("nn.dense  8 of 8, 3 of these with constant weights")


def test_the_table_documents_constraints_and_patterns_with_their_checks():
    table = support_table(Acme())
    text, page = str(table), table.markdown()
    assert "  [groups] one group (of nn.conv2d)" in text and "[moon] a full moon (as the machine has it)" in text
    assert "  acme.conv2d_relu: nn.conv2d, nn.relu; nn.conv2d: one group" in text
    assert "| `groups` | one group | nn.conv2d |" in page
    assert "| `acme.conv2d_relu` | `nn.conv2d`, `nn.relu` | nn.conv2d: one group |" in page
    assert json.loads(json.dumps(table.to_json()))["backend"] == "acme"


def test_a_row_says_what_the_verdicts_say():
    backend = get_backend("c")
    for row in support_table(backend).operators:
        (op,) = (op for op in registered_operators() if op.name == row.name)
        assert row.taken == sum(bool(backend.supports(sample_call(op, s))) for s in op.samples), row


def test_a_backend_of_another_type_is_asked_in_that():
    class Half(Backend):
        """Halves."""

        name = "half"
        constraints = (
            ready.operators("nn.relu", "nn.softmax", "nn.dense", "argmax"),
            ready.dtypes("float16"),
            ready.constant_weights(),
        )

    found = rows(support_table(Half()))
    assert {n for n, row in found.items() if row.taken} == {"nn.relu", "nn.softmax", "nn.dense"}
    assert found["nn.relu"] == OperatorRow("nn.relu", 1, 1, (), 0, "float16")
    assert "2 of 2 in float16, with constant weights" in str(support_table(Half()))
    assert "| `nn.relu` | 1 of 1 in float16 |" in support_table(Half()).markdown()
    assert set(supported_ops(Half())) == {"nn.relu", "nn.softmax", "nn.dense"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in OURS])
def test_the_page_in_docs_is_what_the_command_writes_now(name, tmp_path, capsys):
    assert main(["targets", name, "--markdown", "-o", str(tmp_path / "page.md")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("wrote ") and f"{name} takes" in shown
    current = f"byoc targets {name} --markdown -o docs/support/{name}.md"
    kept = ROOT / "docs" / "support" / f"{name}.md"
    assert kept.read_text() == (tmp_path / "page.md").read_text(), f"run {current}"


def test_the_command_prints_a_table_and_json_and_names_what_it_does_not_know(capsys):
    assert main(["targets", "json"]) == 0
    assert "operators: json takes" in capsys.readouterr().out
    assert main(["targets", "json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["backend"] == "json"
    assert main(["targets", "nothing"]) == 2
    assert "no backend is called 'nothing'; known:" in capsys.readouterr().err
    assert main(["targets", "--markdown"]) == 2
    assert "byoc targets NAME --markdown" in capsys.readouterr().err
