"""Type relations with dynamic and named dimensions, and what they refuse."""

import numpy as np
import pytest

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.types import Any, TensorType, TupleType
from byoc.relay import op
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, const, var
from byoc.relay.op.core.builder import define, placeholders
from byoc.runtime.kernels import get_kernel

N, M = Any("N"), Any("M")


def shape(expr) -> tuple:
    return infer_expr(expr).shape


def x(*dims, dtype="float32"):
    return var("x", shape=dims, dtype=dtype)


def evaluate(call: Call, arrays: list[np.ndarray], **sizes: int) -> list[np.ndarray]:
    """The call by its tensor expression, with named sizes bound."""
    out_type = infer_expr(call)
    inputs = placeholders([a.checked_type for a in call.args])
    outputs = define(call.op, call.attrs, inputs, out_type)
    return [te.evaluate(t, dict(zip(inputs, arrays, strict=True)), sizes) for t in outputs]


@pytest.mark.parametrize(
    "left, right, expected",
    [
        ((N, 3), (1, 3), (N, 3)),
        ((N, 3), (N, 1), (N, 3)),
        ((N,), (5,), (5,)),
        ((1,), (N,), (N,)),
        ((N,), (M,), (Any("(broadcast(M,N))"),)),
        ((Any(),), (Any(),), (Any(),)),
        ((Any(), 3), (4, 1), (4, 3)),
        ((3,), (N, 1), (N, 3)),
        ((0,), (1,), (0,)),
    ],
)
def test_broadcasting_keeps_what_is_known(left, right, expected) -> None:
    assert shape(op.add(x(*left), x(*right))) == expected


def test_broadcasting_refuses_other_sizes_and_dtypes_with_the_types_found() -> None:
    with pytest.raises(TypeInferenceError, match=r"add: .*\(2, 3\) and \(4,\) do not broadcast"):
        infer_expr(op.add(x(2, 3), x(4)))
    with pytest.raises(TypeInferenceError, match="one dtype, got float32 and int32; cast one"):
        infer_expr(op.add(x(2), x(2, dtype="int32")))


def test_a_broadcast_symbol_that_may_be_one_is_computed_for_both() -> None:
    call = op.add(x(N), x(5))
    five = np.arange(5, dtype="float32")
    for n in (1, 5):
        left = np.arange(n, dtype="float32") + 10
        np.testing.assert_array_equal(evaluate(call, [left, five], N=n)[0], left + five)


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ((N, 4, 5), (-1, 20), (N, 20)),
        ((N, 4, 5), (0, -1), (N, 20)),
        ((N, 4, 5), (0, 2, -1), (N, 2, 10)),
        ((N, 4), (-1,), (Any("(4*N)"),)),
        ((N, 4, 5), (-1, 10), (Any("(2*N)"), 10)),
        ((N, M), (0, 0, 1), (N, M, 1)),
        ((N, M, 2), (-3, 2), (Any("(M*N)"), 2)),
        ((Any(), 4, 5), (-1, 20), (Any(), 20)),
        ((N, 6), (-2,), (N, 6)),
        ((N, 6), (0, -4, 2, -1), (N, 2, 3)),
        ((2, N), (-1, 2), (N, 2)),
        ((Any(), 3), (0, -1), (Any(), 3)),
        ((2, 3), (6,), (6,)),
        ((1,), (), ()),
        ((0, 3), (0, -1, 3), None),
    ],
)
def test_reshape_lets_unknown_sizes_cancel(old, new, expected) -> None:
    call = op.reshape(x(*old), new)
    if expected is None:
        with pytest.raises(TypeInferenceError, match="another number of elements"):
            infer_expr(call)
    else:
        assert shape(call) == expected


@pytest.mark.parametrize(
    "new, message",
    [
        ((7,), "another number"),
        ((-1, -1), "more than one -1"),
        ((4, -1), "another number"),
        ((0, 0, 0), "dimension 2"),
        ((-4, 5, -1, 3), "another number"),
        ((-4, 2), "two sizes"),
        ((-7,), "newshape has -7"),
    ],
)
def test_reshape_refuses_what_does_not_fit(new, message) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        infer_expr(op.reshape(x(2, 3), new))


def test_reshape_of_a_symbolic_batch_is_computed_without_touching_the_batch() -> None:
    data = np.arange(3 * 4 * 5, dtype="float32").reshape(3, 4, 5)
    for new in [(-1, 20), (0, 2, -1), (0, 5, 4), (1, -1, 20)]:
        (got,) = evaluate(op.reshape(x(N, 4, 5), new), [data], N=3)
        np.testing.assert_array_equal(got, data.reshape(got.shape))


def test_reshape_by_a_tensor_is_dynamic_and_by_a_constant_is_static() -> None:
    dynamic = op.reshape(x(2, 6), x(3, dtype="int64"))
    assert dynamic.op.name == "dyn.reshape" and shape(dynamic) == (Any(),) * 3
    assert shape(op.reshape(x(2, 6), const(np.array([3, -1])))) == (3, 4)
    with pytest.raises(TypeInferenceError, match="length of newshape must be known"):
        infer_expr(op.reshape(x(2, 6), x(Any(), dtype="int64")))


def test_shape_operators_keep_names() -> None:
    assert shape(op.transpose(x(N, 3, M), (2, 0, 1))) == (M, N, 3)
    assert shape(op.squeeze(x(N, 1), [1])) == (N,)
    assert shape(op.expand_dims(x(N), -1, 2)) == (N, 1, 1)
    assert shape(op.concatenate([x(N, 3), x(N, 4)], 1)) == (N, 7)
    assert shape(op.concatenate([x(N, 3), x(M, 3)], 0)) == (Any("(M+N)"), 3)
    assert shape(op.stack([x(N), x(N)], 0)) == (2, N)
    assert shape(op.strided_slice(x(N, 8), [0, 2], [2**31 - 1, 4])) == (N, 2)
    assert shape(op.strided_slice(x(N, 8), [1], [4])) == (Any("(max(0,min(4,N)-1))"), 8)
    assert shape(op.take(x(N, 8), x(M, dtype="int64"), axis=1)) == (N, M)
    assert shape(op.sum(x(N, 8, 2), axis=1, exclude=True)) == (8,)
    assert shape(op.mean(x(N, 8, 2), axis=(1, -1), keepdims=True)) == (N, 1, 1)
    assert shape(op.tile(x(N, 2), (1, 3))) == (N, 6)
    assert shape(op.cumsum(x(N, 2))) == (Any("(2*N)"),)
    assert shape(op.layout_transform(x(N, 8, 4, 4), "NCHW", "NCHW4c")) == (N, 2, 4, 4, 4)
    assert [f.shape for f in infer_expr(op.split(x(6, N), (1, 4), axis=0).astuple()).fields] == [(1, N), (3, N), (2, N)]


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: op.transpose(x(2, 3), (0, 0)), "twice"),
        (lambda: op.transpose(x(2, 3), (0,)), "each of the 2"),
        (lambda: op.squeeze(x(2, 1), [0]), "only a 1 can be dropped"),
        (lambda: op.squeeze(x(N, 1)), "needs an axis"),
        (lambda: op.sum(x(2), axis=3), r"axis 3 is outside \[-1, 1\)"),
        (lambda: op.split(x(7), 2).astuple(), "equal sections"),
        (lambda: op.concatenate([x(2, 3), x(3, 3)], 1), "dimension 0 differs: 2 and 3"),
        (lambda: op.broadcast_to(x(3), (2, 4)), "do not broadcast"),
        (lambda: op.strided_slice(x(3), [0], [2], [0]), "stride must not be 0"),
        (lambda: op.topk(x(3), 5).astuple(), "more than the 3"),
        (lambda: op.take(x(3), x(2), axis=0), "must be integers"),
        (lambda: op.layout_transform(x(1, 6, 2, 2), "NCHW", "NCHW4c"), "no multiple"),
        (lambda: op.layout_transform(x(1, 6, 2, 2), "NC?W", "NCHW"), "is no layout"),
        (lambda: op.scatter_elements(x(3), x(2, dtype="int64"), x(2), reduction="xor"), "reduction is one of"),
        (lambda: op.reinterpret(x(2), "int64"), "another size"),
        (lambda: op.zeros((-1,), "float32"), "no negative"),
    ],
)
def test_operators_refuse_what_does_not_fit(build, message) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        infer_expr(build())


def test_the_shape_of_a_symbolic_tensor_is_computed_from_its_sizes() -> None:
    (got,) = evaluate(op.shape_of(x(N, 3, M), "int64"), [np.zeros((2, 3, 4), "float32")], N=2, M=4)
    assert got.tolist() == [2, 3, 4] and got.dtype == np.int64


def test_reductions_over_a_symbolic_axis_divide_by_its_size() -> None:
    data = np.random.default_rng(1).normal(size=(3, 4)).astype("float32")
    (got,) = evaluate(op.mean(x(N, 4), axis=0), [data], N=3)
    np.testing.assert_allclose(got, data.mean(0), rtol=1e-6)
    (found,) = evaluate(op.argmax(x(N, 4), axis=None), [data], N=3)
    assert found == data.argmax() and found.dtype == np.int32


def test_dynamic_operators_have_unnamed_dimensions_of_the_right_rank() -> None:
    vector = x(2, dtype="int64")
    assert infer_expr(op.full(const(1.0), vector)) == TensorType([Any(), Any()], "float32")
    assert infer_expr(op.zeros(vector, "int8")) == TensorType([Any(), Any()], "int8")
    assert shape(op.broadcast_to(x(3), vector)) == (Any(), Any())
    assert shape(op.tile(x(2, 3, 4), vector)) == (Any(),) * 3
    assert shape(op.strided_slice(x(N, 3, 4), vector, vector)) == (Any(), Any(), 4)
    assert shape(op.one_hot(x(5, dtype="int64"), 1.0, 0.0, x(dtype="int64"), -1, "float32")) == (5, Any())
    assert isinstance(infer_expr(op.topk(x(4, 5), x(1, dtype="int64")).astuple()), TupleType)
    assert shape(op.argwhere(x(4, 5))) == (Any(), 2)


def test_a_mixed_dynamic_slice_runs_on_its_kernel() -> None:
    call = op.strided_slice(x(6, 5), x(1, dtype="int64"), [4], axes=[1])
    assert call.op.name == "dyn.strided_slice" and shape(call) == (6, Any())
    data = np.arange(30.0).reshape(6, 5)
    got = get_kernel("dyn.strided_slice")(data, np.array([1]), np.array([4]), np.array([1]), axes=(1,))
    np.testing.assert_array_equal(got, data[:, 1:4])
