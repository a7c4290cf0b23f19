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
FUSED = "what ONNX Runtime's optimiser and its model builder write: tests hold it one by one and in whole models"
SEQUENCES = "values are sequences and optionals, and the generators draw tensors"
RANDOM = "each generator has its own numbers, so that there is nothing to compare with"
BY_THEMSELVES = "held one by one to ONNX Runtime or the reference by tests of its own, and not drawn yet"
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
    **{("", name): BY_THEMSELVES for name in ("BlackmanWindow", "HammingWindow", "HannWindow")},
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
    ("", "SimplifiedLayerNormalization"): FUSED,
    **{
        ("com.microsoft", name): FUSED
        for name in (
            "BiasAdd",
            "BiasSoftmax",
            "BiasSplitGelu",
            "CDist",
            "DecoderMaskedMultiHeadAttention",
            "EmbedLayerNormalization",
            "ExpandDims",
            "FusedConv",
            "FusedGemm",
            "GatedRMSNorm",
            "GatherBlockQuantized",
            "GroupNorm",
            "GroupQueryAttention",
            "MultiHeadAttention",
            "NhwcConv",
            "GridSample",
            "NhwcFusedConv",
            "RotaryEmbedding",
            "Unique",
            "ScaledSiLU",
            "SimplifiedLayerNormalization",
            "SkipGroupNorm",
            "SkipSimplifiedLayerNormalization",
            "UnfoldTensor",
        )
    },
    **{
        ("", name): SEQUENCES
        for name in (
            "ConcatFromSequence",
            "Optional",
            "OptionalGetElement",
            "OptionalHasElement",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
            "SequenceInsert",
            "SequenceLength",
            "SequenceMap",
            "SplitToSequence",
        )
    },
    **{
        ("", name): RANDOM
        for name in (
            "Bernoulli",
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        )
    },
    **{
        ("", name): BY_THEMSELVES
        for name in (
            "Col2Im",
            "CumProd",
            "DFT",
            "DeformConv",
            "Det",
            "GridSample",
            "MaxRoiPool",
            "MaxUnpool",
            "MelWeightMatrix",
            "NonMaxSuppression",
            "RoiAlign",
            "STFT",
            "TensorScatter",
            "Unique",
            "ImageDecoder",
            "RegexFullMatch",
            "StringConcat",
            "StringNormalizer",
            "StringSplit",
            "TfIdfVectorizer",
        )
    },
    **{
        ("ai.onnx.ml", name): BY_THEMSELVES
        for name in (
            "ArrayFeatureExtractor",
            "Binarizer",
            "CategoryMapper",
            "FeatureVectorizer",
            "Imputer",
            "LabelEncoder",
            "LinearClassifier",
            "LinearRegressor",
            "Normalizer",
            "OneHotEncoder",
            "SVMClassifier",
            "SVMRegressor",
            "Scaler",
            "TreeEnsemble",
            "TreeEnsembleClassifier",
            "TreeEnsembleRegressor",
            "ZipMap",
        )
    },
    ("com.microsoft", "Tokenizer"): BY_THEMSELVES,
    **{
        ("ai.onnx.preview.training", name): BY_THEMSELVES
        for name in (
            "Adagrad",
            "Adam",
            "Momentum",
        )
    },
    **{
        ("com.microsoft", name): BY_THEMSELVES
        for name in (
            "Attention",
            "DynamicQuantizeLSTM",
            "MatMulNBits",
            "QAttention",
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
