"""Type relations that take what those of Relay take: any dtype, unknown and symbolic sizes; and what computes them."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import typed

import byoc
from byoc import relay
from byoc.errors import KernelError, TypeInferenceError
from byoc.ir.dims import IntImm
from byoc.ir.size_var import SizeVar, Var, size_of
from byoc.relay import TensorType, TupleType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.bind import bind_params_by_name
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import structural_equal

Any = relay.Any
UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_not ceil copy cos cosh erf exp floor log log10 log1p log2 "
    "logical_not negative round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
BROADCASTS = (
    "add bitwise_and bitwise_or bitwise_xor divide floor_divide floor_mod left_shift logical_and logical_or "
    "logical_xor maximum minimum mod multiply power right_shift subtract"
).split()
REDUCTIONS = "all any max mean min prod sum".split()
DTYPES = ("bool", "int8", "int32", "uint8", "float32", "float16")


def x(*shape, dtype="float32", name="x"):
    return relay.var(name, shape=shape, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise_relations_broadcasts_and_reductions_do_not_look_at_the_dtype(dtype):
    data = x(2, 3, dtype=dtype)
    for name in UNARY:
        assert infer_expr(getattr(relay, name)(data)) == TensorType((2, 3), dtype), name
    for name in BROADCASTS:
        call = getattr(relay, name)(data, x(3, dtype=dtype, name="y"))
        assert infer_expr(call) == TensorType((2, 3), dtype), name
    for name in REDUCTIONS:
        assert infer_expr(getattr(relay, name)(data, axis=1)) == TensorType((2,), dtype), name
    for call in (relay.clip(data, 0, 1), relay.nn.softmax(data), relay.nn.log_softmax(data), relay.nn.relu(data)):
        assert infer_expr(call) == TensorType((2, 3), dtype)
    for call in (relay.isnan(data), relay.less(data, data)):
        assert infer_expr(call).dtype == "bool"
    scale, zero = relay.const(0.5), relay.const(1)
    for op in (relay.qnn.op.add, relay.qnn.op.subtract, relay.qnn.op.mul):
        assert infer_expr(op(data, data, *[scale, zero] * 3)) == TensorType((2, 3), dtype)


def test_two_dtypes_still_do_not_broadcast():
    with pytest.raises(TypeInferenceError, match="one dtype, got float32 and int32"):
        infer_expr(relay.add(x(2), x(2, dtype="int32", name="y")))


ODD_CALLS = {
    "log of int32": (relay.log, ("int32",)),
    "exp of bool": (relay.exp, ("bool",)),
    "logical_not of float32": (relay.logical_not, ("float32",)),
    "bitwise_not of bool": (relay.bitwise_not, ("bool",)),
    "isnan of int32": (relay.isnan, ("int32",)),
    "clip of bool": (lambda a: relay.clip(a, 0, 1), ("bool",)),
    "add of bool": (relay.add, ("bool", "bool")),
    "power of bool": (relay.power, ("bool", "bool")),
    "logical_and of float32": (relay.logical_and, ("float32", "float32")),
    "left_shift of bool": (relay.left_shift, ("bool", "bool")),
    "sum of bool": (relay.sum, ("bool",)),
    "mean of bool": (relay.mean, ("bool",)),
    "all of float32": (relay.all, ("float32",)),
    "any of int32": (relay.any, ("int32",)),
    "argmax of bool": (relay.argmax, ("bool",)),
    "softmax of int32": (relay.nn.softmax, ("int32",)),
    "fast_exp of int32": (relay.op.fast_exp, ("int32",)),
    "qnn.add of float32": (
        lambda a, b: relay.qnn.op.add(a, b, *[relay.const(0.5), relay.const(1)] * 3),
        ("float32", "float32"),
    ),
}


@pytest.mark.parametrize("case", ODD_CALLS)
def test_what_has_a_type_but_no_code_is_computed_alike_by_host_and_kernels(case):
    build, dtypes = ODD_CALLS[case]
    params = [relay.var(f"p{k}", shape=(4,), dtype=dtype) for k, dtype in enumerate(dtypes)]
    func = relay.Function(params, build(*params))
    arrays = [np.array([1, 0, 3, 2]).astype(dtype) for dtype in dtypes]
    wanted = evaluate(func, arrays)
    got = byoc.compile(relay.IRModule.from_expr(func), ["c"])(*arrays)
    assert np.asarray(wanted).dtype == infer_expr(typed(func).body).dtype
    np.testing.assert_array_equal(got, wanted)
    assert np.asarray(got).dtype == np.asarray(wanted).dtype


def test_what_numpy_does_not_define_is_refused_in_one_sentence():
    for call, arrays in (
        (relay.negative(x(2, dtype="bool")), [np.ones(2, bool)]),
        (relay.left_shift(x(2), x(2, name="y")), [np.ones(2, "float32")] * 2),
    ):
        func = relay.Function(relay.analysis.free_vars(call), call)
        with pytest.raises(KernelError, match="is not defined for elements of"):
            evaluate(func, arrays)


@pytest.mark.parametrize("data, kernel", [("int8", "float32"), ("float32", "int8"), ("uint8", "int8")])
def test_a_convolution_does_not_compare_the_dtypes_of_data_and_kernel(data, kernel):
    for op, shape in (
        (relay.nn.conv1d, (1, 1, 5)),
        (relay.nn.conv2d, (1, 1, 5, 5)),
        (relay.nn.conv3d, (1, 1, 5, 5, 5)),
        (relay.nn.conv1d_transpose, (1, 1, 5)),
        (relay.nn.conv2d_transpose, (1, 1, 5, 5)),
        (relay.nn.conv3d_transpose, (1, 1, 5, 5, 5)),
    ):
        params = [x(*shape, dtype=data), relay.var("w", shape=(1, 1, *(2,) * (len(shape) - 2)), dtype=kernel)]
        assert infer_expr(op(*params)).dtype == data
        assert infer_expr(op(*params, out_dtype="int32")).dtype == "int32"
        arrays = [np.ones(shape, data), np.full(params[1].type_annotation.shape, 2, kernel)]
        func = relay.Function(params, op(*params))
        wanted = evaluate(func, arrays)
        assert wanted.dtype == data
        if len(shape) == 4:
            np.testing.assert_array_equal(byoc.compile(relay.IRModule.from_expr(func), ["c"])(*arrays), wanted)


def test_the_result_type_of_inference_survives_rewrites():
    a, b = x(4), x(4, name="b")
    func = typed(relay.Function([a, b], relay.add(a, b)))
    wanted = TensorType((4,))
    value = relay.const(np.ones(4, "float32"))
    bound = relay.bind(func, {func.params[0]: value})
    by_name = bind_params_by_name(func, {"b": np.ones(4, "float32")})

    class Constants(relay.ExprMutator):
        def visit_call(self, call):
            return relay.negative(super().visit_call(call))

    for after in (bound, by_name, Constants().visit(func), func.with_attr("Compiler", "acme"), func.over([a, b], a)):
        assert after.ret_type == wanted and after.declared_ret_type is None
    untyped = relay.Function([a, b], relay.add(a, b))
    assert relay.bind(untyped, {a: value}).ret_type is None
    assert not structural_equal(bound, relay.Function([b], relay.add(value, b)))
    assert structural_equal(bound, relay.Function([b], relay.add(value, b), wanted))


def test_inline_keeps_the_result_type():
    a = x(4)
    inner = relay.GlobalVar("inner")
    mod = relay.IRModule({inner: relay.Function([a], relay.exp(a)).with_attr("Inline", 1)})
    mod["main"] = relay.Function([a], inner(a))
    after = relay.transform.Inline()(relay.transform.InferType()(mod))
    assert after["main"].ret_type == TensorType((4,))


def test_an_inferred_result_type_does_not_bind_what_a_rewrite_makes():
    a = x(4)
    func = typed(relay.Function([a], relay.exp(a)))
    after = func.over([a], relay.cast(a, "int32"))
    assert after.ret_type == TensorType((4,)) and typed(after).ret_type == TensorType((4,), "int32")


def test_dimensions_have_the_dtype_of_the_constant_that_says_them():
    for build in (
        lambda s: relay.broadcast_to(x(1, 1), s),
        lambda s: relay.zeros(s, "float32"),
        lambda s: relay.ones(s, "float32"),
        lambda s: relay.full(relay.const(1.0), s, "float32"),
    ):
        wide, narrow = (infer_expr(build(relay.const([3, 4], dtype))) for dtype in ("int64", "int32"))
        assert [d.dtype for d in wide.shape] == ["int64"] * 2 and [d.dtype for d in narrow.shape] == ["int32"] * 2
        assert wide == narrow


def test_positions_have_the_dtype_of_the_first_dimension():
    data, (a,) = np.array([[1.0, 7.0, 3.0]], "float32"), [x(1, 3)]
    for op in (relay.argmax, relay.argmin):
        assert infer_expr(op(a, axis=1)).dtype == "int32"
        body = op(relay.broadcast_to(a, relay.const([2, 3], "int64")), axis=1)
        assert infer_expr(body).dtype == "int64"
        shape = (IntImm("int64", 2), 3)
        assert infer_expr(op(relay.var("y", shape=shape), axis=0)).dtype == "int64"
        mod = relay.IRModule.from_expr(relay.Function([a], body))
        for targets in (["c"], ["json", "c"]):
            assert np.asarray(byoc.compile(mod, targets)(data)).dtype == np.int64


def test_const_narrows_arrays_and_constant_does_not():
    assert relay.const(np.ones(2)).data.dtype == "float32" and relay.const(np.arange(2)).data.dtype == "int32"
    assert relay.const(np.float64(1)).data.dtype == "float32" and relay.const([1, 2]).data.dtype == "int32"
    assert relay.const(np.ones(2), "float64").data.dtype == "float64"
    assert relay.const(np.ones(2, "float16")).data.dtype == "float16" and relay.const(True).data.dtype == "bool"
    assert relay.const(byoc.runtime.core.ndarray.array(np.ones(2))).data.dtype == "float64"
    assert relay.expr.constant(np.ones(2)).data.dtype == "float64"


@pytest.mark.parametrize(
    "left, right, axis, wanted",
    [
        ((1, 3), (1, Any()), 0, (2, Any())),
        ((1, 3), (Any(), Any()), 0, (Any(), 3)),
        ((1, 3), (1, Any()), 1, (1, Any())),
        ((1, Any()), (1, Any()), 0, (2, Any())),
        ((1, 3), (1, 3), 0, (2, 3)),
        ((1, 3), (1, Any("n")), 0, (2, 3)),
    ],
)
def test_concatenation_knows_a_size_only_where_relay_does(left, right, axis, wanted):
    parts = [x(*left), x(*right, name="y")]
    assert infer_expr(relay.concatenate(parts, axis)) == TensorType(wanted)


def test_relations_take_what_relays_take():
    for dim, wanted in ((Any(), Any()), (2, 8)):
        plain = relay.layout_transform(x(1, dim, 3, 3, Any()), "NCHW4c", "NCHW")
        assert infer_expr(plain) == TensorType((1, wanted, 3, 3))
    transposed = relay.nn.conv1d_transpose(x(1, 3, 8), x(3, 4, 3, name="w"), strides=(2,), output_padding=(1, 0))
    assert infer_expr(transposed) == TensorType((1, 4, 18))
    assert infer_expr(relay.nn.depth_to_space(x(1, 8, 2, 2), 2, mode="abc")) == TensorType((1, 2, 4, 4))
    dilated = relay.image.dilation2d(x(1, 3, 8, 8), x(3, 2, 2, name="w"), strides=[2, 1, 9, 9], dilations=[1, 2, 9, 9])
    assert infer_expr(dilated) == TensorType((1, 3, 4, 6))
    indices, updates = x(2, Any(), dtype="int64", name="i"), x(3, name="u")
    assert infer_expr(relay.scatter_nd(x(4, 4), indices, updates)) == TensorType((4, 4))
    assert infer_expr(relay.scatter_nd(x(4, 4), x(2, 5, dtype="int64", name="i"), updates)) == TensorType((4, 4))
    shapes = [x(Any(), dtype="int64", name="old"), x(3, dtype="int64", name="new")]
    sparse = relay.sparse_reshape(x(4, 2, dtype="int64"), *shapes)
    assert infer_expr(sparse.astuple()).fields[0] == TensorType((4, 3), "int64")
    with pytest.raises(
        TypeInferenceError,
        match=(
            "For reverse_sequnece seq_lengths size should match with dimension of batch axis, but got dimension of "
            "batch_axis = 4, and seq_length size = 5"
        ),
    ):
        infer_expr(relay.reverse_sequence(x(4, 2), x(5, dtype="int32", name="n"), 1, 0))


def test_what_the_relations_take_is_computed():
    ten = np.arange(10, dtype="float32")
    for mode, widths, wanted in (
        ("constant", (-2, 1), [*range(2, 10), 0]),
        ("edge", (2, -3), [0, 0, *range(7)]),
        ("reflect", (-1, 2), [*range(1, 10), 8, 7]),
        ("reflect", (-2, -3), list(range(2, 7))),
    ):
        body = relay.nn.pad(x(10), (widths,), pad_mode=mode)
        assert infer_expr(body).shape == (len(wanted),)
        func = relay.Function([body.args[0]], body)
        for got in (evaluate(func, [ten]), byoc.compile(relay.IRModule.from_expr(func), ["c"])(ten)):
            np.testing.assert_array_equal(got, wanted)
    cube = np.arange(24, dtype="float32").reshape(4, 3, 2)
    a, like = x(4, 3, 2), x(2, 2, name="like")
    func = relay.Function([a, like], relay.slice_like(a, like))
    np.testing.assert_array_equal(evaluate(func, [cube, np.zeros((2, 2), "float32")]), cube[:2, :2])
    blocks = np.arange(16, dtype="float32").reshape(1, 4, 2, 2)
    orders = [evaluate(relay.nn.depth_to_space(relay.const(blocks), 2, mode=m)) for m in ("CRD", "abc", "DCR")]
    np.testing.assert_array_equal(orders[0], orders[1])
    few = relay.scatter_nd(relay.const(np.zeros(4, "float32")), relay.const([[0, 1, 2]]), relay.const([1.0, 2.0]))
    with pytest.raises(KernelError, match=r"the updates have the shape \(2,\), the indices say \(3,\)"):
        evaluate(few)


@pytest.mark.parametrize(
    "cut, wanted",
    [
        (([1], [3, 2]), np.s_[1:3, :2]),
        (([1, 1], [3]), np.s_[1:3, 1:]),
        (([], [3], [2]), np.s_[:3:2]),
        (([1], [3, 2], [2, 1]), np.s_[1:3:2, :2]),
    ],
)
def test_a_slice_fills_in_what_is_missing_of_its_lists(cut, wanted):
    array = np.arange(16, dtype="float32").reshape(4, 4)
    data = x(4, 4)
    func = relay.Function([data], relay.strided_slice(data, *cut))
    assert tuple(infer_expr(func.body).shape) == array[wanted].shape
    for got in (evaluate(func, [array]), byoc.compile(relay.IRModule.from_expr(func), ["c"])(array)):
        np.testing.assert_array_equal(got, array[wanted])


n, c, h, w = (SizeVar(name) for name in "nchw")


def doubled(size):
    return size_of("cast", "int32", size_of("round", size * 2.0))


SYMBOLIC = {
    "pad": (lambda a: relay.nn.pad(a, ((1, 1), (0, 0), (0, 0), (4, 4))), lambda: TensorType((n + 2, c, h, w + 8))),
    "upsampling": (
        lambda a: relay.nn.upsampling(a, 2, 2, method="bilinear"),
        lambda: TensorType((n, c, doubled(h), doubled(w))),
    ),
    "resize2d": (
        lambda a: relay.image.resize2d(a, (Var("th"), Var("tw"))),
        lambda: TensorType((n, c, Var("th"), Var("tw"))),
    ),
    "concatenate": (lambda a: relay.concatenate([a, a], axis=0), lambda: TensorType((n + n, c, h, w))),
    "split": (lambda a: relay.split(a, 4, axis=2).astuple(), lambda: TupleType([TensorType((n, c, h // 4, w))] * 4)),
    "split at places": (lambda a: relay.split(a, (2, 7), axis=0)[2], lambda: TensorType((n - 7, c, h, w))),
    "batch_flatten": (relay.nn.batch_flatten, lambda: TensorType((n, c * h * w))),
    "yolo_reorg": (lambda a: relay.vision.yolo_reorg(a, 2), lambda: TensorType((n, c * 4, h // 2, w // 2))),
    "space_to_depth": (lambda a: relay.nn.space_to_depth(a, 2), lambda: TensorType((n, c * 4, h // 2, w // 2))),
    "depth_to_space": (lambda a: relay.nn.depth_to_space(a, 2), lambda: TensorType((n, c // 4, h * 2, w * 2))),
    "max_pool2d": (
        lambda a: relay.nn.max_pool2d(a, (2, 2), strides=(2, 2)),
        lambda: TensorType((n, c, (h - 2) // 2 + 1, (w - 2) // 2 + 1)),
    ),
}


@pytest.mark.parametrize("case", SYMBOLIC)
def test_results_carry_arithmetic_on_symbolic_sizes(case):
    build, wanted = SYMBOLIC[case]
    assert infer_expr(build(relay.var("a", TensorType((n, c, h, w))))) == wanted()


def test_symbolic_sizes_are_equal_by_structure():
    assert n + 2 == 2 + n == n + 1 + 1 and hash(n + 2) == hash(1 + n + 1)
    assert (n * c) * h == h * (c * n) and n + n == n * 2 and (n + 1) * 2 == n * 2 + 2 and n - n == 0 and n + 0 == n
    assert n + 2 != n + 3 and n + 2 != c + 2 and n // 2 != n // 3 and n + 2 != Any() and Any() != n + 2
    assert structural_equal(TensorType((n + 2,)), TensorType((SizeVar("n") + 2,)))
    assert not TensorType((n + 2,)).is_symbolic  # no code is generated for what only the program's run computes


def test_arithmetic_on_sizes_known_by_name_alone_gives_names_too():
    assert infer_expr(relay.nn.pad(x(Any("n")), ((1, 1),))) == TensorType((Any("(n+2)"),))
    assert infer_expr(relay.nn.pad(x(Any()), ((1, 1),))) == TensorType((Any(),))
