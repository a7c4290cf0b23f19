"""Attributes inside of a pattern reach its kernel, or refuse the match; a function of another type does not compile."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.contract import PatternEntry
from byoc.errors import CompileError
from byoc.ir.op import OPS
from byoc.kernels import CSource, KernelBackend, kernel
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.runtime.kernels import get_kernel

pytestmark = pytest.mark.needs_cc
ARM = "arm/float/any"


def model(body, *shape):
    x = relay.var("x", shape=shape)
    return byoc.IRModule.from_expr(relay.Function([x], body(x)))


def softmax_model(axis):
    return model(lambda x: relay.nn.softmax(relay.nn.relu(x), axis=axis), 3, 4)


def softmax_backend(of_axis, check=None):
    """A backend ``relu_softmax`` whose kernel of a pattern computes along the last axis, whatever the call says."""

    @byoc.contract.register_backend
    class Fused(KernelBackend):
        """relu and softmax"""

        name = "relu_softmax"

        def patterns(self):
            inner = is_op("nn.softmax")(is_op("nn.relu")(wildcard()))
            return [PatternEntry("relu_softmax.both", inner.has_attr(of_axis) if of_axis else inner, check)]

    @kernel("relu_softmax.both", "relu_softmax/float/any")
    def both(x):
        e = np.exp(np.maximum(x, np.float32(0)))
        return e / e.sum(-1, keepdims=True)


def test_an_attribute_inside_of_a_pattern_that_nothing_looks_at_refuses_the_match(of_this_test):
    softmax_backend({})
    x = np.float32(np.arange(12).reshape(3, 4) / 5)
    for axis, taken in ((-1, True), (1, True), (0, False)):
        library = byoc.compile(softmax_model(axis), ["relu_softmax", "c"])
        assert bool(library.plan.regions) == taken, axis
        np.testing.assert_allclose(library(x), byoc.compile(softmax_model(axis), ["c"])(x), rtol=1e-5)
    assert "knows nothing of axis: declare it (*, axis: ...), or refuse it" in str(library.plan.to_json())


def test_what_a_pattern_or_its_check_asks_for_is_theirs(of_this_test):
    softmax_backend({"axis": 0})
    assert byoc.compile(softmax_model(0), ["relu_softmax", "c"]).plan.regions
    assert not byoc.compile(softmax_model(-1), ["relu_softmax", "c"]).plan.regions


def test_a_check_that_looks_at_the_attributes_says_what_is_matched(of_this_test):
    softmax_backend({}, lambda call: call.attrs.axis == 0)
    assert byoc.compile(softmax_model(0), ["relu_softmax", "c"]).plan.regions


def test_two_attributes_of_one_name_are_told_apart_by_the_backend(of_this_test):
    @byoc.contract.register_backend
    class TwoAxes(KernelBackend):
        """bias_add and softmax"""

        name = "two_axes"

        def patterns(self):
            pattern = is_op("nn.softmax")(is_op("nn.bias_add")(wildcard(), is_constant()))
            return [PatternEntry("two_axes.both", pattern)]

        def composite_attributes(self, composite):
            softmax = composite.body
            return {"axis": softmax.attrs.axis, "channel": softmax.args[0].attrs.axis}

    @kernel("two_axes.both", "two_axes/float/any")
    def both(x, bias, *, axis: int, channel: int = 1):
        x = x + bias.reshape([-1 if k == channel else 1 for k in range(x.ndim)])
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    bias = relay.const(np.float32([1, 2, 3, 4]))
    mod = model(lambda x: relay.nn.softmax(relay.nn.bias_add(x, bias, axis=1), axis=-1), 3, 4, 5)
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("float32")
    library = byoc.compile(mod, ["two_axes", "c"])
    assert library.plan.regions
    np.testing.assert_allclose(library(x), byoc.compile(mod, ["c"])(x), rtol=1e-5, atol=1e-6)


def bias_softmax(run, said=None):
    """A backend ``said_axes`` of the pattern bias_add, softmax: its plan of a model whose axes are 1 and -1."""

    @byoc.contract.register_backend
    class SaidAxes(KernelBackend):
        """bias_add and softmax"""

        name = "said_axes"

        def patterns(self):
            pattern = is_op("nn.softmax")(is_op("nn.bias_add")(wildcard(), is_constant()))
            return [PatternEntry("said_axes.both", pattern)]

        def composite_attributes(self, composite):
            return None if said is None else said(composite.body)

    kernel("said_axes.both", "said_axes/float/any")(run)
    bias = relay.const(np.float32([1, 2, 3, 4]))
    mod = model(lambda x: relay.nn.softmax(relay.nn.bias_add(x, bias, axis=1), axis=-1), 3, 4, 5)
    library = byoc.compile(mod, ["said_axes", "c"])
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("float32")
    np.testing.assert_allclose(library(x), byoc.compile(mod, ["c"])(x), rtol=1e-5, atol=1e-6)
    return library.plan


def along(x, bias, *, softmax_axis: int, channel: int):
    x = x + bias.reshape([-1 if k == channel else 1 for k in range(x.ndim)])
    e = np.exp(x - x.max(softmax_axis, keepdims=True))
    return e / e.sum(softmax_axis, keepdims=True)


ALONG = CSource("""
#include <math.h>
void KERNEL(const float *x, const float *bias, float *out SIZES) {
  _Static_assert(ATTR_channel == 1 && ATTR_softmax_axis == -1, "the axes");
  for (int64_t i = 0; i < OUT0_SIZE; i += OUT0_DIM2) {
    float sum = 0;
    for (int k = 0; k < OUT0_DIM2; ++k) sum += out[i + k] = expf(x[i + k] + bias[i / OUT0_DIM2 % OUT0_DIM1]);
    for (int k = 0; k < OUT0_DIM2; ++k) out[i + k] /= sum;
  }
}""")


def both_axes(softmax):
    return {"softmax_axis": softmax.attrs.axis, "channel": softmax.args[0].attrs.axis}


@pytest.mark.parametrize("run", [along, ALONG], ids=["python", "c"])
def test_attributes_that_a_backend_names_are_its_kernels(of_this_test, run):
    assert bias_softmax(run, both_axes).regions


@pytest.mark.parametrize(
    "said, sentence",
    [
        (
            lambda s: {**both_axes(s), "scale": 2},
            "knows nothing of scale, which composite_attributes gives it",
        ),
        (
            lambda s: {"channel": 1},
            "needs softmax_axis: give it by composite_attributes, or declare a default, got",
        ),
        (None, "needs channel: give it by composite_attributes, or declare a default, got axis"),
    ],
)
def test_what_a_backend_gives_and_its_kernel_takes_agree(of_this_test, said, sentence):
    plan = bias_softmax(along, said)
    assert not plan.regions and sentence in str(plan)


def test_source_is_asked_for_what_a_backend_gives_too(of_this_test):
    plan = bias_softmax(ALONG, lambda s: {**both_axes(s), "scale": 2})
    assert not plan.regions and "gives it: name ATTR_scale in its text, or give it no scale, got 2" in str(plan)


@pytest.mark.parametrize(
    "run",
    [
        lambda x, bias, *, axis: x,
        CSource("void KERNEL(const float *x, const float *b, float *out SIZES) { out[0] = ATTR_axis; }"),
    ],
    ids=["python", "c"],
)
def test_a_name_of_two_values_is_refused_until_the_backend_says_which(of_this_test, run):
    if callable(run):
        run.__kwdefaults__, run.__annotations__ = None, {"axis": "int"}
    plan = bias_softmax(run)
    assert not plan.regions
    assert "have one value: say which by composite_attributes, got 1 and -1" in str(plan)


def test_what_is_no_mapping_is_reported(of_this_test):
    plan = bias_softmax(along, lambda softmax: [3])
    assert not plan.regions and "its composite_attributes gave [3], expected a mapping of names" in str(plan)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("void KERNEL(const float *x, double *out SIZES) { out[0] = x[0]; }", "passing argument 2 of .* incompatible"),
        ("void KERNEL(const int *x, float *out SIZES) { out[0] = x[0]; }", "passing argument 1 of .* incompatible"),
        ("int KERNEL(const float *x, float *out SIZES) { return -1; }", "KERNEL is a function that returns void"),
    ],
)
def test_a_function_of_another_type_is_refused_when_it_is_compiled(of_this_test, text, sentence):
    kernel("nn.relu", ARM)(CSource(text))
    with pytest.raises(CompileError, match=f"the call of nn.relu:def@arm/float/any.*{sentence}"):
        byoc.compile(model(relay.nn.relu, 2, 3), ["arm", "c"])


ATTRIBUTES = {
    "nn.conv1d": lambda x: relay.nn.conv1d(x, relay.const(np.ones((2, 3, 1), "float32")), strides=2),
    "nn.avg_pool1d": lambda x: relay.nn.avg_pool1d(x, 2, count_include_pad=True),
    "nn.layer_norm": lambda x: relay.nn.layer_norm(x, *[relay.const(np.ones(8, "float32"))] * 2, axis=-1),
    "sum": lambda x: relay.sum(x, axis=[1]),
    "nn.softmax": lambda x: relay.nn.softmax(x, axis=1),
}


@pytest.mark.parametrize("operator", ATTRIBUTES)
def test_a_kernel_that_takes_all_attributes_gets_those_of_the_operator_as_they_are(of_this_test, operator):
    seen = {}

    @kernel(operator, ARM)
    def takes_all(*arrays, **attributes):
        seen.update(attributes)
        return get_kernel(OPS[operator].kernel)(
            *arrays, **{k: v for k, v in attributes.items() if k in get_kernel(OPS[operator].kernel).attributes}
        )

    mod = relay.transform.InferType()(model(ATTRIBUTES[operator], 2, 3, 8))
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype("float32")
    library = byoc.compile(mod, ["arm", "c"])
    np.testing.assert_allclose(library(x), byoc.compile(mod, ["c"])(x), rtol=1e-4, atol=1e-6)
    assert seen == {k: v for k, v in mod["main"].body.attrs.items() if k in seen}
    assert set(seen) == set(dict(mod["main"].body.attrs.items()))
