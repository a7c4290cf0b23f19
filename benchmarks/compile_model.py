"""Compile one model in a process of its own: ``python compile_model.py MODEL.onnx OUT.byoc PRECISION`` prints seconds.

Counted is what ``byoc.compile`` and ``save`` take, without Python's start and imports.
"""

from __future__ import annotations

import json
import sys
import time

import byoc

# quantized models say themselves what is an integer
PRODUCTS = {"f32": "f32", "bf16": "bf16", "int8": "f32"}


def main() -> None:
    """Compile, save, and print the seconds of both as JSON."""
    model, out, precision = sys.argv[1:]
    start = time.perf_counter()
    library = byoc.compile(model, precision=PRODUCTS[precision])
    compiled = time.perf_counter()
    library.save(out)
    print(json.dumps({"compile_seconds": compiled - start, "save_seconds": time.perf_counter() - compiled}))


if __name__ == "__main__":
    main()
