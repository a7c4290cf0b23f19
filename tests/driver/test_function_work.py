"""What a library says of its functions' work: of every operator, and with free dimensions."""

import numpy as np
import pytest

from byoc import relay
from byoc.contract.support_table import sample_call
from byoc.driver.host_functions import function_work
from byoc.ir.op import OPS
from byoc.relay.analysis import free_vars
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function

SAMPLED = [name for name in OPS if OPS[name].samples]


def of(function):
    """The operators of *function*, typed."""
    return function_work(infer_function(function), "c").operators


@pytest.mark.parametrize("family", sorted({name.split(".")[0] for name in SAMPLED}))
def test_the_work_of_every_operator_is_reported(family):
    tested = 0
    for name in (n for n in SAMPLED if n.split(".")[0] == family):
        for sample in OPS[name].samples:
            call = sample_call(OPS[name], sample)
            shown = [work for work in of(Function(free_vars(call), call)) if work.operator == name]
            assert shown and all(work.weight >= 0 and (work.operations or 0) >= 0 for work in shown), name
            tested += 1
    assert tested


def dense(rows, columns=8):
    x = relay.var("x", shape=(*rows, 8), dtype="float32")
    return Function([x], relay.nn.dense(x, relay.const(np.ones((columns, 8), "float32"))))


def test_with_its_sizes_a_free_function_has_the_work_of_a_fixed_one():
    (free,), (fixed,) = of(dense([relay.Any("n")])), of(dense([5]))
    bound = free.bound({"n": 5})
    assert (bound.operations, bound.bytes) == (fixed.operations, fixed.bytes) == (2 * 5 * 64, 4 * (40 + 40 + 64))
    assert free.bound({}).operations is None


def test_a_size_that_counts_twice_is_multiplied_twice():
    n = relay.Any("n")

    def attention(size):
        scores = relay.var("s", shape=(1, size, size), dtype="float32")
        values = relay.var("v", shape=(1, 8, size), dtype="float32")
        return Function([scores, values], relay.nn.batch_matmul(scores, values))

    (free,), (fixed,) = of(attention(n)), of(attention(6))
    bound = free.bound({"n": 6})
    assert (bound.operations, bound.bytes) == (fixed.operations, fixed.bytes)
    assert fixed.operations == 2 * 6 * 6 * 8


def test_sizes_known_only_at_run_time_have_no_counts():
    x = relay.var("x", shape=(4,), dtype="float32")
    (work,) = of(Function([x], relay.argwhere(x)))
    assert (work.operations, work.bytes) == (None, None)
