"""ToGraphNormalForm: bindings become sharing."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.relay.expr import Call, Let, Var
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import structural_equal
from byoc.relay.traverse import post_order


def parsed(text):
    return relay.transform.InferType()(relay.fromtext('#[version = "0.0.5"]\n' + text))


def test_a_chain_of_bindings_becomes_a_graph_that_shares():
    before = parsed(
        "def @main(%x: Tensor[(3,), float32]) {"
        " let %a = nn.relu(%x); let %b = add(%a, %a); let %a2 = multiply(%b, %a); %a2 }"
    )
    after = parsed("def @main(%x: Tensor[(3,), float32]) { %0 = nn.relu(%x); %1 = add(%0, %0); multiply(%1, %0) }")
    assert structural_equal(relay.transform.ToGraphNormalForm()(before), after)


def test_a_recursive_function_keeps_its_binding():
    n, f = relay.var("n", shape=(), dtype="int32"), relay.var("f")
    one, limit = relay.const(1), relay.const(5)
    body = relay.If(relay.less(n, limit), Call(f, [relay.add(n, one)]), n)
    loop = relay.Function([n], body, relay.TensorType((), "int32"))
    x = relay.var("x", shape=(), dtype="int32")
    main = relay.Function([x], relay.Let(f, loop, Call(f, [x])))
    after = relay.transform.ToGraphNormalForm()(byoc.IRModule.from_expr(main))
    assert any(isinstance(node, Let) for node in post_order(after["main"]))
    assert evaluate(after, [np.int32(2)]) == 5


@pytest.mark.slow
def test_100000_bindings_are_replaced():
    x = relay.var("x", shape=(2,))
    variables = [Var(f"v{k}") for k in range(100_000)]
    values = [relay.nn.relu(v) for v in [x, *variables[:-1]]]
    body = variables[-1]
    for variable, value in zip(reversed(variables), reversed(values), strict=True):
        body = Let(variable, value, body)
    after = relay.transform.ToGraphNormalForm()(byoc.IRModule.from_expr(relay.Function([x], body)))
    nodes = list(post_order(after["main"]))
    assert not any(isinstance(node, Let) for node in nodes)
    assert sum(isinstance(node, Call) for node in nodes) == 100_000


@pytest.mark.needs_cc
def test_a_model_written_with_let_compiles():
    mod = parsed("def @main(%x: Tensor[(3,), float32]) { let %a = nn.relu(%x); let %b = tanh(%a); add(%a, %b) }")
    data = np.array([-1, 0, 2], "float32")
    np.testing.assert_allclose(byoc.compile(mod, targets=["json", "c"])(data), evaluate(mod, [data]), rtol=1e-6)
