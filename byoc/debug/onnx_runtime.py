"""ONNX Runtime as the reference for a model's outputs, where it is installed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.errors import UserError
from byoc.relay.expr import Function
from byoc.relay.onnx_writer import to_onnx

PACKAGE = "onnxruntime"


def part_outputs(function: Function, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a typed *function*, written as ONNX, by ONNX Runtime; *arrays* has one for each tensor it takes.

    Raises UserError as :func:`model_outputs`, and UnwritableError (one of them) for what ONNX cannot say.
    """
    model = to_onnx(function)
    named = {f"x{k}": array for k, array in enumerate(arrays)}
    taken = {value.name for value in model.graph.input}
    return model_outputs(model, {n: a for n, a in named.items() if n in taken}, model.graph.output)


def model_outputs(model: object, arrays: Mapping[str, np.ndarray], like: Sequence[object]) -> list[np.ndarray]:
    """The outputs of an ONNX *model* by ONNX Runtime; *like* has as many items as there should be.

    Raises UserError where the package is missing, the model is none of ONNX, or ONNX Runtime does not run it.
    """
    try:
        runtime = importlib.import_module(PACKAGE)
    except ImportError as error:
        raise UserError(f"the reference onnxruntime needs its package: pip install {PACKAGE}") from error
    if isinstance(model, (str, os.PathLike)):
        source: str | bytes = os.fspath(model)
    elif isinstance(model, bytes):
        source = model
    elif hasattr(model, "SerializeToString"):
        source = model.SerializeToString()
    else:
        raise UserError("the reference onnxruntime is for ONNX models; a module of the graph language is none")
    try:
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        session = runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        found = [np.asarray(v) for v in session.run(None, dict(arrays))]
    except Exception as error:  # its errors have no common class
        raise UserError(f"ONNX Runtime does not run the model: {' '.join(str(error).split())}") from error
    if len(found) != len(like):
        raise UserError(f"ONNX Runtime gives {len(found)} outputs, and the compiled model {len(like)}")
    return found
