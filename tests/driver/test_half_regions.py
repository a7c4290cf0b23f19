"""Regions in half precision: what ``precision="fp16"`` gives OpenCL, what stays in float32 and who says so.

PoCL has no ``cl_khr_fp16``: there ``half=memory`` stores halves and computes in float32, and is held to numbers; what
``half=compute`` writes is compiled by the C compiler, whose ``_Float16`` is that type, and held to the same.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.annex import testing
from byoc.cli.main import main
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.opencl import backend as opencl
from byoc.contract import get_backend
from byoc.errors import DeviceError, UserError
from byoc.ir.module import IRModule
from byoc.partition.plan.plan import Plan
from byoc.relay.bind import module_with_params
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.transform import InferType
from byoc.relay.transform.half_operands import Beyond, half_operands
from byoc.relay.traverse import post_order
from byoc.runtime import load
from byoc.testing import certify
from byoc.testing.checks import Examiner
from byoc.testing.core.case import Case
from byoc.testing.core.precision_bounds import added_tolerance

RNG = np.random.default_rng(5)
MEMORY = {"opencl": {"half": "memory"}}
COMPUTE = {"opencl": {"half": "compute"}}


def _const(*shape: int, scale: float = 0.125) -> Constant:
    return relay.const((np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype("float32"))


def _network(scale: float = 0.125) -> IRModule:
    """A convolution with bias and activation, a pool, a sum, a concatenation, a depthwise one, a product, a softmax."""
    x = relay.var("x", shape=(1, 16, 12, 12))
    first = relay.nn.conv2d(x, _const(32, 16, 3, 3, scale=scale), padding=(1, 1), kernel_size=(3, 3), channels=32)
    pooled = relay.nn.max_pool2d(relay.nn.relu(relay.nn.bias_add(first, _const(32))), (2, 2), (2, 2))
    second = relay.nn.conv2d(pooled, _const(32, 32, 1, 1), kernel_size=(1, 1), channels=32)
    joined = relay.concatenate([relay.add(pooled, second), pooled], 1)
    depth = relay.nn.conv2d(joined, _const(64, 1, 3, 3), kernel_size=(3, 3), channels=64, groups=64)
    dense = relay.nn.dense(relay.nn.batch_flatten(depth), _const(10, 1024))
    return IRModule.from_expr(Function([x], relay.nn.softmax(dense)))


def _typed(mod: IRModule) -> Function:
    func = InferType()(mod)["main"]
    assert isinstance(func, Function)
    return func


def _dtypes(func: Function) -> dict[str, list[str]]:
    """The dtypes that calls take and give, by operator: ``float16 float16 -> float32``."""
    found: dict[str, list[str]] = {}
    for n in post_order(func.body):
        if isinstance(n, Call):
            args = [a.checked_type for a in n.args]
            flat = [t.dtype for ty in args for t in getattr(ty, "fields", [ty])]
            found.setdefault(n.op.name, []).append(f"{' '.join(flat)} -> {n.checked_type.dtype}")
    return found


@pytest.fixture
def small_onnx(tmp_path):
    """A model of one product of 3x8 by 8x4."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    weight = onnx.numpy_helper.from_array(RNG.standard_normal((8, 4)).astype("float32"), "w")
    x, y = (helper.make_tensor_value_info(n, 1, [3, k]) for n, k in (("x", 8), ("y", 4)))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], "g", [x], [y], [weight])
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _input(scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(3).standard_normal((1, 16, 12, 12)) * scale).astype("float32")


def test_products_take_halves_and_sum_in_float32_and_what_moves_hands_halves_on():
    func, products = half_operands(_typed(_network()), Beyond())
    found = _dtypes(func)
    assert set(found["nn.conv2d"]) == {"float16 float16 -> float32"} and len(products) == 4
    assert found["nn.dense"] == ["float16 float16 -> float32"]
    assert found["nn.max_pool2d"] == ["float16 -> float16"] and found["concatenate"] == ["float16 float16 -> float16"]
    assert found["nn.bias_add"] == ["float32 float32 -> float32"] and found["nn.relu"] == ["float32 -> float32"]
    assert found["nn.softmax"] == ["float32 -> float32"], "declared never: a softmax"
    assert func.body.checked_type.dtype == func.params[0].checked_type.dtype == "float32"


@pytest.mark.parametrize("scaled", [True, False])
def test_both_products_of_an_attention_stay_in_float32_and_say_why(scaled):
    """Their weights would lie in memory between kernels; what makes queries, keys and values takes halves."""
    x = relay.var("x", shape=(2, 12, 8))
    rows = relay.reshape(x, (24, 8))
    q, k, v = (relay.reshape(relay.nn.dense(rows, _const(8, 8)), (2, 12, 8)) for _ in range(3))
    scores = relay.nn.batch_matmul(q, k)
    scores = relay.multiply(scores, relay.const(0.3)) if scaled else scores
    mixed = relay.nn.batch_matmul(relay.nn.softmax(scores, axis=-1), relay.transpose(v, (0, 2, 1)))
    out = relay.nn.dense(relay.reshape(mixed, (24, 8)), _const(4, 8))
    func, products = half_operands(_typed(IRModule.from_expr(Function([x], out))), Beyond())
    found = _dtypes(func)
    assert found["nn.batch_matmul"] == ["float32 float32 -> float32"] * 2
    assert found["nn.dense"] == ["float16 float16 -> float32"] * 4
    kept = [p for p in products if p.reason]
    assert len(kept) == 2 and all("belongs to an attention" in p.reason for p in kept)


def test_a_product_of_computed_values_without_a_softmax_takes_halves():
    x, y = relay.var("x", shape=(2, 12, 8)), relay.var("y", shape=(2, 10, 8))
    both = relay.nn.batch_matmul(relay.nn.relu(x), relay.nn.relu(y))
    func, _ = half_operands(_typed(IRModule.from_expr(Function([x, y], relay.nn.relu(both)))), Beyond())
    assert _dtypes(func)["nn.batch_matmul"] == ["float16 float16 -> float32"]


@pytest.mark.parametrize(
    ("reader", "stored"),
    [
        (lambda v: relay.sum(v, [1, 2, 3]), False),
        (lambda v: relay.cast(relay.greater(v, relay.const(0.3)), "float32"), False),
        (lambda v: relay.floor(v), False),
        (lambda v: relay.multiply(v, relay.const(2.0)), True),
    ],
    ids=["summed", "compared", "made whole", "multiplied"],
)
def test_a_value_is_stored_as_halves_only_where_its_readers_make_floats_of_each(reader, stored):
    x = relay.var("x", shape=(1, 8, 6, 6))
    value = relay.nn.relu(relay.nn.conv2d(x, _const(8, 8, 1, 1), kernel_size=(1, 1), channels=8))
    both = relay.Tuple([relay.nn.conv2d(value, _const(8, 8, 1, 1), kernel_size=(1, 1), channels=8), reader(value)])
    func, _ = half_operands(_typed(IRModule.from_expr(Function([x], both))), Beyond())
    other = func.body.fields[1]
    while other.op.name not in ("cast", "nn.relu") or other.args[0].checked_type.dtype == "bool":
        other = other.args[0]
    assert (other.op.name == "cast") == stored, "read from halves, or as it was made"


@pytest.mark.parametrize("value", [7e4, -1e6, np.nan, np.inf, 3e-6], ids=str)
def test_weights_beyond_the_range_of_halves_keep_their_product_in_float32(value):
    weight = np.full((4, 8), 1e-7 if value == 3e-6 else 0.5, "float32")
    weight[1, 2] = value
    x = relay.var("x", shape=(2, 8))
    mod = IRModule.from_expr(Function([x], relay.nn.dense(x, relay.const(weight))))
    func, (product,) = half_operands(_typed(mod), Beyond())
    assert product.reason.startswith("its operand 1, a constant, ")
    assert _dtypes(func)["nn.dense"] == ["float32 float32 -> float32"]


@pytest.mark.needs_opencl
def test_halves_in_memory_answer_as_float32_within_the_bound_of_what_is_in_the_model():
    x, allowed = _input(), added_tolerance(_typed(_network()), "fp16")
    full = byoc.compile(_network(), ["opencl"])(x)
    library = byoc.compile(_network(), ["opencl"], precision="fp16", backend_options=MEMORY)
    found = library(x)
    assert found.dtype == np.float32 and 0 < np.abs(found - full).max() <= allowed * np.abs(full).max()
    assert library.report["half_precision"]["text"] == "fp16: 4 of 4 products of opencl take halves, with sums in f32\n"
    places = [d.place for d in Plan.from_json(library.report["plan"]).decisions if d.precision]
    assert places == ["place opencl/fp16"] * 4
    (module,) = [m for m in library.module.imports if m.type_key == "opencl"]
    stored = {s.dtype for s in module.constant_specs(module.symbols[0]) if len(s.shape) == 4}
    assert stored == {"float16"}, "weights are stored as halves"


@pytest.mark.needs_opencl
def test_a_device_without_halves_computes_in_float32_and_the_report_says_so_in_one_line():
    if opencl.open_device().info.has_float16:
        pytest.skip("the device here has cl_khr_fp16")
    library = byoc.compile(_network(), ["opencl"], precision="fp16")
    assert re.fullmatch(
        r"fp16: opencl stays in f32: the device .* has no cl_khr_fp16; half=memory .*\n",
        library.report["half_precision"]["text"],
    )
    np.testing.assert_array_equal(library(_input()), byoc.compile(_network(), ["opencl"])(_input()))


def test_a_device_with_halves_gets_them_without_being_asked(monkeypatch):
    real = opencl.open_device()
    fake = dataclasses.replace(real, info=dataclasses.replace(real.info, has_float16=True))
    monkeypatch.setattr(opencl, "open_device", lambda *_: fake)
    library = byoc.compile(_network(), ["opencl"], precision="fp16")
    (module,) = [m for m in library.module.imports if m.type_key == "opencl"]
    assert "cl_khr_fp16 : enable" in module.get_source() and "const half *restrict" in module.get_source()


def test_kernels_with_halves_are_refused_by_a_device_without_them_in_one_sentence():
    if opencl.open_device().info.has_float16:
        pytest.skip("the device here has cl_khr_fp16")
    library = byoc.compile(_network(), ["opencl"], precision="fp16", backend_options=COMPUTE)
    (region,) = library.report["regions"]
    assert any(note.startswith("half=compute: kernels need a device with cl_khr") for note in region["region_notes"])
    with pytest.raises(DeviceError, match="has no cl_khr_fp16, which these kernels need: compile"):
        library(_input())
    allowed = byoc.compile(_network(), ["opencl"], precision="fp16", backend_options=COMPUTE, fallback=True)
    np.testing.assert_allclose(allowed(_input()), byoc.compile(_network())(_input()), rtol=1e-4, atol=1e-6)


AS_C = """
#include <math.h>
#include <stdint.h>
typedef _Float16 half; typedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned int uint;
typedef unsigned long ulong;
static long number_of_the_item;
#define __kernel
#define __global
#define get_global_id(k) ((int)number_of_the_item)
#define exp expf
void at(long k) { number_of_the_item = k; }
"""


@pytest.mark.needs_cc
def test_what_is_written_with_the_type_half_computes_what_halves_in_memory_do(tmp_path):
    """By the C compiler, kernel by kernel, over the launches of the plan: nothing here has the extension."""
    x = relay.var("x", shape=(1, 4, 9, 9))
    first = relay.nn.relu(relay.nn.conv2d(x, _const(8, 4, 3, 3), padding=(1, 1), kernel_size=(3, 3), channels=8))
    pooled = relay.nn.max_pool2d(first, (2, 2), (2, 2))
    body = relay.nn.conv2d(pooled, _const(6, 8, 1, 1), kernel_size=(1, 1), channels=6)
    func, _ = half_operands(_typed(IRModule.from_expr(Function([x], body))), Beyond())
    module = opencl.compile_functions({"f": opencl.fuse_body(func)}, {"half": "compute"})
    (plan,) = module.plans
    source = re.sub(r"(?m)^#pragma.*$", "", module.get_source())
    (tmp_path / "kernels.c").write_text(AS_C + source)
    flags = ["-O1", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
    files = ["-o", str(tmp_path / "k.so"), str(tmp_path / "kernels.c"), "-lm"]
    built = subprocess.run([*find_compiler().command, *flags, *files], capture_output=True, text=True)
    if "unknown type name '_Float16'" in built.stderr:
        pytest.skip("this C compiler has no _Float16")
    assert built.returncode == 0, built.stderr
    kernels = ctypes.CDLL(str(tmp_path / "k.so"))
    data = RNG.standard_normal((1, 4, 9, 9)).astype("float32")
    given = [data, *(module.constant_arrays[s.name].numpy() for s in plan.signature.constants)]
    buffers = [np.frombuffer(bytearray(a.tobytes()), np.uint8) for a in given]
    buffers += [np.zeros(b.bytes, np.uint8) for b in plan.buffers[len(given) :]]
    for launch in plan.launches:
        variant = launch.choose({})
        assert not variant.groups
        (total, *_), _ = (lambda s: ((s[0],) if isinstance(s[0], int) else s[0], s[1]))(variant.shape({}, 64))
        for k in range(total):
            kernels.at(ctypes.c_long(k))
            begins = [ctypes.c_long(0) for _ in plan.placed(launch)]  # each has memory of its own here
            pointers = (ctypes.c_void_p(buffers[b].ctypes.data) for b in launch.buffers)
            getattr(kernels, variant.kernel)(*pointers, *begins)
    found = buffers[plan.first_output].view("float32").reshape(1, 6, 4, 4)
    stored = opencl.compile_functions({"f": opencl.fuse_body(func)}, {"half": "memory"})
    wanted = np.zeros((1, 6, 4, 4), "float32")
    stored["f"](data, wanted)
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.needs_opencl
def test_what_leaves_the_range_on_the_samples_stays_in_float32_and_is_reported():
    loud = [{"x": _input(1e6)}]
    library = byoc.compile(_network(), ["opencl"], precision="fp16", backend_options=MEMORY, calibration=loud)
    shown = library.report["half_precision"]
    assert re.search(r"take halves.*; in f32: .*reaches .*e\+\d+, beyond float16 on the samples", shown["text"])
    assert shown["left"] and shown["samples"] == 1
    full, found = byoc.compile(_network(), ["opencl"])(loud[0]["x"]), library(loud[0]["x"])
    np.testing.assert_allclose(found, full, atol=1e-5)
    without = byoc.compile(_network(), ["opencl"], precision="fp16", backend_options=MEMORY)
    assert not np.isfinite(without(loud[0]["x"])).all(), "which the samples are for"


@pytest.mark.needs_opencl
def test_samples_within_the_range_leave_all_products_in_halves_and_the_error_is_measured():
    library = byoc.compile(
        _network(), ["opencl"], precision="fp16", backend_options=MEMORY, calibration=[{"x": _input()}]
    )
    shown = library.report["half_precision"]
    assert shown["left"] == [] and 0 < shown["errors"]["output0"] < 2e-3
    strict = byoc.Calibration([{"x": _input()}], max_error=1e-9)
    with pytest.raises(UserError, match="fp16 changes output output0 by .* more than max_error=1e-09"):
        byoc.compile(_network(), ["opencl"], precision="fp16", backend_options=MEMORY, calibration=strict)


@pytest.mark.parametrize("name", ["nn.conv2d", "nn.dense"])
def test_what_the_user_keeps_stays_in_float32(name):
    library = byoc.compile(_network(), ["opencl"], precision="fp16", backend_options=MEMORY, keep_f32=[name])
    left = library.report["half_precision"]["left"]
    assert left and {item["reason"] for item in left} == {"the user keeps it in f32"}
    assert {item["operator"] for item in left} == {name}


def test_the_host_computes_its_products_in_float32_and_the_plan_says_why():
    library = byoc.compile(_network(), precision="fp16")
    places = {d.place for d in Plan.from_json(library.report["plan"]).decisions if d.precision}
    assert places == {"place c/f32: halves are for regions of targets that take them"}
    np.testing.assert_array_equal(library(_input()), byoc.compile(_network())(_input()))


@pytest.mark.needs_opencl
def test_an_artefact_with_halves_answers_the_same_in_a_new_process(tmp_path, small_onnx):
    output = tmp_path / "half.byoc"
    assert (
        main(
            [
                "compile",
                str(small_onnx),
                "-o",
                str(output),
                "-t",
                "opencl",
                "--precision",
                "fp16",
                "--set",
                "opencl.half=memory",
            ]
        )
        == 0
    )
    library = load(output)
    assert "take halves" in library.report["half_precision"]["text"]
    feeds = {s.name: RNG.standard_normal(s.shape).astype(s.dtype) for s in library.inputs}
    np.savez(tmp_path / "x.npz", **feeds)
    script = (
        "import sys, numpy as np\nfrom byoc.runtime import load\n"
        f"found = load({str(output)!r}).run(dict(np.load({str(tmp_path / 'x.npz')!r})))\n"
        f"np.save({str(tmp_path / 'y.npy')!r}, found[0])\nassert not any(m == 'byoc.relay' for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), library.run(feeds)[0])
    ort = pytest.importorskip("onnxruntime")
    wanted = ort.InferenceSession(str(small_onnx), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    np.testing.assert_allclose(library.run(feeds)[0], wanted, atol=8 * 2**-11 * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.needs_opencl
@pytest.mark.parametrize("name", ["resnet", "mobilenet"])
def test_a_network_answers_as_in_float32(name):
    mod, params = getattr(testing, name).get_workload(batch_size=1, image_shape=(3, 64, 64), num_classes=10)
    mod = module_with_params(mod, params)
    x = RNG.standard_normal((1, 3, 64, 64)).astype("float32")
    full = byoc.compile(mod, ["opencl"])(x)
    half = byoc.compile(mod, ["opencl"], precision="fp16", backend_options=MEMORY)(x)
    assert 0 < np.abs(full - half).max() < 2e-2 * np.abs(full).max()


def test_export_c_has_no_halves(tmp_path, small_onnx):
    with pytest.raises(UserError, match="export_c has no fp16"):
        byoc.export_c(small_onnx, tmp_path / "out", precision="fp16")


def test_the_report_is_json():
    library = byoc.compile(_network(), ["opencl"], precision="fp16", backend_options=MEMORY)
    assert json.loads(json.dumps(library.report["half_precision"])) == library.report["half_precision"]


@pytest.mark.slow
@pytest.mark.needs_opencl
def test_products_and_patterns_are_certified_in_halves_within_the_table_of_tolerances():
    only = ["nn.dense", "nn.batch_matmul", "nn.conv2d", "nn.conv3d", "opencl.conv2d_act", "opencl.dense_bias_act"]
    found = certify(
        "opencl", only=only, precision="fp16", backend_options=MEMORY["opencl"], saved=False, skip=["same bytes"]
    )
    assert found.ok, str(found)
    loose = certify("opencl", only=["nn.dense"], backend_options=MEMORY["opencl"], saved=False, seconds=20.0)
    assert loose.ok, "and without a precision nothing is rounded"


@pytest.mark.needs_opencl
def test_the_table_is_what_a_case_in_halves_is_held_to(monkeypatch):
    x = relay.var("x", shape=(2, 64))
    func = _typed(IRModule.from_expr(Function([x], relay.nn.dense(x, _const(8, 64, scale=1.0)))))
    case = Case("dense", "nn.dense", "sample", func, ((RNG.standard_normal((2, 64)).astype("float32"),),))
    examiner = Examiner(get_backend("opencl"), options=MEMORY["opencl"], precision="fp16")
    assert examiner.examine(case, ["numbers"]) == []
    monkeypatch.setattr("byoc.testing.checks.added_tolerance", lambda function, precision: 0.0)
    (finding,) = examiner.examine(case, ["numbers"])
    assert finding.check == "numbers" and "off by" in finding.text
