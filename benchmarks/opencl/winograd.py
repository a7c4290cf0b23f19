"""Convolutions of 3 x 3 by Winograd's method on this machine's GPU: ``python -m benchmarks.opencl.winograd``.

Each convolution is compiled with a ReLU behind it as a sum of products, by F(2, 3) and by F(4, 3), and as the model of
costs would have it. The largest error relative to the largest output, against float64, is checked first; printed are
microseconds from the start of the first kernel to the end of the last, by the device's events, the median of
``--repeat`` runs in turns; beside it, where PyTorch has CUDA, what its convolution takes without TF32. ``--models``
times whole models without the method and with it.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import random_inputs
from benchmarks.opencl.device_cases import case_of, onnx_file
from benchmarks.opencl.tiles import arrays, reference, torch_seconds
from benchmarks.rounds import Schedule, interleave

WAYS = ("off", "f2", "f4", "auto")
ERRORS = {"off": 4e-6, "f2": 2e-6, "f4": 1e-5, "auto": 1e-5}  # the first adds up to 2,880 terms one by one
SIZES = [(64, 56, 64), (128, 28, 128), (256, 14, 256), (512, 7, 512), (64, 112, 128), (256, 56, 256), (320, 64, 320)]
TURNS = 3
WHOLE = 1e-4  # of the range of a model's outputs


def model_of(case: tuple[int, ...]) -> Any:
    """The convolution (batch, channels, size, filters, 3), and a ReLU, as an ONNX model."""
    import onnx

    batch, channels, size, filters, _ = case
    weights = arrays(("conv", case), "float32")[1]
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Relu", ["y"], ["z"]),
    ]
    shapes = {"x": [batch, channels, size, size], "z": [batch, filters, size, size]}
    x, z = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items())
    graph = onnx.helper.make_graph(nodes, "conv", [x], [z], [onnx.numpy_helper.from_array(weights, "w")])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


def spans(library: Any, inputs: dict[str, np.ndarray], repeat: int) -> list[float]:
    """Seconds from the first kernel's start to the last one's end, of each run."""
    profile = library.profile(inputs, repeat=repeat, warmup=2, peaks={}).to_json()
    (function,) = (f for f in profile["functions"] if f["region"])
    kernels = [part["runs"] for part in function["parts"] if part["facts"]["variant"]]
    return [
        max(e for k in kernels for _, e in k[run]) - min(b for k in kernels for b, _ in k[run]) for run in range(repeat)
    ]


def measure(case: tuple[int, ...], repeat: int) -> dict[str, Any]:
    """One convolution each way."""
    import byoc

    expected = np.maximum(reference(("conv", case), "float32"), 0)
    inputs, found = {"x": arrays(("conv", case), "float32")[0]}, {}
    libraries = {}
    for way in WAYS:
        options = {"opencl": {"winograd": way}}
        libraries[way] = library = byoc.compile(model_of(case), targets="opencl", backend_options=options)
        error = float(np.abs(np.asarray(library(inputs["x"])) - expected).max() / np.abs(expected).max())
        found[way] = {"error": error, "seconds": []}
    for _ in range(TURNS):
        for way, library in libraries.items():
            found[way]["seconds"] += spans(library, inputs, repeat)
    sources = {way: "".join(m.get_source() for m in library.module.imports) for way, library in libraries.items()}
    same = {way: next(w for w in WAYS if sources[w] == sources[way]) for way in WAYS}
    right = {way: v["error"] <= ERRORS[same[way]] for way, v in found.items()}
    return {
        "case": case,
        "ways": found,
        "right": right,
        "auto": same["auto"],
        "torch": torch_seconds(("conv", case), "float32"),
    }


def whole(name: str, scratch: Path) -> bool:
    """A whole model without it and with it, in turns from numpy to numpy: a line, and whether outputs agree."""
    import byoc

    path = onnx_file(case_of(name), None, scratch)
    options = {way: {"opencl": {"winograd": way}} for way in ("off", "auto")}
    libraries = {way: byoc.compile(path, targets="opencl", backend_options=own) for way, own in options.items()}
    named = random_inputs(path)
    inputs = [named[spec.name] for spec in libraries["off"].inputs]
    first, second = (np.asarray(library(*inputs), "float64") for library in libraries.values())
    difference = float(np.abs(first - second).max() / np.ptp(first))
    calls: dict[str, Callable[[], object]] = {w: functools.partial(lib, *inputs) for w, lib in libraries.items()}
    times = {way: 1e3 * t.median for way, t in interleave(calls, Schedule(rounds=15)).items()}
    text = f"off {times['off']:.3f} ms, auto {times['auto']:.3f} ms, {times['off'] / times['auto']:.2f} times as fast"
    print(f"{name}: {text}; outputs differ by {difference:.1e} of their range", flush=True)
    return difference <= WHOLE


def main() -> int:
    """Measure, print a line for each, and say whether all were right."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", default="", help="whole models, by commas, as benchmarks.opencl has them")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = []
    print(f"{'batch, channels, size, filters':32}" + "".join(f"{w:>10}" for w in WAYS[:3]) + "  auto   PyTorch")
    for case in ((b, *s, 3) for b in asked.batches for s in SIZES):
        rows.append(row := measure(case, asked.repeat))
        times = {way: 1e6 * statistics.median(row["ways"][way]["seconds"]) for way in WAYS}
        beside = "" if row["torch"] is None else f"{1e6 * row['torch']:10.1f}"
        print(
            f"{case[:4]!s:32}" + "".join(f"{times[w]:10.1f}" for w in WAYS[:3]) + f"  {row['auto']:5}{beside}",
            flush=True,
        )
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        alike = [whole(name, Path(scratch)) for name in filter(None, asked.models.split(","))]
    wrong = [(r["case"], way) for r in rows for way, right in r["right"].items() if not right]
    for case, way in wrong:
        print("WRONG", case, way)
    return int(bool(wrong) or not all(alike))


if __name__ == "__main__":
    raise SystemExit(main())
