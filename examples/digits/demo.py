"""The main job on real input, end to end: ``make demo``.

A trained digit classifier (``digits.onnx``) is cut across the host (generated C) and an OpenCL device, compiled, saved,
loaded again in a new process that imports only ``byoc.runtime``, and run on images that it never saw in training.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

import byoc
from byoc.driver.pipeline import optimize
from byoc.partition.plan.plan import Plan
from byoc.partition.show.draw import to_svg
from byoc.relay.interpreter import evaluate

FOLDER = pathlib.Path(__file__).parent
# what stays on the host although the device could take it: scaling the pixels, and the probabilities
KEEP_ON_HOST = ["divide", "nn.softmax"]
# runs in the new process: argument 1 is the artefact, 2 the images, 3 where to put the answer
LOAD_AND_RUN = """
import json, sys, time
import numpy as np
import byoc.runtime

library = byoc.runtime.load(sys.argv[1])
images = np.load(sys.argv[2])
library(images)
seconds = []
for _ in range(20):
    start = time.perf_counter()
    probabilities = library(images)
    seconds.append(time.perf_counter() - start)
np.save(sys.argv[3], probabilities)
compiler = sorted(m for m in sys.modules if m.startswith(("byoc.relay", "byoc.codegen", "byoc.driver", "onnx")))
print(json.dumps({"seconds": seconds, "compiler_modules": compiler}))
"""


def run_elsewhere(artifact: pathlib.Path, images: np.ndarray) -> tuple[np.ndarray, dict[str, list]]:
    """The probabilities and the times of 20 runs from a new process, in another folder, that loads *artifact*."""
    artifact = artifact.resolve()
    inputs, outputs = artifact.with_suffix(".inputs.npy"), artifact.with_suffix(".outputs.npy")
    np.save(inputs, images)
    try:
        command = [sys.executable, "-c", LOAD_AND_RUN, str(artifact), str(inputs), str(outputs)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=artifact.parent)
        return np.load(outputs), json.loads(answer.stdout)
    finally:
        inputs.unlink(missing_ok=True)
        outputs.unlink(missing_ok=True)


def median_ms(seconds: list[float]) -> float:
    """The median of some seconds in milliseconds."""
    return statistics.median(seconds) * 1e3


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--output", type=pathlib.Path, default=pathlib.Path("out"), help="folder to write to")
    folder = arguments.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    unseen = np.load(FOLDER / "unseen.npz")
    images, labels = unseen["images"].astype(np.float32), unseen["labels"]

    start = time.perf_counter()
    library = byoc.compile(FOLDER / "digits.onnx", targets=["opencl", "c"], exclude=KEEP_ON_HOST)
    compile_seconds = time.perf_counter() - start
    plan = Plan.from_json(library.report["plan"])
    print(f"{plan}\n")

    artifact = library.save(folder / "digits.byoc")
    picture = folder / "digits.svg"
    mod = optimize(byoc.import_onnx(FOLDER / "digits.onnx"))
    picture.write_text(to_svg(mod, plan))

    host = byoc.compile(FOLDER / "digits.onnx", targets=["c"])
    probabilities, answer = run_elsewhere(artifact, images)
    whole, reference = host(images), np.asarray(evaluate(mod, [images]))
    host_seconds = []
    for _ in range(20):
        start = time.perf_counter()
        host(images)
        host_seconds.append(time.perf_counter() - start)

    print(f"images never seen in training    {len(images)}")
    print(f"accuracy                         {(probabilities.argmax(1) == labels).mean():.4f}")
    print(f"largest difference from numpy    {np.abs(probabilities - reference).max():.2e}")
    print(f"largest difference from the host {np.abs(probabilities - whole).max():.2e}")
    print(f"compiling                        {compile_seconds:.2f} s")
    print(f"a run, cut, in the new process   {median_ms(answer['seconds']):.3f} ms (median of 20, all images)")
    print(f"a run, whole on the host         {median_ms(host_seconds):.3f} ms")
    print(f"compiler modules it imported     {len(answer['compiler_modules'])}")
    print(f"artefact                         {artifact} ({artifact.stat().st_size} bytes)")
    print(f"picture of the cut graph         {picture}")


if __name__ == "__main__":
    main()
