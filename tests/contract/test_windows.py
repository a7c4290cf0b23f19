"""The window of a convolution or a pooling, from attributes in each form in which Relay writes them."""

import pytest

import byoc
from byoc import relay
from byoc.contract import Window, window_of
from byoc.errors import CompileError
from byoc.relay.expr import Call

CONV = """#[version = "0.0.5"]
def @main(%x: Tensor[({x}), float32], %w: Tensor[({w}), float32]) {{
  {call}
}}
"""
FORMS = {
    "1 number": (
        "nn.conv2d(%x, %w, strides=[2], padding=[1], dilation=[1, 2])",
        Window((3, 2), (2, 2), (1, 1, 1, 1), (1, 2)),
    ),
    "2 numbers": ("nn.conv2d(%x, %w, padding=[1, 2])", Window((3, 2), (1, 1), (1, 2, 1, 2), (1, 1))),
    "4 numbers": ("nn.conv2d(%x, %w, padding=[1, 2, 3, 4])", Window((3, 2), (1, 1), (1, 2, 3, 4), (1, 1))),
    "pooling": ("nn.max_pool2d(%x, pool_size=[2], padding=[1])", Window((2, 2), (1, 1), (1, 1, 1, 1), (1, 1))),
    "pooling, unsaid": ("nn.avg_pool2d(%x, pool_size=[2, 3])", Window((2, 3), (1, 1), (0, 0, 0, 0), (1, 1))),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_window_is_the_same_however_it_is_written(form):
    text, window = FORMS[form]
    call = relay.fromtext(CONV.format(x="1, 4, 9, 9", w="5, 4, 3, 2", call=text))["main"].body
    assert window_of(call) == window


def test_a_window_is_in_the_order_of_the_layout():
    x, w = relay.var("x", shape=(1, 9, 8, 4)), relay.var("w", shape=(5, 3, 2, 4))
    conv = relay.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="OHWI", padding=(0, 1))
    body = relay.transform.InferType()(byoc.IRModule.from_expr(conv))["main"].body
    assert window_of(body) == Window((3, 2), (1, 1), (0, 1, 0, 1), (1, 1))
    x, w = relay.var("x", shape=(1, 4, 9)), relay.var("w", shape=(5, 4, 3))
    body = relay.transform.InferType()(byoc.IRModule.from_expr(relay.nn.conv1d(x, w)))["main"].body
    assert window_of(body) == Window((3,), (1,), (0, 0), (1,))


def test_what_has_no_window_says_so():
    x = relay.var("x", shape=(2, 3))
    body = relay.transform.InferType()(byoc.IRModule.from_expr(relay.nn.relu(x)))["main"].body
    assert isinstance(body, Call)
    with pytest.raises(CompileError, match="nn.relu.* has no window: it is neither a convolution nor a pooling"):
        window_of(body)
