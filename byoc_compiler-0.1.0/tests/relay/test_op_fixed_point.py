"""Fixed-point products against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from byoc import relay
from byoc.errors import TypeInferenceError
from byoc.relay.analysis.type_infer import infer_expr
from byoc.runtime.kernels import get_kernel


def exact(x: int, multiplier: int, shift: int) -> int:
    """``floor(x * multiplier * 2**(shift - 31) + 1/2)`` without rounding on the way."""
    value = Fraction(int(x)) * multiplier * Fraction(2) ** (shift - 31) + Fraction(1, 2)
    return value.numerator // value.denominator


@pytest.mark.parametrize("multiplier, shift", [(1 << 30, 1), (1 << 30, -5), (1395864371, -3), (2147483647, 2)])
def test_a_fixed_point_product_is_rounded_with_halves_up(multiplier, shift):
    data = np.array([-(1 << 20), -7, -3, -2, -1, 0, 1, 2, 3, 7, 1 << 20], "int32")
    got = get_kernel("fixed_point_multiply")(data, multiplier=multiplier, shift=shift)
    assert got.dtype == np.int32
    assert got.tolist() == [exact(x, multiplier, shift) for x in data]


def test_per_axis_products_take_the_number_of_their_channel():
    rng = np.random.default_rng(3)
    data = rng.integers(-(1 << 20), 1 << 20, (2, 3, 4)).astype("int32")
    multipliers = rng.integers(1 << 29, (1 << 31) - 1, 3).astype("int32")
    left, right = np.array([0, 2, 0], "int32"), np.array([4, 0, 9], "int32")
    got = get_kernel("fixed_point_multiply_per_axis")(
        data, multipliers, left, right, is_lshift_required=True, is_rshift_required=True, axes=(1,)
    )
    for index in np.ndindex(data.shape):
        c = index[1]
        assert got[index] == exact(data[index], int(multipliers[c]), int(left[c]) - int(right[c]))


def test_both_keep_the_type_of_the_data():
    data = relay.var("x", shape=(1, relay.Any(), 4), dtype="int32")
    assert infer_expr(relay.fixed_point_multiply(data, multiplier=3, shift=-1)) == data.type_annotation
    row = relay.const(np.ones(4, "int32"))
    call = relay.fixed_point_multiply_per_axis(data, row, row, row, False, True, [2])
    assert infer_expr(call) == data.type_annotation
    assert call.attrs.axes == (2,) and call.attrs.is_rshift_required is True


def test_a_fixed_point_product_of_floats_is_refused():
    with pytest.raises(TypeInferenceError, match="takes integers, got float32"):
        infer_expr(relay.fixed_point_multiply(relay.var("x", shape=(2,)), 1, 0))


def test_multipliers_of_another_length_are_refused():
    row = relay.const(np.ones(3, "int32"))
    data = relay.var("x", shape=(2, 4), dtype="int32")
    with pytest.raises(TypeInferenceError, match="multiplier must have the shape"):
        infer_expr(relay.fixed_point_multiply_per_axis(data, row, row, row, True, True, 1))
