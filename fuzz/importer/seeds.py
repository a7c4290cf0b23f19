"""Valid models to start from: ONNX's own node and simple tests, and models that a folder holds.

Each node test comes twice where it has short lists of numbers as inputs (axes, sizes, k): as it is, and with those as
initialisers, as exporters write them.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

MAX_BYTES = 1 << 16  # larger models make slow inputs, and hold no other structure


def seed_models(folder: Path | None = None) -> list[bytes]:
    """The models of the tests that the onnx package brings, and the files of *folder*, none over :data:`MAX_BYTES`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, while the package computes the data of its tests
        tests = load_model_tests(kind="node") + load_model_tests(kind="simple")
    models = []
    for test in tests:
        model = test.model
        if model is None:
            path = Path(test.model_dir) / "model.onnx"
            if path.is_file():
                models.append(path.read_bytes())
            continue
        models.append(model.SerializeToString())
        if test.data_sets:
            models.append(_with_constants(model, test.data_sets[0][0]))
    models += [path.read_bytes() for path in sorted(folder.rglob("*.onnx"))] if folder is not None else []
    return [data for data in dict.fromkeys(models) if data and len(data) <= MAX_BYTES]


def _with_constants(model: ModelProto, inputs: list[object]) -> bytes:
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for index, (value, given) in enumerate(zip(model.graph.input, inputs, strict=False)):
        array = numpy_helper.to_array(given) if isinstance(given, TensorProto) else given
        if index and isinstance(array, np.ndarray) and array.ndim <= 1 and array.size <= 16:
            fixed.graph.initializer.append(numpy_helper.from_array(array, value.name))
    return fixed.SerializeToString()
