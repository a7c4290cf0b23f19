"""What the OpenCL generator writes and which schedule it takes, against numpy's numbers on awkward sizes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl.backend import compile_functions
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.emit import emit_programs
from byoc.contract import get_backend
from byoc.errors import CompileError
from byoc.ir.module import IRModule
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function, Var, const
from byoc.runtime.opencl.module import OpenCLModule

RNG = np.random.default_rng(7)


def region(params, body, symbol="region_0"):
    return Function(params, body, attrs={"global_symbol": symbol, "Compiler": "opencl"})


def run(module, *arrays, shape, symbol="region_0", dtype="float32"):
    out = np.full(shape, 77, dtype)
    module[symbol](*arrays, out)
    return out


def conv_reference(data, weight, stride, padding, dilation, groups):
    """A convolution by its definition, one output position at a time, in float64."""
    n, _c, h, w = data.shape
    k, cg, r, s = weight.shape
    padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    p = (h + 2 * padding - dilation * (r - 1) - 1) // stride + 1
    q = (w + 2 * padding - dilation * (s - 1) - 1) // stride + 1
    out = np.zeros((n, k, p, q))
    for g in range(groups):
        mine = slice(g * (k // groups), (g + 1) * (k // groups))
        for i in range(p):
            for j in range(q):
                rows = slice(i * stride, i * stride + dilation * (r - 1) + 1, dilation)
                cols = slice(j * stride, j * stride + dilation * (s - 1) + 1, dilation)
                window = padded[:, g * cg : (g + 1) * cg, rows, cols]
                out[:, mine, i, j] = np.einsum("ncrs,kcrs->nk", window, weight[mine])
    return out


CONVS = [  # n, c, h, w, k, kernel, stride, padding, dilation, groups
    (1, 3, 33, 31, 13, 3, 1, 1, 1, 1),
    (2, 5, 29, 30, 7, 3, 2, 0, 1, 1),
    (1, 8, 41, 37, 12, 1, 1, 0, 1, 1),
    (1, 6, 35, 35, 10, 3, 1, 2, 2, 2),
    (3, 4, 40, 40, 4, 5, 1, 2, 1, 4),
    (1, 32, 7, 7, 9, 3, 1, 1, 1, 1),
]


@pytest.mark.needs_opencl
@pytest.mark.parametrize("case", CONVS, ids=lambda c: "x".join(map(str, c)))
def test_a_convolution_with_bias_and_relu_of_an_awkward_size_is_right(case):
    n, c, h, w, k, r, stride, padding, dilation, groups = case
    data = RNG.standard_normal((n, c, h, w)).astype("float32")
    weight = RNG.standard_normal((k, c // groups, r, r)).astype("float32")
    bias = RNG.standard_normal(k).astype("float32")
    x = Var("data", TensorType(data.shape))
    conv = relay.nn.conv2d(
        x,
        const(weight),
        strides=(stride, stride),
        padding=(padding, padding),
        dilation=(dilation, dilation),
        groups=groups,
        channels=k,
        kernel_size=(r, r),
    )
    body = relay.nn.relu(relay.nn.bias_add(conv, const(bias)))
    module = get_backend("opencl").compile(region([x], body), {})
    want = np.maximum(conv_reference(data, weight, stride, padding, dilation, groups) + bias[:, None, None], 0)
    np.testing.assert_allclose(run(module, data, shape=want.shape), want, rtol=1e-4, atol=1e-4)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("shape", [(1, 2048, 10), (67, 300, 133), (128, 64, 256), (5, 7, 3), (1, 1, 1)])
def test_a_dense_layer_of_an_awkward_size_is_right(shape):
    m, k, n = shape
    data, weight = RNG.standard_normal((m, k)).astype("float32"), RNG.standard_normal((n, k)).astype("float32")
    x = Var("data", TensorType(data.shape))
    module = get_backend("opencl").compile(region([x], relay.nn.dense(x, const(weight))), {})
    want = data.astype("float64") @ weight.T.astype("float64")
    np.testing.assert_allclose(run(module, data, shape=(m, n)), want, rtol=1e-4, atol=1e-3)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("shape", [(3, 1000), (2, 5, 411)])
def test_a_long_reduction_by_a_work_group_is_right(name, shape):
    data = RNG.uniform(0.97, 1.03, shape).astype("float32")
    x = Var("data", TensorType(shape))
    module = get_backend("opencl").compile(region([x], getattr(relay, name)(x, axis=-1)), {"schedules": "gpu"})
    assert "barrier(" in module.get_source()
    want = getattr(np, name)(data.astype("float64"), axis=-1)
    np.testing.assert_allclose(run(module, data, shape=shape[:-1]), want, rtol=1e-4)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("name", ["max", "min"])
def test_a_nan_wins_a_maximum_in_every_schedule(name):
    data = RNG.standard_normal((2, 600)).astype("float32")
    data[1, 311] = np.nan
    x = Var("data", TensorType(data.shape))
    y = Var("data", TensorType((2, 5)))
    functions = {
        "tree": Function([x], getattr(relay, name)(x, axis=1)),
        "item": Function([y], getattr(relay, name)(y, axis=1)),
    }
    module = compile_functions(functions)
    want = getattr(np, name)(data, axis=1)
    np.testing.assert_array_equal(run(module, data, shape=(2,), symbol="tree"), want)
    short = data[:, 309:314]
    np.testing.assert_array_equal(run(module, short, shape=(2,), symbol="item"), getattr(np, name)(short, axis=1))


@pytest.mark.needs_opencl
def test_one_module_serves_batch_sizes_1_then_5_then_1():
    x = Var("data", TensorType((Any("batch"), 3, 8)))
    weight = RNG.standard_normal((4, 24)).astype("float32")
    body = relay.nn.softmax(relay.nn.dense(relay.nn.batch_flatten(x), const(weight)))
    module = get_backend("opencl").compile(region([x], body), {})
    for batch in (1, 5, 1):
        data = RNG.standard_normal((batch, 3, 8)).astype("float32")
        logits = data.reshape(batch, 24).astype("float64") @ weight.T
        want = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        np.testing.assert_allclose(run(module, data, shape=(batch, 4)), want, rtol=1e-4, atol=1e-5)


@pytest.mark.needs_opencl
def test_an_empty_batch_runs_nothing_and_is_no_error():
    x = Var("data", TensorType((Any("batch"), 3)))
    module = get_backend("opencl").compile(region([x], relay.nn.relu(x)), {})
    assert run(module, np.empty((0, 3), "float32"), shape=(0, 3)).shape == (0, 3)


def big_conv():
    x = Var("data", TensorType((1, 16, 64, 64)))
    weight = const(np.ones((32, 16, 3, 3), "float32"))
    body = relay.nn.relu(relay.nn.conv2d(x, weight, padding=(1, 1), channels=32, kernel_size=(3, 3)))
    return region([x], body)


def in_tiles_of_channels():
    """The kernels of a convolution for a device without the memory that tiles of rows and columns take."""
    program = lower_function(fuse_body(big_conv()), "region_0")
    return OpenCLModule(*emit_programs([program], DeviceProfile("gpu", 4, 64, 64)), {})


def test_a_large_convolution_computes_several_channels_a_work_item_and_stores_its_epilogue_once():
    source = in_tiles_of_channels().get_source()
    kernel = next(k for k in source.split("__kernel") if "acc0" in k)
    stores = re.findall(r"^ +\w+\[[^\]]+\] = max_f32\(acc(\d), 0\.0f\);$", kernel, re.MULTILINE)
    assert stores == list("01234567")


@pytest.mark.parametrize(
    ("shape", "guarded"), [((128,), False), ((130,), True), ((Any("n"),), True), ((Any("n"), 256), False)]
)
def test_only_a_global_size_that_is_padded_has_a_guard(shape, guarded):
    x = Var("x", TensorType(shape))
    source = get_backend("opencl").compile(region([x], relay.nn.relu(x)), {"schedules": "gpu"}).get_source()
    assert ("return;" in source.split("__kernel")[1]) == guarded


def test_emitted_kernels_are_those_of_the_golden_file(golden):
    module = in_tiles_of_channels()
    golden("opencl_conv2d_relu.cl", module.get_source())
    golden("opencl_conv2d_relu.json", module.get_source("plan"))


def test_compiling_needs_no_device_and_is_the_same_text_every_time():
    first, second = (get_backend("opencl").compile(big_conv(), {}).save() for _ in range(2))
    assert first == second
    assert set(first) == {"kernels.cl", "plan.json"}


def test_names_of_the_model_never_reach_the_code_as_they_are():
    x = Var('float; } /* "evil" */ __kernel', TensorType((70,)))
    source = get_backend("opencl").compile(region([x], relay.exp(x)), {"schedules": "gpu"}).get_source()
    code = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    name = "float_evil___kernel"
    assert set(re.findall(r"\w*evil\w*", code)) == {name, f"{name}_piece", f"{name}_begin"}
    assert not re.search(r'[";}] */|"', code)
    assert source.count("/*") == source.count("*/") == 1


def test_a_temporary_that_is_no_longer_read_gives_its_memory_to_a_later_one():
    x = Var("data", TensorType((1, 4, 16, 16)))
    body = x
    for _ in range(6):
        body = relay.nn.conv2d(body, const(np.ones((4, 4, 3, 3), "float32")), padding=(1, 1), kernel_size=(3, 3))
    module = get_backend("opencl").compile(region([x], body), {})
    (plan,) = module.plans
    assert len(plan.launches) >= 6
    assert module.memory(plan.signature.symbol)["device_memory"] <= 3 * 4 * 4 * 18 * 18


def verdict(call):
    infer_expr(call)
    return get_backend("opencl").supports(call)


def test_a_refusal_names_the_reason_and_the_actual_value():
    shape = Var("shape", TensorType((4,), "int64"))
    small = verdict(Call(relay.add(shape, shape).op, [shape, shape]))
    assert not small and "worth a launch" in str(small) and "got 4 elements" in str(small)
    text = Var("text", TensorType((4, 64), "string"))
    assert "no strings, got string" in str(verdict(relay.copy(text)))
    half = Var("half", TensorType((4, 64), "float16"))
    assert verdict(relay.nn.relu(half))
    unnamed = Var("dynamic", TensorType((Any(), 64)))
    assert "every dimension a number or a named size" in str(verdict(relay.nn.relu(unnamed)))
    empty = Var("empty", TensorType((0, 64)))
    assert "at least one element" in str(verdict(relay.nn.relu(empty)))


def test_floats_and_named_sizes_are_accepted():
    assert verdict(relay.nn.relu(Var("x", TensorType((Any("n"), 3)))))
    assert verdict(relay.nn.relu(Var("x", TensorType((1, 3)))))


def test_an_option_that_there_is_not_is_refused():
    options = "device, half, max_error, mode, products, schedules, thresholds, winograd, tune"
    with pytest.raises(CompileError, match=f"takes the options {options}, got speed"):
        get_backend("opencl").compile(big_conv(), {"speed": 3})


def test_a_convolution_with_bias_and_relu_becomes_one_composite():
    x = Var("data", TensorType((1, 3, 8, 8)))
    conv = relay.nn.conv2d(x, const(np.ones((4, 3, 3, 3), "float32")), kernel_size=(3, 3))
    func = Function([x], relay.nn.relu(relay.nn.bias_add(conv, const(np.ones(4, "float32")))))
    table = [(e.name, e.pattern, e.check or (lambda _: True)) for e in get_backend("opencl").patterns()]
    merged = relay.transform.MergeComposite(table)(relay.transform.InferType()(IRModule.from_expr(func)))["main"]
    assert merged.body.op.attrs["Composite"] == "opencl.conv2d_bias_act"
    assert get_backend("opencl").supports(merged.body)
