"""Replacing matches in place gives what making the graph anew for each pattern gives."""

import random

import numpy as np
import pytest

from byoc import relay
from byoc.relay import transform
from byoc.relay.analysis import infer_expr
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.relay.dataflow_pattern.indexed_graph import IndexedGraph
from byoc.relay.dataflow_pattern.mutable_graph import private_copy
from byoc.relay.dataflow_pattern.partitioning import partition_graph
from byoc.relay.interpreter import evaluate

F = (2, 3)
UNARY = (relay.exp, relay.tanh, relay.nn.relu, relay.sigmoid)
BINARY = (relay.add, relay.multiply, relay.subtract)


def random_function(seed):
    rng = random.Random(seed)
    params = [relay.var(n, shape=F) for n in "xy"]
    values = [*params, relay.const(np.full(F, 0.5, "float32"))]
    for _ in range(rng.randrange(8, 40)):
        recent = values[-rng.randrange(2, 8) :]
        if rng.random() < 0.4:
            values.append(rng.choice(UNARY)(rng.choice(recent)))
        elif rng.random() < 0.1:
            values.append(relay.TupleGetItem(relay.Tuple([rng.choice(recent), rng.choice(values)]), rng.randrange(2)))
        else:
            values.append(rng.choice(BINARY)(rng.choice(recent), rng.choice(values)))
    func = relay.Function(params, relay.Tuple([values[-1], rng.choice(values), values[-2]]))
    infer_expr(func)
    return func


def random_table(seed):
    rng = random.Random(seed)
    x = wildcard

    def unary(inner):
        return is_op(rng.choice(["exp", "tanh", "nn.relu", "sigmoid"]))(inner)

    def binary(left, right):
        return is_op(rng.choice(["add", "multiply", "subtract"]))(left, right)

    def diamond():
        shared = unary(x())
        return binary(unary(shared), shared)

    def dominated():
        parent = unary(x())
        path = (is_op("exp") | is_op("tanh"))(x()) | is_op("add")(x(), x())
        return parent.dominates(binary(x(), x()), path) if rng.random() < 0.5 else binary(parent, x())

    shapes = [
        lambda: unary(binary(x(), x())),
        lambda: binary(unary(x()), x()),
        lambda: unary(unary(x())),
        diamond,
        lambda: binary(binary(x(), x()), unary(x())),
        lambda: binary(x(), is_constant()),
        dominated,
        lambda: unary(x()).optional(unary),
        lambda: unary(x() | is_constant()),
    ]
    return [(f"p.{i}", rng.choice(shapes)(), refusing_one_in(rng.randrange(2, 9))) for i in range(6)]


def refusing_one_in(count):
    return lambda pre: hash_of(pre) % count != 0


def hash_of(expr):
    """A number that depends on what is written, so that a check may refuse some matches."""
    return len(relay.astext(expr, show_meta_data=False))


def one_by_one(func, table):
    root = func
    for name, pattern, check in table:
        root = partition_graph(pattern, IndexedGraph(root), {"Composite": name}, check)
        infer_expr(root)
    return root


@pytest.mark.parametrize("seed", range(60))
def test_composites_made_in_place_are_those_of_one_graph_for_each_pattern(seed):
    func, table = random_function(seed), random_table(seed)
    text = relay.astext(func)
    merged = transform.MergeComposite(table)(relay.IRModule({"main": func}))["main"]
    relay.assert_structural_equal(merged, one_by_one(func, table))
    assert relay.astext(func) == text
    inputs = [np.random.default_rng(seed).normal(size=F).astype("float32") for _ in range(2)]
    for a, b in zip(evaluate(merged, inputs), evaluate(func, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_random_tables_do_merge_something():
    modules = ((transform.MergeComposite(random_table(s)), random_function(s)) for s in range(60))
    assert sum("Composite" in merge(relay.IRModule({"main": func})).astext() for merge, func in modules) > 30


def test_a_private_copy_is_the_same_graph_of_other_nodes():
    func = random_function(3)
    copy = private_copy(func)
    relay.assert_structural_equal(copy, func)
    assert copy is not func and copy.body is not func.body and copy.params == func.params
    assert copy.body.checked_type == func.body.checked_type
