"""What a library reports of regions on a device inside of control flow: those that the host computed, and how."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import byoc
from byoc.errors import UserError
from byoc.kernels import KERNELS, OpenCLSource, kernel
from byoc.runtime.errors import DeviceError
from byoc.runtime.opencl import module as opencl_module
from byoc.runtime.opencl.devices import OpenDevice

pytestmark = pytest.mark.needs_opencl
RNG = np.random.default_rng(4)
WEIGHT = RNG.standard_normal((64, 64)).astype("float32") / 8
BROKEN = "__kernel void KERNEL(__global const float *x, __global float *out SIZES) { out[0] = undeclared; }"


def looped() -> ModelProto:
    """``x`` of (n, 64), ``k`` times through a product and a sine."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])
    flags = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("c", "d")]
    k = helper.make_tensor_value_info("k", TensorProto.INT64, [])
    h, g = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in "hg")
    inner = [
        helper.make_node("MatMul", ["h", "w"], ["m"]),
        helper.make_node("Sin", ["m"], ["g"]),
        helper.make_node("Identity", ["c"], ["d"]),
    ]
    body = helper.make_graph(
        inner, "body", [helper.make_tensor_value_info("i", TensorProto.INT64, []), flags[0], h], [flags[1], g]
    )
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])
    node = helper.make_node("Loop", ["k", "", "x"], ["y"], body=body)
    graph = helper.make_graph([node], "g", [x, k], [y], [numpy_helper.from_array(WEIGHT, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def given() -> dict[str, np.ndarray]:
    return {"x": RNG.standard_normal((3, 64)).astype("float32"), "k": np.array(2)}


def test_a_region_of_a_loop_that_the_host_computed_is_reported(tmp_path: Path) -> None:
    with KERNELS.temporary():
        kernel("sin", "opencl/float/any")(OpenCLSource(BROKEN))
        loaded = byoc.load(byoc.compile(looped(), targets=["opencl"], fallback=True).save(tmp_path / "m.byoc"))
    inputs = given()
    want = np.sin(np.sin(inputs["x"] @ WEIGHT) @ WEIGHT)
    np.testing.assert_allclose(loaded.run(inputs)[0], want, rtol=1e-4, atol=1e-5)
    (record,) = loaded.fallbacks
    assert record.target == "opencl_kernels" and record.exception == DeviceError.__name__, record
    assert "undeclared" in record.message


def branched(rows: int | str = 3) -> ModelProto:
    """``x`` of (*rows*, 64) through a product and a sine, or through another product, as its sum is above 0 or not."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 64])
    outputs = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 64]) for name in ("t", "e", "y")}
    then = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Sin", ["m"], ["t"])]
    otherwise = [helper.make_node("MatMul", ["x", "v"], ["n"]), helper.make_node("Neg", ["n"], ["e"])]
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            then_branch=helper.make_graph(then, "then", [], [outputs["t"]]),
            else_branch=helper.make_graph(otherwise, "else", [], [outputs["e"]]),
        ),
    ]
    weights = {"w": WEIGHT, "v": WEIGHT[::-1].copy(), "zero": np.float32(0)}
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [outputs["y"]], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_kernels_that_a_loop_chose_are_told() -> None:
    library = byoc.compile(looped(), targets=["opencl"], fallback=True)
    library.prepare(given())
    assert library.variants and library.device_counts["kernels"]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Builds wait for this."""
    event, real = threading.Event(), opencl_module.build_program

    def build(source: str, opened: OpenDevice) -> object:
        assert event.wait(60)
        return real(source, opened)

    monkeypatch.setattr(opencl_module, "build_program", build)
    yield event
    event.set()


@pytest.mark.needs_cc
def test_regions_of_a_loop_are_prepared_while_the_host_goes_through_it(held: threading.Event, tmp_path: Path) -> None:
    library = byoc.load(byoc.compile(looped(), targets=["opencl"], fallback=True).save(tmp_path / "m.byoc"))
    inputs = given()
    want = np.sin(np.sin(inputs["x"] @ WEIGHT) @ WEIGHT)
    preparation = library.prepare_in_background(inputs)
    np.testing.assert_allclose(library.run(inputs)[0], want, rtol=1e-4, atol=1e-5)
    assert not preparation.is_done and library.device_counts["launches"] == 0
    assert {r.stage for r in library.fallbacks} == {"warming"}
    held.set()
    assert preparation.wait(120)
    before = library.device_counts
    np.testing.assert_allclose(library.run(inputs)[0], want, rtol=1e-4, atol=1e-5)
    _only_launches_since(before, library)


@pytest.mark.needs_cc
@pytest.mark.parametrize("rows", [3, "n"], ids=["fixed", "free"])
@pytest.mark.parametrize("sign", [1, -1], ids=["taken", "not taken"])
def test_both_branches_are_prepared_whichever_is_taken_by_ones(sign: int, rows: int | str) -> None:
    library = byoc.compile(branched(rows), targets=["opencl"], fallback=True)
    assert library.prepare_in_background({"x": (3, 64)}).wait(120)
    x = sign * np.abs(given()["x"])
    want = np.sin(x @ WEIGHT) if sign > 0 else -(x @ WEIGHT[::-1])
    before = library.device_counts
    np.testing.assert_allclose(library.run({"x": x})[0], want, rtol=1e-4, atol=1e-5)
    _only_launches_since(before, library)
    assert not library.fallbacks


def _only_launches_since(before: Mapping[str, int], library: byoc.runtime.Library) -> None:
    after = library.device_counts
    assert after["launches"] > before["launches"]
    made = ("programs", "kernels", "allocations", "trials")
    assert [after[name] - before[name] for name in made] == [0, 0, 0, 0]


def test_regions_of_control_flow_without_a_host_version_are_refused_by_name() -> None:
    library = byoc.compile(looped(), targets=["opencl"])
    with pytest.raises(UserError, match=r"cannot be prepared in the background, .*: compile with fallback=True"):
        library.prepare_in_background(given())


def test_regions_of_both_branches_are_tuned_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    options = {"opencl": {"schedules": "gpu"}}
    library = byoc.compile(branched(), ["opencl", "c"], tune_later=True, fallback=True, backend_options=options)
    x = np.abs(given()["x"])
    wanted = ((x, np.sin(x @ WEIGHT)), (-x, x @ WEIGHT[::-1]))
    tuning = library.tune_in_background("fast", seconds=3600.0, on_host=True)
    assert not tuning.is_done
    for data, want in wanted:
        np.testing.assert_allclose(library.run({"x": data})[0], want, rtol=1e-4, atol=1e-5)
    assert tuning.wait(300) and len(tuning.exchanged) == 3  # the condition's, and those of two branches
    assert library.report["background_tuning"]["exchanged"] == list(tuning.exchanged)
    before = library.device_counts
    loaded = byoc.load(library.save(tmp_path / "m.byoc"))
    for data, want in wanted:
        np.testing.assert_allclose(library.run({"x": data})[0], want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(loaded.run({"x": data})[0], want, rtol=1e-4, atol=1e-5)
    _only_launches_since(before, library)
