"""Compile one model in a process: ``python -m benchmarks.cpu.compile_model MODEL.onnx OUT.byoc PRECISION [SHAPES]``.

It prints seconds; SHAPES is a JSON object of the shapes of inputs, which fix free sizes.

Counted is what ``byoc.compile`` and ``save`` take, without Python's start and imports. In int8 a model in f32 is
quantized by samples; a quantized one says itself what is an integer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import byoc
from benchmarks.quantized import is_quantized, samples


def ranges_for(path: Path, precision: str) -> list[dict[str, np.ndarray]] | None:
    """The samples by which *path* is quantized; None where it is not, or is already."""
    return samples(path) if precision == "int8" and not is_quantized(path) else None


def main() -> None:
    """Compile, save, and print the seconds of both as JSON."""
    model, out, precision, *rest = sys.argv[1:]
    shapes = json.loads(rest[0]) if rest else None
    calibration = ranges_for(Path(model), precision)
    start = time.perf_counter()
    library = byoc.compile(model, shapes=shapes, precision=precision, calibration=calibration)
    compiled = time.perf_counter()
    library.save(out)
    print(json.dumps({"compile_seconds": compiled - start, "save_seconds": time.perf_counter() - compiled}))


if __name__ == "__main__":
    main()
