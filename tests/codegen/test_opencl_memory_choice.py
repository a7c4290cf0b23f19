"""Buffers or images for the OpenCL backend: the table, the user's mode, the trial and what is kept of it, places."""

from __future__ import annotations

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
from byoc.codegen.opencl.images import decide, places, trial
from byoc.codegen.opencl.images.memory_rule import RULES, rule_for
from byoc.errors import DeviceError, PartitionError, UserError
from byoc.runtime.opencl.devices import DeviceInfo, open_device

WIDE = 16384


def device(name, kind, platform, **more):
    return DeviceInfo(0, name, kind, platform, "OpenCL 3.0", "1", 256, 1 << 15, 1 << 30, False, **more)


@pytest.mark.parametrize(
    ("name", "kind", "platform", "memory"),
    [
        ("pthread-AMD EPYC 7B13", "cpu", "Portable Computing Language", "buffer"),
        ("cpu-haswell-Intel(R) Xeon(R) CPU @ 2.20GHz", "cpu", "Portable Computing Language", "buffer"),
        ("NVIDIA H200", "gpu", "NVIDIA CUDA", "buffer"),
        ("NVIDIA GeForce RTX 4090", "gpu", "NVIDIA CUDA", "buffer"),
        ("Mali-G710 r0p0", "gpu", "ARM Platform", "buffer"),
        ("Immortalis-G720", "gpu", "ARM Platform", "buffer"),
        ("Intel(R) UHD Graphics 770", "gpu", "Intel(R) OpenCL Graphics", "buffer"),
        ("QUALCOMM Adreno(TM) 740", "gpu", "QUALCOMM Snapdragon(TM)", "image"),
        ("gfx1100", "gpu", "AMD Accelerated Parallel Processing", "buffer"),
        ("PowerVR Rogue GE8320", "gpu", "PowerVR", "buffer"),
        ("an FPGA", "accelerator", "somebody", "buffer"),
    ],
)
def test_the_table_has_the_memory_by_vendor_and_kind(name, kind, platform, memory):
    assert rule_for(device(name, kind, platform)).memory == memory


def test_every_rule_of_the_table_says_why_and_the_last_is_for_all():
    assert all(rule.why for rule in RULES)
    assert (RULES[-1].word, RULES[-1].kind) == ("", "")


def model_of(width=12, channels=8):
    """Two convolutions of 3x3."""
    rng = np.random.default_rng(0)
    weights = [(rng.standard_normal((channels, channels, 3, 3)) / 9).astype("float32") for _ in range(2)]
    nodes = [
        helper.make_node("Conv", [a, f"w{k}"], [b], f"conv{k}", pads=[1] * 4) for k, (a, b) in enumerate(["xt", "ty"])
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, channels, width, width))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype("float32")


def reference(model):
    run = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return run.run(None, {"x": X})[0]


def part_of(library):
    (found,) = (m for m in library.module.imports if m.type_key == "opencl")
    return found


def notes_of(library):
    return [note for region in library.report["regions"] for note in region.get("region_notes", ())]


def compiled(mode, **more):
    return byoc.compile(model_of(), ["opencl"], backend_options={"opencl": {"mode": mode}} if mode else {}, **more)


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("mode", "images"), [("", True), ("memory=auto", True), ("memory=buffer", False)])
def test_the_table_decides_where_the_user_does_not(mode, images, monkeypatch):
    adreno = device("QUALCOMM Adreno(TM) 740", "gpu", "QUALCOMM Snapdragon(TM)")
    monkeypatch.setattr(decide, "rule_for", lambda info: rule_for(adreno))
    library = compiled(mode)
    assert bool(part_of(library).plans[0].images) == images
    assert any("its textures have a cache of their own" in note for note in notes_of(library)) == images
    np.testing.assert_allclose(library(X), reference(model_of()), rtol=1e-5, atol=1e-5)


CHILD = """
import json, sys
import byoc
library = byoc.compile(sys.argv[1], ["opencl"], backend_options={"opencl": {"mode": "memory=trial"}})
(part,) = (m for m in library.module.imports if m.type_key == "opencl")
from byoc.codegen.opencl.images import trial
print(json.dumps([bool(part.plans[0].images), library.report["regions"][0]["region_notes"], part.counts]))
"""


@pytest.mark.needs_opencl
def test_a_trial_keeps_the_faster_and_the_next_process_tries_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    calls = []
    run = trial._run
    monkeypatch.setattr(trial, "_run", lambda module: calls.append(bool(module.plans[0].images)) or run(module))
    library = compiled("memory=trial")
    (note,) = [n for n in notes_of(library) if n.startswith("memory=trial")]
    found = re.fullmatch(
        r"memory=trial: (buffer|image)s are kept: buffers (\S+) ms, images (\S+) ms, medians of 7 runs each", note
    )
    assert found is not None, note
    buffers, images = float(found[2]), float(found[3])
    assert (found[1] == "image") == (images < buffers) == bool(part_of(library).plans[0].images)
    # in turns, of which every second begins with the other
    assert calls == [False, True, *([False, True, True, False] * 4)[: 2 * trial.ROUNDS]]
    np.testing.assert_allclose(library(X), reference(model_of()), rtol=1e-5, atol=1e-5)
    onnx.save(model_of(), tmp_path / "m.onnx")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "m.onnx")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    kept, notes, counts = json.loads(done.stdout.splitlines()[-1])
    assert kept == (found[1] == "image")
    assert notes[0] == f"{note}, tried in an earlier process"
    assert counts["launches"] == 0 and counts["programs"] == 0


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("buffers", "images"), [(2.0, 1.0), (1.0, 2.0)])
def test_the_lower_median_wins(buffers, images, monkeypatch, tmp_path):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    turns = iter(range(100))

    def run(module):
        outlier = 50.0 if next(turns) < 4 else 0.0
        return (images if module.plans[0].images else buffers) + outlier

    monkeypatch.setattr(trial, "_run", run)
    library = compiled("memory=trial")
    assert bool(part_of(library).plans[0].images) == (images < buffers)
    assert f"buffers {buffers * 1e3:.4g} ms, images {images * 1e3:.4g} ms" in notes_of(library)[0]


@pytest.mark.needs_opencl
def test_a_form_that_fails_loses_the_trial_and_two_are_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    run, broken = trial._run, {True}

    def fails(module):
        if bool(module.plans[0].images) in broken:
            raise DeviceError("the device is tired")
        return run(module)

    monkeypatch.setattr(trial, "_run", fails)
    library = compiled("memory=trial")
    assert not part_of(library).plans[0].images
    assert notes_of(library)[0] == "memory=trial: buffers, since the others fail: the device is tired"
    broken.add(False)
    with pytest.raises(DeviceError, match="neither buffers nor images run on"):
        compiled("memory=trial")


@pytest.mark.needs_opencl
def test_what_is_kept_of_a_trial_is_not_believed_where_it_is_no_pair_of_times():
    for value in (None, 3, {}, {"buffer": 1.0}, {"buffer": 1.0, "image": "2"}, {"buffer": 1.0, "image": float("nan")}):
        assert trial._seconds_of(value) is None
    assert trial._seconds_of({"buffer": 1.0, "image": 2.0}) == {"buffer": 1.0, "image": 2.0}


PLACES = [
    (["opencl/float/NCHW", "host"], "opencl/float/NCHW", False, "f32"),
    (["opencl/float/ImageDefault", "host"], "opencl/float/ImageDefault", True, "f32"),
    (["opencl/fp16/ImageDefault", "host"], "opencl/fp16/ImageDefault", True, "f16"),
    (["opencl/fp16/NCHW", "host"], "opencl/fp16/NCHW", False, "f16"),
    (["opencl/any/any", "host"], "opencl/any/any", False, "f32"),
    (["opencl/any/ImageDefault", "host"], "opencl/float/ImageDefault", True, "f32"),
    (["opencl/int8/ImageDefault", "opencl/float/ImageDefault", "host"], "opencl/float/ImageDefault", True, "f32"),
    (["opencl/float/NHWC", "opencl/fp16/NCHW", "host"], "opencl/fp16/NCHW", False, "f16"),
]


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("wish", "granted", "images", "precision"), PLACES)
def test_a_place_that_is_granted_is_what_is_compiled(wish, granted, images, precision):
    plan = byoc.plan(model_of(), ["opencl"], policy="score", valid_places=wish)
    assert {d.chosen for d in plan.decisions} == {granted}
    library = byoc.compile(model_of(), ["opencl"], plan=plan)
    (made,) = part_of(library).plans
    assert bool(made.images) == images
    assert ("read_imagef" in part_of(library).get_source()) == images
    kinds = {spec.dtype for spec in made.signature.constants}
    assert kinds == {"float16" if precision == "f16" else "float32"}
    assert {i.dtype for i in made.images.values()} <= {"float16", "float32"}
    assert any(i.dtype == "float16" for i in made.images.values()) == (images and precision == "f16")
    tolerance = 1e-5 if precision == "f32" else 1e-2
    np.testing.assert_allclose(library(X), reference(model_of()), rtol=tolerance, atol=tolerance)
    for refused in wish[: wish.index(granted)] if granted in wish else ():
        assert all(f"nobody has a kernel for place {refused}" in d.detail for d in plan.decisions)


@pytest.mark.needs_opencl
def test_the_command_that_explains_says_why_a_place_is_passed_over(tmp_path, capsys):
    onnx.save(model_of(), tmp_path / "m.onnx")
    words = ["explain", str(tmp_path / "m.onnx"), "--node", "conv0", "-t", "opencl", "--policy", "score"]
    wish = ["opencl/int8/ImageDefault", "opencl/float/ImageDefault", "host"]
    assert main([*words, *(w for place in wish for w in ("--place", place))]) == 0
    shown = capsys.readouterr().out
    assert "place opencl/int8/ImageDefault: its kernels hold floats as float or fp16" in shown
    assert "for opencl/float/ImageDefault by formula code, the preferred place" in shown


@pytest.mark.needs_opencl
def test_images_are_granted_by_no_device_without_them(monkeypatch):
    import dataclasses

    opened = open_device()
    bare = dataclasses.replace(opened, info=dataclasses.replace(opened.info, image_width=0, image_height=0))
    monkeypatch.setattr(places, "open_device", lambda: bare)
    wish = ["opencl/float/ImageDefault", "opencl/float/NCHW", "host"]
    plan = byoc.plan(model_of(), ["opencl"], policy="score", valid_places=wish)
    assert {d.chosen for d in plan.decisions} == {"opencl/float/NCHW"}
    assert all("has no images" in d.detail for d in plan.decisions)
    with pytest.raises(PartitionError, match=r"place opencl/float/ImageDefault: the device .* has no images"):
        byoc.plan(model_of(), ["opencl"], policy="score", valid_places=wish[:1])


@pytest.mark.needs_opencl
def test_a_mode_that_contradicts_the_place_is_an_error():
    plan = byoc.plan(model_of(), ["opencl"], policy="score", valid_places=["opencl/float/ImageDefault", "host"])
    message = r"opencl\.mode: memory is buffer, and the plan has the place opencl/float/ImageDefault: leave one"
    with pytest.raises(UserError, match=message):
        compiled("memory=buffer", plan=plan)
    with pytest.raises(UserError, match="all regions of a target hold their tensors alike"):
        places.options_at(("opencl/float/NCHW", "opencl/float/ImageDefault"), {})
