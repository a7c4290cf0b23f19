"""Which of the importer's operators are drawn: those that a generator names, and for each other one the reason.

``tests/end_to_end/test_fuzzing.py`` holds this table to the importer's registry.
"""

from __future__ import annotations

import ast
from pathlib import Path

OLD = "left ONNX before opset 10, so neither ONNX Runtime nor the reference computes it"
REPLACED = "deprecated before opset 13, with which drawing begins; its successor is drawn"
NEWER = "of an opset that ONNX Runtime does not run yet"
WHOLE_MODELS = "what ONNX Runtime's quantizer writes: tests hold it one by one and in whole models"
NOT_DRAWN: dict[tuple[str, str], str] = {
    **{
        ("", name): OLD
        for name in (
            "Affine",
            "Crop",
            "GivenTensorFill",
            "ImageScaler",
            "ParametricSoftplus",
            "Scale",
            "ScaledTanh",
        )
    },
    ("", "Scatter"): REPLACED,
    ("", "Upsample"): REPLACED,
    ("", "BitCast"): NEWER,
    ("", "Swish"): NEWER,
    **{
        ("com.microsoft", name): WHOLE_MODELS
        for name in (
            "DynamicQuantizeMatMul",
            "MatMulInteger16",
            "MatMulIntegerToFloat",
            "NhwcMaxPool",
            "QGemm",
            "QLinearAdd",
            "QLinearAveragePool",
            "QLinearConcat",
            "QLinearGlobalAveragePool",
            "QLinearLeakyRelu",
            "QLinearMul",
            "QLinearReduceMean",
            "QLinearSigmoid",
            "QLinearSoftmax",
            "QLinearWhere",
        )
    },
    ("com.microsoft", "TransposeMatMul"): "the older name of FusedMatMul, which is drawn",
}


def named_operators() -> set[str]:
    """Every word in a text of the generators: an operator that is not among them cannot be drawn."""
    words: set[str] = set()
    for path in Path(__file__).parent.glob("*.py"):
        if path.name == Path(__file__).name:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.update(node.value.split())
    return words | {f"Reduce{word}" for word in words}
