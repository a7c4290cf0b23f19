"""The option ``layout`` of the host: the same results, and operators with their channels innermost or as they were."""

from __future__ import annotations

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.driver.pipeline import optimize, prepare_host
from byoc.relay.traverse import post_order


def network() -> relay.IRModule:
    """A convolution of every kind, between an input of 8 channels and an output."""
    rng = np.random.default_rng(0)

    def weight(*shape):
        return relay.const(rng.standard_normal(shape).astype("float32") * 0.3)

    x = relay.var("x", shape=(2, 8, 12, 10))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weight(16, 8, 3, 3), padding=(1, 1)), weight(16)))
    y = relay.clip(relay.nn.conv2d(y, weight(16, 1, 3, 3), padding=(1, 1), strides=(2, 2), groups=16), 0.0, 6.0)
    y = relay.nn.conv2d(y, weight(32, 4, 3, 3), padding=(2, 2), dilation=(2, 2), groups=4)
    z = relay.nn.conv2d(relay.mean(y, (2, 3), keepdims=True), weight(32, 32, 1, 1))
    y = relay.multiply(y, relay.sigmoid(z))
    y = relay.nn.conv2d_transpose(y, weight(32, 8, 3, 3), strides=(2, 2), padding=(1, 1), output_padding=(1, 1))
    y = relay.concatenate([y, relay.nn.max_pool2d(x, (3, 3), padding=(1, 1))], axis=1)
    y = relay.nn.avg_pool2d(y, (2, 2), (2, 2))
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.dense(relay.nn.batch_flatten(y), weight(5, 480))))


def layouts(mod: relay.IRModule, layout: str) -> set[str]:
    main = prepare_host(layout)(optimize(mod))["main"]
    attrs = [n.attrs for n in post_order(main) if isinstance(n, relay.Call) and n.attrs is not None]
    return {str(a["data_layout"]) for a in attrs if hasattr(a, "data_layout")}


def test_the_option_says_how_convolutions_lie():
    assert layouts(network(), "channels_last") == {"NHWC"}
    assert layouts(network(), "default") == {"NCHW"}


@pytest.mark.needs_cc
def test_both_layouts_give_the_same_results():
    x = np.random.default_rng(1).standard_normal((2, 8, 12, 10)).astype("float32")
    first, second = (
        byoc.compile(network(), ["c"], backend_options={"c": {"layout": name}})(x)
        for name in ("channels_last", "default")
    )
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)
