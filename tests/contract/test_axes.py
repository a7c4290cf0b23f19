"""Axes, orders and places of a call, from attributes in each form in which Relay writes them; kinds of padding."""

import numpy as np
import pytest

from byoc import relay
from byoc.contract import PaddingKind, axis_of, padding_kind, permutation_of, reduced_axes, slices_of
from byoc.errors import CompileError, TypeInferenceError
from byoc.ir.op import OPS
from byoc.ir.types import Any
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.interpreter import evaluate

SHAPE = (2, 3, 4, 5)


def call_of(build, shape=SHAPE):
    x = relay.var("x", shape=shape)
    return infer_function(relay.Function([x], build(x))).body


def value_of(call, array):
    return np.asarray(evaluate(infer_function(relay.Function([call.args[0]], call)), [array]))


def test_an_axis_is_not_below_0():
    assert axis_of(call_of(lambda x: relay.nn.softmax(x, axis=-1))) == 3
    assert axis_of(call_of(lambda x: relay.nn.softmax(x, axis=1))) == 1
    with pytest.raises(CompileError, match=r"exp.* has no attribute axis that is an axis: None"):
        axis_of(call_of(relay.exp))


def test_an_axis_of_an_operator_of_a_tuple_is_one_of_its_tensors():
    assert axis_of(call_of(lambda x: relay.concatenate([x, x], axis=-2))) == 2


INSERTING = {
    "expand_dims": lambda x, axis: relay.expand_dims(x, axis),
    "stack": lambda x, axis: relay.stack([x, x], axis),
    "one_hot": lambda x, axis: relay.one_hot(x, np.float32(1), np.float32(0), 7, axis, "float32"),
}


@pytest.mark.parametrize("operator", INSERTING)
@pytest.mark.parametrize("axis", range(-5, 5))
def test_a_place_where_an_axis_comes_is_counted_by_the_axes_that_there_will_be(operator, axis):
    x = relay.var("x", shape=SHAPE, dtype="int32")
    call = infer_function(relay.Function([x], INSERTING[operator](x, axis))).body
    place = axis_of(call)
    assert place == axis % 5
    new = {"expand_dims": 1, "stack": 2, "one_hot": 7}[operator]
    assert call.checked_type.concrete_shape == (*SHAPE[:place], new, *SHAPE[place:])


def test_new_axes_stand_before_the_place_that_is_meant():
    call = call_of(lambda x: relay.expand_dims(x, -2, num_newaxis=2))
    place = axis_of(call)
    assert call.checked_type.concrete_shape == (*SHAPE[:place], 1, 1, *SHAPE[place:])


def test_every_operator_that_makes_an_axis_says_so_of_its_attribute():
    """Those are the operators whose type relations take an axis one below what the first operand has."""
    for op in (OPS[name] for name in OPS):
        if op.attrs_type is None or "axis" not in op.attrs_type.__dataclass_fields__ or op.rel is None:
            continue
        if op.traits.static_form and "axis" in op.traits.static_form.attributes.values():
            continue  # its axis is an operand
        if op.traits.quantized or op.name == "check_lengths":
            continue  # no axis is looked at where a scale is a scalar; the axis of operand 1
        for sample in op.samples:
            assert op.traits.inserts_axis == _takes_one_axis_more(op, sample), (op.name, sample.attrs)


def _takes_one_axis_more(op, sample):
    """Whether the sample's operator takes the axis -1 - ndim of its first operand, or of its first tensor."""
    arrays = sample.arrays()
    first = arrays[0][0] if isinstance(arrays[0], list) else arrays[0]
    arguments = [relay.Tuple([relay.const(a) for a in v]) if isinstance(v, list) else relay.const(v) for v in arrays]
    axis = (-1 - np.ndim(first),) if isinstance(sample.attrs.get("axis"), tuple) else -1 - np.ndim(first)
    try:
        call = relay.Call(op, arguments, op.attrs_type(**{**sample.attrs, "axis": axis}))
        infer_function(relay.Function([], call))
    except (CompileError, TypeInferenceError):
        return False
    return True


@pytest.mark.parametrize(
    "build",
    [
        relay.transpose,
        lambda x: relay.transpose(x, [0, -1, 1, -2]),
        lambda x: relay.layout_transform(x, "NCHW", "HWNC"),
    ],
)
def test_an_order_of_axes_is_numpys(build):
    call, array = call_of(build), np.arange(120, dtype="float32").reshape(SHAPE)
    np.testing.assert_array_equal(array.transpose(permutation_of(call)), value_of(call, array))


@pytest.mark.parametrize(
    "options, axes",
    [
        ({}, (0, 1, 2, 3)),
        ({"axis": -1}, (3,)),
        ({"axis": [3, -3]}, (1, 3)),
        ({"axis": [1], "exclude": True}, (0, 2, 3)),
    ],
)
def test_the_axes_of_a_reduction_are_in_order(options, axes):
    assert reduced_axes(call_of(lambda x: relay.sum(x, **options))) == axes


@pytest.mark.parametrize(
    "options",
    [
        {"begin": [0, 1], "end": [9, -1]},
        {"begin": [-3], "end": [-1], "axes": [-1]},
        {"begin": [3, 2], "end": [-9, 0], "strides": [-1], "axes": [3, 2]},
        {"begin": [1, 0], "end": [-1, 2], "slice_mode": "size"},
        {"begin": [1], "end": [4], "strides": [2], "axes": [3]},
    ],
)
def test_the_places_of_a_slice_are_numbers(options):
    call, array = call_of(lambda x: relay.strided_slice(x, **options)), np.arange(120, dtype="float32").reshape(SHAPE)
    cuts = slices_of(call)
    assert all(isinstance(number, int) for cut in cuts for number in (cut.start, cut.stop, cut.step))
    taken = array[np.ix_(*(range(cut.start, cut.stop, cut.step) for cut in cuts))]
    np.testing.assert_array_equal(taken, value_of(call, array))


def test_places_that_nobody_knows_are_refused():
    with pytest.raises(CompileError, match=r"strided_slice.* has no places that are known: refuse it by static_sizes"):
        slices_of(call_of(lambda x: relay.strided_slice(x, [0], [1]), (Any(name="n"), 3)))


def pooled(size, kernel, stride, padding, **options):
    return call_of(lambda x: relay.nn.max_pool2d(x, kernel, stride, padding=padding, **options), (1, 2, *size))


KINDS = {
    PaddingKind.VALID: [((8, 8), (2, 2), (2, 2), 0), ((7, 8), (3, 2), (2, 2), 0)],
    PaddingKind.SAME: [
        ((9, 9), (3, 3), (1, 1), 1),
        ((8, 8), (3, 3), (2, 2), (0, 0, 1, 1)),
        ((9, 9), (3, 3), (2, 2), 1),
    ],
    PaddingKind.EXPLICIT: [((8, 8), (3, 3), (2, 2), 1), ((8, 8), (3, 3), (1, 1), (2, 0)), ((8, 8), (2, 2), (3, 3), 1)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_what_tensorflow_calls_it(kind):
    assert [padding_kind(pooled(*case)) for case in KINDS[kind]] == [kind] * len(KINDS[kind])


def test_a_last_window_may_hang_over():
    assert padding_kind(pooled((8, 8), (3, 3), (3, 3), 0, ceil_mode=True)) is PaddingKind.OVERHANGING
    assert padding_kind(pooled((9, 9), (3, 3), (3, 3), 0, ceil_mode=True)) is PaddingKind.VALID


def test_padding_of_a_convolution_looks_at_its_dilation_and_layout():
    weight = relay.const(np.ones((3, 3, 4, 5), "float32"))

    def conv(padding):
        options = dict(data_layout="NHWC", kernel_layout="HWIO", dilation=(2, 2), channels=5, kernel_size=(3, 3))
        return call_of(lambda x: relay.nn.conv2d(x, weight, padding=padding, **options), (1, 9, 8, 4))

    assert padding_kind(conv((2, 2))) is PaddingKind.SAME
    assert padding_kind(conv((1, 1))) is PaddingKind.EXPLICIT


def test_a_size_that_is_free_has_no_kind_of_padding():
    with pytest.raises(CompileError, match="known only when it runs: refuse it by static_sizes"):
        padding_kind(pooled((Any(name="h"), 8), (3, 3), (1, 1), 1))
