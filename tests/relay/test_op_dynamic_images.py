"""Padding and resizing by tensors give what the static operators give; shapes as the virtual machine has them."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import TypeInferenceError, UserError
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.interpreter import evaluate
from byoc.relay.op import memory, vm

RNG = np.random.default_rng(41)
DATA = RNG.standard_normal((1, 2, 4, 5)).astype("float32")


def run(expr, **arrays):
    params = relay.analysis.free_vars(expr)
    return np.asarray(evaluate(relay.Function(params, expr), [arrays[p.name_hint] for p in params]))


def data():
    return relay.var("x", shape=DATA.shape)


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
def test_a_resize_to_a_size_of_run_time_is_that_to_a_known_one(method):
    size = relay.var("size", shape=(2,), dtype="int64")
    call = relay.image.resize2d(data(), size, method=method)
    assert call.op.name == "dyn.image.resize2d" and type(call.attrs).__name__ == "Resize2DAttrs"
    assert infer_expr(call) == relay.TensorType((1, 2, relay.Any(), relay.Any()))
    want = run(relay.image.resize2d(data(), (7, 3), method=method), x=DATA)
    np.testing.assert_array_equal(run(call, x=DATA, size=np.array([7, 3], "int64")), want)


def test_a_constant_size_is_a_known_one():
    call = relay.image.resize2d(data(), relay.const([8, 9], "int32"), relay.const([0.0, 0.0, 1.0, 1.0]))
    assert call.op.name == "image.resize2d" and call.attrs.size == (8, 9) and call.attrs.roi == (0.0, 0.0, 1.0, 1.0)


def test_a_region_of_run_time_is_an_input():
    roi = relay.var("roi", shape=(4,))
    call = relay.image.resize2d(data(), (3, 3), roi, coordinate_transformation_mode="tf_crop_and_resize")
    part = np.array([0.1, 0.2, 0.9, 0.7], "float32")
    static = relay.image.resize2d(data(), (3, 3), part.tolist(), coordinate_transformation_mode="tf_crop_and_resize")
    np.testing.assert_allclose(run(call, x=DATA, roi=part), run(static, x=DATA), rtol=1e-5)
    with pytest.raises(TypeInferenceError, match="image.resize1d: size and roi must be known"):
        relay.image.resize1d(relay.var("y", shape=(1, 2, 3)), relay.var("s", shape=(1,), dtype="int64"))


def test_padding_by_a_tensor_is_padding_by_numbers():
    width = relay.var("width", shape=(4, 2), dtype="int64")
    pairs = np.array([[0, 0], [1, 0], [2, 1], [0, 3]], "int64")
    for mode, extra in (("constant", {"pad_value": 1.5}), ("edge", {})):
        call = relay.nn.pad(data(), width, pad_mode=mode, **extra)
        assert call.op.name == "dyn.nn.pad"
        assert infer_expr(call) == relay.TensorType([relay.Any()] * 4)
        static = relay.nn.pad(data(), pairs.tolist(), pad_mode=mode, **extra)
        np.testing.assert_array_equal(run(call, x=DATA, width=pairs), run(static, x=DATA))
    folded = relay.nn.pad(data(), relay.const(pairs))
    assert folded.op.name == "nn.pad" and folded.attrs.pad_width == tuple(map(tuple, pairs.tolist()))


def test_upsampling_by_tensors_is_upsampling_by_numbers():
    scale = relay.var("s", shape=(), dtype="float32")
    call = relay.nn.upsampling(data(), scale, 3)
    assert call.op.name == "dyn.nn.upsampling" and len(call.args) == 3
    assert infer_expr(call) == relay.TensorType((1, 2, relay.Any(), relay.Any()))
    want = run(relay.nn.upsampling(data(), 2, 3), x=DATA)
    np.testing.assert_array_equal(run(call, x=DATA, s=np.float32(2)), want)
    assert relay.nn.upsampling(data(), relay.const(2.0), 3).attrs.scale_h == 2.0
    cube = relay.var("c", shape=(1, 1, 2, 2, 2))
    deep = relay.nn.upsampling3d(cube, scale, 2, scale)
    array = RNG.standard_normal((1, 1, 2, 2, 2)).astype("float32")
    want = run(relay.nn.upsampling3d(cube, 2, 2, 2), c=array)
    np.testing.assert_array_equal(run(deep, c=array, s=np.float32(2)), want)


def test_the_machines_shape_is_int64():
    call = vm.shape_of(data())
    assert call.op.name == "vm.shape_of" and infer_expr(call) == relay.TensorType((4,), "int64")
    assert run(call, x=DATA).tolist() == [1, 2, 4, 5]
    moved = vm.reshape_tensor(data(), relay.const([8, 5], "int64"), [relay.Any(), 5])
    assert infer_expr(moved) == relay.TensorType((relay.Any(), 5))
    np.testing.assert_array_equal(run(moved, x=DATA), DATA.reshape(8, 5))


def test_a_tuple_is_taken_apart_and_put_together():
    a, b = relay.TensorType((1,)), relay.TensorType((2,), "int32")
    nested = relay.TupleType([a, relay.TupleType([b, relay.TupleType([]), a]), b])
    assert memory.flatten_tuple_type(nested) == [a, b, a, b]
    value = relay.var("t", nested)
    parts = memory.from_tuple_type(nested, value)
    assert [infer_expr(part) for part in parts] == [a, b, a, b]
    assert infer_expr(memory.to_tuple_type(nested, parts)) == nested
    assert memory.to_tuple_type(a, parts[:1]) is parts[0]
    with pytest.raises(UserError, match="has 4 tensors, got 1"):
        memory.to_tuple_type(nested, parts[:1])


def test_what_folds_to_numbers_becomes_static():
    half = relay.const(0.5)
    cases = [
        (
            relay.nn.upsampling3d(relay.var("c", shape=(1, 1, 2, 2, 2)), relay.divide(relay.const(1.0), half), 2, 2),
            "nn.upsampling3d",
            (1, 1, 4, 4, 4),
        ),
        (relay.nn.upsampling(data(), relay.divide(relay.const(1.0), half), 3), "nn.upsampling", (1, 2, 8, 15)),
        (
            relay.image.resize2d(data(), relay.add(relay.const([3, 4], "int64"), relay.const([1, 1], "int64"))),
            "image.resize2d",
            (1, 2, 4, 5),
        ),
        (
            relay.nn.pad(data(), relay.add(relay.const([[0, 0]] * 4, "int64"), relay.const([[1, 0]] * 4, "int64"))),
            "nn.pad",
            (2, 3, 5, 6),
        ),
    ]
    for call, name, shape in cases:
        assert call.op.name == f"dyn.{name}"
        mod = relay.transform.InferType()(relay.IRModule.from_expr(call))
        body = relay.transform.DynamicToStatic()(mod)["main"].body
        assert body.op.name == name and body.checked_type == relay.TensorType(shape)
