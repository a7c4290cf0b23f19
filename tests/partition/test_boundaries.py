"""What the user says about places: kept away, forced, stopped; each rule honoured or reported."""

import pytest
from onnx import TensorProto, helper

from byoc import relay
from byoc.contract import PatternEntry
from byoc.errors import PartitionError
from byoc.partition import make_plan
from byoc.partition.boundaries import Boundaries, PlacementRule
from byoc.partition.boundary_file import read_boundaries
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.frontend.onnx.named_nodes import named_nodes


def chain(*names):
    expr = relay.var("x", shape=(2, 3))
    for k, name in enumerate(names):
        expr = getattr(op, name)(expr)
        expr.span = relay.Span.named(f"{name}_{k}")
    return relay.IRModule.from_expr(expr)


def targets(plan):
    return [d.target for d in plan.decisions]


def test_a_list_keeps_names_from_every_target_and_a_mapping_from_its_own(backend):
    backend("toy_a", ["abs", "exp"])
    backend("toy_b", ["abs", "exp"])
    mod = chain("abs", "exp")
    assert targets(make_plan(mod, ["toy_a", "toy_b"], exclude=["abs"])) == [None, "toy_a"]
    assert targets(make_plan(mod, ["toy_a", "toy_b"], exclude={"toy_a": ["abs_0"]})) == ["toy_b", "toy_a"]


def test_a_name_that_means_nothing_offers_the_nearest(backend):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match="exclude: no operator .* is called 'abs_1'; the nearest: .*abs_0"):
        make_plan(chain("abs"), ["toy_a"], exclude=["abs_1"])
    with pytest.raises(PartitionError, match="stop_at: no operator or ONNX node .* is called 'bas'"):
        make_plan(chain("abs"), ["toy_a"], stop_at=["bas"])


def test_what_names_a_target_that_is_not_asked_for_is_refused():
    with pytest.raises(PartitionError, match="exclude names the target 'b', which is not asked for; asked: a"):
        Boundaries.of(["a"], {"b": ["add"]})
    with pytest.raises(PartitionError, match="force names the target 'b', which is not asked for"):
        Boundaries.of(["a"], force={"b": ["add"]})


def test_a_single_text_is_not_taken_for_a_list_of_letters():
    with pytest.raises(PartitionError, match=r"write exclude=\['add'\]"):
        Boundaries.of(["a"], "add")
    with pytest.raises(PartitionError, match=r"write 'a': \['add'\]"):
        Boundaries.of(["a"], {"a": "add"})


def test_force_puts_an_operator_on_a_later_target_or_the_host(backend):
    backend("toy_a", ["abs", "exp"])
    backend("toy_b", ["abs", "exp"])
    mod = chain("abs", "exp", "abs")
    plan = make_plan(mod, ["toy_a", "toy_b"], force={"toy_b": ["exp"], "host": ["abs_2"]})
    assert targets(plan) == ["toy_a", "toy_b", None]
    assert plan.decisions[2].codes == ("toy_a:forced", "toy_b:forced")
    assert "the user put it on the host" in str(plan)


def test_force_on_a_target_that_refuses_is_an_error_with_its_reason(backend):
    backend("toy_a", ["abs"])
    with pytest.raises(PartitionError, match=r"force: exp_1 to toy_a: exp \(node exp_1\) cannot .*: only abs, got exp"):
        make_plan(chain("abs", "exp"), ["toy_a"], force={"toy_a": ["exp_1"]})


def test_contradictory_wishes_are_refused():
    with pytest.raises(PartitionError, match="'add' is put on a and on b; it can be at one place"):
        Boundaries.of(["a", "b"], force={"a": ["add"], "b": ["add"]})
    with pytest.raises(PartitionError, match="'add' is put on a by force and kept from it by exclude"):
        Boundaries.of(["a", "b"], exclude=["add"], force={"a": ["add"]})
    assert Boundaries.of(["a", "b"], exclude={"b": ["add"]}, force={"a": ["add"]}).rules


def test_stop_at_keeps_the_named_and_all_that_depends_on_it_at_home(backend):
    backend("toy_a", ["abs", "exp"])
    backend("toy_b", ["exp"])
    mod = chain("abs", "exp", "abs", "exp")
    plan = make_plan(mod, ["toy_a", "toy_b"], stop_at={"toy_a": ["abs_2"]})
    assert targets(plan) == ["toy_a", "toy_a", None, "toy_b"]
    assert plan.decisions[2].codes[0] == "toy_a:stopped"
    assert targets(make_plan(mod, ["toy_a"], stop_at=["exp_1"])) == ["toy_a", None, None, None]


def test_a_rule_takes_a_composite_apart(backend):
    pair = PatternEntry("toy_a.pair", is_op("exp")(is_op("abs")(wildcard())))
    backend("toy_a", ["abs", "exp"], entries=[pair])
    mod = chain("abs", "exp")
    assert targets(make_plan(mod, ["toy_a"], stop_at=["exp_1"])) == ["toy_a", None]
    assert targets(make_plan(mod, ["toy_a"], force={"host": ["abs_0"]})) == [None, "toy_a"]


def test_a_star_stands_for_any_text(backend):
    backend("toy_a", ["abs", "exp"])
    assert targets(make_plan(chain("abs", "exp", "abs"), ["toy_a"], exclude=["abs_*"])) == [None, "toy_a", None]


def test_every_line_of_a_file_is_honoured_or_reported(backend):
    backend("toy_a", ["abs", "exp", "tanh"])
    lines = [
        PlacementRule("exclude", "abs_0", origin="cut.txt line 1", strict=False),
        PlacementRule("force", "exp_1", "host", origin="cut.txt line 2", strict=False),
        PlacementRule("exclude", "tanh_2", "toy_a", origin="cut.txt line 3", strict=False),
        PlacementRule("exclude", "gone", origin="cut.txt line 4", strict=False),
        PlacementRule("force", "sin", "toy_a", origin="cut.txt line 5", strict=False),
    ]
    plan = make_plan(chain("abs", "exp", "tanh", "abs", "sin"), ["toy_a"], boundary_lines=lines)
    assert targets(plan) == [None, None, None, "toy_a", None]
    assert len(plan.notes) == 2
    assert plan.notes[0].startswith("cut.txt line 4: no operator or ONNX node of the model is called 'gone'")
    assert plan.notes[1].startswith("cut.txt line 5: sin to toy_a: sin (node sin_4) cannot go there: only abs")


def onnx_model():
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Exp", ["a"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"], name="sum"),
    ]
    ends = ([value(name, TensorProto.FLOAT, [2, 3])] for name in ("x", "c"))
    graph = helper.make_graph(nodes, "g", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(
    "text, placed",
    [
        ("# nothing\nexclude Abs_0\nforce Exp_1 to host  # why\nstop_at sum from toy_a\n", [None, None, None]),
        ("exp:a:b\nadd:a,b:c\nabs:x\n", [None, None, None]),
        ("add:b\n", ["toy_a", "toy_a", None]),
        ('{"exclude": {"toy_a": ["Abs_0"]}, "force": {"host": ["sum"]}}', [None, "toy_a", None]),
    ],
)
def test_a_file_of_rules(backend, tmp_path, text, placed):
    backend("toy_a", ["abs", "exp", "add"])
    path = tmp_path / "cut.txt"
    path.write_text(text)
    model = onnx_model()
    plan = make_plan(import_onnx(model), ["toy_a"], boundary_lines=read_boundaries(path, named_nodes(model)))
    assert targets(plan) == placed and plan.notes == ()


@pytest.mark.parametrize(
    "text, placed",
    [
        ("exclude first#1\n", [None, "toy_a", "toy_a"]),
        ("  # exclude first#1\nexclude sum #one\n", ["toy_a", "toy_a", None]),
        ("exp:a:0:b\n", ["toy_a", None, "toy_a"]),
        ("exp:a:0\n", ["toy_a", None, "toy_a"]),
        ("abs:x:a:0\nadd:a:0,b:c d\n", [None, "toy_a", None]),
        ("add::c d", ["toy_a", "toy_a", None]),
        ("\ufeffexclude sum\n", ["toy_a", "toy_a", None]),
        ('\ufeff{"exclude": ["sum"]}', ["toy_a", "toy_a", None]),
    ],
)
def test_names_in_a_file_may_hold_colons_spaces_and_number_signs(backend, tmp_path, text, placed):
    backend("toy_a", ["abs", "exp", "add"])
    path = tmp_path / "cut.txt"
    path.write_text(text, encoding="utf-8")
    model = onnx_model()
    first, second, third = model.graph.node
    first.name, first.output[0], second.input[0], third.input[0] = "first#1", "a:0", "a:0", "a:0"
    third.output[0] = model.graph.output[0].name = "c d"
    lines = read_boundaries(path, named_nodes(model))
    plan = make_plan(import_onnx(model), ["toy_a"], boundary_lines=lines)
    assert targets(plan) == placed and plan.notes == ()


def test_a_line_that_matches_nothing_is_reported_and_one_that_is_no_rule_refused(backend, tmp_path):
    backend("toy_a", ["abs", "exp", "add"])
    path = tmp_path / "cut.txt"
    path.write_text("exclude Abs_0\nsub:a,b:c\nexclude Exp_1\n")
    model = onnx_model()
    plan = make_plan(import_onnx(model), ["toy_a"], boundary_lines=read_boundaries(path, named_nodes(model)))
    assert targets(plan) == [None, None, "toy_a"]
    (note,) = plan.notes
    assert "line 2: no operator or ONNX node of the model is called 'sub:a,b:c'" in note
    path.write_text("exclude: Abs_0\n")
    with pytest.raises(PartitionError, match="line 1: 'exclude: Abs_0' is no rule; write 'exclude NAME"):
        read_boundaries(path, named_nodes(model))
    path.write_text("exclude\n")
    with pytest.raises(PartitionError, match="line 1: 'exclude' is no rule; write 'exclude NAME"):
        read_boundaries(path)
    with pytest.raises(PartitionError, match="cannot be read"):
        read_boundaries(tmp_path / "none.txt")
    path.write_text('{"exclud": []}')
    with pytest.raises(PartitionError, match="has exclud; it may have exclude, force, stop_at"):
        read_boundaries(path)


@pytest.mark.parametrize("name", ["x*y[0]", "[ab]?", "a\n*"])
def test_a_name_with_a_sign_in_it_means_itself(backend, name):
    backend("toy_a", ["abs", "exp"])
    expr = op.abs(relay.var("x", shape=(2, 3)))
    expr.span = relay.Span.named(name)
    plan = make_plan(relay.IRModule.from_expr(op.exp(expr)), ["toy_a"], exclude=[name])
    assert targets(plan) == [None, "toy_a"]
    assert [d.operator for d in plan.explain(name).decisions] == ["abs"]


def test_a_rule_by_exact_name_is_no_pattern():
    assert PlacementRule("exclude", "a*").matches(["ab"])
    assert not PlacementRule("exclude", "a*", exact=True).matches(["ab"]) and PlacementRule(
        "exclude", "a*", exact=True
    ).matches(["a*"])


@pytest.mark.parametrize(
    "text", ['{"exclude": 5}', '{"stop_at": null}', '{"force": {"acme": 3}}', '{"exclude":' * 9999]
)
def test_a_file_of_json_that_lists_no_names_is_reported_by_its_own_name(tmp_path, text):
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(PartitionError, match="rules.json"):
        read_boundaries(path)
