"""The C backend end to end: source, shared library, call through cffi, saved and loaded module."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from byoc import te
from byoc.contract import get_backend
from byoc.errors import ArtifactError, CompileError, InputError
from byoc.ir.op import OPS, register_op
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, var
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.dso.module import DsoModule

pytestmark = pytest.mark.needs_cc


def _same(types, attrs):
    return types[0]


def _conv_type(types, attrs):
    n, _, h, w = types[0].shape
    return TensorType((n, types[1].shape[0], h, w))


def _conv(attrs, inputs, out_type):
    """A 3x3 convolution with one column of zeros around."""
    data, weight = inputs
    n, c, h, w = data.shape
    padded = te.compute(
        (n, c, h + 2, w + 2),
        lambda b, k, i, j: te.if_then_else(
            te.all_of(i >= 1, i < h + 1, j >= 1, j < w + 1), data[b, k, i - 1, j - 1], 0.0
        ),
        name="padded",
        tag="pad",
    )
    k, y, x = te.reduce_axis(c, "rc"), te.reduce_axis(3, "ry"), te.reduce_axis(3, "rx")
    return [
        te.compute(
            (n, weight.shape[0], h, w),
            lambda b, o, i, j: te.sum(padded[b, k, i + y, j + x] * weight[o, k, y, x], [k, y, x]),
            name="conv",
        )
    ]


def _silu(attrs, inputs, out_type):
    x = inputs[0]
    return [te.compute(x.shape, lambda *i: x[i] * te.sigmoid(x[i]), name="silu")]


@pytest.fixture(scope="module")
def ops():
    """Operators of this file's own, so that its tests stand on nothing but tensor expressions."""
    conv = register_op("test_c.conv", inputs=["data", "weight"], rel=_conv_type, doc="-", compute=_conv)
    silu = register_op("test_c.silu", inputs=["x"], rel=_same, doc="-", compute=_silu)
    bare = register_op("test_c.bare", inputs=["x"], rel=_same, doc="-")
    yield conv, silu, bare
    for op in (conv, silu, bare):
        OPS.unregister(op.name)


@pytest.fixture(scope="module")
def case(ops):
    """A region ``(silu(conv(x, w)), x)`` with a free batch dimension, compiled, with its weight."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(5, 3, 3, 3)).astype("float32")
    x = var("x", TensorType((Any("batch"), 3, 17, 19)))
    body = Call(ops[1], [Call(ops[0], [x, Constant(NDArray(weight))])])
    region = Function([x], Tuple([body, x]), attrs={"Compiler": "c", "global_symbol": "region_0"})
    return get_backend("c").compile(region, {}), weight


def _reference(x, weight):
    wide = np.pad(x.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    h, w = x.shape[2:]
    y = sum(
        np.einsum("ncij,oc->noij", wide[:, :, i : i + h, j : j + w], weight[:, :, i, j].astype("float64"))
        for i in range(3)
        for j in range(3)
    )
    return y / (1 + np.exp(-y))


def _ready(case):
    module = case[0]
    module.initialize("region_0", [module.constant_arrays[n] for n in module.constants()["region_0"]])
    return module


@pytest.mark.parametrize("batch", [1, 3])
def test_a_fused_convolution_and_a_passed_through_input_have_the_right_numbers(case, batch):
    x = np.random.default_rng(1).normal(size=(batch, 3, 17, 19)).astype("float32")
    y, same = np.empty((batch, 5, 17, 19), "float32"), np.empty_like(x)
    _ready(case)["region_0"](x, y, same)
    np.testing.assert_allclose(y, _reference(x, case[1]), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(same, x)


def test_inputs_and_outputs_that_are_not_contiguous_are_served(case):
    x = np.random.default_rng(2).normal(size=(19, 17, 3, 2)).astype("float32").T
    y, same = np.zeros((19, 17, 5, 2), "float32").T, np.empty(x.shape, "float32")
    _ready(case)["region_0"](x, y, same)
    np.testing.assert_allclose(y, _reference(x, case[1]), rtol=1e-5, atol=1e-5)


def test_a_bound_call_reads_and_writes_its_arrays_in_place(case):
    x = np.zeros((1, 3, 17, 19), "float32")
    y, same = np.empty((1, 5, 17, 19), "float32"), np.empty_like(x)
    run = _ready(case).bind("region_0", [x, y, same])
    x[:] = np.random.default_rng(3).normal(size=x.shape)
    run()
    np.testing.assert_allclose(y, _reference(x, case[1]), rtol=1e-5, atol=1e-5)


def test_a_saved_module_loads_and_computes_the_same(case):
    module = _ready(case)
    loaded = DsoModule.load(module.save())
    assert loaded.save() == module.save()
    assert loaded.constants() == {"region_0": ("region_0_const_0",)}
    x = np.ones((1, 3, 17, 19), "float32")
    y, again, same = np.empty((1, 5, 17, 19), "float32"), np.empty((1, 5, 17, 19), "float32"), np.empty_like(x)
    with pytest.raises(InputError, match="before it was given its 1 constants"):
        loaded["region_0"](x, again, same)
    loaded.initialize("region_0", [NDArray(case[1])])
    module["region_0"](x, y, same)
    loaded["region_0"](x, again, same)
    np.testing.assert_array_equal(y, again)


def test_threads_may_call_the_same_function_at_once(case):
    function = _ready(case)["region_0"]
    inputs = [np.random.default_rng(k).normal(size=(2, 3, 17, 19)).astype("float32") for k in range(4)]
    outputs = [np.empty((2, 5, 17, 19), "float32") for _ in inputs]

    def work(k):
        for _ in range(20):
            function(inputs[k], outputs[k], np.empty_like(inputs[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in zip(inputs, outputs, strict=True):
        np.testing.assert_allclose(y, _reference(x, case[1]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros((1, 3, 17, 18), "float32")], "expected 1 inputs and 2 outputs, got 1 arrays"),
        ([np.zeros((1, 3, 17, 18), "float32")] * 3, r"input 'x': expected shape \[batch, 3, 17, 19\]"),
        ([np.zeros((1, 3, 17, 19), "float64")] * 3, "expected dtype float32, got float64"),
        ([np.zeros((1, 3, 17, 19), "float32")] * 3, r"output 'output_0' must be a writable float32\[1, 5, 17, 19\]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(case, arrays, message):
    with pytest.raises(InputError, match=message):
        _ready(case)["region_0"](*arrays)


def test_a_module_with_a_missing_member_is_refused(case):
    members = case[0].save()
    del members["signature.json"]
    with pytest.raises(ArtifactError, match="needs the member 'signature.json'"):
        DsoModule.load(members)


def test_an_operator_without_a_tensor_expression_is_refused_with_its_name(ops):
    x = var("x", TensorType((4,)))
    region = Function([x], Call(ops[2], [x]), attrs={"Compiler": "c", "global_symbol": "region_1"})
    with pytest.raises(CompileError, match="region_1: test_c.bare has no tensor expression"):
        get_backend("c").compile_functions({"region_1": Function([x], Call(ops[2], [x]))}, {})
    infer_expr(region)
    verdict = get_backend("c").supports(region.body)
    assert not verdict
    assert str(verdict).startswith("test_c.bare: operators whose elements are defined by a tensor expression")
