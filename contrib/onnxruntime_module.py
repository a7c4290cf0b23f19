"""Regions that ONNX Runtime runs, on the processor: the half that an artefact needs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from byoc.contrib.model_module import OnnxModule, Session


class OnnxRuntimeModule(OnnxModule):
    """A session for each symbol, which reads the inputs and fills the outputs where they lie."""

    type_key = "onnxruntime"

    def unavailable(self) -> str | None:
        try:
            importlib.import_module("onnxruntime")
        except ImportError as error:
            return f"ONNX Runtime is not here ({error}): pip install onnxruntime"
        return None

    def open(self, model: bytes) -> Session:
        library: Any = importlib.import_module("onnxruntime")
        options = library.SessionOptions()
        options.log_severity_level = 4
        lacking: Any = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        try:
            session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except lacking.NotImplemented:  # 1.23 fuses float64 products into operators that it has for float32 alone
            options.graph_optimization_level = library.GraphOptimizationLevel.ORT_ENABLE_BASIC
            session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])

        def run(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
            binding = session.io_binding()
            for number, array in enumerate(inputs):
                binding.bind_ortvalue_input(f"x{number}", library.OrtValue.ortvalue_from_numpy(array))
            for number, array in enumerate(outputs):
                binding.bind_output(f"y{number}", "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
            session.run_with_iobinding(binding)

        return run
