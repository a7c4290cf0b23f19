"""Numpy kernels against formulas of their own, and the builders' names and attributes."""

import math

import numpy as np
import pytest
import scipy.special

from byoc.errors import RegistryError, UserError
from byoc.ir.types import TensorType
from byoc.relay import op
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Constant, const, var
from byoc.relay.op.core.builder import make_call
from byoc.relay.traverse import post_order
from byoc.runtime.kernels import get_kernel


def kernel(name: str, *arrays, **attrs):
    return get_kernel(name)(*arrays, **attrs)


def run(root, **inputs):
    """An expression by its numpy kernels."""
    values = {}
    for node in post_order(root):
        kind = type(node).__name__
        if kind == "Var":
            values[node] = inputs[node.name_hint]
        elif kind == "Constant":
            values[node] = node.data.numpy()
        elif kind == "Tuple":
            values[node] = [values[f] for f in node.fields]
        elif kind == "TupleGetItem":
            values[node] = values[node.tuple_value][node.index]
        else:
            attrs = node.attrs.as_dict() if node.attrs else {}
            values[node] = kernel(node.op.kernel, *(values[a] for a in node.args), **attrs)
    return values[root]


def test_integer_division_and_remainder_round_as_c_and_as_python() -> None:
    a, b = np.meshgrid(np.arange(-9, 10), [-4, -3, 2, 5])
    a, b = a.astype("int32"), b.astype("int32")
    pairs = list(zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))
    assert kernel("divide", a, b).ravel().tolist() == [math.trunc(p / q) for p, q in pairs]
    assert kernel("mod", a, b).ravel().tolist() == [int(math.fmod(p, q)) for p, q in pairs]
    assert kernel("floor_divide", a, b).ravel().tolist() == [p // q for p, q in pairs]
    assert kernel("floor_mod", a, b).ravel().tolist() == [p % q for p, q in pairs]


def test_large_integers_divide_exactly() -> None:
    big = np.array([2**62 + 1, -(2**62) - 1], "int64")
    assert kernel("divide", big, np.array([3, 3], "int64")).tolist() == [(2**62 + 1) // 3, -((2**62 + 1) // 3)]


def test_erf_and_sigmoid_agree_with_scipy() -> None:
    x = np.linspace(-5, 5, 101).astype("float32")
    np.testing.assert_allclose(kernel("erf", x), scipy.special.erf(x), rtol=1e-6)
    np.testing.assert_allclose(kernel("sigmoid", x), scipy.special.expit(x), rtol=1e-6)


def test_logsumexp_variance_and_std_agree_with_scipy_and_numpy() -> None:
    data = (np.random.default_rng(0).normal(size=(3, 4)) * 300).astype("float32")
    x = var("x", shape=(3, 4))
    np.testing.assert_allclose(run(op.logsumexp(x, 1), x=data), scipy.special.logsumexp(data, 1), rtol=1e-6)
    np.testing.assert_allclose(run(op.variance(x, 0), x=data), data.var(0), rtol=1e-5)
    np.testing.assert_allclose(run(op.std(x, (0, 1), unbiased=True), x=data), data.std(ddof=1), rtol=1e-5)
    mean, spread = op.mean_variance(x, axis=1, keepdims=True)
    np.testing.assert_allclose(run(mean, x=data), data.mean(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(run(spread, x=data), data.var(1, keepdims=True), rtol=1e-5)


def test_a_mean_of_the_datas_sizes_is_taken_element_by_element_and_one_of_others_is_refused() -> None:
    data = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")
    x, other = var("x", shape=(2, 3)), var("mean", shape=(1, 2))
    assert run(op.variance(x, 1, with_mean=x), x=data).tolist() == [0.0, 0.0]
    with pytest.raises(UserError, match=r"the mean has the data's size or 1 along each axis, got .*1, 2"):
        infer_expr(op.variance(x, 1, with_mean=other))


def test_argmax_gives_the_first_or_the_last_of_equal_elements() -> None:
    data = np.array([[1, 7, 7, 0], [5, 5, 5, 5]], "float32")
    assert kernel("argmax", data, axis=(1,)).tolist() == [1, 0]
    assert kernel("argmax", data, axis=(1,), select_last_index=True).tolist() == [2, 3]
    assert kernel("argmin", data, axis=(0,), keepdims=True).tolist() == [[0, 1, 1, 0]]


def test_topk_and_argsort_keep_the_order_of_equal_elements() -> None:
    data = np.array([3, 1, 3, 2, 1], "uint8")
    assert kernel("argsort", data, is_ascend=False).tolist() == [0, 2, 3, 1, 4]
    assert kernel("argsort", data, is_ascend=True).tolist() == [1, 4, 3, 0, 2]
    values, indices = kernel("topk", data, k=3)
    assert values.tolist() == [3, 3, 2] and indices.tolist() == [0, 2, 3]


def test_scatter_combines_repeated_positions() -> None:
    data, at, new = np.array([10.0, 20.0, 30.0]), np.array([0, 0, -1]), np.array([1.0, 2.0, 5.0])
    expected = {
        "update": [2, 20, 5],
        "add": [13, 20, 35],
        "mul": [20, 20, 150],
        "min": [1, 20, 5],
        "max": [10, 20, 30],
        "mean": [13 / 3, 20, 17.5],
    }
    for reduction, want in expected.items():
        np.testing.assert_allclose(kernel("scatter_elements", data, at, new, axis=0, reduction=reduction), want)
        np.testing.assert_allclose(kernel("scatter_nd", data, at[None], new, mode=reduction), want)


def test_gather_nd_reads_coordinates_along_the_first_axis() -> None:
    data = np.arange(24.0).reshape(2, 3, 4)
    at = np.array([[0, 1], [2, -1]])
    np.testing.assert_array_equal(kernel("gather_nd", data, at), np.stack([data[0, 2], data[1, 2]]))
    batch = np.array([[2, 0]])
    np.testing.assert_array_equal(kernel("gather_nd", data, batch, batch_dims=1), np.stack([data[0, 2], data[1, 0]]))


def test_take_clips_and_wraps() -> None:
    data, at = np.arange(5.0), np.array([-1, 7])
    assert kernel("take", data, at, axis=0).tolist() == [0, 4]
    assert kernel("take", data, at, axis=0, mode="wrap").tolist() == [4, 2]


def test_unique_gives_elements_in_order_of_appearance_when_unsorted() -> None:
    data = np.array([5, 1, 5, 9, 1], "int64")
    values, first, inverse, number, counts = kernel("unique", data, sorted=False, return_counts=True)
    assert values.tolist() == [5, 1, 9] and first.tolist() == [0, 1, 3] and counts.tolist() == [2, 2, 1]
    assert values[inverse].tolist() == data.tolist() and number.tolist() == [3]


def test_cumsum_may_leave_out_the_element_itself() -> None:
    data = np.array([[1, 2, 3], [4, 5, 6]], "int32")
    assert kernel("cumsum", data, axis=1, exclusive=True).tolist() == [[0, 1, 3], [0, 4, 9]]
    assert kernel("cumprod", data, axis=0).tolist() == [[1, 2, 3], [4, 10, 18]]


def test_layouts_with_blocks_hold_the_same_elements() -> None:
    data = np.arange(2 * 8 * 3).reshape(2, 8, 3, 1)
    blocked = kernel("layout_transform", data, src_layout="NCHW", dst_layout="NCHW4c")
    assert blocked.shape == (2, 2, 3, 1, 4) and blocked[1, 1, 2, 0, 3] == data[1, 7, 2, 0]
    back = kernel("layout_transform", blocked, src_layout="NCHW4c", dst_layout="NHWC")
    np.testing.assert_array_equal(back, data.transpose(0, 2, 3, 1))


def test_reshape_reads_relays_special_numbers() -> None:
    data = np.zeros((2, 3, 4, 5))
    table = {
        (0, -1): (2, 60),
        (-2, 1): (2, 3, 4, 5, 1),
        (-3, -3): (6, 20),
        (0, 0, -3): (2, 3, 20),
        (-4, 1, 2, -2): (1, 2, 3, 4, 5),
        (0, -4, -1, 3, -2): (2, 1, 3, 4, 5),
    }
    for newshape, expected in table.items():
        assert kernel("reshape", data, newshape=newshape).shape == expected
    with pytest.raises(UserError, match="cannot take the shape"):
        kernel("reshape", data, newshape=(7, -1))


def test_slices_by_size_count_from_their_beginning() -> None:
    data = np.arange(20).reshape(4, 5)
    cut = dict(begin=(1, -3), end=(2, -1), slice_mode="size")
    np.testing.assert_array_equal(kernel("strided_slice", data, **cut), data[1:3, -3:])
    np.testing.assert_array_equal(
        kernel("strided_slice", data, begin=(3,), end=(-(2**31),), strides=(-2,)), data[3::-2]
    )


def test_clip_of_integers_ignores_bounds_outside_the_dtype() -> None:
    data = np.array([0, 100, 255], "uint8")
    assert kernel("clip", data, a_min=-5.0, a_max=120.5).tolist() == [0, 100, 120]
    assert kernel("clip", data, a_min=float("-inf"), a_max=float("inf")).tolist() == [0, 100, 255]


def test_kernels_give_arrays_even_of_rank_zero() -> None:
    for name in ("exp", "negative", "copy"):
        assert isinstance(kernel(name, np.array(1.0, "float32")), np.ndarray)
    assert isinstance(kernel("add", np.array(1.0), np.array(2.0)), np.ndarray)
    assert isinstance(kernel("sum", np.ones(3, "float32")), np.ndarray)


def test_numbers_take_the_dtype_of_the_other_side() -> None:
    x, whole = var("x", shape=(2,), dtype="float64"), var("n", shape=(2,), dtype="int8")
    assert infer_expr(x + 1).dtype == "float64"
    assert infer_expr(2.0 * x).dtype == "float64"
    assert infer_expr(whole - 1).dtype == "int8"
    assert infer_expr(x < 0.5) == TensorType((2,), "bool")
    assert infer_expr(-x + 3).dtype == "float64"
    untyped = [n for n in post_order(var("y") + 3) if isinstance(n, Constant)]
    assert [c.data.dtype for c in untyped] == ["int32"]
    assert op.add(1, const(2)).args[0].data.dtype == "int32"


def test_attributes_have_relays_names() -> None:
    x = var("x", shape=(2, 3, 4))
    assert op.sum(x, 1).attrs.as_dict() == {"axis": (1,), "keepdims": False, "exclude": False}
    assert type(op.reshape(x, (6, 4)).attrs).__name__ == "ReshapeAttrs"
    assert op.strided_slice(x, [0], [1]).attrs.keys() == ("begin", "end", "strides", "slice_mode", "axes")
    assert op.transpose(x, [2, 0, 1]).attrs.axes == (2, 0, 1)
    assert op.split(x, 2, axis=2).astuple().attrs.indices_or_sections == 2
    assert op.clip(x, 0, 6).attrs.a_max == 6.0


def test_a_tuple_wrapper_is_a_sequence_of_fields() -> None:
    parts = op.split(var("x", shape=(6,)), [2, 3])
    assert len(parts) == 3 and [p.index for p in parts] == [0, 1, 2] and parts[-1].index == 2
    with pytest.raises(IndexError, match="field 3 of a tuple of 3"):
        parts[3]


def test_calls_are_checked_when_made() -> None:
    x = var("x", shape=(2,))
    with pytest.raises(UserError, match=r"add takes 2 inputs \(lhs, rhs\), got 1"):
        make_call("add", [x])
    with pytest.raises(UserError, match="cast takes attributes CastAttrs, got NoneType"):
        make_call("cast", [x])
    with pytest.raises(RegistryError, match="exp"):
        make_call("expp", [x])
    with pytest.raises(UserError, match="concatenate needs at least one tensor"):
        op.concatenate([], 0)
    with pytest.raises(UserError, match="an operand is an expression, a number or an array, got str"):
        op.add(x, "1")


def test_every_exported_name_is_there() -> None:
    assert all(hasattr(op, name) for name in op.__all__) and len(set(op.__all__)) == len(op.__all__)


def test_einsum_agrees_with_numpy_and_refuses_equations_that_do_not_fit() -> None:
    a, b = np.random.default_rng(3).normal(size=(2, 3, 4)), np.random.default_rng(4).normal(size=(4, 5))
    np.testing.assert_allclose(kernel("einsum", [a, b], equation="b...j, jk"), np.einsum("b...j,jk", a, b))
    for equation, message in (("ij,jk", "does not fit"), ("bij", "1 terms"), ("bij,jk->z", "that no input has")):
        with pytest.raises(UserError, match=message):
            kernel("einsum", [a, b], equation=equation)


def test_sequences_are_reversed_up_to_their_length() -> None:
    data = np.array([[1, 2, 3], [4, 5, 6]])
    assert kernel("reverse_sequence", data, np.array([2, 3])).tolist() == [[2, 1, 3], [6, 5, 4]]
