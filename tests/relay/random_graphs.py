"""Small random networks for the tests of passes, and the comparison of a module before and after a pass."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.passes.transform import Pass, PassContext
from byoc.ir.span import Span, span_names
from byoc.relay.analysis import infer_module
from byoc.relay.interpreter import evaluate
from byoc.relay.traverse import post_order

UNARY = (
    relay.negative,
    relay.tanh,
    relay.abs,
    relay.sigmoid,
    lambda e: relay.transpose(e, (1, 0)),
    lambda e: relay.reshape(e, (4, 4)),
    lambda e: relay.reshape(e, (-1, 4)),
    lambda e: relay.cast(e, "float32"),
    lambda e: relay.multiply(e, relay.const(1.0)),
    lambda e: relay.add(e, relay.const(0.0)),
    lambda e: relay.add(e, relay.const(np.full((4, 1), 0.25, "float32"))),
    lambda e: relay.concatenate([e], 0),
)
BINARY = (
    relay.add,
    relay.subtract,
    relay.maximum,
    lambda a, b: relay.multiply(a, relay.sum(b, axis=1, keepdims=True)),
    lambda a, b: relay.strided_slice(relay.concatenate([a, b], 0), [2, 0], [6, 4]),
    lambda a, b: relay.split(relay.concatenate([a, b], 1), 2, axis=1)[1],
)


@st.composite
def modules(draw: st.DrawFn) -> relay.IRModule:
    """A module over two inputs and constants of shape (4, 4), with sharing, tuples and one to three outputs."""
    x, y = relay.var("x", shape=(4, 4)), relay.var("y", shape=(4, 4))
    pool: list[RelayExpr] = [x, y, relay.const(np.linspace(-1, 1, 16, dtype="float32").reshape(4, 4))]
    for step in range(draw(st.integers(1, 12))):
        a, b = (pool[draw(st.integers(0, len(pool) - 1))] for _ in range(2))
        kind = draw(st.integers(0, len(UNARY) + len(BINARY) - 1))
        new = UNARY[kind](a) if kind < len(UNARY) else BINARY[kind - len(UNARY)](a, b)
        new.span = Span.named(f"node_{step}")
        pool.append(relay.tanh(new))
    outputs = [pool[-1 - k] for k in range(draw(st.integers(1, min(3, len(pool)))))]
    body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
    return infer_module(relay.IRModule({"main": relay.Function([x, y], body)}))


def flat(value: object) -> list[np.ndarray]:
    """The arrays in a result."""
    return [a for v in value for a in flat(v)] if isinstance(value, list) else [value]


def inputs_of(mod: relay.IRModule, seed: int = 0) -> list[np.ndarray]:
    """Seeded inputs for the main function."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(p.checked_type.concrete_shape).astype("float32") for p in mod["main"].params]


def check_same(mod: relay.IRModule, step: Pass, rtol: float = 1e-5) -> relay.IRModule:
    """Run *step* and compare types and results of the main function before and after; returns the new module."""
    arrays = inputs_of(mod)
    before = flat(evaluate(mod, arrays))
    with PassContext(opt_level=3):
        after = step(mod)
    assert after["main"].checked_type == mod["main"].checked_type
    for a, b in zip(before, flat(evaluate(after, arrays)), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=rtol, atol=1e-5)
    return after


def names_in(mod: relay.IRModule) -> set[str]:
    """The ONNX names that the nodes of the main function carry."""
    return {name for node in post_order(mod["main"]) for name in span_names(node.span)}


def calls_of(root: RelayExpr) -> list[str]:
    """The names of the operators that are called under *root*, in post-order."""
    return [n.op.name for n in post_order(root) if isinstance(n, relay.Call) and isinstance(n.op, relay.Op)]
