"""The device's memory of a model: planned by lifetimes, listed in the report, none of it taken after `prepare`."""

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inverted_residuals import inverted_residuals

import byoc
from byoc.cli.main import main
from byoc.runtime.core.errors import DeviceMemoryError, InputError
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.graph.memory_plan import Lifetime, plan_memory
from byoc.runtime.opencl import device_memory
from byoc.runtime.opencl.device_memory import place_buffers
from byoc.runtime.opencl.launches import Buffer, FunctionPlan, Launch, Variant

pytestmark = pytest.mark.needs_opencl
CHILD = """
import json, sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
x = np.load(sys.argv[2])
library.prepare({"x": x.shape})
before = library.device_counts
y = library(x)
np.save(sys.argv[3], y)
print(json.dumps([before, library.device_counts, library.report["regions"]]))
"""
MADE = ("programs", "kernels", "allocations", "allocated_bytes")


def reference(model, x):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def image(batch=1, size=64, seed=0):
    return np.random.default_rng(seed).standard_normal((batch, 3, size, size)).astype("float32")


def module_plan(library):
    """The launches of the one region of *library*."""
    (plan,) = next(m for m in library.module.imports if m.type_key == "opencl").plans
    return plan


def test_a_saved_model_takes_little_more_than_what_lives_at_once_and_a_prepared_run_takes_nothing(tmp_path):
    model, x = inverted_residuals(), image()
    library = byoc.compile(model, ["opencl"])
    library.save(tmp_path / "m.byoc")
    np.save(tmp_path / "x.npy", x)
    paths = [str(tmp_path / name) for name in ("m.byoc", "x.npy", "y.npy")]
    done = subprocess.run([sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after, (region,) = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), reference(model, x), rtol=1e-4, atol=1e-5)
    assert region["device_memory"] <= 1.1 * region["device_memory_bound"]
    assert {k: after[k] - before[k] for k in MADE} == dict.fromkeys(MADE, 0)
    assert after["launches"] > before["launches"]
    beside_constants = before["allocated_bytes"] - region["constants"]
    assert beside_constants <= 1.1 * region["device_memory_bound"]
    assert before["bytes_in"] == region["constants"] + x.nbytes
    assert after["bytes_in"] - before["bytes_in"] == x.nbytes


def test_inspect_shows_the_memory_of_the_device(tmp_path, capsys):
    path = byoc.compile(inverted_residuals(32), ["opencl"]).save(tmp_path / "m.byoc")
    assert main(["inspect", str(path)]) == 0
    assert "device memory of " in capsys.readouterr().out


def test_free_sizes_share_one_piece_of_memory_and_prepared_ones_stay_ready():
    model = inverted_residuals(32, "N", ((16, 1, 1), (24, 6, 2), (24, 6, 1)))
    library = byoc.compile(model, ["opencl"])
    batches = (3, 1, 2, 5, 4, 6)
    library.prepare(*({"x": (batch, 3, 32, 32)} for batch in batches))
    before = library.device_counts
    for batch in (*batches, *reversed(batches)):
        x = image(batch, 32, batch)
        np.testing.assert_allclose(library(x), reference(model, x), rtol=1e-4, atol=1e-5)
    after = library.device_counts
    assert {k: after[k] - before[k] for k in MADE} == dict.fromkeys(MADE, 0)
    library(image(2, 32))
    library(image(7, 32))
    assert library.device_counts["allocations"] == after["allocations"] + 1


@pytest.mark.slow
def test_a_device_that_gives_little_in_one_piece_gives_several(monkeypatch):
    model, x = inverted_residuals(), image()
    library = byoc.compile(model, ["opencl"])
    (region,) = library.report["regions"]
    smallest = max(module_plan(library).buffer_bytes({})) + 4096
    opened = device_memory.FunctionMemory

    class Small(opened):
        def __init__(self, *words):
            super().__init__(*words)
            self.largest = smallest

    monkeypatch.setattr("byoc.runtime.opencl.session.FunctionMemory", Small)
    np.testing.assert_allclose(library(x), reference(model, x), rtol=1e-4, atol=1e-5)
    counts = library.device_counts
    assert counts["allocated_bytes"] - region["constants"] <= 2 * region["device_memory_bound"]
    pieces = counts["allocations"] - len(module_plan(library).signature.constants)
    assert pieces > 1
    smallest //= 2
    again = byoc.compile(model, ["opencl"], fallback=True)
    np.testing.assert_allclose(again(x), reference(model, x), rtol=1e-4, atol=1e-5)
    assert "can be had in one" in again.fallbacks[0].message
    with pytest.raises(DeviceMemoryError, match="can be had in one; use smaller inputs, or a device with more memory"):
        byoc.compile(model, ["opencl"])(x)


def test_places_are_aligned_and_nothing_that_lives_together_overlaps():
    plan = module_plan(byoc.compile(inverted_residuals(32), ["opencl"]))
    sizes = plan.buffer_bytes({})
    lives = device_memory.lifetimes(plan)
    for alignment in (64, 128, 512, 4096):
        for largest in (0, 1 << 20, 200_000):
            placement = place_buffers(plan, sizes, alignment, largest)
            places = placement.places
            assert all(p.offset % alignment == 0 for p in places.values())
            assert all(p.offset + p.size <= placement.pieces[p.piece] for p in places.values())
            assert not largest or max(placement.pieces) <= largest
            for a in places:
                for b in places:
                    if a < b and lives[a][0] <= lives[b][1] and lives[b][0] <= lives[a][1]:
                        one, two = places[a], places[b]
                        apart = one.offset + one.size <= two.offset or two.offset + two.size <= one.offset
                        assert one.piece != two.piece or apart


LIVES = st.lists(st.tuples(st.integers(0, 640), st.integers(0, 20), st.integers(0, 9)), max_size=40)


def test_buffers_that_a_kernel_takes_whole_begin_a_piece_and_share_it_in_turn():
    specs = tuple(TensorSpec(name, (4,), "float32") for name in "xy")
    signature = Signature("f", specs[:1], specs[1:])
    variant = Variant("vendor", "k", 4, 64)
    chain = [(0, 2), (2, 3), (3, 4), (4, 5), (5, 1)]  # of temporaries, each of which the next launch alone needs
    launches = tuple(Launch(pair, (), (variant,), whole=pair != (4, 5)) for pair in chain)
    plan = FunctionPlan(signature, (Buffer(16),) * 6, launches)
    placement = place_buffers(plan, [16, 16, 64, 128, 16, 64], 64)
    assert {place.offset for place in placement.places.values()} == {0}
    pieces = [placement.places[k].piece for k in range(6)]
    assert pieces[0] == pieces[3] == pieces[5] and pieces[2] == pieces[4] == pieces[1] != pieces[0], pieces
    assert placement.pieces == (128, 64)
    again = FunctionPlan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan and again.placed(launches[0]) == () and again.placed(launches[3]) == (4, 5)


@given(LIVES)
@settings(max_examples=150, deadline=None)
def test_no_buffer_lies_in_two_pieces(lives):
    buffers = [Lifetime(size, first, first + more) for size, first, more in lives]
    plan = plan_memory(buffers, 640)
    for k, (a, offset) in enumerate(zip(buffers, plan.offsets, strict=True)):
        assert not a.size or offset // 640 == (offset + a.size - 1) // 640
        for b, other in zip(buffers[:k], plan.offsets, strict=False):
            if a.first <= b.last and b.first <= a.last and a.size and b.size:
                assert offset + a.size <= other or other + b.size <= offset


def test_what_prepare_cannot_know_is_one_sentence():
    library = byoc.compile(inverted_residuals(32, "N", ((16, 1, 1),)), ["opencl"])
    with pytest.raises(InputError, match=r"the size N of input x\[N, 3, 32, 32\] is free, and no shape determines it"):
        library.prepare()
    with pytest.raises(InputError, match="the model has no input 'z'; its inputs are x"):
        library.prepare({"z": (1, 3, 32, 32)})
    with pytest.raises(InputError, match="x"):
        library.prepare({"x": (1, 4, 32, 32)})
    with pytest.raises(InputError, match="negative size"):
        library.prepare({"x": (-1, 3, 32, 32)})
