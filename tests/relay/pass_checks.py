"""What the tests of rewriting passes share: run a pass on a function, compare structure and numbers."""

from __future__ import annotations

import numpy as np
from random_graphs import flat

from byoc import relay
from byoc.ir.op import get_op
from byoc.ir.passes.transform import Pass, PassContext, Sequential
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import assert_structural_equal


class TempOpAttr:
    """An attribute of an operator for the time of a ``with`` block."""

    def __init__(self, op_name, key, value):
        self.op, self.key, self.value = get_op(op_name), key, value

    def __enter__(self):
        self.before = self.op.get_attr(self.key)
        self.op.set_attr(self.key, self.value)

    def __exit__(self, *exc):
        self.op.reset_attr(self.key)
        if self.before is not None:
            self.op.set_attr(self.key, self.before)


def typed(func):
    """*func* (or an expression over its free variables) as the main function of a typed module."""
    func = func if isinstance(func, relay.Function) else relay.Function(relay.analysis.free_vars(func), func)
    return relay.transform.InferType()(relay.IRModule.from_expr(func))["main"]


def run_passes(func, *passes: Pass, opt_level: int = 4, **context):
    """The main function after *passes*."""
    mod = relay.IRModule.from_expr(func)
    with PassContext(opt_level=opt_level, **context):
        return Sequential([relay.transform.InferType(), *passes])(mod)["main"]


def random_inputs(func, low: float = -1.0, high: float = 1.0, seed: int = 0):
    """One array for each parameter of a typed function."""
    rng = np.random.default_rng(seed)
    arrays = []
    for param in func.params:
        shape = tuple(3 if isinstance(d, relay.Any) else int(d) for d in param.checked_type.shape)
        arrays.append(np.asarray(rng.uniform(low, high, shape)).astype(param.checked_type.dtype))
    return arrays


def assert_same_numbers(before, after, rtol: float = 1e-4, atol: float = 1e-5, **inputs):
    """Both functions give the same results on random inputs."""
    arrays = random_inputs(before, **inputs)
    expected, got = flat(evaluate(before, arrays)), flat(evaluate(after, arrays))
    assert len(expected) == len(got)
    for a, b in zip(expected, got, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)


def check(before, passes, expected, numbers: bool = True, **options):
    """*before* becomes *expected* by *passes*, and computes the same; returns the result."""
    passes = passes if isinstance(passes, (list, tuple)) else [passes]
    after = run_passes(before, *passes)
    assert_structural_equal(after, typed(expected))
    if numbers:
        assert_same_numbers(typed(before), after, **options)
    return after
