"""Models on a device as they are and with channels innermost: ``python -m benchmarks.opencl.layouts``.

Each model is compiled as it is (NCHW); with every convolution and pool in NHWC, as ``ConvertLayout`` writes them; and
as ``ChannelsLast`` chooses for the host, whose operators have that layout where it pays there. All give the same
numbers within TOLERANCE of each output's range, and are then timed in turns, from numpy to numpy (``rounds.py``).
``--models FOLDER`` takes ONNX files from there; what is not in it is made here (``device_cases.py``). The status is 1
when outputs differ.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import byoc
from benchmarks.opencl.device_cases import case_of, onnx_file
from benchmarks.opencl.tuned import inputs_of, relative_difference
from benchmarks.rounds import Schedule, interleave
from byoc.driver.pass_list import Pipeline
from byoc.relay import transform
from byoc.relay.transform.layout.channels_last import ChannelsLast

DEFAULT = "mobilenetv2,resnet18,resnet50"
TOLERANCES = {"f32": 1e-4, "fp16": 1e-2}
LAST_SIMPLIFIED = "DeadCodeElimination"  # the pass of the pipeline behind which layouts are changed
IN_NHWC = {name: ["NHWC", "default"] for name in ("nn.conv2d",)} | {
    name: ["NHWC"] for name in ("nn.max_pool2d", "nn.avg_pool2d", "nn.global_avg_pool2d")
}


def pipelines() -> dict[str, Pipeline]:
    """The passes by which a model gets each layout."""
    given = byoc.pipeline()
    return {
        "NCHW": given,
        "NHWC": given.insert_after(LAST_SIMPLIFIED, transform.ConvertLayout(IN_NHWC), transform.FoldConstant()),
        "ChannelsLast": given.insert_after(LAST_SIMPLIFIED, ChannelsLast()),
    }


def measure(path: Path, precision: str, rounds: int) -> tuple[dict[str, float], float]:
    """Milliseconds of a call by layout, and the largest difference from the outputs in the model's own."""
    libraries: dict[str, Any] = {
        name: byoc.compile(path, targets="opencl", precision=precision, pipeline=pipeline)
        for name, pipeline in pipelines().items()
    }
    own = libraries["NCHW"]
    inputs = inputs_of(path, own)
    named = {spec.name: array for spec, array in zip(own.inputs, inputs, strict=True)}
    expected = own.run(named)
    found = (library.run(named) for library in libraries.values())
    difference = max(relative_difference(*pair) for outputs in found for pair in zip(outputs, expected, strict=True))
    calls: dict[str, Callable[[], object]] = {
        name: (lambda library=library: library(*inputs)) for name, library in libraries.items()
    }
    times = interleave(calls, Schedule(rounds=rounds))
    return {name: 1e3 * timing.median for name, timing in times.items()}, difference


def main() -> int:
    """Measure every model in every precision, print a line for each, and say whether all agreed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=DEFAULT, help="models, by commas")
    parser.add_argument("--models", type=Path, help="a folder of ONNX files")
    parser.add_argument("--precision", default="f32", help="f32, fp16 or both by a comma")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    wrong = []
    print(f"{'model':14}{'precision':>10}" + "".join(f"{name + ' ms':>18}" for name in pipelines()))
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            path = onnx_file(case_of(name), options.models, Path(scratch))
            for precision in options.precision.split(","):
                times, difference = measure(path, precision, options.rounds)
                print(f"{name:14}{precision:>10}" + "".join(f"{ms:18.3f}" for ms in times.values()), flush=True)
                if not difference <= TOLERANCES[precision]:
                    wrong.append(f"{name} in {precision}: outputs differ by {difference:g} of their range")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
