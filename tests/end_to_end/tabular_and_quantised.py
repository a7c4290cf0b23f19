"""Forests as skl2onnx writes them, and a small ResNet as ONNX Runtime's quantizer does."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from whole_models import FLOAT, Graph

FEATURES, TREES, DEPTH = 6, 5, 3


def _trees(rng: np.random.Generator, outputs: int, kind: str) -> dict[str, list]:
    """The attributes of complete trees; *kind* is what leaves belong to: ``class`` or ``target``."""
    found: dict[str, list] = {}

    def put(**values: object) -> None:
        for name, value in values.items():
            found.setdefault(name, []).append(value)

    leaves = 2**DEPTH - 1
    for tree in range(TREES):
        for place in range(2 ** (DEPTH + 1) - 1):
            is_leaf = place >= leaves
            put(
                nodes_treeids=tree,
                nodes_nodeids=place,
                nodes_featureids=0 if is_leaf else int(rng.integers(FEATURES)),
                nodes_modes="LEAF" if is_leaf else "BRANCH_LEQ",
                nodes_values=0.0 if is_leaf else float(rng.standard_normal()),
                nodes_truenodeids=0 if is_leaf else 2 * place + 1,
                nodes_falsenodeids=0 if is_leaf else 2 * place + 2,
                nodes_hitrates=1.0,
                nodes_missing_value_tracks_true=0,
            )
            shares = rng.random(outputs) if is_leaf else np.zeros(0)
            voted = shares[1:] if kind == "class" and outputs == 2 else shares  # of two classes the second has votes
            for output, share in enumerate(voted):
                put(**{f"{kind}_treeids": tree, f"{kind}_nodeids": place, f"{kind}_ids": output})
                put(**{f"{kind}_weights": float(share / sum(shares) / TREES)})
    return found


def classifier(rng: np.random.Generator, labels: Sequence[int]) -> ModelProto:
    """Integers made floats, a forest, its labels by ArrayFeatureExtractor's like, and probabilities."""
    g = Graph(rng)
    data = g("Cast", "x", to=FLOAT)
    scaled = g("Scaler", data, domain="ai.onnx.ml", offset=[0.1] * FEATURES, scale=[0.7] * FEATURES)
    label, likely = g(
        "TreeEnsembleClassifier",
        scaled,
        outputs=2,
        domain="ai.onnx.ml",
        classlabels_int64s=list(labels),
        post_transform="NONE",
        **_trees(rng, len(labels), "class"),
    )
    g.named(g("Normalizer", likely, domain="ai.onnx.ml", norm="L1"), "probabilities")
    g.named(label, "label")
    return _with_trees(g, [("label", TensorProto.INT64, None), ("probabilities", FLOAT, None)], TensorProto.DOUBLE)


def regressor(rng: np.random.Generator, targets: int, aggregate: str) -> ModelProto:
    """A forest whose leaves are numbers, summed or averaged, through a clip."""
    g = Graph(rng)
    made = g(
        "TreeEnsembleRegressor",
        "x",
        domain="ai.onnx.ml",
        n_targets=targets,
        aggregate_function=aggregate,
        post_transform="NONE",
        **_trees(rng, targets, "target"),
    )
    g.named(g("Mul", made, g.const(3.0, "float32")), "y")
    return _with_trees(g, [("y", FLOAT, None)], FLOAT)


def _with_trees(g: Graph, outputs: list, element: int) -> ModelProto:
    model = g.model(outputs, [("x", element, ["rows", FEATURES])], 15)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return model


class _Samples(CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self._left = iter([{"image": rng.standard_normal((2, 3, 32, 32)).astype("float32")} for _ in range(3)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


def residual_network(rng: np.random.Generator) -> ModelProto:
    """Two blocks with shortcuts, of which the second halves the image."""
    g = Graph(rng)

    def convolved(value: str, before: int, after: int, size: int, stride: int) -> str:
        weight = g.weight(after, before, size, size, scale=0.5 / np.sqrt(before))
        pads = [size // 2] * 4
        made = g("Conv", value, weight, g.weight(after, scale=0.1), pads=pads, strides=[stride] * 2)
        assert isinstance(made, str)
        return made

    value = g("Relu", convolved("image", 3, 8, 7, 2))
    value = g("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for before, after, stride in ((8, 8, 1), (8, 16, 2)):
        inner = convolved(g("Relu", convolved(value, before, after, 3, stride)), after, after, 3, 1)
        shortcut = value if before == after else convolved(value, before, after, 1, stride)
        value = g("Relu", g("Add", inner, shortcut))
    flat = g("Flatten", g("GlobalAveragePool", value))
    g.named(g("Gemm", flat, g.weight(16, 10), g.weight(10)), "logits")
    return g.model([("logits", FLOAT, None)], [("image", FLOAT, ["batch", 3, 32, 32])], 13)


def quantised(model: ModelProto, folder: pathlib.Path, form: str, activations: str, by_channels: bool) -> ModelProto:
    """*model* as the quantizer writes it: in the form ``QDQ`` or ``QOperator``."""
    before, after = folder / "float.onnx", folder / "bytes.onnx"
    onnx.save(model, before)
    quantize_static(
        before,
        after,
        _Samples(),
        quant_format=QuantFormat[form],
        activation_type=QuantType[activations],
        weight_type=QuantType.QInt8,
        per_channel=by_channels,
    )
    return onnx.load(after)
