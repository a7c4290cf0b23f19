"""``byoc.plan``, a plan that is compiled, and targets that are lost on the way."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper

import byoc
from byoc.cli.main import main
from byoc.contract import BACKENDS, Backend, accept, callee_name, get_backend, refuse, register_backend
from byoc.driver.measure_plan import measure
from byoc.errors import CompileError, PartitionError, UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.partition import Plan
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES

X = np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)
WANT = np.tanh(np.exp(np.abs(X)))


def model():
    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4])

    nodes = [
        helper.make_node(op, [a], [b], name=f"{op}_n")
        for op, a, b in (("Abs", "x", "a"), ("Exp", "a", "b"), ("Tanh", "b", "y"))
    ]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


class Toy(Backend):
    """Takes exp; compiles by the JSON backend, or fails as a test sets it."""

    name = "test_toy"

    def __init__(self, error=None, missing=None):
        self.error, self.missing = error, missing

    def supports(self, call):
        return accept(call) if callee_name(call) == "exp" else refuse(call, "operator", "only exp", callee_name(call))

    def unavailable(self):
        return self.missing

    def compile(self, function, options):
        if self.error is not None:
            raise self.error
        return get_backend("json").compile(function, options)


@pytest.fixture
def toy():
    def register(**options):
        register_backend(Toy(**options))

    yield register
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister("test_toy")
    GLOBAL_FUNCTIONS.unregister("relay.ext.test_toy")


def assert_right(library):
    executor = library.executor()
    executor.set_input("x", X)
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), WANT, rtol=1e-6)


def test_a_plan_is_compiled_as_it_was_made_changed_or_read_from_a_file(toy, tmp_path):
    toy()
    plan = byoc.plan(model(), ["test_toy", "c"])
    assert [d.target for d in plan.decisions] == [None, "test_toy", None]
    library = byoc.compile(model(), plan=plan)
    assert library.report["plan"] == plan.to_json()
    assert_right(library)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.edit({"Exp_n": "host"}).to_json()))
    again = byoc.compile(model(), plan=path)
    assert again.report["plan"]["regions"] == []
    assert_right(again)
    with pytest.raises(PartitionError, match="nothing.json cannot be read"):
        byoc.compile(model(), plan=tmp_path / "nothing.json")


@pytest.mark.parametrize("other", [{"policy": "cost"}, {"exclude": ["Exp_n"]}, {"prefer": {"exp": ["test_toy"]}}])
def test_a_plan_and_what_makes_one_are_not_taken_together(toy, other):
    toy()
    plan = byoc.plan(model(), ["test_toy", "c"])
    with pytest.raises(PartitionError, match="make a plan, and one is given"):
        byoc.compile(model(), plan=plan, **other)


def test_what_is_no_module_and_no_plan_is_reported(toy):
    toy()
    plan = byoc.plan(model(), ["test_toy", "c"], policy="score", valid_places=("test_toy", "host"))
    with pytest.raises(PartitionError, match="applied to a module of Relay, got ModelProto"):
        plan.apply(model())
    with pytest.raises(PartitionError, match="another plan, got NoneType"):
        plan.diff(None)
    assert byoc.plan(model(), ["test_toy", "c"], policy="score", valid_places="host").regions == ()


@pytest.mark.parametrize("policy, place", [("order", "test_toy"), ("cost", None)])
def test_a_policy_is_what_compile_cuts_by(toy, policy, place):
    toy()
    library = byoc.compile(
        model(),
        ["test_toy", "json", "c"],
        policy=policy,
        costs={"test_toy": lambda unit, place: 1.0, "json": lambda unit, place: 1.0, "c": "typical"},
    )
    assert library.report["plan"]["decisions"][1]["target"] == place
    assert_right(library)


@pytest.mark.parametrize("error, stage", [(ValueError("bad tile"), "compile"), (MemoryError(), "memory")])
def test_a_target_that_fails_is_planned_without_where_that_is_allowed(toy, error, stage):
    toy(error=error)
    with pytest.raises(CompileError, match="backend 'test_toy' failed on .*Exp_n"):
        byoc.compile(model(), ["test_toy", "c"])
    library = byoc.compile(model(), ["test_toy", "json", "c"], replan=True)
    (loss,) = library.report["replanned"]
    assert (loss["target"], loss["stage"], loss["nodes"]) == ("test_toy", stage, ("Exp_n",))
    exp = library.report["plan"]["decisions"][1] if len(library.report["plan"]["decisions"]) > 1 else None
    assert exp["verdicts"][0]["reasons"][0]["code"] == f"lost_{stage}" and exp["target"] == "json"
    assert_right(library)


def test_operators_have_lists_of_targets_of_their_own(file, capsys):
    targets, prefer = ["opencl", "json", "c"], {"exp": ["json", "opencl"], "Tanh_n": ["json"]}
    made = byoc.plan(model(), targets, prefer=prefer)
    assert [d.target for d in made.decisions] == ["opencl", "json", "json"]
    assert byoc.compile(model(), targets, prefer=prefer).report["plan"] == made.to_json()
    options = ["--prefer", "exp=json,opencl", "--prefer", "Tanh_n=json", "--json"]
    assert main(["plan", file, "-t", "opencl,json,c", *options]) == 0
    assert Plan.from_json(capsys.readouterr().out) == made
    with pytest.raises(PartitionError, match="prefer is for policy \"order\", not for 'cost'"):
        byoc.plan(model(), targets, policy="cost", prefer=prefer)
    with pytest.raises(
        UserError, match=r"^prefer is Mapping\[str, Sequence\[str\]\] \| None, got \['exp'\], a value of type"
    ):
        byoc.plan(model(), targets, prefer=["exp"])


def test_a_policy_that_is_none_is_answered_with_all_policies():
    with pytest.raises(PartitionError, match="^policy is one of order, score, cost, model, got 'best'$"):
        byoc.plan(model(), policy="best")


def test_a_target_that_is_not_here_is_planned_without_where_that_is_allowed(toy):
    toy(missing="no device of this kind")
    library = byoc.compile(model(), ["test_toy", "c"], replan=True)
    assert library.report["replanned"][0]["stage"] == "device"
    assert library.report["plan"]["decisions"][1]["verdicts"][0]["reasons"][0]["actual"] == "no device of this kind"
    assert_right(library)


def test_a_target_that_is_chosen_instead_and_is_not_here_either_is_planned_without_too(toy):
    class Other(Toy):
        name = "test_other"

    toy(missing="no first device")
    register_backend(Other(missing="no second device"))
    try:
        library = byoc.compile(model(), ["test_toy", "test_other", "c"], replan=True)
    finally:
        for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
            registry.unregister("test_other")
        GLOBAL_FUNCTIONS.unregister("relay.ext.test_other")
    assert [loss["target"] for loss in library.report["replanned"]] == ["test_toy", "test_other"]
    assert library.report["plan"]["regions"] == []
    assert_right(library)


def test_a_plan_from_a_file_is_made_again_too(toy, tmp_path):
    toy(error=ValueError("bad tile"))
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(byoc.plan(model(), ["test_toy", "c"]).to_json()))
    library = byoc.compile(model(), plan=path, replan=True)
    assert library.report["plan"]["regions"] == [] and len(library.report["replanned"]) == 1
    assert_right(library)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(model().SerializeToString())
    return str(path)


def test_the_command_plan_prints_and_writes(toy, file, tmp_path, capsys):
    toy()
    outputs = [str(tmp_path / f"plan.{kind}") for kind in ("json", "html", "svg", "dot")]
    written = [argument for output in outputs for argument in ("-o", output)]
    assert main(["plan", file, "-t", "test_toy,c", "--policy", "cost", "--costs", "typical", *written]) == 0
    text = capsys.readouterr().out
    assert "policy cost, targets test_toy" in text and "latency: estimate" in text and f"wrote {outputs[0]}" in text
    page = (tmp_path / "plan.html").read_text()
    assert "<svg" in page and "Exp_n" in page and "http://" not in page.replace("http://www.w3.org", "")
    assert main(["compile", file, "--plan", outputs[0], "-o", str(tmp_path / "m.byoc")]) == 0
    assert main(["plan", file, "-t", "test_toy,c", "--measure"]) == 0
    assert "measured" in capsys.readouterr().out
    assert main(["plan", file, "-o", str(tmp_path / "plan.txt")]) == 2
    assert "a plan is written as .json" in capsys.readouterr().err


def test_the_command_explain_prints_one_node_or_all_reasons(toy, file, capsys):
    toy()
    assert main(["explain", file, "-t", "test_toy,c", "--node", "Tanh_n"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "tanh (Tanh_n): on the host",
        "  test_toy: no [operator]: only exp, got tanh",
    ]
    assert main(["explain", file, "-t", "test_toy,c"]) == 0
    assert "2 x test_toy: only exp, got abs, as abs of Abs_n [test_toy:operator]" in capsys.readouterr().out
    assert main(["explain", file, "-t", "test_toy,c", "--node", "Tahn_n"]) == 2
    assert "the nearest: Tanh_n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        (["--force", "Exp_n"], "expected TARGET=NAME"),
        (["--limit", "test_toy.size=3"], "expected TARGET.LIMIT=NUMBER"),
        (["--limit", "test_toy.max_regions=x"], "'x' is not a whole number, which max_regions is"),
        (["--limit", "test_toy.max_regions=1.5"], "'1.5' is not a whole number, which max_regions is"),
        (["--limit", "test_toy.min_gain=x"], "'x' is not a number, which min_gain is"),
        (["--limit", "test_toy.max_regions=-1"], "test_toy: limit max_regions is -1: give a whole number from 0"),
        (["--prefer", "exp"], "expected NAME=TARGET,TARGET"),
        (["--prefer", "exp=test_toy", "--prefer", "exp=test_toy"], "exp has a list already"),
        (["--costs", "analytic", "--costs", "test_toy=a.json"], "once for all targets"),
        (["--force", "test_toy=Tanh_n"], "cannot go there: only exp, got tanh"),
    ],
)
def test_options_of_no_meaning_are_one_sentence(toy, file, capsys, options, message):
    toy()
    assert main(["plan", file, "-t", "test_toy,c", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_plan_shows_what_was_measured_beside_the_estimate(toy):
    toy()
    costs = {"test_toy": lambda unit, place: 0.0, "c": "typical"}
    plan = byoc.plan(model(), ["test_toy", "c"], policy="cost", costs=costs)
    ticks = iter(range(10**6))
    library = byoc.compile(model(), plan=plan)
    found = measure(library, clock=lambda: float(next(ticks)))
    (region,) = found.regions
    assert found.measured == {"total": 1.0, region.symbol: 1.0, "host": 2.0}
    (row,) = (line for line in str(found).splitlines() if line.startswith(region.symbol))
    assert row.endswith("1 s") and "measured 1 s" in str(found)
    assert type(found).from_json(json.dumps(found.to_json())) == found
    assert all(seconds > 0 for seconds in measure(library, turns=1).measured.values())
