"""What runs a model in the benchmark: ours and the peers, each as one call that takes nothing and returns the outputs.

Every engine gets the same arrays and gives numpy arrays, from Python, as its users would. Threads are fixed and
precision is asked for: ONNX Runtime with the sequential executor; OpenVINO with its latency hint, sharing inputs and
outputs with the caller. An engine that cannot do what is asked raises :class:`Unsupported` with the reason.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Arrays = list[np.ndarray]
Call = Callable[[], Sequence[np.ndarray]]
Inputs = Mapping[str, np.ndarray]
OPENVINO_PRECISION = {"f32": "f32", "bf16": "bf16", "int8": "f32"}


class Unsupported(Exception):
    """An engine cannot run this model with these threads or in this precision; the text says why."""


@dataclass(frozen=True)
class Ready:
    """A model loaded by an engine: the call that runs it, and the seconds from the file to the first answer."""

    run: Call
    first_seconds: float


@dataclass(frozen=True)
class Model:
    """A model of the zoo: its name, the ONNX file, the artefact that we compiled from it, and its inputs.

    *quantized* is what the peers run where int8 is asked for and the ONNX file is in f32.
    """

    name: str
    onnx: Path
    artefact: Path
    inputs: Inputs
    quantized: Path | None = None

    def file_for(self, precision: str) -> str:
        """The ONNX file that a peer runs in *precision*."""
        return str(self.quantized if self.quantized is not None and precision == "int8" else self.onnx)


def run_ours(model: Model, threads: int, precision: str) -> Call:
    """The artefact, loaded by ``byoc.runtime`` alone; *precision* was chosen when it was compiled."""
    from byoc.runtime import load

    library = load(model.artefact, threads)
    values = [model.inputs[spec.name] for spec in library.inputs]

    def call() -> Arrays:
        result = library(*values)
        return list(result) if isinstance(result, list) else [result]

    return call


def run_onnxruntime(model: Model, threads: int, precision: str) -> Call:
    """ONNX Runtime on the processor."""
    import onnxruntime

    if precision == "bf16":
        raise Unsupported("ONNX Runtime does not run an f32 model in bf16 on the processor")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    session = onnxruntime.InferenceSession(model.file_for(precision), options, providers=["CPUExecutionProvider"])
    inputs = dict(model.inputs)
    return lambda: session.run(None, inputs)


def run_openvino(model: Model, threads: int, precision: str) -> Call:
    """OpenVINO on the processor."""
    import openvino

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": OPENVINO_PRECISION[precision],
    }
    compiled = openvino.Core().compile_model(model.file_for(precision), "CPU", config)
    request = compiled.create_infer_request()
    # a tensor may have several names: that of the input, and those of reshapes that do nothing to it
    inputs = {port: model.inputs[next(n for n in port.get_names() if n in model.inputs)] for port in compiled.inputs}
    ports = compiled.outputs

    def call() -> Arrays:
        results = request.infer(inputs, share_inputs=True, share_outputs=True)
        return [results[port] for port in ports]

    return call


ENGINES: dict[str, Callable[[Model, int, str], Call]] = {
    "byoc": run_ours,
    "onnxruntime": run_onnxruntime,
    "openvino": run_openvino,
}
OURS = "byoc"


def missing(names: Sequence[str]) -> list[str]:
    """Those of *names* whose package is not installed."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def prepare(engine: str, model: Model, threads: int, precision: str) -> Ready:
    """Load *model* and run it once. Raises Unsupported, and whatever the engine raises."""
    start = time.perf_counter()
    call = ENGINES[engine](model, threads, precision)
    call()
    return Ready(call, time.perf_counter() - start)


def random_inputs(path: Path, seed: int = 0, sizes: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """Seeded inputs for an ONNX file: normal numbers, token numbers below 1000, or truth values.

    A dimension without a size is what *sizes* says of its name, else 1.
    """
    named = sizes or {}
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    weights = {w.name for w in graph.initializer}
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for value in graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        shape = [d.dim_value or named.get(d.dim_param, 1) for d in kind.shape.dim]
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        bound = 2 if dtype.kind == "b" else 1000
        numbers = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, bound, shape)
        found[value.name] = numbers.astype(dtype)
    return found


def relative_difference(ours: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference of all outputs, relative to the range of the output expected.

    Infinite where shapes differ or a number is not finite on one side alone.
    """
    worst = 0.0
    if len(ours) != len(expected):
        return float("inf")
    for a, b in zip(ours, expected, strict=True):
        if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        if b.size:
            a64, b64 = np.asarray(a, np.float64), np.asarray(b, np.float64)
            finite = np.isfinite(b64)
            spread = float(np.ptp(b64[finite])) if finite.any() else 0.0
            difference = float(np.max(np.abs(a64[finite] - b64[finite]), initial=0.0))
            worst = max(worst, difference / (spread or 1.0))
    return worst
