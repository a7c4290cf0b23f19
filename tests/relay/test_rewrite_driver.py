"""The one driver of rewrites: sharing, spans and types are kept, and what is not entered stays."""

from __future__ import annotations

from byoc import relay
from byoc.ir.span import SourceName, Span
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.traverse import children, rewrite, typed_rewrite

X = relay.var("x", shape=(2, 3))


def spanned(expr, line):
    expr.span = Span(SourceName("model"), line, line, 0, 0)
    return expr


def exp_of_relu(before, after):
    return relay.exp(after.args[0]) if calls(before, "nn.relu") else after


def test_what_changes_nothing_gives_the_same_nodes():
    root = relay.add(relay.exp(X), X)
    assert rewrite(root, lambda before, after: after) is root


def test_a_shared_value_is_made_once_and_read_as_often():
    shared = relay.nn.relu(X)
    after = rewrite(relay.add(shared, relay.multiply(shared, shared)), exp_of_relu)
    product = after.args[1]
    assert calls(after.args[0], "exp")
    assert product.args[0] is product.args[1] is after.args[0]


def test_copies_carry_the_spans_of_what_they_were_made_from():
    root = spanned(relay.add(spanned(relay.negative(relay.nn.relu(X)), 3), X), 7)
    after = rewrite(root, exp_of_relu)
    assert after is not root and (after.span.line, after.args[0].span.line) == (7, 3)


def test_a_typed_rewrite_keeps_types():
    root = relay.Function([X], relay.add(relay.negative(X), X))
    root = relay.transform.InferType()(relay.IRModule({"main": root}))["main"]

    def doubled(before, after):
        return typed(relay.negative(after), before) if calls(before, "negative") else after

    def typed(made, like):
        made._checked_type = like.checked_type
        return made

    after = typed_rewrite(root, doubled)
    assert after.body is not root.body and after.body._checked_type == root.body.checked_type


def test_sub_expressions_that_are_left_out_stay():
    left, right = relay.nn.relu(X), relay.nn.relu(relay.negative(X))
    root = relay.subtract(left, right)
    after = rewrite(root, exp_of_relu, lambda node: node.args[:1] if node is root else children(node))
    assert calls(after.args[0], "exp") and after.args[1] is right
    assert rewrite(root, exp_of_relu, lambda node: ()) is root


def test_a_transform_reads_what_became_of_other_nodes():
    first, second = relay.nn.relu(X), relay.negative(X)
    done = {}

    def second_as_first(before, after):
        return done[first] if before is second else exp_of_relu(before, after)

    after = rewrite(relay.add(first, second), second_as_first, done=done)
    assert after.args[0] is after.args[1] is done[second] and calls(done[first], "exp")


def test_a_chain_of_100000_calls_needs_no_recursion():
    root = X
    for _ in range(100_000):
        root = relay.Call(relay.op.get("negative"), [root])
    seen = []
    rewrite(root, lambda before, after: seen.append(before) or after)
    assert len(seen) == 100_001
