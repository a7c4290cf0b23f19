"""ONNX Runtime as the reference for a model's outputs, where it is installed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.errors import UserError

PACKAGE = "onnxruntime"


def model_outputs(model: object, arrays: Mapping[str, np.ndarray], like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of an ONNX *model* by ONNX Runtime; *like* are as many arrays as there should be.

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
