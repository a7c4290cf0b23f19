"""How often the trial of buffers and images is right: ``python -m benchmarks.opencl.memory``.

Each network is compiled for buffers and for images, and both are run by hand: calls in turns, by the device's clock, as
many as ``--calls``. Then it is compiled ``--tries`` times with ``memory=trial``, each with nothing kept of a trial, and
what it takes is held against the faster by hand. Printed are the medians by hand, how often the trial took the faster,
and whether that counts: where both differ by more than 10 %. Where they do, nine of ten are asked for; the status is 1
otherwise. Outputs are compared first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.codegen.opencl.images import trial
from byoc.runtime.opencl.devices import open_device

DIFFERENT = 1.1  # times as long: from here on the trial has to be right
ASKED = 0.9  # of the tries
NETWORKS = {  # channels, positions along a side, the side of filters
    "pointwise": (16, 24, 1),
    "small": (8, 12, 3),
    "wide": (48, 14, 3),
}
SCHEDULES = ("auto", "gpu")


def network(channels: int, side: int, kernel: int) -> bytes:
    """Two convolutions with a sigmoid between them."""
    rng = np.random.default_rng(channels)
    shape = (channels, channels, kernel, kernel)
    weights = [(rng.standard_normal(shape) / (channels * kernel)).astype("float32") for _ in range(2)]
    constants = [numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(weights)]
    pads = [kernel // 2] * 4
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "first", pads=pads),
        helper.make_node("Sigmoid", ["a"], ["b"], "between"),
        helper.make_node("Conv", ["b", "w1"], ["y"], "second", pads=pads),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, channels, side, side]) for n in "xy"]
    graph = helper.make_graph(nodes, "memory", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def compiled(model: bytes, memory: str, schedules: str) -> Any:
    """The library of *model* in such memory."""
    options = {"opencl": {"mode": f"memory={memory}", "schedules": schedules}}
    return byoc.compile(model, ["opencl"], backend_options=options)


def part_of(library: Any) -> Any:
    """The OpenCL module of *library*."""
    (found,) = (m for m in library.module.imports if m.type_key == "opencl")
    return found


def by_hand(model: bytes, schedules: str, calls: int) -> dict[str, float]:
    """The median seconds of the kernels of a call in either memory. Raises AssertionError where outputs differ."""
    libraries = {form: compiled(model, form, schedules) for form in trial.FORMS}
    shape = libraries["buffer"].inputs[0].shape
    x = np.random.default_rng(0).standard_normal([int(d) for d in shape]).astype("float32")
    results = [library(x) for library in libraries.values()]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)
    found: dict[str, list[float]] = {form: [] for form in libraries}
    for turn in range(calls):
        for form in trial.FORMS if turn % 2 else trial.FORMS[::-1]:
            part = part_of(libraries[form])
            part.profile(True)
            libraries[form](x)
            found[form].append(sum(e.end - e.begin for e in part.profile(True) if not e.name.startswith("copy ")))
    return {form: statistics.median(seconds) for form, seconds in found.items()}


def taken(model: bytes, schedules: str, scratch: Path) -> str:
    """What a trial takes, with nothing kept of an earlier one."""
    before = os.environ.get("BYOC_CACHE_DIR")
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        os.environ["BYOC_CACHE_DIR"] = folder
        try:
            return "image" if part_of(compiled(model, "trial", schedules)).plans[0].images else "buffer"
        finally:
            os.environ.pop("BYOC_CACHE_DIR")
            if before is not None:
                os.environ["BYOC_CACHE_DIR"] = before


def main() -> int:
    """Measure every network with every kind of schedules, and say whether trials were right where that counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(NETWORKS), help="networks, by commas")
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--calls", type=int, default=21)
    options = parser.parse_args()
    print(open_device().info)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.only.split(","):
            for schedules in SCHEDULES:
                model = network(*NETWORKS[name])
                times = by_hand(model, schedules, options.calls)
                faster = min(trial.FORMS, key=lambda form: times[form])
                ratio = max(times.values()) / min(times.values())
                right = sum(taken(model, schedules, Path(scratch)) == faster for _ in range(options.tries))
                counts = ratio > DIFFERENT
                wrong += counts and right < ASKED * options.tries
                shown = ", ".join(f"{form}s {1e3 * times[form]:.3f} ms" for form in trial.FORMS)
                text = "" if counts else ", which need not be: they differ by less than 10 %"
                print(f"{name}, schedules={schedules}: {shown} ({ratio:.2f}); right {right} of {options.tries}{text}")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
