"""Regions that LiteRT runs by XNNPACK's kernels, on the processor: the half that an artefact needs."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from byoc.contrib.model_module import ModelModule, Session
from byoc.runtime.core.processor import usable_processors

DELEGATE = "DELEGATE"  # what LiteRT calls the part of a model that somebody else runs


class XnnpackModule(ModelModule):
    """Models of LiteRT, and of each an interpreter for each thread that calls."""

    type_key = "xnnpack"
    ending = ".tflite"
    content_kind = "tflite regions"

    def unavailable(self) -> str | None:
        try:
            importlib.import_module("ai_edge_litert.interpreter")
        except ImportError as error:
            return f"LiteRT, which brings XNNPACK, is not here ({error}): pip install ai-edge-litert"
        return None

    def open(self, model: bytes) -> Session:
        interpreters = threading.local()
        interpreters.of_thread = interpreter_of(model)  # which raises what LiteRT says of the model

        def run(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
            if not hasattr(interpreters, "of_thread"):
                interpreters.of_thread = interpreter_of(model)
            interpreter = interpreters.of_thread
            for spec, array in zip(interpreter.get_input_details(), inputs, strict=True):
                interpreter.set_tensor(spec["index"], array)
            interpreter.invoke()
            for spec, array in zip(interpreter.get_output_details(), outputs, strict=True):
                np.copyto(array, interpreter.tensor(spec["index"])())  # a view, which is gone before the next run

        return run


def interpreter_of(model: bytes) -> Any:
    """An interpreter of *model* with its memory, on the processors of this process.

    Raises ValueError and RuntimeError, LiteRT's, for what it does not read or cannot prepare.
    """
    library: Any = importlib.import_module("ai_edge_litert.interpreter")
    interpreter = library.Interpreter(model_content=model, num_threads=usable_processors())
    interpreter.allocate_tensors()
    return interpreter


def left_to_litert(model: bytes) -> str | None:
    """The first operator of *model* that XNNPACK does not run, by LiteRT's name; None where it runs all.

    Raises what :func:`interpreter_of` raises.
    """
    interpreter = interpreter_of(model)
    operators = interpreter._get_ops_details()  # those of the model, then what runs them instead
    delegated = [o for o in operators if o["op_name"] == DELEGATE]
    own = [o for o in operators if o["op_name"] != DELEGATE]
    computed = {int(t) for o in own for t in o["outputs"]}
    given = {int(t) for o in delegated for t in o["outputs"]}
    read = {int(t) for o in delegated for t in o["inputs"]} & computed
    wanted = {int(spec["index"]) for spec in interpreter.get_output_details()} & computed
    missing = (wanted | read) - given
    return next((str(o["op_name"]) for o in own if missing & {int(t) for t in o["outputs"]}), None)
