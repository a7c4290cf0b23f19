"""Large arrays that go to a device and back by pinned memory, part by part."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto, helper

import byoc
from byoc.runtime.opencl import pinned, staged_copies

SHAPE = (61, 257)


@pytest.fixture
def staged(monkeypatch):
    """As on a device with memory of its own, beside many processors: the arrays that went by parts."""
    monkeypatch.setattr(pinned, "shares_memory", lambda opened: False)
    monkeypatch.setattr(pinned, "LEAST_STAGED", 1 << 12)
    monkeypatch.setattr(staged_copies, "PART", 1 << 12)
    monkeypatch.setattr(pinned, "usable_processors", lambda: 8)
    gone: list[int] = []
    by_parts = staged_copies.staged_upload

    def upload(*arguments):
        found = by_parts(*arguments)
        gone.append(arguments[3].nbytes if found is not None else 0)
        return found

    monkeypatch.setattr(staged_copies, "staged_upload", upload)
    return gone


def doubled():
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", SHAPE[1]]) for n in ("x", "y")]
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    graph = helper.make_graph(nodes, "doubled", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17)]
    return byoc.compile(helper.make_model(graph, opset_imports=opsets, ir_version=8), targets=["opencl"])


@pytest.mark.needs_opencl
def test_they_come_as_they_are(staged):
    library = doubled()
    for rows in (*range(1, 40, 7), 61, 3, 61):
        x = np.random.default_rng(rows).standard_normal((rows, SHAPE[1])).astype("float32")
        np.testing.assert_array_equal(library(x), 2 * x)
    assert staged and min(staged) >= 1 << 12, "those above the least alone"
    x = np.random.default_rng(1).standard_normal((2 * SHAPE[0], 2 * SHAPE[1])).astype("float32")[::2, ::2]
    np.testing.assert_array_equal(library(x), 2 * x)


@pytest.mark.needs_opencl
def test_calls_of_several_threads(staged):
    library = doubled()

    def run(seed):
        x = np.random.default_rng(seed).standard_normal(SHAPE).astype("float32")
        return all(np.array_equal(library(x), 2 * x) for _ in range(10))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(run, range(8)))
    assert len(staged) == 80


@pytest.mark.needs_opencl
def test_the_drivers_way_where_there_is_no_pinned_memory(staged, monkeypatch):
    library = doubled()
    import pyopencl

    def none_left(*_):
        raise pyopencl.MemoryError("no more")

    monkeypatch.setattr(pinned.PinnedPieces, "take", none_left)
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    np.testing.assert_array_equal(library(x), 2 * x)
    assert staged == [0]


@pytest.mark.needs_opencl
@pytest.mark.parametrize("had", [0, 3])
def test_the_caller_copies_what_no_thread_takes_any_more(staged, monkeypatch, had):
    class Ending:
        def __init__(self, threads):
            self.left, self.threads = had, threads

        def submit(self, *what):
            self.left -= 1
            if self.left < 0:
                raise RuntimeError("cannot schedule new futures after interpreter shutdown")
            return self.threads.submit(*what)

    library = doubled()
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    with ThreadPoolExecutor(2) as threads:
        monkeypatch.setattr(staged_copies, "_threads", functools.cache(lambda: Ending(threads)))
        np.testing.assert_array_equal(library(x), 2 * x)
    assert staged == [x.nbytes]


@pytest.mark.needs_opencl
def test_a_profile_has_the_bytes_of_all_parts(staged):
    library = doubled()
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    table = library.profile({"x": x}, repeat=2).table("kernel", 20)
    assert "copy in" in table and "copy out" in table
    assert staged


def test_arrays_that_lie_apart_are_copied_whole(monkeypatch):
    monkeypatch.setattr(pinned, "usable_processors", lambda: 8)
    monkeypatch.setattr(pinned, "LEAST_STAGED", 1)
    source = np.arange(24.0).reshape(4, 6)
    for target in (np.zeros((4, 6)), np.zeros((8, 6))[::2], np.zeros((6, 4)).T):
        staged_copies.copy_by_threads(target, source)
        np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize(
    ("processors", "nbytes", "goes"),
    [(8, 8 << 20, True), (8, (8 << 20) - 1, False), (2, 9 << 20, False), (8, 65 << 20, False)],
)
def test_which_arrays_go_so(monkeypatch, processors, nbytes, goes):
    monkeypatch.setattr(pinned, "usable_processors", lambda: processors)
    assert pinned.is_staged(nbytes) is goes
