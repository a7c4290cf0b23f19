"""Layouts as oneDNN's integration asks for them, and grouped kernels with the groups as an axis."""

import numpy as np
import pytest

from byoc.relay.interpreter import evaluate

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("float32")


def types_of(relay, *shapes):
    return [relay.TensorType(shape) for shape in shapes]


def test_without_the_library_the_plain_layouts_are_the_best(relay, dnnl):
    import tvm

    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    conv = relay.nn.conv2d(x, w, padding=(1, 1), channels=4, kernel_size=(3, 3))
    types = types_of(relay, (1, 3, 8, 8), (4, 3, 3, 3), (1, 4, 8, 8))
    tvm.ir.assert_structural_equal(dnnl.alter_conv(conv.attrs, [x, w], types, types[2]), conv)
    tvm.ir.assert_structural_equal(dnnl.legalize_group_conv(conv.attrs, [x, w], types), conv)


@pytest.mark.parametrize(
    ("kind", "weight", "out", "answer"),
    [
        ("conv", "8,3,3", "1,8,6", "abc,abc,abc"),
        ("conv", "8,3,3,3", "1,8,6,6", "abcd,abcd,abcd"),
        ("conv", "8,3,3,3,3", "1,8,6,6,6", "abcde,abcde,abcde"),
        ("conv_transpose", "3,8,2,2", "1,8,6,6", "abcd,abcd,abcd"),
        ("conv", "2,4,3,3,3", "1,8,6,6", "abcd,abcde,abcd"),
    ],
)
def test_the_library_is_asked_by_name_and_answers_in_letters(relay, kind, weight, out, answer):
    from tvm.relay import _ffi_api

    ask = getattr(_ffi_api, f"get_optimal_layout_for_{kind}")
    extra = ["0,0"] if kind == "conv_transpose" else []
    assert ask("NCHW", "OIHW", weight, out, "0,0,0,0", *extra, "1,1", "1,1", "1", "float32") == answer


def test_layouts_of_an_integration_that_has_the_library_are_taken(relay, dnnl):
    import tvm
    from tvm.relay.testing.temp_op_attr import TempOpAttr

    asked, name = [], "relay._ffi_api.get_optimal_layout_for_conv"
    ours = tvm.get_global_func(name)
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    conv = relay.nn.conv2d(x, w, padding=(1, 1), channels=4, kernel_size=(3, 3))
    types = types_of(relay, (1, 3, 8, 8), (4, 3, 3, 3), (1, 4, 8, 8))
    tvm.register_func(name, lambda *a: asked.append(a) or "acdb,cdba,acdb", override=True)
    try:
        chosen = dnnl.alter_conv(conv.attrs, [x, w], types, types[2]).attrs
        with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", dnnl.alter_conv), tvm.transform.PassContext(opt_level=3):
            mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.relu(conv)))
            found = relay.transform.AlterOpLayout()(mod)
    finally:
        tvm.register_func(name, ours, override=True)
    assert (chosen.data_layout, chosen.kernel_layout, chosen.out_layout) == ("NHWC", "HWIO", "NHWC")
    assert asked[0] == ("NCHW", "OIHW", "4,3,3,3", "1,4,8,8", "1,1,1,1", "1,1", "1,1", "1", "float32")
    inputs = {"x": normal(1, 3, 8, 8), "w": normal(4, 3, 3, 3)}
    assert relay.testing.count_ops(found["main"])["layout_transform"] >= 2
    np.testing.assert_allclose(evaluate(found, inputs), evaluate(mod, inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("letters", "plain", "layout"),
    [
        ("aBcd16b", "NCHW", "NCHW16c"),
        ("ABcd8b8a", "OIHW", "OIHW8i8o"),
        ("acdb", "NCHW", "NHWC"),
        ("aBCde4c8b", "GOIHW", "GOIHW4i8o"),
    ],
)
def test_blocks_are_small_letters(relay, letters, plain, layout):
    from byoc.contrib.onednn.relay.layouts import in_letters_of

    assert in_letters_of(letters, plain) == layout


def test_a_letter_that_is_no_axis_is_refused(relay):
    import tvm

    from byoc.contrib.onednn.relay.layouts import in_letters_of

    with pytest.raises(tvm.TVMError, match="a layout of 4 axes has the letters abcd, got 'abce'"):
        in_letters_of("abce", "NCHW")


@pytest.mark.parametrize("kind", ["graph", "vm", "debug"])
@pytest.mark.parametrize(
    ("op", "weight", "layout", "groups"),
    [
        ("conv2d", (6, 2, 3, 3), "GOIHW", 2),
        ("conv2d", (4, 1, 3, 3), "GOIHW", 4),
        ("conv2d_transpose", (4, 3, 3, 3), "GIOHW", 2),
    ],
)
def test_groups_of_a_kernel_may_be_an_axis(relay, dnnl, kind, op, weight, layout, groups):
    import tvm

    x, numbers = relay.var("x", shape=(1, 4, 7, 6)), normal(*weight)
    build = getattr(relay.nn, op)
    plain = build(x, relay.const(numbers), padding=(1, 0), strides=(2, 1), groups=groups)
    types = types_of(relay, (1, 4, 7, 6), weight)
    split = dnnl.legalize_group_conv(plain.attrs, [x, relay.const(numbers)], types)
    assert split.attrs.kernel_layout == layout and len(relay.transform.InferTypeLocal(split.args[1]).shape) == 5
    data = normal(1, 4, 7, 6)
    run = relay.create_executor(kind, mod=tvm.IRModule.from_expr(split), device=tvm.cpu(), target="llvm").evaluate()
    expected = evaluate(tvm.IRModule.from_expr(plain), {"x": data})
    np.testing.assert_allclose(run(data).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_an_untyped_grouped_kernel_gets_its_type(relay):
    import tvm

    x, w = relay.var("x", shape=(1, 4, 7, 6)), relay.var("w")
    conv = relay.nn.conv2d(x, w, groups=2, channels=6, kernel_size=(3, 3), kernel_layout="GOIHW")
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w], conv)))
    assert tuple(mod["main"].params[1].checked_type.shape) == (2, 3, 2, 3, 3)


def test_as_many_groups_as_the_kernel_has(relay):
    import tvm

    x, w = relay.var("x", shape=(1, 4, 7, 6)), relay.var("w", shape=(4, 1, 1, 3, 3))
    conv = relay.nn.conv2d(x, w, groups=2, kernel_layout="GOIHW")
    with pytest.raises(tvm.TVMError, match="the kernel has 4 groups in layout GOIHW, the attributes 2"):
        relay.transform.InferType()(tvm.IRModule.from_expr(conv))
