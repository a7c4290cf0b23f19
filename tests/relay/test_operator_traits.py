"""Every operator answers every trait, and what a trait says holds for its numpy kernel on each of its samples."""

from dataclasses import replace

import numpy as np
import pytest

import byoc.relay.op
import byoc.relay.qnn.op  # noqa: F401 - both register their operators
from byoc.ir.op import OPS, Op, OpPattern, Sample
from byoc.ir.traits import Conversion, LayoutFlow, OpKind, ProductForm, Scaling, Sensitivity, Traits
from byoc.relay.op.nn.activation import BIAS_OPERATORS
from byoc.relay.op.pointwise.binary import FACTOR_OPERATORS
from byoc.runtime.kernels import KERNELS, get_kernel
from byoc.runtime.kernels.movement.layouts import layout_attributes, layout_transform
from byoc.runtime.kernels.movement.transform import VIEWS
from byoc.runtime.kernels.nn.blocked import in_blocks

IN_BLOCKS = in_blocks(lambda data, *, layout: data).__code__  # that of all kernels that are made so

ALL = [OPS[name] for name in sorted(OPS) if OPS[name].rel is not None and OPS[name].rel.__module__.startswith("byoc.")]
WITH_KERNEL = [op for op in ALL if op.kernel in KERNELS]


def cases(holds):
    return [
        pytest.param(op, s, id=f"{op.name}-{k}") for op in WITH_KERNEL if holds(op) for k, s in enumerate(op.samples)
    ]


def run(op: Op, sample: Sample, arrays: list) -> list[np.ndarray]:
    attrs = op.attrs_type(**sample.attrs).as_dict() if op.attrs_type else {}
    with np.errstate(all="ignore"):
        result = get_kernel(op.kernel)(*arrays, **attrs)
    return [np.asarray(a) for a in (result if isinstance(result, (tuple, list)) else [result])]


def flat(value: object) -> list[np.ndarray]:
    return [a for v in value for a in flat(v)] if isinstance(value, list) else [np.asarray(value)]


def with_changed(arrays: list, places, change) -> list:
    def changed(value):
        return [changed(v) for v in value] if isinstance(value, list) else change(value)

    return [changed(a) if k in places else a for k, a in enumerate(arrays)]


def assert_same(got: list[np.ndarray], want: list[np.ndarray], exact: bool = True) -> None:
    for a, b in zip(got, want, strict=True):
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_every_operator_answers_every_trait(op: Op) -> None:
    traits = op.traits
    assert isinstance(traits, Traits) and isinstance(traits.kind, OpKind) and isinstance(traits.scaling, Scaling)
    assert traits.precision is None or isinstance(traits.precision, Conversion)
    assert (traits.product is not None) == (traits.kind is OpKind.PRODUCT)
    assert traits.product is None or isinstance(traits.product, ProductForm)
    assert op.variadic or all(0 <= k < op.num_inputs for k in (*traits.carries, *traits.sensitive))
    assert all(isinstance(s, Sensitivity) for s in traits.sensitive.values())
    assert traits.carries or not traits.chooses
    assert bool(traits.passes) <= (traits.kind in (OpKind.ROWS, OpKind.NORM))
    assert (traits.kind in (OpKind.VIEW, OpKind.MOVE)) <= traits.only_moves
    assert traits.quantized == op.name.startswith("qnn.")
    assert not traits.activation or (traits.is_pointwise and op.num_inputs == 1)
    assert not traits.repeats or (traits.kind is OpKind.MOVE and traits.carries == (0,))
    assert not traits.permutes or (traits.kind is OpKind.MOVE and traits.carries == (0,))
    assert traits.layout_flow is None or isinstance(traits.layout_flow, LayoutFlow)
    assert traits.quantized or (traits.zero_of_data is None and traits.zero_of_result is None)


def test_an_operator_that_declares_nothing_has_the_traits_of_its_pattern() -> None:
    op = Op("test.undeclared")
    assert op.traits.kind is OpKind.OTHER
    op.pattern = OpPattern.BROADCAST
    assert op.traits.is_pointwise
    op.attrs_type = OPS["nn.bias_add"].attrs_type  # has an axis
    assert op.traits.kind is OpKind.POINTWISE and not op.traits.is_pointwise


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.is_view))
def test_a_view_keeps_elements_and_their_order(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    (result,) = run(op, sample, arrays)
    np.testing.assert_array_equal(result.reshape(-1), arrays[0].reshape(-1))


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.only_moves))
def test_what_only_moves_does_so_whatever_the_elements_are(op: Op, sample: Sample) -> None:
    """A function of each element may be applied before or behind it."""
    arrays = sample.arrays()

    def function(x: np.ndarray) -> np.ndarray:
        return ~x if x.dtype == bool else x[...] * x.dtype.type(3) + x.dtype.type(1)

    moved = with_changed(arrays, op.traits.carries, function)
    assert_same(run(op, sample, moved), [function(a) for a in run(op, sample, arrays)])


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.chooses))
def test_what_chooses_gives_elements_by_their_order(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    if any(a.dtype == bool for a in flat(arrays)):
        pytest.skip("a function of bool that keeps the order is none")

    def function(x: np.ndarray) -> np.ndarray:
        return x / x.dtype.type(2) if x.dtype.kind == "f" else x // 2  # within the range of the type

    (got,) = run(op, sample, with_changed(arrays, op.traits.carries, function))
    (want,) = run(op, sample, arrays)
    least = np.finfo(want.dtype).min if want.dtype.kind == "f" else np.iinfo(want.dtype).min
    np.testing.assert_array_equal(got, np.where(want == least, least, function(want)))  # least: chosen from nothing


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.is_pointwise and op.name != "reinterpret"))
def test_what_is_pointwise_is_so_in_any_shape(op: Op, sample: Sample) -> None:
    """Broadcast by hand and flattened, the operands give the same elements."""
    arrays = sample.arrays()
    if not op.pattern <= OpPattern.BROADCAST:
        pytest.skip("an annotation, whose kernel is never asked")
    if op.name == "cast_like":
        arrays = [arrays[0], arrays[1].reshape(-1)[:1]]
    want = run(op, sample, arrays)
    spread = [np.asarray(a) for a in np.broadcast_arrays(*arrays)]
    got = run(op, sample, [a.reshape(-1).copy() for a in spread])
    assert_same([a.reshape(-1) for a in got], [a.reshape(-1) for a in want])


def is_float(sample: Sample) -> bool:
    return all(a.dtype in ("float32", "float64") for a in flat(sample.arrays()))


def float_cases(scaling: Scaling):
    return [c for c in cases(lambda op: op.traits.scaling is scaling) if is_float(c.values[1])]


@pytest.mark.parametrize("op, sample", float_cases(Scaling.PASSES))
def test_a_scale_passes(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    want = [a * 4 for a in run(op, sample, arrays)]
    assert_same(run(op, sample, with_changed(arrays, (0,), lambda x: x * 4)), want)


@pytest.mark.parametrize("op, sample", float_cases(Scaling.SUM))
def test_a_scale_of_every_term_passes_a_sum(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    want = [a * 4 for a in run(op, sample, arrays)]
    assert_same(run(op, sample, with_changed(arrays, (0, 1), lambda x: x * 4)), want)


@pytest.mark.parametrize("op, sample", float_cases(Scaling.FACTOR))
def test_a_factor_scales_its_first_operand(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    want = [a * 4 for a in run(op, sample, arrays)]
    assert_same(run(op, sample, with_changed(arrays, (0,), lambda x: x * 4)), want)


@pytest.mark.parametrize("op, sample", float_cases(Scaling.WEIGHTS))
def test_weights_take_up_a_scale_of_data_and_of_results(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    want = [a * 4 for a in run(op, sample, arrays)]
    for place in (0, 1):
        assert_same(run(op, sample, with_changed(arrays, (place,), lambda x: x * 4)), want, exact=False)


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.kind is OpKind.ROWS and not op.traits.quantized))
def test_rows_see_only_themselves(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    axis = op.attrs_type(**sample.attrs).axis
    (want,) = run(op, sample, arrays)
    other = np.moveaxis(arrays[0], axis, -1).copy()
    other[(0,) * (other.ndim - 1)] += 1
    (got,) = run(op, sample, [np.moveaxis(other, -1, axis), *arrays[1:]])
    same = np.moveaxis(got == want, axis, -1).reshape(-1, other.shape[-1])
    assert same[1:].all()


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.kind is OpKind.CREATION and "data" in op.input_names))
def test_what_is_created_does_not_depend_on_elements(op: Op, sample: Sample) -> None:
    if is_float(sample):
        arrays = sample.arrays()
        data = (op.input_names.index("data"),)
        assert_same(run(op, sample, with_changed(arrays, data, lambda x: x + 1)), run(op, sample, arrays))


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.idempotent))
def test_what_is_idempotent_gives_its_own_results_again(op: Op, sample: Sample) -> None:
    once = run(op, sample, sample.arrays())
    assert_same(run(op, sample, once), once)


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.either_order))
def test_operands_in_either_order_give_the_same(op: Op, sample: Sample) -> None:
    left, right = sample.arrays()
    assert_same(run(op, sample, [left, right]), run(op, sample, [right, left]))


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.repeats))
def test_what_repeats_has_each_element_equally_often(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    (result,) = run(op, sample, arrays)
    times = result.size // arrays[0].size
    np.testing.assert_array_equal(np.sort(result.reshape(-1)), np.repeat(np.sort(arrays[0].reshape(-1)), times))
    if result.shape == arrays[0].shape:
        np.testing.assert_array_equal(result, arrays[0])


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.permutes))
def test_what_permutes_has_each_element_once(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    (result,) = run(op, sample, arrays)
    np.testing.assert_array_equal(np.sort(result.reshape(-1)), np.sort(arrays[0].reshape(-1)))


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.ranks))
def test_what_ranks_does_not_see_a_function_that_grows(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    assert_same(run(op, sample, with_changed(arrays, (0,), lambda x: x * 4 + 1)), run(op, sample, arrays))


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.value_operand is not None))
def test_a_value_operand_is_every_element(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    (result,) = run(op, sample, arrays)
    assert op.traits.kind is OpKind.CREATION and (result == arrays[op.traits.value_operand]).all()


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.gives_shape))
def test_what_gives_a_shape_gives_that_of_its_operand(op: Op, sample: Sample) -> None:
    arrays = sample.arrays()
    (result,) = run(op, sample, arrays)
    assert op.traits.kind is OpKind.CREATION and tuple(result) == arrays[0].shape


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.fast_form is not None))
def test_a_fast_form_takes_the_same_and_gives_about_the_same(op: Op, sample: Sample) -> None:
    fast = OPS[op.traits.fast_form]
    assert (fast.input_names, fast.attrs_type) == (op.input_names, op.attrs_type)
    arrays = sample.arrays()
    if all(np.isfinite(a).all() for a in arrays):
        for a, b in zip(run(fast, sample, arrays), run(op, sample, arrays), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("op", [op for op in ALL if op.traits.kernel_layouts], ids=lambda op: op.name)
def test_kernels_go_with_data_of_the_same_spatial_axes(op: Op) -> None:
    assert op.traits.any_layout
    for data, kernels in op.traits.kernel_layouts.items():
        assert all(set(kernel) == set(data) - set("NC") | set("OI") for kernel in kernels)


@pytest.mark.parametrize("op", [op for op in ALL if op.traits.any_layout], ids=lambda op: op.name)
def test_what_computes_in_any_layout_has_an_attribute_for_it(op: Op) -> None:
    names = op.attrs_type.__dataclass_fields__
    assert "layout" in names or {"data_layout", "kernel_layout"} <= set(names)


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.takes_blocks))
def test_blocks_change_where_elements_lie_alone(op: Op, sample: Sample) -> None:
    attrs = op.attrs_type(**sample.attrs).as_dict()
    inputs, results = layout_attributes(attrs)
    data, result = str(attrs[inputs[0]]), next(str(attrs[name]) for name in results if attrs[name])
    blocks = {name: f"{attrs[name]}1c" for name in ("out_layout",) if attrs.get(name)}
    blocked = replace(sample, attrs={**sample.attrs, **blocks, inputs[0]: f"{data}1c"})
    first, *others = sample.arrays()
    (got,) = run(op, blocked, [layout_transform(first, src_layout=data, dst_layout=f"{data}1c"), *others])
    (want,) = run(op, sample, sample.arrays())
    np.testing.assert_array_equal(got, layout_transform(want, src_layout=result, dst_layout=f"{result}1c"))


def test_blocks_are_taken_by_operators_and_kernels_alike() -> None:
    in_blocks = [k.name for k in KERNELS.values() if getattr(k.function, "__code__", None) is IN_BLOCKS]
    assert sorted(in_blocks) == [op.name for op in ALL if op.traits.takes_blocks]


def test_kernels_say_which_operators_are_views_of_one_tensor() -> None:
    assert sorted(VIEWS) == [op.name for op in ALL if op.traits.is_view and op.num_inputs == 1]


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.zero_of_data is not None))
def test_data_and_their_zero_point_move_together(op: Op, sample: Sample) -> None:
    arrays, zero = sample.arrays(), op.traits.zero_of_data
    half = {"uint8": -128, "int8": 128}.get(str(arrays[0].dtype))
    if half is None:
        pytest.skip("no bytes")
    moved = [*arrays]
    moved[0] = (arrays[0].astype("int32") + half).astype("int8" if half < 0 else "uint8")
    moved[zero] = arrays[zero] + np.int32(half)
    assert_same(run(op, sample, moved), run(op, sample, arrays))


@pytest.mark.parametrize("op, sample", cases(lambda op: op.traits.zero_of_result is not None))
def test_a_result_and_its_zero_point_move_together(op: Op, sample: Sample) -> None:
    arrays, zero = sample.arrays(), op.traits.zero_of_result
    dtype = op.attrs_type(**sample.attrs).out_dtype
    half = {"uint8": -128, "int8": 128}.get(dtype)
    if half is None:
        pytest.skip("no bytes")
    moved = [a + np.int32(half) if k == zero else a for k, a in enumerate(arrays)]
    other = replace(sample, attrs={**sample.attrs, "out_dtype": "int8" if half < 0 else "uint8"})
    assert_same([a.astype("int32") - half for a in run(op, other, moved)], run(op, sample, arrays))


def test_patterns_name_the_operators_that_scale_and_that_add_a_bias() -> None:
    assert sorted(FACTOR_OPERATORS) == [op.name for op in ALL if op.traits.scaling is Scaling.FACTOR]
    data, bias = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    for name in BIAS_OPERATORS:
        attrs = {"axis": -1} if OPS[name].traits.names_axes else {}
        np.testing.assert_array_equal(get_kernel(name)(data, bias, **attrs), data + bias)


def test_what_is_read_on_the_host_are_operands_beside_others_or_all() -> None:
    named = {op.name: [op.input_names[k] for k in op.traits.host_operands] for op in ALL if op.traits.host_operands}
    assert named == {
        "vm.reshape_tensor": ["shape"],
        "memory.alloc_tensor": ["offset", "shape"],
        "memory.alloc_storage": ["size", "shape", "alignment"],
    }


def test_traits_are_compared_by_value() -> None:
    traits = OPS["nn.relu"].traits
    assert replace(traits) == traits and replace(traits, costly=1.0) != traits
