"""What it costs to put kernels into a queue, and which method is fastest on a device.

    python -m benchmarks.opencl.queue --device 0 --json out/queue.json

Three tables. *Host*: microseconds of the host for each kernel of a call, of a network of 50 small convolutions, while
the queue is held back by an event, so that the device's threads do not take part: one by one, one by one with each
flush, and recorded (``cl_khr_command_buffer``) where the device offers that. *Flush*: milliseconds of a run of it by
how often the queue is flushed. *Branches*: milliseconds of independent chains of small kernels in one queue in order,
in one out of order with an event behind each kernel, and in a queue for each chain. Turns are taken in turn; medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import byoc
from byoc.runtime.library import Library
from byoc.runtime.opencl.build import build_program
from byoc.runtime.opencl.devices import import_pyopencl, open_device
from byoc.runtime.opencl.session import Session

MODES = ("record=none", "flush=1", "flush=2", "flush=10", "record=batch")
BRANCHES, LENGTH = 8, 16
_SOURCE = """__kernel void link(__global float *x, const int steps) {
  float a = x[get_global_id(0)];
  for (int i = 0; i < steps; i++) a = a * 0.5f + 1.0f;
  x[get_global_id(0)] = a;
}
"""


def convolutions(count: int = 50, channels: int = 8, size: int = 8) -> onnx.ModelProto:
    """A chain of *count* convolutions of 3x3, each with other weights and a kernel of its own by its channels."""
    random = np.random.default_rng(0)
    nodes, constants, before, name = [], [], channels, "x"
    for k in range(count):
        after = channels + k
        weight = (random.standard_normal((after, before, 3, 3)) / np.sqrt(9 * before)).astype("float32")
        constants.append(onnx.numpy_helper.from_array(weight, f"w{k}"))
        nodes.append(helper.make_node("Conv", [name, f"w{k}"], [f"y{k}"], name=f"conv{k}", pads=[1, 1, 1, 1]))
        before, name = after, f"y{k}"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, channels, size, size))]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, before, size, size))]
    graph = helper.make_graph(nodes, "convolutions", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def in_turns(ways: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of what each of *ways* gives, called in turns after one call that does not count."""
    for way in ways.values():
        way()
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    return {name: statistics.median(times) for name, times in found.items()}


def libraries(device: str) -> dict[str, Library]:
    """The network, compiled for each mode that the device supports."""
    found = {}
    model = convolutions()
    x = np.ones((1, 8, 8, 8), "float32")
    for mode in MODES:
        options = {"opencl": {"mode": mode, **({"device": device} if device else {})}}
        library = byoc.compile(model, ["opencl"], backend_options=options)
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            library(x)
        if shown:
            print(f"{mode}: {shown[0].message}")
        else:
            found[mode] = library
    return found


def session_of(library: Library) -> Session:
    """What runs the one region of *library*."""
    (module,) = [m for m in library.module.walk() if m.type_key == "opencl"]
    session: Session = module.session(module.symbols[0])  # type: ignore[attr-defined]  # the module's own method
    return session


def held_back(library: Library, x: np.ndarray) -> Callable[[], float]:
    """The seconds that the host takes to put a call into a queue that waits for an event."""
    cl, session = import_pyopencl(), session_of(library)
    outputs = [np.empty(spec.concrete_shape({}), "float32") for spec in library.outputs]

    def turn() -> float:
        gate = cl.UserEvent(session.context)
        cl.enqueue_barrier(session._queue, wait_for=[gate])
        start = time.perf_counter()
        call = session.start([x, *outputs])
        seconds = time.perf_counter() - start
        gate.set_status(0)
        call.wait()
        return seconds

    return turn


def timed(library: Library, x: np.ndarray) -> Callable[[], float]:
    """The seconds of a run."""

    def turn() -> float:
        start = time.perf_counter()
        library(x)
        return time.perf_counter() - start

    return turn


def branches(device: str, items: int, steps: int) -> dict[str, Callable[[], float]]:
    """Ways to run independent chains of kernels, each a function that gives its seconds."""
    cl, opened = import_pyopencl(), open_device(device)
    program = build_program(_SOURCE, opened)
    memories = [cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, 4 * items) for _ in range(BRANCHES)]
    kernels = []
    for memory in memories:
        kernels.append(cl.Kernel(program, "link"))
        kernels[-1].set_args(memory, np.int32(steps))
    unordered = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    free = cl.CommandQueue(opened.context, opened.device, properties=unordered)
    queues = [cl.CommandQueue(opened.context, opened.device) for _ in range(BRANCHES)]
    local = min(64, opened.info.max_work_group_size)

    def run(queue_of: Callable[[int], object], with_events: bool) -> float:
        last: list[list[object]] = [[] for _ in range(BRANCHES)]
        start = time.perf_counter()
        for _ in range(LENGTH):
            for k, (kernel, _) in enumerate(zip(kernels, memories, strict=True)):  # a kernel does not hold its memory
                after = last[k] if with_events else None
                last[k] = [cl.enqueue_nd_range_kernel(queue_of(k), kernel, (items,), (local,), wait_for=after)]
        for queue in {id(queue_of(k)): queue_of(k) for k in range(BRANCHES)}.values():
            queue.flush()  # type: ignore[attr-defined]  # a queue
        cl.wait_for_events([event for events in last for event in events])
        return time.perf_counter() - start

    return {
        "in order": lambda: run(lambda k: queues[0], False),
        "out of order": lambda: run(lambda k: free, True),
        "a queue for each": lambda: run(lambda k: queues[k], False),
    }


def main() -> None:
    """Measure and print."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", default="", help="as BYOC_OPENCL_DEVICE")
    made.add_argument("--rounds", type=int, default=31)
    made.add_argument("--json", type=Path)
    options = made.parse_args()
    info = open_device(options.device).info
    print(info)
    x = np.ones((1, 8, 8, 8), "float32")
    ready = libraries(options.device)
    launches = len(session_of(ready[MODES[0]])._plan.launches)
    host = in_turns({mode: held_back(library, x) for mode, library in ready.items()}, options.rounds)
    flush = in_turns({mode: timed(library, x) for mode, library in ready.items()}, options.rounds)
    print(f"\n{launches} kernels a call\n| mode | host, us a kernel | a run, ms |\n|---|--:|--:|")
    for mode in ready:
        print(f"| {mode} | {1e6 * host[mode] / launches:.2f} | {1e3 * flush[mode]:.3f} |")
    rows = {}
    print(f"\n{BRANCHES} chains of {LENGTH} kernels, ms")
    print("| work-items, steps | in order | out of order | a queue for each |\n|---|--:|--:|--:|")
    for items, steps in ((64, 256), (1024, 64), (16384, 16), (262144, 4)):
        rows[f"{items} x {steps}"] = found = in_turns(branches(options.device, items, steps), options.rounds)
        print(f"| {items} x {steps} | " + " | ".join(f"{1e3 * s:.3f}" for s in found.values()) + " |")
    if options.json:
        shown = {"device": str(info), "launches": launches, "host": host, "run": flush, "branches": rows}
        options.json.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
