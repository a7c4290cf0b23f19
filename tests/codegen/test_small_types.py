"""The floats of 16 bits and fewer and the integers of 4 and 2 bits in generated C and OpenCL.

Conversions are held to ``ml_dtypes`` and numpy bit for bit, on every code and on what lies around every place where
rounding decides; operations to the numpy kernels, which round after each.
"""

import functools
import subprocess
import sys

import numpy as np
import onnx
import pytest
from exported import build, export, make_model, run
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import byoc
from byoc import relay
from byoc.codegen.c.backend import compile_functions as compile_c
from byoc.codegen.kernel.small_floats import FORMATS, POWER
from byoc.codegen.opencl.backend import compile_functions as compile_opencl
from byoc.ir.types import STORED, dtype_bits
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.kernels.core.registry import get_kernel

FLOATS = [name for name in STORED if "float" in name]
INTEGERS = [name for name in STORED if "float" not in name]
generators = pytest.mark.parametrize(
    "compile_functions",
    [
        pytest.param(compile_c, id="c", marks=pytest.mark.needs_cc),
        pytest.param(compile_opencl, id="opencl", marks=pytest.mark.needs_opencl),
    ],
)


def codes(dtype):
    """Every number of *dtype*."""
    return np.arange(2 ** dtype_bits(dtype)).astype(STORED[dtype]).view(numpy_dtype(dtype))


@functools.cache
def around(dtype):
    """float32: the numbers of *dtype*, what lies halfway between two, and the neighbours of both, and the special."""
    values = codes(dtype).astype("float32")
    values = np.unique(values[np.isfinite(values)])
    halves = ((values[:-1].astype("float64") + values[1:]) / 2).astype("float32")
    decided = np.concatenate([values, halves])
    nearby = [np.nextafter(decided, np.float32(end)) for end in (np.inf, -np.inf)]
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38], "float32")
    anything = np.random.default_rng(7).integers(0, 2**32, 20000, dtype="uint32").view("float32")
    found = np.concatenate([decided, *nearby, special, anything])
    # a processor's own instruction takes the subnormal float32 as 0 for bfloat16
    return found[~(np.abs(found) < 2.0**-126)] if dtype == "bfloat16" else found


def computed(compile_functions, functions, inputs):
    """The result of each of *functions* (by name) on its *inputs*, out of one library."""
    module = compile_functions(functions)
    assert not module.constant_arrays
    found = {}
    for name, function in functions.items():
        ty = infer_function(function).body.checked_type
        out = NDArray(np.zeros(ty.concrete_shape, numpy_dtype(ty.dtype)))
        module.get_function(name)(*map(NDArray, inputs[name]), out)
        found[name] = out.numpy()
    return found


def function_of(build_body, *arrays):
    params = [relay.var(f"x{k}", shape=a.shape, dtype=a.dtype.name) for k, a in enumerate(arrays)]
    return infer_function(Function(params, build_body(*params)))


def cast_to(dtype, array):
    return function_of(lambda x: relay.cast(x, dtype), array)


def check_bits(got, wanted, name):
    """The same bits; of a NaN, that it is one."""
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    with np.errstate(all="ignore"):
        numbers = ~(np.isnan(got.astype("float64")) & np.isnan(wanted.astype("float64")))
    words = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(words)[numbers], wanted.view(words)[numbers], err_msg=name)


@generators
def test_every_code_is_the_number_that_it_is_for_numpy(compile_functions):
    inputs = {d: [codes(d)] for d in STORED}
    functions = {d: function_of(lambda x: relay.cast(x, "float32"), *inputs[d]) for d in STORED}
    for dtype, got in computed(compile_functions, functions, inputs).items():
        check_bits(got, codes(dtype).astype("float32"), dtype)


@generators
def test_floats_are_rounded_as_numpy_rounds_them(compile_functions):
    with np.errstate(all="ignore"):
        inputs = {f"{d}_of_float32": [around(d)] for d in FLOATS}
        wide = around("float16").astype("float64")
        wide = np.concatenate([wide, wide * (1 + 2.0**-40), wide * (1 - 2.0**-40)])
        inputs |= {f"{d}_of_float64": [wide] for d in FLOATS if d != "bfloat16"}
        wanted = {name: x.astype(numpy_dtype(name.partition("_of_")[0])) for name, (x,) in inputs.items()}
    functions = {name: cast_to(name.partition("_of_")[0], x) for name, (x,) in inputs.items()}
    for name, got in computed(compile_functions, functions, inputs).items():
        check_bits(got, wanted[name], name)


@generators
def test_integers_of_few_bits_wrap_and_cut_off(compile_functions):
    whole = np.arange(-40, 41, dtype="int32")
    parts = np.linspace(-20, 20, 97).astype("float32")
    inputs = {f"{d}_of_{x.dtype.name}": [x] for d in INTEGERS for x in (whole, parts)}
    functions = {name: cast_to(name.partition("_of_")[0], x) for name, (x,) in inputs.items()}
    for name, got in computed(compile_functions, functions, inputs).items():
        np.testing.assert_array_equal(got, inputs[name][0].astype(numpy_dtype(name.partition("_of_")[0])), err_msg=name)


def test_the_formats_are_all_the_floats_that_are_stored():
    assert sorted((*FORMATS, POWER)) == sorted(FLOATS)


def pairs(dtype, seed=0):
    a, b = np.random.default_rng(seed).uniform(-3, 3, (2, 9, 21)).astype("float32")
    return a.astype(numpy_dtype(dtype)), b.astype(numpy_dtype(dtype))


COMPUTED = ("float16", "bfloat16", "float8_e5m2fnuz")
STEPS = {
    "multiply": (lambda x, y: relay.multiply(x, y), lambda a, b: a * b),
    "subtract": (lambda x, y: relay.subtract(relay.multiply(x, y), x), lambda a, b: a * b - a),
    "divide": (lambda x, y: relay.add(relay.divide(x, y), y), lambda a, b: a / b + b),
    "maximum": (lambda x, y: relay.maximum(relay.abs(x), y), lambda a, b: np.maximum(np.abs(a), b)),
    "greater": (lambda x, y: relay.greater(x, y), lambda a, b: a > b),
    "where": (
        lambda x, y: relay.where(relay.less(x, y), x, relay.sqrt(relay.abs(y))),
        lambda a, b: np.where(a < b, a, np.sqrt(np.abs(b))),
    ),
}


@generators
def test_each_operation_rounds_its_result_as_the_numpy_kernel_does(compile_functions):
    cases = {f"{name}_{d}": (step, pairs(d)) for name, step in STEPS.items() for d in COMPUTED}
    functions = {key: function_of(build, *arrays) for key, ((build, _), arrays) in cases.items()}
    inputs = {key: arrays for key, (_, arrays) in cases.items()}
    for key, got in computed(compile_functions, functions, inputs).items():
        (_, expected), arrays = cases[key]
        with np.errstate(all="ignore"):
            check_bits(got, expected(*arrays), key)


@generators
def test_a_sum_of_float16_is_rounded_once_and_a_maximum_never(compile_functions):
    a, b = pairs("float16")
    functions = {
        "sum": function_of(lambda x: relay.sum(x, axis=1), a),
        "max": function_of(lambda x: relay.max(x, axis=1), a),
        "dense": function_of(lambda x, y: relay.nn.dense(x, y), a, b),
        "argmax": function_of(lambda x: relay.argmax(x, axis=1), a),
    }
    got = computed(compile_functions, functions, {"sum": [a], "max": [a], "dense": [a, b], "argmax": [a]})
    exact = a.astype("float64").sum(1)
    np.testing.assert_allclose(got["sum"].astype("float64"), exact, rtol=2**-11, atol=1e-5)
    check_bits(got["max"], a.max(1), "max")
    product = a.astype("float64") @ b.astype("float64").T
    np.testing.assert_allclose(got["dense"].astype("float64"), product, rtol=2**-11, atol=1e-5)
    np.testing.assert_array_equal(got["argmax"], a.argmax(1))


READ_AS = [
    ("float32", "int32"),
    ("uint32", "float32"),
    ("float64", "uint64"),
    ("int64", "float64"),
    ("float16", "int16"),
    ("uint16", "bfloat16"),
    ("bfloat16", "float16"),
    ("bool", "uint8"),
    ("int8", "float8_e4m3fn"),
    ("float8_e5m2", "uint8"),
    ("int4", "uint4"),
]


def numbers_of(dtype):
    """Many numbers of *dtype*: all where they are few."""
    if dtype == "bool":
        return np.arange(70) % 3 == 0
    if dtype in STORED:
        return np.resize(codes(dtype), 70000 if STORED[dtype] == "uint16" else 300)
    return np.random.default_rng(3).integers(0, 256, 8 * 70, dtype="uint8").view(dtype)


@generators
def test_bits_are_read_as_another_type(compile_functions):
    cases = {f"{source}_as_{target}": (numbers_of(source), target) for source, target in READ_AS}
    functions = {key: function_of(lambda v, t=t: relay.reinterpret(v, t), x) for key, (x, t) in cases.items()}
    inputs = {key: [x] for key, (x, _) in cases.items()}
    for key, got in computed(compile_functions, functions, inputs).items():
        x, target = cases[key]
        check_bits(got, get_kernel("reinterpret")(x, dtype=target), key)


def cast_model(source, target, saturate, shape):
    node = helper.make_node("Cast", ["x"], ["y"], to=target, saturate=saturate)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", source, shape)],
        [helper.make_tensor_value_info("y", target, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=10)


@pytest.mark.needs_cc
@pytest.mark.parametrize("saturate", [0, 1])
def test_casts_of_onnx_are_those_of_its_reference(saturate):
    for name in ("FLOAT8E4M3FN", "FLOAT8E5M2FNUZ"):
        target = getattr(TensorProto, name)
        x = around(onnx.helper.tensor_dtype_to_np_dtype(target).name)[:4000]
        model = cast_model(TensorProto.FLOAT, target, saturate, x.shape)
        library = byoc.compile(model, targets=["c"])
        assert not library.report["host_fallbacks"]
        (got,) = library.run({"x": x})
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
        check_bits(got, np.asarray(wanted), f"{name}, saturate={saturate}")


def half_model():
    weight = {"w": np.linspace(-1, 1, 24).reshape(4, 6).astype("float16")}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])]
    return make_model(nodes, [("x", "float16", (3, 4))], [("y", "float16", (3, 6))], weight)


HALVES = np.linspace(-2, 2, 12).reshape(3, 4).astype("float16")


def halves_wanted():
    product = HALVES.astype("float64") @ np.linspace(-1, 1, 24).reshape(4, 6).astype("float16").astype("float64")
    powers = np.exp(product - product.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.needs_cc
def test_a_model_of_float16_is_generated_code_in_a_new_process_too(tmp_path):
    library = byoc.compile(half_model(), targets=["c"])
    assert not library.report["host_fallbacks"]
    np.testing.assert_allclose(library.run({"x": HALVES})[0], halves_wanted(), rtol=4e-3)
    library.save(tmp_path / "half.byoc")
    np.save(tmp_path / "x.npy", HALVES)
    code = (
        "import sys, numpy as np, byoc.runtime as r; "
        "y = r.load(sys.argv[1]).run({'x': np.load(sys.argv[2])})[0]; np.save(sys.argv[3], y); "
        "assert 'byoc.relay' not in sys.modules"
    )
    paths = [str(tmp_path / name) for name in ("half.byoc", "x.npy", "y.npy")]
    subprocess.run([sys.executable, "-c", code, *paths], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), library.run({"x": HALVES})[0])


@pytest.mark.needs_cc
def test_a_model_of_float16_is_exported_as_c(tmp_path):
    export(half_model(), tmp_path)
    build(tmp_path)
    (got,) = run(tmp_path, [HALVES], [np.zeros((3, 6), "float16")]).values()
    np.testing.assert_allclose(got, halves_wanted(), rtol=4e-3)
