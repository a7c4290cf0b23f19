"""The steps of a region: numbered values without tuples, composites as one step; numpy runs them to the results."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.contract import steps_of
from byoc.errors import CompileError, UnsupportedError
from byoc.ir.types import tensor_types
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.interpreter import evaluate
from byoc.relay.transform import InferType, MergeComposite
from byoc.runtime.kernels import get_kernel

COMPOSITES = {
    "acme.dense_bias": lambda x, w, b: x @ w.T + b,
    "acme.bias_dense": lambda x, w, b: x @ w.T + b,
}


def region_of(body, patterns=()):
    params = [node for node in relay.traverse.post_order(body) if isinstance(node, relay.Var)]
    mod = InferType()(byoc.IRModule.from_expr(relay.Function(params, body)))
    if patterns:
        mod = InferType()(MergeComposite(list(patterns))(mod))
    return mod, mod["main"].with_attr("global_symbol", "region")


def run(region, inputs):
    """What the steps give, by numpy's kernels."""
    steps = steps_of(region)
    values = [*inputs, *(c.numpy() for c in steps.constants.values())]
    assert steps.inputs == len(inputs)
    for step in steps.steps:
        read = [values[k] for k in step.inputs]
        if step.name in COMPOSITES:
            found = COMPOSITES[step.name](*read)
        else:
            kernel = get_kernel(step.call.op.kernel)
            found = kernel(*kernel.regroup(read), **dict(step.call.attrs.items() if step.call.attrs else ()))
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        assert len(values) == step.outputs[0] and len(found) == len(step.outputs)
        values += found
    assert [(v.shape, str(v.dtype)) for v in values] == [(tuple(t.shape), t.dtype) for t in steps.types]
    return [values[k] for k in steps.outputs]


def flat(value):
    """The arrays in *value*, which may be a tuple of tuples."""
    if isinstance(value, (tuple, list)):
        for field in value:
            yield from flat(field)
    else:
        yield value


def check(body, patterns=()):
    mod, region = region_of(body, patterns)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(t.shape).astype(t.dtype) for p in region.params for t in tensor_types(p.checked_type)]
    expected = evaluate(mod, inputs)
    expected = list(flat(expected))
    found = run(region, inputs)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return steps_of(region)


def test_tuples_are_numbers_of_their_fields():
    x = relay.var("x", shape=(2, 4))
    halves = relay.split(x, 2, axis=1)
    joined = relay.concatenate([halves[1], x, halves[0]], axis=1)
    steps = check(relay.Tuple([joined, relay.Tuple([halves[1], x]), relay.nn.relu(x)]))
    assert [s.name for s in steps.steps] == ["split", "concatenate", "nn.relu"]
    assert steps.steps[0].outputs == (1, 2) and steps.steps[1].inputs == (2, 0, 1)
    assert steps.outputs == (3, 2, 0, 4)


def test_constants_have_names_in_their_order_and_shared_ones_are_one():
    x = relay.var("x", shape=(2,))
    one, two = relay.const(np.array([1, 2], "float32")), relay.const(np.array([3, 4], "float32"))
    steps = check(relay.Tuple([(x + one) * two + one, two]))
    assert list(steps.constants) == ["region_const_0", "region_const_1"]


@pytest.mark.parametrize("constant", [(True, True), (True, False), (False, True), (False, False)])
def test_a_composite_reads_what_is_inside_in_the_order_of_the_operators(constant):
    x = relay.var("x", shape=(2, 3))
    weight = relay.const(np.ones((3, 3), "float32")) if constant[0] else relay.var("w", shape=(3, 3))
    bias = relay.const(np.array([1, 2, 3], "float32")) if constant[1] else relay.var("b", shape=(3,))
    product = is_op("nn.dense")(wildcard(), wildcard())
    rows = [("acme.dense_bias", is_op("nn.bias_add")(product, wildcard()))]
    steps = check(relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, weight), bias)), rows)
    assert [s.name for s in steps.steps] == ["acme.dense_bias", "nn.relu"] and len(steps.steps[0].inputs) == 3


def test_a_value_that_a_composite_reads_twice_is_listed_twice():
    x = relay.var("x", shape=(3, 3))
    b = relay.const(np.array([1, 2, 3], "float32"))
    rows = [("acme.dense_bias", is_op("nn.bias_add")(is_op("nn.dense")(wildcard(), wildcard()), wildcard()))]
    steps = check(relay.nn.bias_add(relay.nn.dense(x, x), b), rows)
    assert steps.steps[0].inputs == (0, 0, 1)


def test_a_region_without_a_symbol_or_with_control_flow_is_refused():
    x = relay.var("x", shape=(2,))
    _, region = region_of(relay.nn.relu(x))
    with pytest.raises(CompileError, match="a region needs the attribute global_symbol"):
        steps_of(region.without_attr("global_symbol"))
    c = relay.var("c", shape=(), dtype="bool")
    _, region = region_of(relay.nn.relu(relay.If(c, relay.exp(x), x)))
    with pytest.raises(UnsupportedError, match="region: a If is no step of a region; refuse it by a constraint"):
        steps_of(region)
