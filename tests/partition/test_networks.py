"""Modules and plans as graphs of networkx, and networkx as the judge of cuts: acyclic, convex, of least cost."""

import pathlib
import random
import subprocess
import sys

import networkx
import pytest

import byoc
from byoc import relay
from byoc.errors import PartitionError, UserError
from byoc.partition.costs.work import boundary
from byoc.partition.show.networks import to_networkx
from byoc.relay.transform.cut.minimum_cut import SINK, SOURCE, Network

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from test_random_plans import random_plan, registered  # noqa: F401

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def test_a_plan_without_its_module_is_one_sentence():
    plan = byoc.plan(DIGITS, ["json"])
    with pytest.raises(UserError, match="^to_networkx takes a module, and then a plan of it, got Plan first; "):
        to_networkx(plan)
    assert len(to_networkx(plan.origin.mod, plan)) > len(plan.decisions)


def test_a_node_for_each_decision_with_its_place_and_its_numbers():
    mod = byoc.import_onnx(DIGITS)
    plan = byoc.plan(mod, ["json", "c"], exclude={"json": ["nn.softmax"]}, policy="cost", costs="typical")
    graph = to_networkx(plan.origin.mod, plan)
    calls = [n for n, found in graph.nodes.items() if found["kind"] == "call"]
    assert calls == list(range(len(plan.decisions)))
    for n, decision in enumerate(plan.decisions):
        found = graph.nodes[n]
        assert (found["operator"], found["nodes"]) == (decision.operator, decision.nodes)
        assert (found["target"], found["region"] or "") == (decision.target or "host", plan.symbols()[n])
        assert found["seconds"] == decision.seconds
    for region in plan.regions:
        inside = {n for n in graph if graph.nodes[n]["region"] == region.symbol}
        assert inside == set(region.calls)
        assert sum(graph.nodes[n]["operations"] for n in inside) == region.operations
        entering = {
            (a, t) for a, b, found in graph.in_edges(inside, data=True) if a not in inside for t in found["tensors"]
        }
        assert len(entering) == len(region.inputs)
        assert all(found["crosses"] == (a not in inside) for a, b, found in graph.in_edges(inside, data=True))


def test_what_passes_between_two_calls():
    x = relay.var("x", shape=(4, relay.Any("N")))
    halves = relay.op.split(x, 2)
    mod = relay.IRModule.from_expr(relay.Function([x], relay.add(halves[0], relay.multiply(halves[1], halves[1]))))
    graph = to_networkx(mod)
    assert graph.edges[0, 1]["tensors"] == ((1, "float32", (2, "?N")),)
    assert graph.edges[0, 2]["tensors"] == ((0, "float32", (2, "?N")),)
    assert graph.edges[0, 1]["bytes"] == boundary("", graph_type(mod, "multiply")).bytes == 8
    assert graph.edges["%x", 0]["bytes"] == 16 and "crosses" not in graph.edges["%x", 0]
    assert graph.nodes["%x"] == {"kind": "input", "type": "Tensor[(4, ?N), float32]", "bytes": 16} | {
        "shape": (4, "?N"),
        "dtype": "float32",
    }


def graph_type(mod, operator):
    """The type of the call of *operator* in *mod*."""
    from byoc.relay.traverse import post_order

    main = relay.transform.InferType()(mod)["main"]
    return next(c.checked_type for c in post_order(main) if isinstance(c, relay.Call) and c.op.name == operator)


def test_branches_are_nodes_and_are_read_through():
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(2,))
    mod = relay.IRModule.from_expr(relay.Function([c, x], relay.abs(relay.If(c, relay.tanh(x), x))))
    graph = to_networkx(mod)
    kinds = networkx.get_node_attributes(graph, "kind")
    branch = next(n for n, kind in kinds.items() if kind == "If")
    ends = {graph.nodes[n].get("operator", n) for n in graph.predecessors(branch)}
    assert ends == {"tanh", "%x", "%c"}
    assert [graph.nodes[n]["operator"] for n in graph.successors(branch)] == ["abs"]
    assert networkx.is_directed_acyclic_graph(graph)


def test_a_plan_of_another_module_is_refused():
    plan = byoc.plan(byoc.import_onnx(DIGITS), ["json"])
    x = relay.var("x", shape=(2,))
    with pytest.raises(PartitionError, match="made for another module"):
        to_networkx(relay.IRModule.from_expr(relay.Function([x], relay.abs(x))), plan)


def test_without_networkx_one_sentence_says_what_to_install():
    code = (
        "import sys; sys.modules['networkx'] = None\n"
        "import byoc\n"
        f"mod = byoc.import_onnx({str(DIGITS)!r})\n"
        "try: byoc.to_networkx(mod)\n"
        "except byoc.errors.UserError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'byoc-compiler[graph]' installs it" in done.stdout


@pytest.mark.parametrize("seed", range(12))
def test_no_way_leaves_a_region_and_comes_back(seed, registered):  # noqa: F811
    mod, plan = random_plan(seed, 25, registered)
    graph = to_networkx(mod, plan)
    assert networkx.is_directed_acyclic_graph(graph)
    labels = {n: graph.nodes[n]["region"] or n for n in graph}
    cut = networkx.DiGraph((labels[a], labels[b]) for a, b in graph.edges if labels[a] != labels[b])
    assert networkx.is_directed_acyclic_graph(cut)
    for region in plan.regions:
        inside = graph.subgraph(region.calls)
        assert {graph.nodes[n]["target"] for n in inside} == {region.target}


@pytest.mark.parametrize("seed", range(40))
def test_the_minimum_cut_is_that_of_networkx(seed):
    rng = random.Random(seed)
    ours, theirs = Network(), networkx.DiGraph()
    nodes = [SOURCE, SINK, *(ours.add_node() for _ in range(rng.randrange(1, 14)))]
    theirs.add_nodes_from(nodes)
    for _ in range(rng.randrange(1, 50)):
        start, end = rng.sample(nodes, 2)
        capacity = rng.randrange(0, 12)
        ours.add_edge(start, end, capacity)
        known = theirs.get_edge_data(start, end, {"capacity": 0})["capacity"]
        theirs.add_edge(start, end, capacity=known + capacity)
    side = ours.sink_side()
    assert SINK in side and SOURCE not in side
    paid = sum(found["capacity"] for a, b, found in theirs.edges(data=True) if a not in side and b in side)
    assert paid == networkx.minimum_cut_value(theirs, SOURCE, SINK)
