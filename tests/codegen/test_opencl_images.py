"""Tensors of OpenCL regions as images: what they compute, what is an image, what is reported, and what the code looks
like.

PoCL has images, so that all of it runs on a processor. What ONNX Runtime computes is the reference.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.cli.main import main
from byoc.codegen.opencl.device import profile
from byoc.codegen.opencl.images import texel_kernel
from byoc.errors import ArtifactError, DeviceError
from byoc.runtime.opencl import module as opencl_module
from byoc.runtime.opencl import session
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.images import ImageSize, texels
from byoc.runtime.opencl.launches import plans_from_json

pytestmark = pytest.mark.needs_opencl
ALL = range(1, 10)  # channels and widths; the shift by which they are paired
KERNELS = [(1, 1), (1, 2), (3, 1), (3, 2)]  # and strides
MEMORIES = ("buffer", "image")


def convolution(name, source, result, out, into, kernel, stride, constants, rng):
    """A node, with its weights among *constants*."""
    weights = (rng.standard_normal((out, into, kernel, kernel)) / (into * kernel)).astype("float32")
    constants.append(numpy_helper.from_array(weights, f"{name}_w"))
    return helper.make_node("Conv", [source, f"{name}_w"], [result], name, pads=[kernel // 2] * 4, strides=[stride] * 2)


def as_model(nodes, inputs, outputs, constants=()):
    """A model; *inputs* are shapes by name."""
    graph = helper.make_graph(
        nodes,
        "images",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        list(constants),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@functools.cache
def chains(kernel, stride, pairs):
    """For each of *pairs*, channels and a width: a 1x1 convolution to so many channels, and one from these to 3.

    What they give stands side by side in the one output, so that all is one region.
    """
    widths = dict.fromkeys(w for _, w in pairs)
    rng = np.random.default_rng(kernel * 10 + stride)
    nodes, constants, outputs = [], [], []
    for c, w in pairs:
        name = f"c{c}_w{w}"
        nodes += [
            convolution(f"{name}_first", f"x{w}", f"{name}_t", c, 2, 1, 1, constants, rng),
            helper.make_node("Relu", [f"{name}_t"], [f"{name}_r"], f"{name}_relu"),
            convolution(f"{name}_second", f"{name}_r", f"{name}_y", 3, c, kernel, stride, constants, rng),
            helper.make_node("Flatten", [f"{name}_y"], [f"{name}_f"], f"{name}_flat"),
        ]
        outputs.append(f"{name}_f")
    nodes.append(helper.make_node("Concat", outputs, ["y"], axis=1))
    return as_model(nodes, {f"x{w}": (2, 2, 4, w) for w in widths}, ["y"], constants)


def arrays_for(model, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}


def reference(model, arrays):
    run = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return run.run(None, arrays)


def compiled(model, memory="image", **options):
    return byoc.compile(model, ["opencl"], backend_options={"opencl": {"mode": f"memory={memory}", **options}})


def opencl_part(library):
    """The one OpenCL module of *library*."""
    (found,) = (m for m in library.module.imports if m.type_key == "opencl")
    return found


def notes_of(library):
    return [note for region in library.report["regions"] for note in region.get("region_notes", ())]


def check(library, model, tolerance=1e-5):
    arrays = arrays_for(model)
    for got, want in zip(library.run(arrays), reference(model, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(("kernel", "stride"), KERNELS)
@pytest.mark.parametrize("shift", [3, *(pytest.param(k, marks=pytest.mark.slow) for k in ALL if k != 3)])
def test_every_number_of_channels_and_every_width_computes_what_the_reference_does(kernel, stride, memory, shift):
    """A shift pairs each number with another width; all of them are all pairs."""
    model = chains(kernel, stride, tuple((c, (c + shift) % 9 + 1) for c in ALL))
    library = compiled(model, memory)
    check(library, model)
    assert bool(opencl_part(library).plans[0].images) == (memory == "image")


def test_constants_that_are_images_are_taken_under_checks(monkeypatch):
    monkeypatch.setenv("BYOC_CHECK", "1")
    model = chains(3, 1, ((3, 4), (5, 2)))
    library = compiled(model)
    plan = opencl_part(library).plans[0]
    assert any(plan.first_constant <= number < plan.first_output for number in plan.images)
    check(library, model)


def test_padding_full_of_nan_never_reaches_a_result(monkeypatch):
    def poisoned(array, dtype):
        made = texels(array, dtype)
        kept = texels(np.ones_like(array), dtype)
        made[kept == 0] = np.nan
        return made

    monkeypatch.setattr(texel_kernel, "PADDING", float("nan"))
    monkeypatch.setattr(session, "texels", poisoned)
    model = chains(3, 1, tuple((c, c % 3 + 2) for c in (1, 2, 3, 5, 6, 7, 9)))
    library = compiled(model)
    part = opencl_part(library)
    assert "NAN" in part.get_source() and len(part.plans[0].images) > 20
    check(library, model)


@functools.cache
def pair(channels, width=16):
    """Two 3x3 convolutions over *channels*."""
    rng, constants = np.random.default_rng(channels), []
    nodes = [
        convolution("first", "x", "t", channels, channels, 3, 1, constants, rng),
        convolution("second", "t", "y", channels, channels, 3, 1, constants, rng),
    ]
    return as_model(nodes, {"x": (1, channels, width, width)}, ["y"], constants)


BOUNDARY = {"image": re.compile(r"\bif \(|\? block \* 4|< \d+ \? "), "buffer": re.compile(r"\bif \((row|column)_place")}


@pytest.mark.parametrize("memory", MEMORIES)
def test_kernels_of_divisible_sizes_have_no_boundary_test_and_others_have(memory):
    """The padding around an image is no boundary of channels: its stage is looked at alone, and so are products."""
    schedules, sizes = ("cpu", (16, 18)) if memory == "image" else ("gpu", (64, 66))  # a tile of buffers has 64 rows
    whole, ragged = (
        [
            k
            for k in kernels_of(opencl_part(compiled(pair(c, 16), memory, schedules=schedules)))
            if "pad" not in k.split("(")[0] and (memory == "image" or "sums[" in k)
        ]
        for c in sizes
    )
    assert whole and ragged
    assert not [k for k in whole if BOUNDARY[memory].search(k)]
    assert all(BOUNDARY[memory].search(k) for k in ragged)


def kernels_of(part):
    """The text of each kernel."""
    return [k for k in re.split(r"(?=__kernel )", part.get_source()) if k.startswith("__kernel ")]


def test_a_number_of_work_items_that_fills_no_group_has_a_boundary_test_in_buffers():
    part = opencl_part(compiled(pair(3, 5), "buffer", schedules="gpu"))
    assert all("if (item >= 75) return;" in k for k in kernels_of(part) if "pad" not in k.split("(")[0])


def limited(monkeypatch, **limits):
    """Have compilation see the device here with other limits."""
    opened = open_device()
    seen = dataclasses.replace(opened, info=dataclasses.replace(opened.info, **limits))
    monkeypatch.setattr(profile, "open_device", lambda *_: seen)
    return seen


def test_an_image_beyond_the_limits_is_a_buffer_on_the_device_and_reported(monkeypatch, tmp_path, capsys):
    limited(monkeypatch, image_width=40, image_height=50)
    model = pair(16)
    library = compiled(model)
    check(library, model)
    (note,) = [n for n in notes_of(library) if "64 texels wide" in n]
    assert re.search(r" of first is a buffer: 64 texels wide, and the device's images have at most 40$", note)
    assert all(image.width <= 40 and image.height <= 50 for image in opencl_part(library).plans[0].images.values())
    path = library.save(tmp_path / "m.byoc")
    assert main(["inspect", str(path)]) == 0
    assert "64 texels wide, and the device's images have at most 40" in capsys.readouterr().out


def test_the_command_that_compiles_lists_what_is_an_image(tmp_path, capsys):
    onnx.save(pair(4), tmp_path / "m.onnx")
    words = ["compile", str(tmp_path / "m.onnx"), "-t", "opencl", "--set", "opencl.mode=memory=image"]
    assert main([*words, "-o", str(tmp_path / "m.byoc")]) == 0
    shown = capsys.readouterr().out
    assert "what backends say of regions:" in shown and "3 of 3 intermediate results and 2 of 2 constants" in shown


def test_a_device_without_images_has_buffers_and_the_report_says_so(monkeypatch):
    limited(monkeypatch, image_width=0, image_height=0)
    model = pair(4)
    library = compiled(model)
    assert not opencl_part(library).plans[0].images
    assert any("the device has no images" in note for note in notes_of(library))
    check(library, model)


def test_free_sizes_are_buffers_and_reported():
    rng, constants = np.random.default_rng(0), []
    nodes = [
        convolution("first", "x", "t", 5, 3, 3, 1, constants, rng),
        convolution("second", "t", "y", 5, 5, 3, 1, constants, rng),
    ]
    library = compiled(as_model(nodes, {"x": ("N", 3, 8, 8)}, ["y"], constants))
    assert not [k for k in opencl_part(library).plans[0].images if k >= opencl_part(library).plans[0].first_output]
    assert any("its sizes are known when the model runs" in note for note in notes_of(library))
    x = np.random.default_rng(1).standard_normal((3, 3, 8, 8)).astype("float32")
    fixed = as_model(nodes, {"x": (3, 3, 8, 8)}, ["y"], constants)
    np.testing.assert_allclose(library(x), reference(fixed, {"x": x})[0], rtol=1e-5, atol=1e-5)


CHILD = """
import sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
np.save(sys.argv[3], library(np.load(sys.argv[2])))
"""


def test_another_process_runs_the_images_of_a_saved_model(tmp_path):
    model = pair(6)
    library = compiled(model)
    library.save(tmp_path / "m.byoc")
    arrays = arrays_for(model)
    np.save(tmp_path / "x.npy", arrays["x"])
    paths = [str(tmp_path / name) for name in ("m.byoc", "x.npy", "y.npy")]
    done = subprocess.run([sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), reference(model, arrays)[0], rtol=1e-5, atol=1e-5)


def test_a_smaller_device_than_the_one_compiled_for_is_one_sentence(monkeypatch):
    model = pair(16)
    library = compiled(model)
    opened = open_device()
    small = dataclasses.replace(opened, info=dataclasses.replace(opened.info, image_width=40))
    monkeypatch.setattr(opencl_module, "open_device", lambda *_: small)
    with pytest.raises(DeviceError, match=r"texels on the OpenCL device .* at most 40; compile the model on a machine"):
        library(arrays_for(model)["x"])


def test_the_memory_of_images_is_reported_and_equal_ones_are_shared():
    rng, constants = np.random.default_rng(0), []
    nodes = [convolution(f"n{k}", f"t{k}", f"t{k + 1}", 8, 8, 1, 1, constants, rng) for k in range(6)]
    model = as_model(nodes, {"t0": (1, 8, 8, 8)}, ["t6"], constants)
    library = compiled(model)
    (region,) = library.report["regions"]
    images = {k: i for k, i in opencl_part(library).plans[0].images.items() if k >= 8}
    assert len(images) == 5 and set(images.values()) == {ImageSize(16, 8, "float32")}
    ends = 8 * 8 * 8 * 4  # of the input, and after it of the output
    assert region["device_memory"] == ends + 2 * ImageSize(16, 8, "float32").bytes
    check(library, model)
    beside = library.device_counts["allocated_bytes"] - sum(ImageSize(8, 2, "float32").bytes * 4 for _ in range(6))
    assert beside <= region["device_memory"] + 4096


def plan_data(library):
    return {"version": 5, "functions": [json.loads(json.dumps(opencl_part(library).plans[0].to_json()))]}


@pytest.mark.parametrize(
    ("number", "value", "message"),
    [
        (0, {"width": 1, "height": 1, "dtype": "float32"}, "is an argument, and cannot be an image"),
        (1, {"width": 3, "height": 1, "dtype": "float32"}, "which is not the image of such a tensor"),
        (1, {"width": 0, "height": 1, "dtype": "float32"}, "width"),
        (1, {"width": 1, "height": 1, "dtype": "int8"}, "expected one of float32, float16, found 'int8'"),
        (1, {"width": 1, "height": 1}, "the key 'dtype' is missing"),
    ],
)
def test_a_damaged_image_of_a_plan_is_refused(number, value, message):
    data = plan_data(compiled(pair(4)))
    assert plans_from_json(data, "plan.json")[0].images
    data["functions"][0]["buffers"][number] = value
    with pytest.raises(ArtifactError, match=message):
        plans_from_json(data, "plan.json")


@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (2, 5, 3), (2, 5), (5,)])
def test_texels_hold_four_channels_of_one_position(shape):
    array = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)
    n, c, h, w = {4: shape, 3: (*shape[:2], 1, *shape[2:]), 2: (*shape, 1, 1), 1: (1, *shape, 1, 1)}[len(shape)]
    found, four = texels(array, "float32"), array.reshape(n, c, h, w)
    size = ImageSize.of(shape, "float32")
    assert found.shape == (size.height, size.width, 4) == (n * h, 2 * w, 4)
    for index in np.ndindex(n, c, h, w):
        i, j, k, x = index
        assert found[i * h + k, j // 4 * w + x, j % 4] == four[index]
    assert np.count_nonzero(found) == array.size
