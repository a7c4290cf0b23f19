"""Random numbers of the importer: their distributions, and what makes them the same or others."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_single_node import ours, single_node

import byoc
from byoc.errors import ImportModelError

COUNT = 100_000
DEVIATIONS = 5.0  # how far a mean of so many may lie from what is expected


def near(found: np.ndarray, mean: float, deviation: float) -> bool:
    return abs(float(found.mean()) - mean) < DEVIATIONS * deviation / np.sqrt(found.size)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("opset", [1, 22])
def test_uniform_numbers_fill_their_interval(opset: int, dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = single_node("RandomUniform", opset, [], shape=[COUNT], low=-1.0, high=3.0, dtype=kind)
    (found,) = ours(model, {})
    found = found.astype("float64") if found.dtype == dtype else found[:0]
    assert found.shape == (COUNT,) and found.min() >= -1 and found.max() <= 3
    assert near(found, 1.0, 4 / np.sqrt(12)) and near((found - 1) ** 2, 4 / 3, 1.2)
    assert np.histogram(found, 20, (-1, 3))[0].min() > COUNT / 20 * 0.9


def test_normal_numbers_have_their_moments() -> None:
    like = np.zeros((100, COUNT // 100), "float32")
    (found,) = ours(single_node("RandomNormalLike", 1, [like], mean=2.0, scale=3.0), {"x0": like})
    assert (found.shape, found.dtype) == (like.shape, "float32")
    unit = (found.astype("float64") - 2) / 3
    assert near(unit, 0, 1) and near(unit**2, 1, np.sqrt(2)) and near(unit**3, 0, np.sqrt(15))


def test_classes_are_drawn_by_their_chances() -> None:
    chances = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        data = np.log(chances).astype("float32")
    model = single_node("Multinomial", 7, [data], sample_size=COUNT, dtype=TensorProto.INT64)
    (found,) = ours(model, {"x0": data})
    assert (found.shape, found.dtype) == ((2, COUNT), "int64")
    for row, expected in zip(found, chances, strict=True):
        assert all(near(row == k, p, 0.5) for k, p in enumerate(expected))


def test_coins_fall_by_their_chances() -> None:
    data = np.repeat(np.array([[0.0], [0.3], [1.0]], "float32"), COUNT, axis=1)
    (found,) = ours(single_node("Bernoulli", 15, [data], seed=1.0), {"x0": data})
    assert found[0].max() == 0 and found[2].min() == 1 and near(found[1], 0.3, np.sqrt(0.21))


def numbers(name: str, **attrs: object) -> np.ndarray:
    model = single_node("RandomNormal", 1, [], shape=[50], **attrs)
    model.graph.node[0].name = name
    return ours(model, {})[0]


def test_a_seed_or_else_the_name_of_a_node_says_which_numbers() -> None:
    np.testing.assert_array_equal(numbers("a", seed=3.5), numbers("b", seed=3.5))
    np.testing.assert_array_equal(numbers("a"), numbers("a"))
    for other in (numbers("b"), numbers("a", seed=0.0), numbers("a", seed=3.5)):
        assert (numbers("a") != other).all()


@pytest.mark.needs_cc
def test_a_compiled_model_has_the_interpreters_numbers() -> None:
    like = np.ones((4, 5), "float32")
    model = single_node("RandomNormalLike", 1, [like])
    found = byoc.compile(model).run({"x0": like})
    np.testing.assert_array_equal(np.asarray(found[0]), ours(model, {"x0": like})[0])


def test_sizes_that_are_absurd_are_refused() -> None:
    with pytest.raises(ImportModelError, match="at most 16777216 elements"):
        ours(single_node("RandomNormal", 1, [], shape=[1 << 20, 1 << 20]), {})


LIKE = [("RandomUniformLike", 1, {}), ("RandomNormalLike", 1, {"mean": 2.0}), ("Bernoulli", 15, {})]


@pytest.mark.needs_cc
@pytest.mark.parametrize(("op", "opset", "attrs"), [*LIKE, ("Multinomial", 7, {"sample_size": 40})])
def test_free_sizes_have_the_numbers_of_fixed_ones(op: str, opset: int, attrs: dict, tmp_path: Path) -> None:
    first = np.full((3, 5), 0.5, "float32")
    saved = byoc.compile(single_node(op, opset, [first], free=True, **attrs)).save(tmp_path / "model.byoc")
    loaded = byoc.load(saved)
    for like in (first, np.full((7, 2), 0.5, "float32")):
        (found,) = loaded.run({"x0": like})
        (wanted,) = ours(single_node(op, opset, [like], **attrs), {"x0": like})
        np.testing.assert_array_equal(found, wanted)
        assert len(np.unique(found)) > 1


@pytest.mark.needs_cc
def test_a_dropout_in_training_takes_free_sizes() -> None:
    ratio, training = np.array(0.5, "float32"), np.array(True)
    ones = np.ones((40, 50), "float32")
    model = single_node("Dropout", 12, [ones], [ratio, training], outputs=2, free=True, seed=3)
    found, mask = byoc.compile(model).run({"x0": ones})
    assert near(mask, 0.5, 0.5)
    np.testing.assert_array_equal(found, np.where(mask, 2, 0))


@pytest.mark.needs_cc
def test_what_follows_random_numbers_of_free_sizes_is_generated_code() -> None:
    given = np.ones((4, 6), "float32")
    model = single_node("RandomNormalLike", 1, [given], free=True)
    model.graph.node.append(helper.make_node("Exp", ["y0"], ["e"]))
    model.graph.output[0].name = "e"
    library = byoc.compile(model)
    assert all("random.normal_like" in why for why in library.report["host_fallbacks"].values())
    (found,) = library.run({"x0": given})
    (numbers,) = ours(single_node("RandomNormalLike", 1, [given]), {"x0": given})
    np.testing.assert_allclose(found, np.exp(numbers), rtol=1e-5)
