"""DOT text: a parser of the language accepts it whatever names a model has, and it says what is in the graph."""

import logging
import pathlib
import re

import pytest

from byoc import relay
from byoc.errors import UserError
from byoc.ir.passes.transform import PassContext, Sequential, pass_named
from byoc.partition import make_plan, to_dot
from byoc.relay import op
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.transform.base.graph_visualize import FOLDER, module_dot

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
HOSTILE = [
    'say "hi"',
    "<b>bold</b>",
    "a/b/c",
    "back\\slash",
    "end\\",
    "é世界🙂",
    "tab\tnull\x00",
    "];}",
    "//x",
    "/*",
    "\n",
]
TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(->|[{}\[\];,=])|([A-Za-z_][A-Za-z_0-9]*|-?[0-9.]+))', re.DOTALL)


class DotParser:
    """The grammar of https://graphviz.org/doc/info/lang.html for directed graphs: nodes, edges, clusters."""

    def __init__(self, text):
        self.tokens, at = [], 0
        while text[at:].strip():
            match = TOKEN.match(text, at)
            assert match, f"no token of DOT: {text[at : at + 40]!r}"
            self.tokens.append(next(g for g in match.groups() if g is not None))
            at = match.end()
        self.nodes, self.edges, self.clusters, self.cluster = {}, [], {}, None
        self.take("digraph")
        self.name()
        self.statements()
        assert not self.tokens

    def take(self, expected):
        found = self.tokens.pop(0)
        assert found == expected, f"expected {expected}, got {found}"

    def name(self):
        token = self.tokens.pop(0)
        assert token not in ("->", *"{}[];,="), token
        return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], token[1:-1]) if token[0] == '"' else token

    def attributes(self):
        found = {}
        if self.tokens[0] == "[":
            self.take("[")
            while self.tokens[0] != "]":
                key = self.name()
                self.take("=")
                found[key] = self.name()
                if self.tokens[0] in (",", ";"):
                    self.tokens.pop(0)
            self.take("]")
        return found

    def statements(self):
        self.take("{")
        while self.tokens[0] != "}":
            self.statement()
            if self.tokens[0] == ";":
                self.take(";")
        self.take("}")

    def statement(self):
        first = self.name()
        if first == "subgraph":
            outer, self.cluster = self.cluster, self.name()
            self.clusters[self.cluster] = []
            self.statements()
            self.cluster = outer
        elif self.tokens[0] == "=":
            self.take("=")
            self.name()
        elif self.tokens[0] == "->":
            self.take("->")
            self.edges.append((first, self.name()))
        elif first in ("node", "edge", "graph"):
            self.attributes()
        else:
            assert first not in self.nodes
            self.nodes[first] = self.attributes()
            if self.cluster:
                self.clusters[self.cluster].append(first)


def hostile_module():
    expr = relay.var(HOSTILE[0], shape=(2, 3))
    for k, name in enumerate(HOSTILE):
        expr = op.tanh(expr) if k % 3 == 2 else op.abs(expr)
        expr.span = relay.Span.named(name)
    return relay.IRModule.from_expr(expr)


@pytest.mark.parametrize(
    "text", ['digraph x { n0 [label="a"b"]; }', "digraph x { n0 -> ; }", "digraph { }", "graph x {}"]
)
def test_the_parser_refuses_what_is_no_dot(text):
    with pytest.raises((AssertionError, IndexError)):
        DotParser(text)


def test_a_plan_is_dot_whatever_the_nodes_are_called(backend):
    backend("toy_a", ["abs"])
    mod = hostile_module()
    plan = make_plan(mod, ["toy_a"])
    parsed = DotParser(to_dot(mod, plan))
    assert len(parsed.nodes) == len(plan.decisions) + 1  # and the input
    assert len(parsed.edges) == len(plan.decisions)
    labels = [node["label"] for node in parsed.nodes.values()]
    for name in HOSTILE[:6]:
        assert any(name in label for label in labels), name


def test_each_region_has_one_colour_that_no_other_has(backend):
    backend("toy_a", ["abs"])
    mod = hostile_module()
    plan = make_plan(mod, ["toy_a"])
    parsed = DotParser(to_dot(mod, plan))
    assert len(parsed.clusters) == len(plan.regions) == 4
    fills = [{parsed.nodes[n]["fillcolor"] for n in members} for members in parsed.clusters.values()]
    assert all(len(f) == 1 for f in fills) and len(set.union(*fills)) == len(fills)
    inside = {n for members in parsed.clusters.values() for n in members}
    assert not set.union(*fills) & {parsed.nodes[n]["fillcolor"] for n in parsed.nodes if n not in inside}


def test_a_model_from_onnx_is_dot_with_a_node_for_each_operator_and_each_tensor():
    mod = import_onnx(str(DIGITS))
    parsed = DotParser(module_dot(mod))
    shapes = [node["shape"] for node in parsed.nodes.values()]
    leaves = len(mod["main"].params) + sum("constant" in n["label"] for n in parsed.nodes.values())
    assert shapes.count("ellipse") == shapes.count("box") + leaves
    shape = {name: node["shape"] for name, node in parsed.nodes.items()}
    assert all(shape[a] != shape[b] for a, b in parsed.edges)  # boxes touch ellipses alone
    plan = make_plan(mod, ["json"])
    assert len(DotParser(to_dot(mod, plan)).nodes) == len(plan.decisions) + len(mod["main"].params)


def test_a_partitioned_module_has_a_cluster_and_a_colour_for_each_region(backend):
    backend("toy_a", ["abs"])
    mod = hostile_module()
    cut = make_plan(mod, ["toy_a"]).apply(mod)
    text = module_dot(cut)
    parsed = DotParser(text)
    boxes = [
        {parsed.nodes[n]["fillcolor"] for n in members if parsed.nodes[n]["shape"] == "box"}
        for members in parsed.clusters.values()
    ]
    assert len(boxes) == 5 and all(len(b) == 1 for b in boxes) and len(set.union(*boxes)) == 5
    assert text == module_dot(make_plan(mod, ["toy_a"]).apply(mod))


def test_the_pass_stands_by_name_after_any_pass_also_twice(tmp_path):
    names = ["InferType", "graph_visualize", "FoldConstant", "graph_visualize_pass", "FuseOps", "GraphVisualize"]
    mod = hostile_module()
    with PassContext(opt_level=3, config={FOLDER: str(tmp_path / "graphs")}):
        result = Sequential([pass_named(name) for name in names])(mod)
    with PassContext(opt_level=3):
        assert relay.structural.structural_equal(
            result, Sequential([pass_named(n) for n in ("InferType", "FoldConstant", "FuseOps")])(mod)
        )
    files = sorted((tmp_path / "graphs").iterdir())
    assert [f.name for f in files] == ["graph_000.dot", "graph_001.dot", "graph_002.dot"]
    first, second, fused = (f.read_text(encoding="utf-8") for f in files)
    assert first == second != fused
    assert len(DotParser(first).nodes) == 2 * len(HOSTILE) + 1 and DotParser(fused).nodes


def test_without_a_folder_the_text_goes_to_the_log(caplog):
    mod = hostile_module()
    with caplog.at_level(logging.INFO, logger="byoc.graph_visualize"):
        assert pass_named("graph_visualize")(mod) is mod
    (record,) = caplog.records
    assert record.getMessage() == module_dot(mod) and DotParser(record.getMessage()).nodes


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="GraphVisualize: .*file cannot be written"):
        relay.transform.GraphVisualize(str(tmp_path / "file"))(hostile_module())
