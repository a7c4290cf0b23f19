"""Compile one model in a process of its own: ``python compile_model.py MODEL.onnx OUT.byoc PRECISION`` prints seconds.

Counted is what ``byoc.compile`` and ``save`` take, without Python's start and imports.
"""

from __future__ import annotations

import json
import sys
import time

import byoc


def main() -> None:
    """Compile, save, and print the seconds of both as JSON."""
    model, out, precision = sys.argv[1:]
    if precision == "bf16":
        raise SystemExit("byoc.compile has no precision bf16")
    start = time.perf_counter()
    library = byoc.compile(model)
    compiled = time.perf_counter()
    library.save(out)
    print(json.dumps({"compile_seconds": compiled - start, "save_seconds": time.perf_counter() - compiled}))


if __name__ == "__main__":
    main()
