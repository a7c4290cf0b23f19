"""Which attributes stand in the text: those that differ from the defaults of Relay's classes, not of its functions."""

from __future__ import annotations

import pytest

CASES = [
    # function default, class default: the text has what the function gives
    (lambda r, x, w: r.nn.lrn(x), "nn.lrn(%x, alpha=1e-05f)"),
    (lambda r, x, w: r.nn.lrn(x, alpha=1e-4), "nn.lrn(%x)"),
    (lambda r, x, w: r.nn.leaky_relu(x), "nn.leaky_relu(%x, alpha=0.01f)"),
    (lambda r, x, w: r.nn.leaky_relu(x, 0.25), "nn.leaky_relu(%x)"),
    (lambda r, x, w: r.nn.batch_matmul(x, w), "nn.batch_matmul(%x, %w, transpose_b=True)"),
    (lambda r, x, w: r.nn.batch_matmul(x, w, transpose_b=False), "nn.batch_matmul(%x, %w)"),
    (
        lambda r, x, w: r.image.resize2d(x, (4, 4)),
        'image.resize2d(%x, size=[4, 4], roi=[0f, 0f, 0f, 0f], rounding_method="")',
    ),
    # the function writes all sides, the class has two
    (lambda r, x, w: r.nn.conv2d(x, w), "nn.conv2d(%x, %w, padding=[0, 0, 0, 0])"),
    (lambda r, x, w: r.nn.conv1d(x, w), "nn.conv1d(%x, %w)"),
    (lambda r, x, w: r.nn.conv3d(x, w), "nn.conv3d(%x, %w, padding=[0, 0, 0, 0, 0, 0])"),
    (lambda r, x, w: r.nn.conv2d_transpose(x, w), "nn.conv2d_transpose(%x, %w, padding=[0, 0, 0, 0])"),
    (lambda r, x, w: r.nn.max_pool2d(x, (2, 2)), "nn.max_pool2d(%x, pool_size=[2, 2], padding=[0, 0, 0, 0])"),
    # the class has no default
    (lambda r, x, w: r.cast(x, "float32"), 'cast(%x, dtype="float32")'),
    (lambda r, x, w: r.nn.dense(x, w), "nn.dense(%x, %w, units=None)"),
    (lambda r, x, w: r.nn.matmul(x, w), "nn.matmul(%x, %w, units=None)"),
    (lambda r, x, w: r.expand_dims(x, 0), "expand_dims(%x, axis=0)"),
    (lambda r, x, w: r.gather(x, 0, w), "gather(%x, %w, axis=0)"),
    (lambda r, x, w: r.repeat(x, 2, 0), "repeat(%x, repeats=2, axis=0)"),
    (lambda r, x, w: r.reverse(x, 0), "reverse(%x, axis=0)"),
    (
        lambda r, x, w: r.strided_slice(x, [0], [1]),
        "strided_slice(%x, begin=[0], end=[1], strides=[1], axes=None)",
    ),
    (lambda r, x, w: r.slice_like(x, w), "slice_like(%x, %w, axes=None)"),
    (
        lambda r, x, w: r.layout_transform(x, "NCHW", "NHWC"),
        'layout_transform(%x, src_layout="NCHW", dst_layout="NHWC")',
    ),
    (lambda r, x, w: r.nn.upsampling(x), "nn.upsampling(%x, scale_h=1f, scale_w=1f)"),
    (
        lambda r, x, w: r.qnn.op.quantize(x, r.const(1.0), r.const(0)),
        'qnn.quantize(%x, 1f, 0, out_dtype="int8")',
    ),
    # the class's dtype is none
    (lambda r, x, w: r.zeros((2,), "float32"), 'zeros(shape=[2], dtype="float32")'),
    (lambda r, x, w: r.broadcast_to(x, (2, 2)), "broadcast_to(%x, shape=[2, 2])"),
    (lambda r, x, w: r.shape_of(x), 'shape_of(%x, dtype="int32")'),
    (lambda r, x, w: r.argsort(x), 'argsort(%x, dtype="int32")'),
    (lambda r, x, w: r.topk(x).astuple(), 'topk(%x, dtype="int32")'),
    (
        lambda r, x, w: r.one_hot(w, r.const(1.0), r.const(0.0), 3, -1, "float32"),
        'one_hot(%w, 1f, 0f, depth=3, dtype="float32")',
    ),
]


@pytest.mark.parametrize(
    ("make", "text"), CASES, ids=[text.partition("(")[0] + str(i) for i, (_, text) in enumerate(CASES)]
)
def test_the_text_leaves_out_what_relay_s_class_has_as_default(relay, make, text):
    call = make(relay, relay.var("x"), relay.var("w"))
    assert call.astext().splitlines()[-1] == text


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("nn.lrn(%x)", "alpha", 1e-4),
        ("nn.leaky_relu(%x)", "alpha", 0.25),
        ("nn.batch_matmul(%x, %x)", "transpose_b", False),
        ("image.resize2d(%x, size=[4, 4])", "rounding_method", "round"),
    ],
)
def test_text_without_an_attribute_has_the_default_of_relay_s_class(tvm, relay, text, name, value):
    func = tvm.relay.parse_expr(f'#[version = "0.0.5"]\nfn (%x: Tensor[(1, 4, 4, 4), float32]) {{ {text} }}')
    assert func.body.attrs[name] == value


def test_a_broadcast_is_read_back_as_it_was(tvm, relay):
    x = relay.var("x", shape=(2,))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.broadcast_to(x, (2, 2)))))
    tvm.ir.assert_structural_equal(tvm.relay.parse(mod.astext()), mod)
