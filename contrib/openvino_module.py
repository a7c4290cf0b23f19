"""Regions that OpenVINO runs, on the processor: the half that an artefact needs."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from byoc.contrib.model_module import OnnxModule, Session, aliased


@functools.cache
def core() -> Any:
    """OpenVINO's entry, of which a process has one."""
    return importlib.import_module("openvino").Core()


class OpenVinoModule(OnnxModule):
    """A compiled model for each symbol, and of it a request for each thread that calls."""

    type_key = "openvino"

    def unavailable(self) -> str | None:
        try:
            importlib.import_module("openvino")
        except ImportError as error:
            return f"OpenVINO is not here ({error}): pip install openvino"
        return None

    def open(self, model: bytes) -> Session:
        library: Any = importlib.import_module("openvino")
        hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        compiled = core().compile_model(core().read_model(model), "CPU", hints)
        requests = threading.local()

        def run(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
            if not hasattr(requests, "of_thread"):
                requests.of_thread = compiled.create_infer_request()
            request = requests.of_thread
            for number, array in enumerate(inputs):
                request.set_input_tensor(number, library.Tensor(aliased(array), shared_memory=True))
            request.infer()
            for number, array in enumerate(outputs):
                np.copyto(array, request.get_output_tensor(number).data)

        return run
