"""One engine alone in a process: ``python -m benchmarks.cpu.alone ENGINE MODEL.json THREADS`` prints its costs as JSON.

``peak_bytes`` is VmHWM of the process, the most memory that it ever had resident, from its start: the interpreter,
numpy, the engine, the weights (mapped files count as far as they were touched), the inputs and all that a run takes.
``anonymous_bytes`` and ``file_bytes`` say how much of what is resident at the end is private and how much is files.
Nothing else is imported; for ours that is ``byoc.runtime``, and a compiler that slipped in is an error.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.engines import OURS, Model, prepare

RUNS = 5
UNIT = 1024  # /proc counts in kB


def resident() -> dict[str, int]:
    """Bytes: ``VmHWM``, ``RssAnon``, ``RssFile``, ``RssShmem`` of this process. Linux alone."""
    found = {}
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key in ("VmHWM", "RssAnon", "RssFile", "RssShmem"):
            found[key] = int(value.split()[0]) * UNIT
    return found


def read_model(path: Path) -> tuple[Model, str]:
    """The model and the precision that :func:`write_model` wrote."""
    data = json.loads(path.read_text(encoding="utf-8"))
    with np.load(data["inputs"]) as arrays:
        inputs = {name: arrays[name] for name in arrays}
    quantized = Path(data["quantized"]) if data["quantized"] else None
    return Model(data["name"], Path(data["onnx"]), Path(data["artefact"]), inputs, quantized), data["precision"]


def write_model(model: Model, precision: str, folder: Path) -> Path:
    """*model* in files of *folder*, for another process."""
    arrays, path = folder / f"{model.name}.npz", folder / f"{model.name}.json"
    np.savez(arrays, **model.inputs)
    data = {
        "name": model.name,
        "onnx": str(model.onnx),
        "artefact": str(model.artefact),
        "inputs": str(arrays),
        "precision": precision,
        "quantized": str(model.quantized) if model.quantized else None,
    }
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def main() -> None:
    """Load, run, and print."""
    engine, path, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    model, precision = read_model(path)
    start = time.perf_counter()
    ready = prepare(engine, model, threads, precision)
    for _ in range(RUNS):
        ready.run()
    seconds = time.perf_counter() - start
    slipped = [name for name in ("byoc.driver", "byoc.codegen", "byoc.relay", "onnx") if name in sys.modules]
    if engine == OURS and slipped:
        raise SystemExit(f"the runtime imported {', '.join(slipped)}")
    memory = resident()
    print(
        json.dumps(
            {
                "peak_bytes": memory["VmHWM"],
                "anonymous_bytes": memory["RssAnon"],
                "file_bytes": memory["RssFile"],
                "first_seconds": ready.first_seconds,
                "seconds": seconds,
            }
        )
    )


if __name__ == "__main__":
    main()
