"""Graphs of 100,000 calls: no step recurses, and none visits a node more often than a constant number of times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from byoc import relay
from byoc.relay import traverse
from byoc.relay.structure import structural
from byoc.relay.text import lexer, printer
from byoc.relay.transform.base.infer_type import InferType

SIZE = 30_000  # far beyond any limit of recursion; the slow tests of single passes take 100,000
_SHAPE = (4,)


def chain() -> relay.Function:
    """SIZE calls one after another; every second one takes both its predecessor and the input."""
    x = relay.var("x", shape=_SHAPE)
    e: relay.Expr = x
    for i in range(SIZE):
        e = relay.add(e, x) if i % 2 else relay.tanh(e)
    return relay.Function([x], e)


def layers(width: int = 100) -> relay.Function:
    """SIZE calls in layers; each takes two of the layer before, so that there are 2**depth paths."""
    row: list[relay.Expr] = [relay.var(f"x{i}", shape=_SHAPE) for i in range(width)]
    params = list(row)
    for _ in range(SIZE // width):
        row = [relay.add(row[i], row[(i + 7) % width]) for i in range(width)]
    return relay.Function(params, relay.Tuple(row))


def lets() -> relay.Function:
    """A chain of SIZE / 5 lets."""
    x = relay.var("x", shape=_SHAPE)
    variables = [x, *(relay.var(f"v{i % 10}") for i in range(SIZE // 5))]
    body: relay.Expr = variables[-1]
    for before, variable in zip(variables[-2::-1], variables[:0:-1], strict=True):
        body = relay.Let(variable, relay.tanh(before), body)
    return relay.Function([x], body)


GRAPHS: dict[str, Callable[[], relay.Function]] = {"chain": chain, "layers": layers, "lets": lets}


@pytest.fixture(scope="module", params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> relay.Function:
    return GRAPHS[request.param]()


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Counts how often the sub-expressions of any node are asked for, wherever."""
    count = [0]
    original = traverse.children

    def counting(expr: relay.Expr) -> object:
        count[0] += 1
        return original(expr)

    for module in (printer, structural):
        monkeypatch.setattr(module, "children", counting)
    monkeypatch.setattr(traverse.post_order, "__defaults__", (counting,))
    yield count


def nodes(graph: relay.Function) -> int:
    return sum(1 for _ in traverse.post_order(graph))


def test_a_large_graph_is_typed(graph: relay.Function) -> None:
    mod = InferType()(relay.IRModule.from_expr(graph))
    assert all(e.checked_type_ is not None for e in traverse.post_order(mod["main"].body))


def test_a_large_graph_is_printed_and_parsed_back(graph: relay.Function, visits: list[int]) -> None:
    mod = InferType()(relay.IRModule({"main": graph}))
    visits[0] = 0
    text = mod.astext()
    assert visits[0] <= 4 * nodes(graph) + 10
    assert len(text) < 100 * nodes(graph)
    again = relay.parse(text)
    assert again.astext() == text
    relay.assert_structural_equal(again, mod)
    assert relay.structural_hash(again) == relay.structural_hash(mod)


def test_equality_and_hash_visit_each_node_a_few_times(graph: relay.Function, visits: list[int]) -> None:
    total = nodes(graph)
    relay.structural_hash(graph)
    assert visits[0] <= 4 * total
    visits[0] = 0
    assert relay.structural_equal(graph, graph)
    assert visits[0] <= 4 * total


def test_a_large_graph_is_copied_by_a_mutator_that_visits_each_node_once(graph: relay.Function) -> None:
    class Copy(relay.ExprMutator):
        calls = 0

        def visit_call(self, call: relay.Call) -> relay.Call:
            self.calls += 1
            new = super().visit_call(call)
            return relay.Call(new.op, new.args, new.attrs)

    copy = Copy()
    new = copy.visit(graph)
    assert copy.calls == sum(isinstance(e, relay.Call) for e in traverse.post_order(graph)) >= SIZE // 5
    assert new.body is not graph.body
    relay.assert_structural_equal(relay.analysis.infer_function(new), relay.analysis.infer_function(graph))


def test_tokens_are_read_in_one_pass_over_the_text() -> None:
    text = "%0 = add(%x, %y) /* c */;\n" * 20_000
    tokens = lexer.Tokens(text, "t")
    assert len(tokens.kinds) == 20_000 * 9 + 1
    assert tokens.starts == sorted(tokens.starts)


def test_deeply_nested_ifs_print_and_parse() -> None:
    depth = 5_000
    e: relay.Expr = relay.const(0)
    for i in range(depth):
        e = relay.If(relay.const(True), relay.const(i), e)
    mod = relay.IRModule({"main": relay.Function([], e)})
    text = mod.astext()
    assert len(text) < 400 * depth
    relay.assert_structural_equal(relay.parse(text), relay.transform.InferType()(mod))
