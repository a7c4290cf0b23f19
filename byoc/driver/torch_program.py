"""PyTorch's exported programs as ONNX models: an ``ExportedProgram``, or the ``.pt2`` file in which one was saved.

PyTorch is asked for by name when there is such a program, so that byoc needs none. Source: ``torch.export`` and
``torch.onnx.export`` with ``dynamo=True``, PyTorch 2.7 and later.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from onnx import ModelProto

from byoc.errors import ImportModelError, UnavailableError, in_one_line

NEEDED = "install them: pip install torch onnxscript"


def onnx_of(model: object) -> ModelProto:
    """The ONNX model of an ``ExportedProgram`` or of a ``.pt2`` file, with the free sizes that it was exported with.

    Raises:
        ImportModelError: a file that is not there or no program, and a program that PyTorch cannot write as ONNX.
        UnavailableError: torch or onnxscript is not installed.
    """
    name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else "<ExportedProgram>"
    torch = torch_module(f"{name}: an exported program")
    if isinstance(model, (str, os.PathLike)):
        if not Path(model).is_file():
            raise ImportModelError(f"{name}: there is no such file; give the path of a saved torch.export program")
        try:
            model = torch.export.load(name)
        except Exception as error:  # whatever a damaged archive makes torch raise
            raise ImportModelError(f"{name}: is not a program saved by torch.export: {in_one_line(error)}") from error
    program: Any = model
    try:
        with _in_silence():
            functional = program.run_decompositions({})  # without operators that change what they are given
            changed = functional.graph_signature.buffers_to_mutate or functional.graph_signature.user_inputs_to_mutate
            made: ModelProto = torch.onnx.export(functional, dynamo=True, verbose=False).model_proto
    except ImportError as error:
        raise UnavailableError(f"{name}: PyTorch's exporter to ONNX needs {error.name}; {NEEDED}") from error
    except Exception as error:
        raise ImportModelError(f"{name}: PyTorch does not write it as ONNX: {in_one_line(error)}") from error
    if changed:
        raise ImportModelError(f"{name}: it changes its inputs or buffers, which a model in ONNX cannot do")
    return made


def torch_module(asking: str) -> ModuleType:
    """PyTorch, for what *asking* names. Raises UnavailableError where it is not installed."""
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("torch.export")
    except ImportError as error:
        raise UnavailableError(f"{asking} needs PyTorch and onnxscript; {NEEDED}") from error
    return torch


@contextlib.contextmanager
def _in_silence() -> Iterator[None]:
    """Without what the exporter prints and warns of on its way."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
