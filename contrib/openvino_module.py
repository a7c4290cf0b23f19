"""Regions that OpenVINO runs, on the processor: the half that an artefact needs."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from byoc.contrib.model_module import OnnxModule, Session, aliased
from byoc.runtime.core.fork import OwnProcess

_FORKED = (
    "OpenVINO cannot compile here: this process was forked from one that had used OpenVINO, whose threads are not in a "
    "child: start processes anew (multiprocessing.get_context('spawn')), or load the library and run it once before "
    "the fork"
)


@dataclass(frozen=True)
class OpenVinoEntry:
    """OpenVINO's entry, and the process that made it."""

    core: Any
    process: OwnProcess


@functools.cache
def entry() -> OpenVinoEntry:
    """The one of this process, or of the process from which it was forked after that had used it."""
    return OpenVinoEntry(importlib.import_module("openvino").Core(), OwnProcess(_FORKED))


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
        """See :class:`ModelModule`. Raises DeviceError in a process that was forked from one that used OpenVINO.

        OpenVINO compiles on threads that it keeps for the next model, and waits for them for ever in a child, where
        they are not. What was compiled before the fork runs there.
        """
        entry().process.require()
        compiler = entry().core
        library: Any = importlib.import_module("openvino")
        hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        compiled = compiler.compile_model(compiler.read_model(model), "CPU", hints)
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
