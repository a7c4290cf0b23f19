"""The example NPU: what it takes of quantized models, bit for bit, in its memory, saved and loaded."""

import pathlib
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from quantized_nets import RESNET, SMALL, quantized, resnet18, samples, small_net, without_batch_norms

import byoc
from byoc.contrib import npu, npu_emulator, npu_generator
from byoc.driver.compiler.integers import region_integers
from byoc.driver.compiler.plan import simplify_and_plan
from byoc.driver.options import PlanRequest
from byoc.relay.expr import Function
from byoc.relay.interpreter import evaluate
from byoc.runtime.core.errors import ArtifactError, InputError

pytest.importorskip("onnxruntime")
FACE = pathlib.Path(__file__).parents[3] / "shared" / "models" / "face_rfb_320.onnx"
needs_face = pytest.mark.skipif(not FACE.exists(), reason=f"{FACE} is not here")


@pytest.fixture(scope="module")
def qdq(tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8_npu")
    return quantized(small_net(folder / "small.onnx"), folder / "qdq.onnx", samples(SMALL))


def targets_of(plan):
    """How many calls of which operator are where."""
    return Counter((d.operator, d.target or "host") for d in plan.decisions)


def regions_of(path, **given):
    """The regions for the NPU of a model that quantizes itself, or by samples, as they are compiled, and the plan."""
    mod, plan = simplify_and_plan(PlanRequest(path, targets=["int8_npu", "c"], **given))
    cut = region_integers(plan.apply(mod))
    return [f for f in cut.functions.values() if f.attrs.get("Compiler") == "int8_npu"], plan


def run(function, inputs):
    """What the emulator makes of *inputs*."""
    types = getattr(function.body.checked_type, "fields", None) or [function.body.checked_type]
    outputs = [np.zeros([int(d) for d in ty.shape], "int8") for ty in types]
    npu_generator.compiled(function).run(*inputs, *outputs)
    return outputs


def reference(function, inputs):
    """What the graph of a region means, by the numpy kernels of its operators."""
    found = evaluate(byoc.IRModule.from_expr(Function(function.params, function.body)), inputs)
    return found if isinstance(found, list) else [found]


def assert_bit_exact(regions):
    rng = np.random.default_rng(0)
    for function in regions:
        inputs = [rng.integers(-128, 128, [int(d) for d in p.checked_type.shape], "int8") for p in function.params]
        for found, want in zip(run(function, inputs), reference(function, inputs), strict=True):
            np.testing.assert_array_equal(found, want)


def test_every_product_of_a_small_model_goes_to_the_npu(qdq):
    regions, plan = regions_of(qdq)
    found = targets_of(plan)
    assert found["int8_npu.conv2d", "int8_npu"] == 4
    assert (
        found["int8_npu.dense", "int8_npu"] == found["nn.max_pool2d", "int8_npu"] == found["qnn.add", "int8_npu"] == 1
    )
    assert not any("conv2d" in operator or "dense" in operator for operator, target in found if target == "host")
    assert len(regions) == 2


def test_its_regions_are_bit_exact_with_the_reference_integers(qdq):
    assert_bit_exact(regions_of(qdq)[0])


@pytest.mark.needs_cc
def test_regions_of_a_model_in_floats_are_bit_exact_with_the_reference_integers(tmp_path):
    inputs = samples(SMALL)
    path = small_net(tmp_path / "small.onnx")
    regions, plan = regions_of(path, precision="int8", calibration=inputs)
    found = targets_of(plan)
    assert found["int8_npu.conv2d", "int8_npu"] == 4
    assert found["int8_npu.dense", "int8_npu"] == found["int8_npu.add", "int8_npu"] == 1
    assert len(regions) == 2
    assert_bit_exact(regions)
    library = byoc.compile(path, targets=["int8_npu", "c"], precision="int8", calibration=inputs)
    made = sorted(m.get_source() for m in library.module.imports if m.type_key == "int8_npu")
    assert made == sorted(npu_generator.compiled(function).get_source() for function in regions)


def test_the_reference_finds_a_region_whose_numbers_are_off_by_one(qdq, monkeypatch):
    """What is compared above can fail: one result of the emulator, one step too large."""
    regions, _ = regions_of(qdq)
    plain = npu_emulator.NpuModule.run

    def wrong(self, *arrays):
        plain(self, *arrays)
        arrays[-1].reshape(-1)[0] ^= 1

    monkeypatch.setattr(npu_emulator.NpuModule, "run", wrong)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 /"):
        assert_bit_exact(regions)


@pytest.mark.parametrize("activations", ["QInt8", "QUInt8"])
@pytest.mark.needs_cc
def test_outputs_are_those_of_onnx_runtime_but_for_the_rounding_of_ties(tmp_path, activations, exact_bytes):
    import onnxruntime

    path = quantized(small_net(tmp_path / "small.onnx"), tmp_path / "qdq.onnx", samples(SMALL), activations)
    library = byoc.compile(path, targets=["int8_npu", "c"])
    assert any(m.type_key == "int8_npu" for m in library.module.imports)
    session = onnxruntime.InferenceSession(path)
    for sample in samples(SMALL, 3, seed=5):
        found, want = library.run(sample)[0], session.run(None, sample)[0]
        assert np.linalg.norm(found - want) < 0.03 * np.linalg.norm(want)


def test_a_model_of_qlinear_operators_goes_to_the_npu(tmp_path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (8, 3, 3, 3)).astype("int8")
    named = {
        "s": np.float32(0.02),
        "z": np.uint8(120),
        "w": weights,
        "ws": rng.uniform(0.001, 0.01, 8).astype("float32"),
        "wz": np.zeros(8, "int8"),
        "t": np.float32(0.05),
        "y0": np.uint8(131),
        "b": rng.integers(-900, 900, 8).astype("int32"),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node(
            "QLinearConv", ["q", "s", "z", "w", "ws", "wz", "t", "y0", "b"], ["c"], name="conv", pads=[1] * 4
        ),
        helper.make_node("DequantizeLinear", ["c", "t", "y0"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SMALL)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 16, 16))
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in named.items()]
    graph = helper.make_graph(nodes, "qlinear", [x], [y], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "qlinear.onnx"
    onnx.save(model, path)
    regions, plan = regions_of(path)
    assert targets_of(plan)["int8_npu.conv2d", "int8_npu"] == 1
    assert_bit_exact(regions)


def test_padding_of_a_node_of_its_own_is_part_of_the_convolution():
    from byoc import relay

    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 9, 9, 4), dtype="int8")
    padded = relay.nn.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], relay.const(np.int8(7)))
    weight = relay.const(rng.integers(-127, 128, (3, 3, 4, 5)).astype("int8"))
    zero, kernel_zero = relay.const(np.int32(7)), relay.const(np.int32(0))
    scale, scales = relay.const(np.float32(0.1)), relay.const(rng.uniform(0.001, 0.02, 5).astype("float32"))
    total = relay.qnn.op.conv2d(
        padded, weight, zero, kernel_zero, scale, scales, (3, 3), 5, data_layout="NHWC", kernel_layout="HWIO"
    )
    total = relay.nn.bias_add(total, relay.const(rng.integers(-500, 500, 5).astype("int32")), axis=3)
    bounded = relay.clip(total, -9000.0, 12000.0)
    out = relay.const(np.float32(0.3)), relay.const(np.int32(-4))
    made = relay.qnn.op.requantize(bounded, scales, relay.const(np.int32(0)), *out, axis=3, out_dtype="int8")
    mod = relay.transform.InferType()(
        byoc.IRModule.from_expr(relay.Function([x], relay.maximum(made, relay.const(np.int8(-4)))))
    )
    plan = byoc.plan(mod, targets=["int8_npu", "c"])
    assert [(d.operator, d.target) for d in plan.decisions] == [("int8_npu.conv2d", "int8_npu")]
    cut = plan.apply(simplify_and_plan(PlanRequest(mod, targets=["int8_npu", "c"]))[0])
    assert_bit_exact([f for f in cut.functions.values() if f.attrs.get("Compiler") == "int8_npu"])


@pytest.mark.parametrize("shape", [(40, 50, 64, 96, 3, 1), (7, 7, 512, 300, 3, 1), (60, 81, 32, 32, 3, 2)])
def test_what_does_not_fit_into_64_kb_is_tiled(shape):
    h, w, c, out, kernel, stride = shape
    size = [(n + 2 * (kernel // 2) - kernel) // stride + 1 for n in (h, w)]
    window = npu_generator.NpuWindow(
        (h, w, c), (size[0], size[1], out), (kernel, kernel), (stride, stride), padding=(kernel // 2, kernel // 2)
    )
    tile = window.tile()
    assert sum(window.sizes(tile).values()) <= npu_emulator.MEMORY
    assert tile != window.out  # as a whole it does not
    assert window.traffic(tile) <= window.traffic((1, 1, 1))


def test_what_fits_in_no_tile_is_refused():
    window = npu_generator.NpuWindow((1, 1, 70000), (1, 1, 8), (1, 1))
    assert window.tile() is None


def test_tiles_give_the_same_numbers_as_the_whole(monkeypatch, qdq):
    regions, _ = regions_of(qdq)
    monkeypatch.setattr(npu_generator, "MEMORY", 700)
    longer = npu_generator.compiled(regions[0])
    assert_bit_exact(regions)
    monkeypatch.undo()
    assert len(longer.code) > len(npu_generator.compiled(regions[0]).code)


def test_a_program_that_leaves_the_memory_is_stopped():
    chip = npu_emulator.Emulator([np.zeros((1, 2, 2, 4), "int8")], b"")
    with pytest.raises(ArtifactError, match="the NPU has 65536 bytes, and a program reaches to 65544"):
        chip.run([["load", 0, 0, 0, 2, 0, 2, 0, 4, 0, 0, 0, 0, 0, 65528]])
    with pytest.raises(ArtifactError, match="no instruction 'dance'"):
        chip.run([["dance"]])


def test_a_tensor_of_another_size_is_an_error(qdq):
    module = npu_generator.compiled(regions_of(qdq)[0][1])
    with pytest.raises(InputError, match="tensor 0 is int8 of shape"):
        module.run(np.zeros((1, 15), "int8"), np.zeros((1, 10), "int8"))
    with pytest.raises(InputError, match="expected 2 tensors of int8, got 1"):
        module.run(np.zeros((1, 16), "int8"))


def test_a_damaged_program_and_one_of_another_version_are_refused(qdq):
    module = npu_generator.compiled(regions_of(qdq)[0][0])
    saved = module.save()[npu_emulator.PROGRAM]
    again = npu_emulator.NpuModule.load({npu_emulator.PROGRAM: saved})
    assert again.get_source() == module.get_source()
    damaged = bytearray(saved)
    damaged[-3] ^= 1
    with pytest.raises(ArtifactError, match="the check value is wrong"):
        npu_emulator.NpuModule.load({npu_emulator.PROGRAM: bytes(damaged)})
    with pytest.raises(ArtifactError, match="no program of version 1"):
        npu_emulator.NpuModule.load({npu_emulator.PROGRAM: saved[:4] + b"\2\0\0\0" + saved[8:]})
    with pytest.raises(ArtifactError, match="no program.npu"):
        npu_emulator.NpuModule.load({})


LOADER = """
import sys
import numpy as np
import byoc.runtime
import byoc.contrib.npu_emulator

library = byoc.runtime.load(sys.argv[1])
np.save(sys.argv[3], library.run({"x": np.load(sys.argv[2])})[0])
print([name for name in sys.modules if name.startswith(("byoc.relay", "byoc.driver", "byoc.ir", "onnx"))])
"""


@pytest.mark.needs_cc
def test_a_saved_model_runs_in_a_new_process_through_the_runtime_alone(qdq, tmp_path):
    library = byoc.compile(qdq, targets=["int8_npu", "c"])
    sample = samples(SMALL, 1, seed=9)[0]
    np.save(tmp_path / "x.npy", sample["x"])
    library.save(tmp_path / "m.byoc")
    arguments = [str(tmp_path / name) for name in ("m.byoc", "x.npy", "y.npy")]
    done = subprocess.run([sys.executable, "-c", LOADER, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), library.run(sample)[0])


@pytest.mark.needs_cc
def test_the_hosts_version_of_a_region_has_the_same_bits(qdq, monkeypatch):
    library = byoc.compile(qdq, targets=["int8_npu", "c"], fallback=True)
    sample = samples(SMALL, 1, seed=9)[0]
    expected = library.run(sample)[0]

    def broken(self, *arrays):
        raise RuntimeError("the chip is gone")

    monkeypatch.setattr(npu_emulator.NpuModule, "run", broken)
    other = byoc.compile(qdq, targets=["int8_npu", "c"], fallback=True)
    np.testing.assert_array_equal(other.run(sample)[0], expected)
    assert len(other.fallbacks) == 2


@pytest.mark.parametrize("policy", ["order", "score", "cost"])
def test_every_policy_hands_it_channels_innermost(qdq, policy):
    plan = byoc.plan(qdq, targets=["int8_npu", "c"], policy=policy, costs="typical")
    mod, _ = simplify_and_plan(PlanRequest(qdq, targets=["int8_npu", "c"]))
    cut = plan.apply(mod)
    text = "\n".join(str(f) for f in cut.functions.values() if f.attrs.get("Compiler") == "int8_npu")
    assert text.count("qnn.conv2d(") == text.count('data_layout="NHWC"')
    if policy != "cost":  # which sees no gain in an emulator
        assert text.count("qnn.conv2d(") == 4


def test_a_plan_with_layouts_survives_json(qdq):
    plan = byoc.plan(qdq, targets=["int8_npu", "c"])
    again = type(plan).from_json(plan.to_json())
    assert again.layouts == plan.layouts != ()
    mod, _ = simplify_and_plan(PlanRequest(qdq, targets=["int8_npu", "c"]))
    assert [str(f) for f in again.apply(mod).functions.values()] == [str(f) for f in plan.apply(mod).functions.values()]


@pytest.mark.slow
@needs_face
@pytest.mark.needs_cc
def test_it_takes_the_convolutions_of_the_face_detector_from_a_qdq_file(tmp_path):
    plain = without_batch_norms(FACE, tmp_path / "plain.onnx")
    inputs = samples((1, 3, 240, 320), 2, "input")
    path = quantized(plain, tmp_path / "qdq.onnx", inputs)
    regions, plan = regions_of(path)
    assert targets_of(plan)["int8_npu.conv2d", "int8_npu"] >= 50
    assert_bit_exact(regions)
    library = byoc.compile(path, targets=["int8_npu", "c"])
    host = byoc.compile(path, targets=["c"])
    for found, want in zip(library.run(inputs[0]), host.run(inputs[0]), strict=True):
        assert np.linalg.norm(found - want) < 0.02 * np.linalg.norm(want)


@pytest.mark.slow
@needs_face
@pytest.mark.needs_cc
def test_it_takes_the_convolutions_of_the_face_detector_from_floats_with_samples():
    inputs = samples((1, 3, 240, 320), 2, "input")
    library = byoc.compile(FACE, targets=["int8_npu", "c"], precision="int8", calibration=inputs)
    taken = [
        d
        for d in library.report["plan"]["decisions"]
        if d["target"] == "int8_npu" and d["operator"] == "int8_npu.conv2d"
    ]
    assert len(taken) >= 50
    regions, plan = regions_of(FACE, precision="int8", calibration=inputs)
    assert [d.nodes for d in plan.decisions if d.operator == "int8_npu.conv2d"] == [tuple(d["nodes"]) for d in taken]
    assert_bit_exact(regions)
    made = sorted(m.get_source() for m in library.module.imports if m.type_key == "int8_npu")
    assert made == sorted(npu_generator.compiled(function).get_source() for function in regions)
    assert max(library.report["quantization"]["errors"].values()) < 0.02


@pytest.mark.slow
def test_it_takes_the_products_of_resnet18_from_a_qdq_file(tmp_path):
    inputs = samples(RESNET, 1)
    path = quantized(resnet18(tmp_path / "resnet18.onnx"), tmp_path / "qdq.onnx", inputs)
    regions, plan = regions_of(path)
    found = targets_of(plan)
    assert found["int8_npu.conv2d", "int8_npu"] + found["int8_npu.dense", "int8_npu"] >= 20
    assert_bit_exact(regions)


@pytest.mark.slow
@pytest.mark.needs_cc
def test_it_takes_the_products_of_resnet18_from_floats_with_samples(tmp_path):
    path = resnet18(tmp_path / "resnet18.onnx")
    library = byoc.compile(path, targets=["int8_npu", "c"], precision="int8", calibration=samples(RESNET, 1))
    found = Counter(d["operator"] for d in library.report["plan"]["decisions"] if d["target"] == "int8_npu")
    assert found["int8_npu.conv2d"] + found["int8_npu.dense"] >= 20
    assert_bit_exact(regions_of(path, precision="int8", calibration=samples(RESNET, 1))[0])
    assert library.report["quantization"]["errors"]["y"] < 0.05


def test_it_says_on_which_integers_it_computes():
    declared = npu.Npu.quantized
    assert (declared.data, declared.rounding, declared.compute_dtype) == ("int8", "UPWARD", "int64")
    assert "nn.conv2d" in declared.operators


@pytest.mark.slow  # tests/testing/test_quantized_cases.py certifies its operators on integers
def test_constraints_answer_for_whatever_a_plan_asks():
    certificate = byoc.testing.certify("int8_npu", saved=False)
    assert not certificate.to_json()["summary"]["counts"]["failed when asked"], str(certificate)
