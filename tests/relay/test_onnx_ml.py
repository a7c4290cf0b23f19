"""Operators of ai.onnx.ml against ONNX Runtime: trees, linear models, features, labels."""

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_single_node import assert_like_onnx_runtime, feeds_of, ours, single_node

from byoc.errors import ImportModelError

ML = "ai.onnx.ml"
RNG = np.random.default_rng(23)
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def tree(what: str, number: int, depth: int, targets: list[int], shift: float, modes: tuple[str, ...]) -> dict:
    """A full random tree: what its attributes are, whose votes are called *what*."""
    nodes: dict[str, list] = {
        n: [] for n in ("nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    }
    votes: dict[str, list] = {n: [] for n in ("nodeids", "ids", "weights")}
    inner = 2**depth - 1
    for place in range(2 * inner + 1):
        leaf = place >= inner
        row = (
            place,
            int(RNG.integers(3)),
            "LEAF" if leaf else str(RNG.choice(modes)),
            float(np.round(RNG.standard_normal(), 1)),
            0 if leaf else 2 * place + 1,
            0 if leaf else 2 * place + 2,
        )
        for column, value in zip(nodes.values(), row, strict=True):
            column.append(value)
        for target in targets if leaf else ():
            for column, value in zip(votes.values(), (place, target, float(RNG.random() / 3 - shift)), strict=True):
                column.append(value)
    attrs = {f"nodes_{n}": column for n, column in nodes.items()} | {f"{what}_{n}": c for n, c in votes.items()}
    attrs["nodes_treeids"] = [number] * len(nodes["nodeids"])
    attrs["nodes_missing_value_tracks_true"] = [int(v) for v in RNG.integers(0, 2, len(nodes["nodeids"]))]
    attrs[f"{what}_treeids"] = [number] * len(votes["nodeids"])
    return attrs


def forest(what: str, targets: list[int], shift: float = 0.0, modes: tuple[str, ...] = MODES) -> dict:
    parts = [tree(what, n, depth, targets, shift, modes) for n, depth in enumerate((3, 1, 2, 0))]
    return {name: [v for part in parts for v in part[name]] for name in parts[0]}


def rows(dtype: str = "float32") -> np.ndarray:
    data = np.round(RNG.standard_normal((40, 3)), 1)
    if dtype.startswith("float"):
        data[3, 1] = data[7, 0] = np.nan
    return data.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_a_forest_gives_onnx_runtimes_numbers(targets: int, aggregate: str, dtype: str) -> None:
    attrs = forest("target", list(range(targets)), 0.2)
    data, base = rows(dtype), [0.5, 0.25, -1.0][:targets]
    model = single_node(
        "TreeEnsembleRegressor",
        3,
        [data],
        domain=ML,
        n_targets=targets,
        aggregate_function=aggregate,
        base_values=base,
        free=True,
        **attrs,
    )
    assert_like_onnx_runtime(model, {"x0": data})


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("shift", [0.0, 0.2])
@pytest.mark.parametrize(
    "classes, voted, base",
    [(2, [0], []), (2, [0], [0.3]), (2, [1], []), (3, [0, 1, 2], []), (4, [0, 1, 2, 3], [0.1, 0.3, 0.2, 0.0])],
)
@pytest.mark.newer_onnxruntime
def test_a_forest_chooses_onnx_runtimes_class(
    classes: int, voted: list[int], base: list[float], shift: float, transform: str
) -> None:
    """But with PROBIT of one score for two classes, of which ONNX Runtime leaves half unset."""
    transform = "NONE" if voted == [0] and transform == "PROBIT" else transform
    attrs = forest("class", voted, shift, ("BRANCH_LEQ",)) | ({"base_values": base} if base else {})
    data = rows()
    model = single_node(
        "TreeEnsembleClassifier",
        1,
        [data],
        outputs=2,
        domain=ML,
        classlabels_int64s=[7, 3, 11, 5][:classes],
        post_transform=transform,
        **attrs,
    )
    with np.errstate(all="ignore"):
        assert_like_onnx_runtime(model, {"x0": data})


def test_votes_for_both_of_two_classes_choose_the_greater() -> None:
    """By ONNX's text: ONNX Runtime answers with 0 and 1 there, whatever the classes are called."""
    data, attrs = rows(), forest("class", [0, 1])
    model = single_node("TreeEnsembleClassifier", 1, [data], outputs=2, domain=ML, classlabels_int64s=[7, 3], **attrs)
    labels, scores = ours(model, {"x0": data})
    np.testing.assert_array_equal(labels, np.array([7, 3])[scores.argmax(1)])


def test_doubles_of_a_forest_are_compared_as_doubles() -> None:
    """Against ONNX Runtime, on thresholds that float32 does not distinguish."""
    attrs = forest("target", [0], 0.2, ("BRANCH_LEQ",))
    values = np.array(attrs.pop("nodes_values")) + 1e-12
    weights = np.array(attrs.pop("target_weights"))
    data = rows("float64")
    model = single_node(
        "TreeEnsembleRegressor",
        3,
        [data],
        domain=ML,
        n_targets=1,
        nodes_values_as_tensor=numpy_helper.from_array(values),
        target_weights_as_tensor=numpy_helper.from_array(weights),
        **attrs,
    )
    assert_like_onnx_runtime(model, {"x0": data})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_numbered_trees_with_sets_are_onnx_runtimes(aggregate: int, dtype: str) -> None:
    data = np.array([[1, 2], [3, 4], [5, 1], [2, 0], [7, -1], [np.nan, 4]], dtype)

    def tensor(values: list, kind: str = dtype):
        return numpy_helper.from_array(np.array(values, kind))

    model = single_node(
        "TreeEnsemble",
        5,
        [data],
        domain=ML,
        n_targets=2,
        aggregate_function=aggregate,
        tree_roots=[0, 3],
        nodes_featureids=[0, 1, 0, 1],
        nodes_modes=tensor([6, 0, 6, 3], "uint8"),
        nodes_splits=tensor([0, 1.5, 0, 0.5]),
        nodes_truenodeids=[1, 0, 2, 4],
        nodes_falsenodeids=[2, 1, 3, 5],
        nodes_trueleafs=[0, 1, 1, 1],
        nodes_falseleafs=[0, 1, 1, 1],
        leaf_targetids=[0, 1, 0, 1, 0, 1],
        leaf_weights=tensor([1, 2, 3, 4, 5, 6]),
        membership_values=tensor([1, 2, 5, np.nan, 7, np.nan]),
    )
    assert_like_onnx_runtime(model, {"x0": data})


def test_damaged_trees_are_refused() -> None:
    attrs, data = forest("target", [0]), rows()
    for name, value, message in (
        ("nodes_truenodeids", 77, r"tree and node \(0, 77\) do not exist"),
        ("nodes_featureids", 9, "has the feature 9, there are 3"),
        ("target_ids", 4, "has the target 4, there are 1"),
    ):
        damaged = attrs | {name: [value, *attrs[name][1:]]}
        model = single_node("TreeEnsembleRegressor", 3, [data], domain=ML, n_targets=1, **damaged)
        with pytest.raises(ImportModelError, match=message):
            ours(model, {"x0": data})
    loop = attrs | {
        "nodes_truenodeids": [0] * len(attrs["nodes_modes"]),
        "nodes_falsenodeids": [0] * len(attrs["nodes_modes"]),
    }
    with pytest.raises(Exception, match="has a cycle"):
        ours(single_node("TreeEnsembleRegressor", 3, [data], domain=ML, n_targets=1, **loop), {"x0": data})


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [2, 3])
def test_a_linear_regressor_is_onnx_runtimes(targets: int, transform: str) -> None:
    data = RNG.random((9, 4)).astype("float32")
    numbers = {"coefficients": (RNG.random(4 * targets) / 8).tolist(), "intercepts": (RNG.random(targets) / 4).tolist()}
    model = single_node("LinearRegressor", 1, [data], domain=ML, targets=targets, post_transform=transform, **numbers)
    assert_like_onnx_runtime(model, {"x0": data})


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("transform", TRANSFORMS[:4])
@pytest.mark.parametrize("scores, labels", [(1, [3, 7]), (2, [3, 7]), (3, [4, 5, 9])])
@pytest.mark.newer_onnxruntime
def test_a_linear_classifier_is_onnx_runtimes(scores: int, labels: list[int], transform: str, dtype: str) -> None:
    data = (RNG.standard_normal((9, 4)) * 3).astype(dtype)
    numbers = {
        "coefficients": RNG.standard_normal(4 * scores).tolist(),
        "intercepts": RNG.standard_normal(scores).tolist(),
    }
    model = single_node(
        "LinearClassifier",
        1,
        [data],
        domain=ML,
        outputs=2,
        classlabels_ints=labels,
        post_transform=transform,
        **numbers,
    )
    assert_like_onnx_runtime(model, {"x0": data})


FEATURES = [
    ("Scaler", {"offset": [1.0, 2.0, 3.0, 4.0], "scale": [0.5, 0.1, 2.0, 3.0]}),
    ("Scaler", {"offset": [1.0], "scale": [0.5]}),
    ("Normalizer", {"norm": "MAX"}),
    ("Normalizer", {"norm": "L1"}),
    ("Normalizer", {"norm": "L2"}),
    ("OneHotEncoder", {"cats_int64s": [0, 1, 2, -3]}),
    ("FeatureVectorizer", {"inputdimensions": [4]}),
    ("FeatureVectorizer", {"inputdimensions": [6]}),
    ("FeatureVectorizer", {"inputdimensions": [3]}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("op, attrs", FEATURES)
def test_features_are_made_as_onnx_runtime_does(op: str, attrs: dict, dtype: str) -> None:
    data = (RNG.standard_normal((5, 4)) * 3).astype(dtype)
    data[2] = 0
    if op == "OneHotEncoder" and dtype == "int32":  # ONNX Runtime has no kernel for these
        data = data.astype("int64")
    assert_like_onnx_runtime(single_node(op, 1, [data], domain=ML, **attrs), {"x0": data})


def test_absent_values_and_thresholds_are_onnx_runtimes() -> None:
    data = (RNG.standard_normal((5, 4)) * 3).astype("float32")
    assert_like_onnx_runtime(single_node("Binarizer", 1, [data], domain=ML, threshold=1.0), {"x0": data})
    data[2, 3], data[0, 1] = np.nan, -1
    for attrs in (
        {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")},
        {"imputed_value_floats": [5.0], "replaced_value_float": -1.0},
    ):
        assert_like_onnx_runtime(single_node("Imputer", 1, [data], domain=ML, **attrs), {"x0": data})
    whole = np.array([[0, 3], [5, 0]], "int64")
    model = single_node("Imputer", 1, [whole], domain=ML, imputed_value_int64s=[7, 8], replaced_value_int64=0)
    assert_like_onnx_runtime(model, {"x0": whole})


def test_a_value_that_is_no_category_is_an_error_of_the_run() -> None:
    known, unknown = np.array([[2, 0], [0, 5]], "int64"), np.array([[2, 4]], "int64")
    model = single_node("OneHotEncoder", 1, [known], domain=ML, cats_int64s=[0, 2, 5], zeros=0)
    assert_like_onnx_runtime(model, {"x0": known})
    model = single_node("OneHotEncoder", 1, [unknown], domain=ML, cats_int64s=[0, 2, 5], zeros=0)
    with pytest.raises(Exception, match="a value is none of the 3 categories"):
        ours(model, {"x0": unknown})


@pytest.mark.parametrize("shape", [(5, 4), (4,), (2, 3, 4)])
def test_features_are_taken_as_onnx_runtime_does(shape: tuple[int, ...]) -> None:
    inputs = [RNG.standard_normal(shape).astype("float32"), np.array([[0, 3, 1]])]
    assert_like_onnx_runtime(single_node("ArrayFeatureExtractor", 1, inputs, domain=ML), feeds_of(inputs))


@pytest.mark.parametrize(
    "opset, data, attrs",
    [
        (2, np.array([[3, 4, 5], [-1, 3, 9]]), {"keys_int64s": [9, 3, 4], "values_int64s": [1, 2, 3]}),
        (2, np.array([3, 4, 9]), {"keys_int64s": [9, 3, 3], "values_floats": [1.0, 2.0, 3.0]}),
        (
            2,
            np.array([1.5, 2, -0.0, 7], "float32"),
            {"keys_floats": [1.5, 2.0, 0.0], "values_int64s": [9, 8, 7], "default_int64": -5},
        ),
        (4, np.array([1.5, np.nan, 2], "float32"), {"keys_floats": [float("nan"), 1.5], "values_floats": [7.0, 9.0]}),
    ],
)
def test_labels_are_onnx_runtimes(opset: int, data: np.ndarray, attrs: dict) -> None:
    assert_like_onnx_runtime(single_node("LabelEncoder", opset, [data], domain=ML, **attrs), {"x0": data})


@pytest.mark.parametrize("keys, values", [("float64", "float64"), ("int64", "float64"), ("float64", "int64")])
def test_labels_of_tensors_are_onnx_runtimes(keys: str, values: str) -> None:
    data = np.array([3, 9, -1], keys)
    model = single_node(
        "LabelEncoder",
        4,
        [data],
        domain=ML,
        keys_tensor=numpy_helper.from_array(np.array([9, 3], keys)),
        values_tensor=numpy_helper.from_array(np.array([4, 5], values)),
        default_tensor=numpy_helper.from_array(np.array([6], values)),
    )
    assert_like_onnx_runtime(model, {"x0": data})


OPTIMISERS = [
    ("Adagrad", 3, {"norm_coefficient": 0.1, "epsilon": 1e-3, "decay_factor": 0.2}),
    ("Adam", 4, {"norm_coefficient": 0.1, "alpha": 0.8, "beta": 0.9, "epsilon": 1e-3, "norm_coefficient_post": 0.05}),
    ("Momentum", 3, {"norm_coefficient": 0.1, "alpha": 0.8, "beta": 0.3, "mode": "standard"}),
    ("Momentum", 3, {"norm_coefficient": 0.1, "alpha": 0.8, "beta": 0.3, "mode": "nesterov"}),
]


@pytest.mark.parametrize("number", [0, 3])
@pytest.mark.parametrize("op, lists, attrs", OPTIMISERS)
def test_a_step_of_an_optimiser_is_onnxs(op: str, lists: int, attrs: dict, number: int) -> None:
    """Against ONNX's reference: ONNX Runtime has these for training alone."""
    inputs = [np.array(0.1, "float32"), np.array(number, "int64")]
    inputs += [RNG.random(shape).astype("float32") for _ in range(lists) for shape in ((3,), (2, 2))]
    model = single_node(op, 1, inputs, domain="ai.onnx.preview.training", outputs=2 * (lists - 1), **attrs)
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(model).run(None, feeds_of(inputs))
        got = ours(model, feeds_of(inputs))
    for found, expected in zip(got, wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def machine(kernel: str, classes: int, features: int, counts: list[int]) -> dict:
    """Attributes of a support vector machine with random vectors."""
    total = sum(counts)
    return {
        "kernel_type": kernel,
        "kernel_params": [0.4, 0.3, 3.0],
        "support_vectors": RNG.standard_normal(total * features).tolist(),
        "coefficients": RNG.standard_normal(total * max(classes - 1, 1)).tolist(),
    }


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_a_support_vector_regressor_is_onnx_runtimes(kernel: str, one_class: int) -> None:
    data = RNG.standard_normal((9, 4)).astype("float32")
    attrs = machine(kernel, 1, 4, [6])
    model = single_node("SVMRegressor", 1, [data], domain=ML, n_supports=6, rho=[0.2], one_class=one_class, **attrs)
    assert_like_onnx_runtime(model, {"x0": data})


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("probable", [False, True])
@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("counts", [[3, 2], [2, 4, 1], [1, 2, 3, 2]])
def test_a_support_vector_classifier_is_onnx_runtimes(
    counts: list[int], kernel: str, probable: bool, dtype: str
) -> None:
    data, classes = (RNG.standard_normal((9, 4)) * 1.5).astype(dtype), len(counts)
    pairs = classes * (classes - 1) // 2
    attrs = machine(kernel, classes, 4, counts) | {"rho": RNG.standard_normal(pairs).tolist()}
    if probable:
        attrs |= {"prob_a": (-1 - RNG.random(pairs)).tolist(), "prob_b": RNG.standard_normal(pairs).tolist()}
    labels = [4, 9, 2, 7][:classes]
    model = single_node(
        "SVMClassifier", 1, [data], domain=ML, outputs=2, classlabels_ints=labels, vectors_per_class=counts, **attrs
    )
    assert_like_onnx_runtime(model, {"x0": data})


def test_a_classifier_without_support_vectors_is_onnx_runtimes() -> None:
    data = RNG.standard_normal((9, 4)).astype("float32")
    attrs = {"coefficients": RNG.standard_normal(12).tolist(), "rho": [0.3], "kernel_params": [0.0, 0.0, 0.0]}
    model = single_node("SVMClassifier", 1, [data], domain=ML, outputs=2, classlabels_ints=[4, 9, 2], **attrs)
    assert_like_onnx_runtime(model, {"x0": data})
