"""Products of bfloat16 behind a softmax in one group: words are read as words from the rows that the group keeps."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.ir import IRModule
from byoc.ir.passes.transform import PassContext

pytestmark = pytest.mark.needs_cc


def attention(rows: int) -> IRModule:
    """``softmax(q k) v`` for two heads of 32 features."""
    q, k, v = (relay.var(n, shape=s) for n, s in (("q", (2, rows, 32)), ("k", (2, rows, 32)), ("v", (2, rows, 32))))
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k, transpose_b=True), axis=-1)
    return IRModule.from_expr(relay.Function([q, k, v], relay.nn.batch_matmul(scores, v, transpose_b=False)))


@pytest.mark.parametrize("rows", [1, 33, 196, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 32))])
def test_joined_groups_compute_on_bfloat16_what_separate_ones_do(rows):
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal((2, rows, 32)).astype("float32") for n in "qkv"}
    joined = byoc.compile(attention(rows), precision="bf16").run(inputs)[0]
    with PassContext(opt_level=3, disabled_pass=["JoinGroups"]):
        separate = byoc.compile(attention(rows), precision="bf16").run(inputs)[0]
    np.testing.assert_allclose(joined, separate, rtol=0.02, atol=0.02)
    scores = np.einsum("hid,hjd->hij", inputs["q"], inputs["k"])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    exact = np.einsum("hij,hjd->hid", weights / weights.sum(axis=-1, keepdims=True), inputs["v"])
    assert np.abs(joined - exact).max() < 0.03 * np.ptp(exact)
