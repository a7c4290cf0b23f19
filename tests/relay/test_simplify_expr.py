"""SimplifyExpr and SimplifyExprPostAlterOp, rule by rule as Relay has them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from pass_checks import assert_same_numbers, run_passes, typed
from random_graphs import calls_of

from byoc import relay
from byoc.relay import transform
from byoc.relay.structure.structural import assert_structural_equal
from byoc.relay.transform.simplify.expr import SimplifyHostExpr


def var(name, *shape, dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


def simplified(expr, *passes):
    """The body of *expr* after SimplifyExpr, with all its variables as parameters."""
    func = expr if isinstance(expr, relay.Function) else relay.Function(relay.analysis.free_vars(expr), expr)
    return run_passes(func, *(passes or (transform.SimplifyExpr(),)), opt_level=3)


def becomes(before, expected, *passes):
    """*before* becomes *expected*, which may have fewer free variables."""
    params = relay.analysis.free_vars(before)
    after = simplified(relay.Function(params, before), *passes)
    assert_structural_equal(after, typed(relay.Function(params, expected)))
    return after


def same_numbers(before, **inputs):
    func = typed(relay.Function(relay.analysis.free_vars(before), before))
    assert_same_numbers(func, simplified(func), **inputs)


def test_reshapes_in_a_row_are_one():
    x, w = var("x", 1, 16, 16, 16), var("w", 32, 16, 3, 3)
    y = relay.nn.conv2d(x, w, padding=(1, 1))
    before = relay.reshape(relay.reshape(y, newshape=(1, 16, -1)), newshape=(4, 8, -1, 16))
    before = relay.op.reverse_reshape(before, newshape=(32, 0, -1))
    becomes(before, relay.reshape(y, newshape=(32, 16, 16)))


X4 = var("x", 1, 3, 8, 8)
BIG = var("x", 1, 8, 8, 128)


def transposes(x, *orders):
    for axes in orders:
        x = relay.transpose(x, axes=axes)
    return x


def layouts(x, *names):
    for src, dst in itertools.pairwise(names):
        x = relay.layout_transform(x, src, dst)
    return x


@pytest.mark.parametrize(
    "before, expected",
    [
        (
            lambda: transposes(layouts(transposes(X4, [0, 2, 3, 1]), "NHWC", "HWCN"), [3, 0, 1, 2]),
            lambda: transposes(X4, [0, 2, 3, 1]),
        ),
        (lambda: transposes(relay.nn.relu(X4), [0, 2, 3, 1], [1, 2, 3, 0], [3, 2, 0, 1]), lambda: relay.nn.relu(X4)),
        (
            lambda: transposes(relay.nn.relu(X4), None, None, [0, 2, -1, 1], None, None),
            lambda: transposes(relay.nn.relu(X4), [0, 2, 3, 1]),
        ),
        (
            lambda: transposes(
                layouts(relay.nn.relu(layouts(transposes(BIG, [0, 3, 1, 2]), "NCHW", "NCHW4c")), "NCHW4c", "NCHW"),
                [0, 2, 3, 1],
            ),
            lambda: layouts(relay.nn.relu(layouts(BIG, "NHWC", "NCHW4c")), "NCHW4c", "NHWC"),
        ),
        (
            lambda: layouts(relay.nn.relu(layouts(BIG, "NHWC", "NCHW", "NCHW4c")), "NCHW4c", "NCHW", "NHWC"),
            lambda: layouts(relay.nn.relu(layouts(BIG, "NHWC", "NCHW4c")), "NCHW4c", "NHWC"),
        ),
        (lambda: relay.nn.relu(layouts(BIG, "NCHW", "NCHW4c", "NCHW")), lambda: relay.nn.relu(BIG)),
        (lambda: layouts(BIG, "NCHW", "NCHW8c", "NCHW2c"), lambda: layouts(BIG, "NCHW", "NCHW2c")),
        (lambda: layouts(relay.nn.relu(BIG), "NCHW", "NCHW"), lambda: relay.nn.relu(BIG)),
    ],
)
def test_reorderings_in_a_row_are_one_or_none(before, expected):
    becomes(before(), expected())
    same_numbers(before())


def test_a_block_that_changes_between_reorderings_is_kept():
    before = transposes(layouts(BIG, "NCHW", "NCHW4c"), [0, 1, 3, 2, 4])
    becomes(before, layouts(BIG, "NCHW", "NCWH4c"))
    same_numbers(before)


@pytest.mark.parametrize("shape", [(5,), (5, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("value", [0, 1, 2])
def test_full_tensors_are_scalars_beside_their_own_shape_only(shape, dtype, value):
    x, scalar = var("x", *shape, dtype=dtype), relay.const(value, dtype)
    full = {0: relay.zeros(shape, dtype), 1: relay.ones(shape, dtype)}.get(value, relay.full(scalar, shape))
    like = {0: relay.zeros_like(x), 1: relay.ones_like(x)}.get(value, relay.full_like(x, scalar))
    wide = (*shape, *shape)
    broad = {0: relay.zeros(wide, dtype), 1: relay.ones(wide, dtype)}.get(value, relay.full(scalar, wide))
    for op in (relay.add, relay.multiply, relay.subtract, relay.divide):
        for other in (full, like):
            assert_structural_equal(simplified(op(other, x)), simplified(op(scalar, x)))
            assert_structural_equal(simplified(op(x, other)), simplified(op(x, scalar)))
        func = relay.Function([x], op(broad, x))
        assert_structural_equal(simplified(func), typed(func))


X3 = var("x", 2, 3, 4)


@pytest.mark.parametrize(
    "fill, like, op, scalar, commutes",
    [
        (relay.zeros, relay.zeros_like, relay.add, 0, True),
        (relay.ones, relay.ones_like, relay.multiply, 1, True),
        (relay.zeros, relay.zeros_like, relay.subtract, 0, False),
        (relay.ones, relay.ones_like, relay.divide, 1, False),
    ],
)
def test_neutral_elements_of_any_form_are_dropped(fill, like, op, scalar, commutes):
    forms = [like(X3), fill((2, 3, 4), "float32"), fill((3, 4), "float32"), relay.const(scalar, "float32")]
    for other in forms:
        assert simplified(relay.Function([X3], op(X3, other))).body is X3
        after = simplified(relay.Function([X3], op(other, X3)))
        assert (after.body is X3) == commutes
    larger = relay.Function([X3], op(X3, fill((2, 2, 3, 4), "float32")))
    assert_structural_equal(simplified(larger), typed(larger))


def test_like_operators_are_made_concrete():
    data, like = var("data", 2, 3, 4), var("like", 6, 2, 2, dtype="int32")
    value = relay.const(7, "int32")
    becomes(relay.reshape_like(data, like), relay.reshape(data, (6, 2, 2)))
    becomes(relay.zeros_like(like), relay.zeros((6, 2, 2), "int32"))
    becomes(relay.ones_like(like), relay.ones((6, 2, 2), "int32"))
    becomes(relay.full_like(like, value), relay.full(value, (6, 2, 2), "int32"))
    row, cube = var("row", 3), var("cube", 3, 3, 3)
    becomes(relay.collapse_sum_like(cube, row), relay.collapse_sum_to(cube, (3,)))
    becomes(relay.broadcast_to_like(row, var("l", 3, 3, 3)), relay.broadcast_to(row, (3, 3, 3)))
    free = relay.var("free", shape=(relay.Any(), 2, 3))
    becomes(relay.cast_like(free, like), relay.cast(free, "int32"))


def test_like_operators_of_unknown_shapes_stay():
    free = relay.var("free", shape=(relay.Any(), 2))
    func = relay.Function([free], relay.zeros_like(free))
    assert_structural_equal(simplified(func), typed(func))


def test_several_like_operators_are_made_concrete_together():
    x, y = var("x", 2, 3), var("y", 3)
    ones, zx, zy = relay.ones_like(x + y), relay.zeros_like(x), relay.zeros_like(y)
    before = relay.Tuple([zx + relay.collapse_sum_like(ones, zx), zy + relay.collapse_sum_like(ones, zy)])
    full = relay.ones((2, 3), "float32")
    becomes(before, relay.Tuple([relay.collapse_sum_to(full, (2, 3)), relay.collapse_sum_to(full, (3,))]))


def test_casts_in_a_row_are_one_where_every_value_survives():
    x, y, z = var("x", 3, 4, 5, dtype="int8"), var("y", 3, 4, dtype="int64"), var("z", 3)
    twice = relay.cast(relay.cast(x, "int16"), "int32")
    becomes(twice, relay.cast(x, "int32"))
    becomes(relay.cast_like(twice, y), relay.cast(x, "int64"))
    becomes(relay.cast_like(relay.cast_like(twice, y), z), relay.cast(x, "float32"))


@pytest.mark.parametrize(
    "source, middle, target",
    [
        ("float32", "int32", "float32"),
        ("int64", "bool", "int32"),
        ("int8", "uint8", "int32"),
        ("int32", "float32", "float64"),
        ("float32", "float16", "float32"),
        ("uint8", "int8", "int32"),
    ],
)
def test_a_cast_that_loses_values_stays(source, middle, target):
    func = relay.Function([x := var("x", 3, dtype=source)], relay.cast(relay.cast(x, middle), target))
    assert_structural_equal(simplified(func), typed(func))
    assert_same_numbers(typed(func), simplified(func), low=-200, high=200)


def test_a_cast_to_the_same_dtype_is_none():
    x, like = var("x", 4, 8), var("like", 2)
    becomes(relay.nn.relu(relay.cast(x, "float32")), relay.nn.relu(x))
    becomes(relay.nn.relu(relay.cast_like(x, like)), relay.nn.relu(x))


def test_a_cast_that_holds_the_range_of_a_clip_is_left_out():
    x = var("x", 4, 8, dtype="int32")

    def clip(high):
        return relay.clip(x, a_min=0.0, a_max=high)

    becomes(relay.cast(relay.cast(clip(255.0), "uint8"), "int32"), clip(255.0))
    becomes(relay.cast(relay.cast(clip(255.0), "uint8"), "int64"), relay.cast(clip(255.0), "int64"))
    becomes(relay.cast(relay.cast(clip(128.0), "int8"), "int32"), relay.cast(relay.cast(clip(128.0), "int8"), "int32"))


def test_a_clip_to_the_range_of_its_dtype_is_none():
    x = var("x", 4, 8, dtype="int32")
    becomes(relay.clip(relay.cast(x, "uint8"), 0.0, 255.0), relay.cast(x, "uint8"))
    becomes(relay.clip(relay.cast(x, "int8"), -128.0, 126.0), relay.clip(relay.cast(x, "int8"), -128.0, 126.0))


@pytest.mark.parametrize("value", [1.0, 2.0, 0.125])
def test_a_power_of_two_by_a_root_is_a_product_with_rsqrt(value):
    x = var("x", 32)
    expected = relay.rsqrt(x) if value == 1 else relay.const(value) * relay.rsqrt(x)
    becomes(relay.const(value) / relay.sqrt(x), expected)


def test_a_quotient_by_the_root_of_a_norm_is_a_product_with_rsqrt():
    x, y = var("x", 32), var("y", 32)
    spread = relay.add(y, relay.const(1e-5))
    becomes(relay.divide(x, relay.sqrt(spread)), relay.multiply(x, relay.rsqrt(spread)))


def test_another_quotient_by_a_root_stays_one():
    x, y = var("x", 32), var("y", 32)
    for numerator, root in (
        (x, relay.sqrt(y)),
        (x, relay.sqrt(relay.add(y, relay.const(3.0)))),
        (relay.const(2.5), relay.sqrt(y)),
    ):
        becomes(relay.divide(numerator, root), relay.divide(numerator, root))
    length = relay.sqrt(relay.add(y, relay.const(1e-5)))
    becomes(relay.divide(length, length), relay.divide(length, length))


def test_a_sum_with_itself_is_a_product():
    x = var("x", 1, 3, 10, 10)
    becomes(relay.add(x, x), relay.multiply(x, relay.const(2.0)))


C1, C2, C3 = (np.random.default_rng(k).uniform(size=32).astype("float32") for k in range(3))


@pytest.mark.parametrize(
    "forms, expected",
    [
        (lambda x, a, b, c: [x + a + b, a + x + b], lambda x: x + relay.const(C1 + C2)),
        (lambda x, a, b, c: [x * a * b, a * x * b], lambda x: x * relay.const(C1 * C2)),
        (
            lambda x, a, b, c: [(x + a) * b, (a + x) * b, b * (x + a), b * (a + x)],
            lambda x: x * relay.const(C2) + relay.const(C1 * C2),
        ),
        (
            lambda x, a, b, c: [(x + a) * b + c, c + b * (a + x)],
            lambda x: x * relay.const(C2) + relay.const(C1 * C2 + C3),
        ),
        (
            lambda x, a, b, c: [(x * a + b) * c, c * (b + a * x)],
            lambda x: x * relay.const(C1 * C3) + relay.const(C2 * C3),
        ),
    ],
)
def test_constants_of_sums_and_products_are_brought_together(forms, expected):
    x = var("x", 32)
    for before in forms(x, relay.const(C1), relay.const(C2), relay.const(C3)):
        becomes(before, expected(x), transform.SimplifyExpr(), transform.FoldConstant())
        same_numbers(before)


def test_constants_beside_each_other_are_one_at_once():
    x, w = var("x", 1, 16, 6, 6), var("w", 32, 16, 3, 3)
    a, b = (relay.const(np.full((32, 1, 1), v, "float32")) for v in (1, 2))
    y = relay.nn.conv2d(x, w, padding=(1, 1))
    three = relay.const(np.full((32, 1, 1), 3, "float32"))
    becomes(relay.nn.relu(relay.add(relay.add(y, a), b)), relay.nn.relu(relay.add(y, three)))
    becomes(relay.nn.relu(relay.add(b, relay.add(a, y))), relay.nn.relu(relay.add(y, three)))
    two = relay.const(np.full((32, 1, 1), 2, "float32"))
    becomes(relay.multiply(relay.multiply(y, a), b), relay.multiply(y, two))
    becomes(relay.multiply(relay.add(y, a), b), relay.add(relay.multiply(y, b), two))
    assert calls_of(simplified(relay.add(y, relay.add(a, b))))[-1:] == ["add"], "what the user wrote is FoldConstant's"


def test_only_a_scalar_constant_is_neutral_beside_zeros_and_ones_of_any_shape():
    x = var("x", 2, 3)
    for op, value in ((relay.add, 0), (relay.subtract, 0), (relay.multiply, 1), (relay.divide, 1)):
        tensor = relay.const(np.full((3,), value, "float32"))
        becomes(op(x, tensor), op(x, tensor))
        becomes(op(x, relay.const(float(value))), x)
        made, like = (relay.ones, relay.ones_like) if value else (relay.zeros, relay.zeros_like)
        for neutral in (made((3,), "float32"), made((2, 3), "float32"), like(x)):
            becomes(op(x, neutral), x)
        func = relay.Function([x], op(x, tensor))
        assert run_passes(func, SimplifyHostExpr(), opt_level=3).body.name_hint == "x", "the pipeline drops it"


def test_casts_behind_a_clip_go_where_they_hold_its_range():
    x = var("x", 8)

    def casts(a_min, a_max, *dtypes):
        value = relay.clip(x, a_min, a_max)
        for dtype in dtypes:
            value = relay.cast(value, dtype)
        return value

    becomes(casts(0, 255, "uint8", "int16", "int32"), casts(0, 255, "int32"))
    becomes(casts(0, 255, "int8", "uint8"), casts(0, 255, "int8", "uint8"))
    becomes(casts(0, 127, "uint8", "int8", "int32"), casts(0, 127, "int32"))
    becomes(casts(-5, 5, "uint8", "int8"), casts(-5, 5, "uint8", "int8"))
    fractions = casts(0, 255, "uint8", "float32")  # a fraction is cut off by the cast: it stays
    becomes(fractions, fractions)
    same_numbers(casts(-2, 2, "int8", "int16", "int32"))


def test_a_clip_stays_behind_quantized_operators_and_goes_behind_a_cast():
    x = var("x", 4, dtype="int32")
    scale, zero = relay.const(1.0), relay.const(0)
    quantized = relay.qnn.op.requantize(x, scale, zero, scale, zero, out_dtype="int8")
    becomes(relay.clip(quantized, -128, 127), relay.clip(quantized, -128, 127))
    y = var("y", 4, dtype="int8")
    total = relay.qnn.op.add(y, y, *(scale, zero) * 3)
    becomes(relay.clip(total, -128, 127), relay.clip(total, -128, 127))
    becomes(relay.clip(relay.cast(x, "int8"), -128, 127), relay.cast(x, "int8"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_quadratic_form_of_two_values_is_a_product(dtype):
    x, y = var("x", 4, dtype=dtype), var("y", 4, dtype=dtype)

    def c(value):
        return relay.const(value, dtype)

    for form in (2 * c(1) * x * x + c(8) * x * y + c(6) * y * y, c(6) * (y * y) + (x * (c(8) * y) + x * x * c(2))):
        becomes(form, c(2) * ((x + y * c(3)) * (x + y)))
    becomes(x * x + c(2) * x * y + y * y, relay.multiply(*[x + y] * 2))
    becomes(c(2) * x * x + c(3) * x * y + y * y, (y + x * c(2)) * (y + x))  # c is 1: the roles change
    for kept in (x * x + x * y + y * y, x * x + c(3) * x * y, x * x + y * y + c(5)):
        becomes(kept, kept)


def test_a_product_of_integers_keeps_what_it_cannot_say():
    x, y = var("x", 4, dtype="int32"), var("y", 4, dtype="int32")
    form = relay.const(2) * x * x + relay.const(1) * x * y
    form = form + relay.const(-4) * y * y  # roots that are no integers
    assert calls_of(simplified(form)).count("multiply") > 2
    same_numbers(form)


def test_positions_of_dequantized_values_are_those_of_the_quantized():
    x = var("x", 4, 2, 7, dtype="int8")
    real = relay.qnn.op.dequantize(x, relay.const(2.0), relay.const(3))
    becomes(relay.argmax(real, axis=1), relay.argmax(x, axis=1))
    becomes(relay.argmin(real, axis=1), relay.argmin(x, axis=1))
    becomes(relay.argsort(real, axis=1), relay.argsort(x, axis=1))
    per_channel = relay.qnn.op.dequantize(x, relay.const([2.0, 3.0]), relay.const(0), axis=1)
    func = relay.Function([x], relay.argmax(per_channel, axis=1))
    assert_structural_equal(simplified(func), typed(func))


def test_after_alter_op_only_leftovers_are_cleaned():
    x = var("x", 4, 8, dtype="int8")
    post = transform.SimplifyExprPostAlterOp()
    becomes(relay.reshape(relay.reshape(x, (8, 4)), (32,)), relay.reshape(x, (32,)), post)
    becomes(relay.cast(relay.cast(x, "int16"), "int32"), relay.cast(x, "int32"), post)
    stays = relay.transpose(relay.transpose(x))
    becomes(stays, stays, post)


def test_a_long_chain_of_sums_and_products_takes_linear_time():
    x = y = var("x", 4)
    for k in range(4000):
        y = y * relay.const(0.5) if k % 2 else y + relay.const(0.25)
    after = simplified(relay.Function([x], y), transform.SimplifyExpr(), transform.FoldConstant())
    assert calls_of(after) in (["multiply", "add"], ["multiply", "add", "add"])
