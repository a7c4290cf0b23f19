"""Element types of 8, 4 and 2 bits: read packed, cast as ONNX says, kept by every executor and by artefacts.

ONNX's own node tests of Cast, CastLike, QuantizeLinear and DequantizeLinear run in ``test_onnx_node_conformance.py``,
other operators in the sweep over element types (``test_onnx_types.py``).
"""

import itertools
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc import relay
from byoc.driver.vm.compile import compile_module
from byoc.errors import ArtifactError, ImportModelError, TypeInferenceError
from byoc.ir.types import dtype_bits, dtype_bytes
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate
from byoc.relay.transform.simplify.casts import holds_all
from byoc.runtime.core.device import cpu
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.small_types import SMALL, SMALL_FLOATS, SMALL_INTEGERS, integer_range
from byoc.runtime.files.weights import read_weights, write_weights
from byoc.runtime.kernels.elementwise import cast as converted
from byoc.runtime.vm import VirtualMachine

NUMBERS = dict(
    zip(
        SMALL,
        (
            TensorProto.FLOAT8E4M3FN,
            TensorProto.FLOAT8E4M3FNUZ,
            TensorProto.FLOAT8E5M2,
            TensorProto.FLOAT8E5M2FNUZ,
            TensorProto.FLOAT8E8M0,
            TensorProto.FLOAT4E2M1,
            TensorProto.INT4,
            TensorProto.UINT4,
            TensorProto.INT2,
            TensorProto.UINT2,
        ),
        strict=True,
    )
)
every_type = pytest.mark.parametrize("dtype", SMALL)


def numpy_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def all_numbers(dtype: str) -> np.ndarray:
    """Each number of a small *dtype* once."""
    return np.arange(2 ** SMALL[dtype], dtype=np.uint8).view(numpy_type(dtype))


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def model(nodes: list, inputs: dict, outputs: dict, initializers: list = (), opset: int = 25) -> onnx.ModelProto:
    values = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in given.items()]
        for given in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *values, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13)


def moved(dtype: str) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray]:
    """An input and a constant of *dtype*, transposed and chosen: the model, the input, the outputs."""
    kind, numbers = NUMBERS[dtype], all_numbers(dtype)
    given, kept = np.resize(numbers, (3, 5)), np.resize(numbers[::-1], (2, 3))
    nodes = [
        helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0]),
        helper.make_node("Reshape", ["w", "shape"], ["z"]),
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
    ]
    made = model(
        nodes,
        {"x": (kind, [3, 5])},
        {"y": (kind, [5, 3]), "z": (kind, [6]), "f": (TensorProto.FLOAT, [3, 5])},
        [numpy_helper.from_array(kept, "w"), numpy_helper.from_array(np.array([6]), "shape")],
    )
    return made, given, [given.T, kept.reshape(6), given.astype("float32")]


def same(found, wanted) -> bool:
    found = [np.asarray(a.numpy() if hasattr(a, "numpy") else a) for a in found]
    return all(
        (f.dtype, f.shape) == (w.dtype, w.shape) and (bits(f) == bits(w)).all()
        for f, w in zip(found, wanted, strict=True)
    )


def test_the_sizes_of_elements():
    assert [dtype_bits(d) for d in SMALL] == list(SMALL.values())
    assert {dtype_bytes(d) for d in SMALL} == {1}
    assert (dtype_bytes("bool"), dtype_bytes("bfloat16"), dtype_bytes("float64")) == (1, 2, 8)
    for dtype in SMALL_INTEGERS:
        info = ml_dtypes.iinfo(numpy_type(dtype))
        assert integer_range(dtype) == (info.min, info.max)


@every_type
@pytest.mark.parametrize("raw", [True, False], ids=["raw_data", "int32_data"])
def test_an_initialiser_is_read_as_it_is_packed(dtype, raw):
    numbers = np.resize(all_numbers(dtype), 2 ** SMALL[dtype] + 1)  # a last byte that is not full
    tensor = numpy_helper.from_array(numbers, "w")
    if not raw:
        data = tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.int32_data.extend(data)
    made = model([helper.make_node("Identity", ["w"], ["y"])], {}, {"y": (NUMBERS[dtype], numbers.shape)}, [tensor])
    assert same([evaluate(import_onnx(made), {})], [numbers])


@every_type
def test_external_data_are_read_as_they_are_packed(dtype, tmp_path):
    numbers = np.resize(all_numbers(dtype), 2 ** SMALL[dtype] + 1)
    nodes = [helper.make_node("Identity", ["w"], ["y"])]
    made = model(nodes, {}, {"y": (NUMBERS[dtype], numbers.shape)}, [numpy_helper.from_array(numbers, "w")])
    path = tmp_path / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert same([evaluate(import_onnx(path), {})], [numbers])
    (tmp_path / "w.bin").write_bytes((tmp_path / "w.bin").read_bytes()[:-1])
    with pytest.raises(ImportModelError, match="truncated"):
        import_onnx(path)


@pytest.mark.needs_cc
@every_type
def test_every_executor_moves_it(dtype):
    made, given, wanted = moved(dtype)
    library = byoc.compile(made)
    assert same(library.run({"x": given}), wanted)
    assert same(library.graph_executor()({"x": given}), wanted)
    assert same(VirtualMachine(compile_module(import_onnx(made)), cpu()).invoke("main", given), wanted)
    assert same(byoc.compile(made, targets=["json", "c"]).run({"x": given}), wanted)


RUN_AGAIN = """
import sys
import ml_dtypes, numpy as np
from byoc.runtime import load
for dtype in sys.argv[2:]:
    wanted = [np.load(f"{sys.argv[1]}/{dtype}.{k}.npy") for k in range(3)]
    given = np.load(f"{sys.argv[1]}/{dtype}.npy").view(getattr(ml_dtypes, dtype))
    found = load(f"{sys.argv[1]}/{dtype}.byoc").run({"x": given})
    assert [f.dtype.name for f in found] == [dtype, dtype, "float32"]
    for f, w in zip(found, wanted, strict=True):
        assert f.shape == w.shape[: f.ndim] and np.ascontiguousarray(f).tobytes() == w.tobytes()
assert "byoc.relay" not in sys.modules and "onnx" not in sys.modules
print("all the same")
"""


@pytest.mark.needs_cc
def test_a_saved_artefact_keeps_constants_and_signatures_in_a_new_process(tmp_path):
    for dtype in SMALL:
        made, given, wanted = moved(dtype)
        byoc.compile(made).save(tmp_path / f"{dtype}.byoc")
        byoc.compile(made).save(tmp_path / "again.byoc")
        assert (tmp_path / "again.byoc").read_bytes() == (tmp_path / f"{dtype}.byoc").read_bytes()
        np.save(tmp_path / f"{dtype}.npy", bits(given))
        for k, value in enumerate(wanted):
            np.save(tmp_path / f"{dtype}.{k}.npy", value if value.dtype == np.float32 else bits(value))
    done = subprocess.run(
        [sys.executable, "-c", RUN_AGAIN, str(tmp_path), *SMALL], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.strip(), done.stderr) == ("all the same", "")


@pytest.mark.needs_cc
@pytest.mark.parametrize("dtype", ["int4", "float8_e5m2", "bfloat16"])
def test_byoc_run_takes_and_gives_its_bytes(dtype, tmp_path, capsys):
    from byoc.cli.main import main

    kind = NUMBERS.get(dtype, TensorProto.BFLOAT16)
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])]
    onnx.save(model(nodes, {"x": (kind, [2, 3])}, {"y": (kind, [3, 2])}), tmp_path / "m.onnx")
    given = np.array([[1, -2, 3], [0, -1, 2]]).astype(numpy_type(dtype))
    np.save(tmp_path / "x.npy", given.view(np.dtype((np.void, given.itemsize))))
    shown = ["run", str(tmp_path / "m.onnx"), "-i", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "y.npz")]
    assert main(shown) == 0
    assert f"y ({dtype}) without the name of their type" in capsys.readouterr().out
    assert same([np.load(tmp_path / "y.npz")["y"].view(numpy_type(dtype))], [given.T])


@every_type
def test_text_keeps_constants(dtype):
    value = all_numbers(dtype)
    mod = byoc.IRModule.from_expr(relay.Function([], relay.const(value)))
    again = relay.fromtext(mod.astext())
    assert same([evaluate(again, {})], [value])


# casts --------------------------------------------------------------------------------------------------------------


def cast(values: np.ndarray, dtype: str, **attrs) -> np.ndarray:
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    node = helper.make_node("Cast", ["x"], ["y"], to=NUMBERS[dtype], **attrs)
    made = model([node], {"x": (kind, values.shape)}, {"y": (NUMBERS[dtype], values.shape)})
    return np.asarray(evaluate(import_onnx(made), {"x": values}))


@pytest.mark.parametrize("source", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_casts_to_8_bits_follow_onnx_tables(dtype, source):
    largest = float(ml_dtypes.finfo(numpy_type(dtype)).max)
    far = 6.4e4 if source == "float16" else 1e5  # rounds to more than the largest
    x = np.array([0, -0.0, np.nan, np.inf, -np.inf, far, -far, 1.5, -largest], numpy_type(source))
    wanted = [0, 0, np.nan, largest, -largest, largest, -largest, 1.5, -largest]
    np.testing.assert_array_equal(cast(x, dtype).astype("float32"), wanted)
    beyond = np.inf if dtype == "float8_e5m2" else np.nan
    wanted = [0, 0, np.nan, beyond, -beyond, beyond, -beyond, 1.5, -largest]
    np.testing.assert_array_equal(cast(x, dtype, saturate=0).astype("float32"), wanted)
    assert np.signbit(cast(x, dtype)[1].astype("float32")) == (not dtype.endswith("fnuz"))


POWERS = 2.0 ** np.arange(-127, 128)
TOWARDS = {
    "up": lambda x: POWERS[min(np.searchsorted(POWERS, x), 254)],
    "down": lambda x: POWERS[max(np.searchsorted(POWERS, x, side="right") - 1, 0)],
    "nearest": lambda x: max(POWERS[np.abs(POWERS - x) == np.abs(POWERS - x).min()]),
}


@pytest.mark.parametrize("mode", TOWARDS)
@pytest.mark.parametrize("saturate", [1, 0])
def test_casts_to_powers_of_two_round_as_they_are_reported(mode, saturate):
    rng = np.random.default_rng(3)
    near = POWERS[:, None] * [0.75, 0.7501, 1.0, 1.0001, 1.25, 1.4999, 1.5, 1.5001, 1.75]
    x = np.concatenate([near.ravel(), rng.lognormal(0, 20, 300)]).astype("float32")
    x = np.concatenate([x, np.array([0, 1e-45, 3e-39, np.inf, np.nan, -1, -np.inf, 3.4e38], "float32")])
    wide = x.astype("float64")
    wanted = np.array([TOWARDS[mode](v) if v == v else np.nan for v in wide])
    wanted[np.isinf(wide)] = POWERS[-1]
    if not saturate:
        wanted[(wide < POWERS[0]) | (wide > POWERS[-1])] = np.nan
    wanted[wide < 0] = np.nan
    np.testing.assert_array_equal(cast(x, "float8_e8m0fnu", saturate=saturate, round_mode=mode).astype("f8"), wanted)


def test_another_way_of_rounding_is_refused():
    with pytest.raises(ImportModelError, match="round_mode is up, down, nearest, got 'even'"):
        cast(np.ones(1, "float32"), "float8_e8m0fnu", round_mode="even")


def test_a_cast_is_left_out_only_where_every_number_survives_it():
    wide = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32")
    with np.errstate(all="ignore"):
        for narrow, other in itertools.product(SMALL, (*SMALL, *wide)):
            numbers = all_numbers(narrow)
            there = converted(numbers, dtype=other)
            survives = np.array_equal(numbers.astype("f8"), there.astype("f8"), equal_nan=True)
            assert survives or not holds_all(other, narrow), (narrow, other)
        assert not any(holds_all(narrow, other) for narrow in SMALL_FLOATS for other in wide)
        assert not any(holds_all(narrow, other) for narrow in SMALL_INTEGERS for other in wide)
    assert holds_all("int8", "int4") and holds_all("float32", "float8_e8m0fnu") and not holds_all("uint4", "int4")


def test_the_kernel_casts_between_any_two():
    with np.errstate(all="ignore"):
        for source, target in itertools.product(SMALL, SMALL):
            numbers = all_numbers(source)
            found = converted(numbers, dtype=target)
            if {source, target} <= set(SMALL_INTEGERS):  # as ONNX says: higher bits go
                width = 2 ** SMALL[target]
                wanted = (numbers.astype("i8") - integer_range(target)[0]) % width + integer_range(target)[0]
            else:
                wanted = numbers.astype("f4").astype(numpy_type(target))
            np.testing.assert_array_equal(found.astype("f8"), wanted.astype("f8"))


def test_bits_are_read_as_another_type_of_as_many_bits_alone():
    x = all_numbers("int4")
    assert same(
        [evaluate(relay.Function([], relay.reinterpret(relay.const(x), "float4_e2m1fn")))],
        [bits(x).view(ml_dtypes.float4_e2m1fn)],
    )
    with pytest.raises(TypeInferenceError, match="the bits of int4 cannot be read as int8"):
        relay.transform.InferType()(byoc.IRModule.from_expr(relay.reinterpret(relay.const(x), "int8")))


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_quantised_floats_have_no_zero_point(op):
    dtype, kinds = numpy_type("float8_e4m3fn"), (TensorProto.FLOAT, NUMBERS["float8_e4m3fn"])
    source, result = kinds if op == "QuantizeLinear" else kinds[::-1]
    zero = numpy_helper.from_array(np.array(1, dtype), "z")
    scale = numpy_helper.from_array(np.array(2, "float32"), "s")
    node = helper.make_node(op, ["x", "s", "z"], ["y"])
    with pytest.raises(ImportModelError, match="the zero point .input 2. of float8_e4m3fn is 0"):
        import_onnx(model([node], {"x": (source, [2])}, {"y": (result, [2])}, [scale, zero]))


@pytest.mark.parametrize("said", ['{"x": "int5"}', '{"x": 4}', '["int4"]', "{"])
def test_constants_whose_types_are_no_types_are_refused(said):
    data = safetensors.numpy.save({"x": np.zeros(4, "uint8")}, metadata={"dtypes": said})
    with pytest.raises(ArtifactError, match="weights.safetensors is damaged"):
        read_weights(memoryview(data), "m.byoc")


def test_constants_are_written_the_same_every_time():
    arrays = {name: NDArray(all_numbers(name)) for name in SMALL}
    data = write_weights(arrays)
    assert data == write_weights(dict(reversed(arrays.items())))
    found = read_weights(memoryview(data), "m.byoc")
    assert all(same([found[name]], [all_numbers(name)]) for name in SMALL)
