"""Placement with copies and tuning in one run, against every fixed choice: ``python -m benchmarks.opencl.joint``.

Three small networks are compiled with everything on the host, with everything on the device over buffers, the same over
images, each tuned at ``--level``, and once with places by measured costs, in which copies count, and the same tuning.
Outputs are compared with the host's, then all are timed in turns, from numpy to numpy (``rounds.py``). The joint run is
to take at most ``MOST`` times what the best of the fixed choices takes, or to have made the same code as it; the status
is 1 otherwise, or where outputs differ. The cache is empty at first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import byoc
from benchmarks.rounds import Schedule, interleave
from byoc.runtime.opencl.devices import open_device

MOST = 1.05  # times the best fixed choice
TOLERANCE = 1e-4
FIXED: Mapping[str, Mapping[str, object]] = {
    "host": {"targets": ["c"]},
    "buffers": {"targets": ["opencl"], "backend_options": {"opencl": {"mode": "memory=buffer"}}},
    "images": {"targets": ["opencl"], "backend_options": {"opencl": {"mode": "memory=image"}}},
}
JOINT: Mapping[str, object] = {"targets": ["opencl"], "policy": "cost", "costs": "measured"}
NETWORKS = {  # channels, positions along a side, convolutions, the operator behind each
    "deep": (8, 12, 4, "Relu"),
    "wide": (32, 16, 2, "Sigmoid"),
    "mixed": (16, 20, 3, "Softmax"),
}


def network(channels: int, side: int, depth: int, between: str) -> bytes:
    """*depth* convolutions of 3 x 3 with an operator behind each."""
    rng, nodes, constants = np.random.default_rng(depth), [], []
    for k in range(depth):
        weights = (rng.standard_normal((channels, channels, 3, 3)) / (3 * channels**0.5)).astype("float32")
        constants.append(numpy_helper.from_array(weights, f"w{k}"))
        result = "y" if k + 1 == depth else f"t{k + 1}"
        nodes.append(helper.make_node("Conv", [f"t{k}", f"w{k}"], [f"c{k}"], f"conv{k}", pads=[1] * 4))
        nodes.append(helper.make_node(between, [f"c{k}"], [result], f"between{k}"))
    shape = [1, channels, side, side]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("t0", "y")]
    graph = helper.make_graph(nodes, "joint", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def sources(library: Any) -> list[str]:
    """The texts of all that was generated for *library*, from its root down."""
    waiting, found = [library.module], []
    while waiting:
        module = waiting.pop()
        found.append(module.get_source())
        waiting.extend(module.imports)
    return found


def measure(name: str, level: str, rounds: int) -> bool:
    """Print the times of one network, and whether the joint run holds."""
    model = network(*NETWORKS[name])
    ways = {**FIXED, "joint": JOINT}
    libraries: dict[str, Any] = {way: byoc.compile(model, tune=level, **options) for way, options in ways.items()}
    channels, side = NETWORKS[name][:2]
    x = np.random.default_rng(0).standard_normal((1, channels, side, side)).astype("float32")
    expected = libraries["host"](x)
    close = all(np.allclose(library(x), expected, TOLERANCE, TOLERANCE) for library in libraries.values())
    calls: dict[str, Callable[[], object]] = {way: lambda own=own: own(x) for way, own in libraries.items()}
    found = {way: timing.median for way, timing in interleave(calls, Schedule(rounds=rounds)).items()}
    best = min(FIXED, key=lambda way: found[way])
    ratio = found["joint"] / found[best]
    times = "  ".join(f"{way} {1e3 * seconds:.3f}" for way, seconds in found.items())
    regions = len(libraries["joint"].report["plan"]["regions"])
    is_same = sources(libraries["joint"]) == sources(libraries[best])
    text = f"{', the same code as the best' if is_same else ''}{'' if close else '; OUTPUTS DIFFER'}"
    print(f"{name}, ms: {times}; {ratio:.3f} of the best ({best}), {regions} regions on the device{text}", flush=True)
    return close and (is_same or ratio <= MOST)


def main() -> int:
    """Measure each network, and say whether all hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(NETWORKS), help="networks, by commas")
    parser.add_argument("--level", default="fast", choices=["fast", "normal", "wide", "heavy"])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(open_device().info)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["BYOC_CACHE_DIR"] = scratch
        held = [measure(name, options.level, options.rounds) for name in options.only.split(",")]
    return int(not all(held))


if __name__ == "__main__":
    raise SystemExit(main())
