"""The ready constraints: what each accepts, what it refuses, and the value that its sentence shows."""

import doctest

import numpy as np
import pytest

from byoc import relay
from byoc.contract import Backend, constraints, judge
from byoc.contract.checks import check_backend
from byoc.contract.constraints import (
    attributes,
    constant_weights,
    dtypes,
    forward_slices,
    groups,
    layouts,
    named_sizes,
    operators,
    plain_layouts,
    plain_transforms,
    ranks,
    static_sizes,
    tensors_only,
    zero_padding,
)
from byoc.errors import PartitionError
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.runtime.json import KernelTable
from byoc.runtime.json.table import TABLES


def call_of(build, *types):
    """The last call of what *build* makes of variables of *types*, typed."""
    params = [relay.var(f"x{k}", ty) for k, ty in enumerate(types)]
    return infer_function(relay.Function(params, build(*params))).body


def f32(*shape):
    return TensorType(shape, "float32")


IMAGE, KERNEL = f32(1, 8, 6, 6), relay.const(np.ones((8, 8, 3, 3), "float32"))
DEPTHWISE = relay.const(np.ones((8, 1, 3, 3), "float32"))


def conv(data, weight=KERNEL, **attrs):
    return relay.nn.conv2d(data, weight, channels=8, kernel_size=(3, 3), **attrs)


def composite(build, *types):
    """As :func:`call_of`, the call put into a composite function, whose constants become its parameters."""
    pattern = is_op("nn.conv2d")(wildcard(), wildcard())
    made = pattern.partition(call_of(build, *types), {"Composite": "acme.conv"})
    return infer_function(relay.Function(relay.analysis.free_vars(made), made)).body


CASES = {
    "operators": (operators("nn.relu", "add"), lambda x: relay.nn.relu(x), lambda x: relay.exp(x), "got exp"),
    "dtypes": (dtypes("float32"), lambda x: relay.exp(x), lambda x: relay.cast(x, "int8"), "got int8"),
    "ranks": (ranks(4), lambda x: relay.exp(x), lambda x: relay.exp(relay.reshape(x, (8, 36))), "got 2 dimensions"),
    "weights": (
        constant_weights(),
        conv,
        lambda x, w: conv(x, w),
        "got weights of nn.conv2d",
    ),
    "layouts": (layouts(data="NCHW", kernel="OIHW"), conv, lambda x: conv(x, kernel_layout="IOHW"), "weights in IOHW"),
    "data layout": (
        layouts("NCHW"),
        lambda x: relay.nn.max_pool2d(x, (2, 2)),
        lambda x: relay.nn.max_pool2d(x, (2, 2), layout="NHWC"),
        "data in NHWC",
    ),
    "groups": (groups(1), conv, lambda x: conv(x, DEPTHWISE, groups=8), "got 8 groups"),
    "depthwise": (
        groups(1, depthwise=True),
        lambda x: conv(x, DEPTHWISE, groups=8),
        lambda x: conv(x, relay.const(np.ones((8, 4, 3, 3), "float32")), groups=2),
        "got 2 groups",
    ),
    "attributes": (
        attributes(strides=(1, 2), dilation=1),
        lambda x: conv(x, strides=(1, 2)),
        lambda x: conv(x, strides=(3, 1)),
        "strides of 1 or 2, dilation of 1, got strides",
    ),
    "plain layouts": (
        plain_layouts(),
        lambda x: relay.nn.max_pool2d(x, (2, 2), layout="NHWC"),
        lambda x: relay.nn.avg_pool2d(relay.reshape(x, (1, 2, 6, 6, 4)), (2, 2), layout="NCHW4c"),
        "got layout NCHW4c",
    ),
    "transforms": (
        plain_transforms(),
        lambda x: relay.layout_transform(x, "NCHW", "NHWC"),
        lambda x: relay.layout_transform(x, "NCHW", "NCHW4c"),
        "got NCHW4c",
    ),
    "zeros": (
        zero_padding(),
        lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (0, 2))),
        lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (0, 2)), 1.0),
        "got other padding",
    ),
    "slices": (
        forward_slices(),
        lambda x: relay.strided_slice(x, [1], [3], axes=[2]),
        lambda x: relay.strided_slice(x, [1], [5], [2], axes=[2]),
        "got stride 2",
    ),
    "steps": (
        forward_slices(steps=True),
        lambda x: relay.strided_slice(x, [1], [5], [2], axes=[2]),
        lambda x: relay.strided_slice(x, [5], [1], [-1], axes=[2]),
        "got stride -1",
    ),
    "axes": (named_sizes(most_axes=4), relay.exp, lambda x: relay.reshape(x, (1, 2, 4, 6, 6)), "got Tensor[(1, 2, 4"),
    "tuples": (tensors_only(), lambda x: relay.exp(x), lambda x: relay.split(x, 2, 1).astuple(), "got "),
}

EXTRA = {"weights": (f32(8, 8, 3, 3),)}  # what else the refused call takes


@pytest.mark.parametrize("name", CASES)
def test_a_ready_constraint_takes_and_refuses_with_its_sentence_and_the_value(name):
    made, good, bad, words = CASES[name]
    assert judge(call_of(good, IMAGE), [made])
    verdict = judge(call_of(bad, IMAGE, *EXTRA.get(name, ())), [made])
    assert not verdict and made.text in str(verdict) and words in str(verdict), verdict


@pytest.mark.parametrize("name", ["groups", "layouts", "attributes", "weights"])
def test_it_looks_into_composites_and_at_what_they_are_given(name):
    made, good, bad, words = CASES[name]
    assert judge(composite(good, IMAGE), [made])
    if name == "weights":
        params = [relay.var("x", IMAGE), relay.var("w", f32(8, 8, 3, 3))]
        found = is_op("nn.conv2d")(wildcard(), wildcard()).partition(
            infer_function(relay.Function(params, conv(*params))).body, {"Composite": "acme.conv"}
        )
        verdict = judge(infer_function(relay.Function(params, found)).body, [made])
    else:
        verdict = judge(composite(bad, IMAGE), [made])
    assert not verdict and words.removeprefix("got ") in str(verdict), verdict


def test_sizes_that_are_named_or_unknown_are_not_static():
    for dim in (Any("n"), Any()):
        verdict = judge(call_of(relay.exp, TensorType((dim, 4), "float32")), [static_sizes()])
        assert not verdict and "dimensions that are known when it is compiled" in str(verdict)
    assert judge(call_of(relay.exp, f32(3, 4)), [static_sizes()])


def test_sizes_may_be_named_but_not_unknown_nor_too_few():
    for dim, least, taken in ((Any("n"), 0, True), (Any(), 0, False), (0, 0, True), (0, 1, False), (3, 1, True)):
        verdict = judge(call_of(relay.exp, TensorType((dim, 4), "float32")), [named_sizes(least=least)])
        assert bool(verdict) == taken, (dim, least, str(verdict))


def test_operators_may_be_those_of_a_table_of_kernels_that_grows():
    table = KernelTable("test_constraints")
    try:
        made = operators(table=table)
        assert not judge(call_of(relay.exp, f32(3)), [made])
        table.kernel("exp")(np.exp)
        assert judge(call_of(relay.exp, f32(3)), [made])
    finally:
        TABLES.pop("test_constraints")


@pytest.mark.parametrize("make", [operators, dtypes, ranks, layouts, groups, attributes])
def test_a_constraint_about_nothing_is_a_mistake(make):
    with pytest.raises(PartitionError, match="needs"):
        make()


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(constraints).failed == 0


def test_deviations_that_are_none_are_refused():
    class Sloppy(Backend):
        name = "sloppy"
        constraints = (operators("add"),)
        deviations = ("nan",)

        def compile(self, function, options):
            raise NotImplementedError

    with pytest.raises(PartitionError, match="'nan' is among its deviations, expected a byoc.contract.Deviation"):
        check_backend(Sloppy())
