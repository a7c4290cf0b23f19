"""scikit-learn's estimators as models, with the real package: its predictions, and ONNX Runtime's outputs."""

import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import byoc
from byoc.driver.model import is_estimator
from byoc.errors import ImportModelError, UnavailableError

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "sklearn.md"
pytestmark = pytest.mark.needs_cc
TEXTS = [
    "the cat sat on the mat",
    "a dog barked at the cat",
    "stocks fell again today",
    "markets rose as stocks do",
]
TEXTS += ["der Hund bellt laut", "Straße und Fluß Café", "one two three", "", "x y z markets"]
KINDS = ["pets", "pets", "money", "money", "pets", "other", "other", "other", "money"]


@pytest.fixture(scope="module")
def sklearn():
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    for name in ("ensemble", "feature_extraction.text", "linear_model", "neighbors", "svm", "compose", "impute"):
        __import__(f"sklearn.{name}")
    return sys.modules["sklearn"]


@pytest.fixture(scope="module")
def flowers(sklearn):
    """Rows of features, float32, and their classes by name and by number."""
    rng = np.random.default_rng(0)
    classes = np.arange(120) % 3
    rows = (rng.standard_normal((120, 4)) + classes[:, None]).astype("float32")
    return rows, np.array(["setosa", "versicolor", "virginica"])[classes], classes


def numeric(sklearn, name, labels, numbers):
    """The estimator called *name*, and what it is fitted to."""
    ensemble, svm, neighbors = sklearn.ensemble, sklearn.svm, sklearn.neighbors
    return {
        "forest": (ensemble.RandomForestClassifier(8, random_state=0), labels),
        "boosting": (ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0), labels),
        "boosting_of_numbers": (ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0), numbers * 1.5),
        "svc": (sklearn.pipeline.make_pipeline(sklearn.preprocessing.StandardScaler(), svm.SVC()), labels),
        "svr": (svm.SVR(), numbers * 1.5),
        "linear_svc": (svm.LinearSVC(), labels),
        "neighbours": (neighbors.KNeighborsClassifier(3), labels),
        "scaler": (sklearn.preprocessing.StandardScaler(), numbers),
    }[name]


QUICK = ["forest", "svc", "neighbours"]
MORE = ["boosting", "boosting_of_numbers", "svr", "linear_svc", "scaler"]
NAMES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)]
IN_A_NEW_PROCESS = """
import sys
import numpy as np
import byoc.runtime
inputs = dict(np.load(sys.argv[2]))
outputs = byoc.runtime.load(sys.argv[1]).run(inputs)
assert not any(m.split(".")[0] in ("sklearn", "skl2onnx", "onnx") for m in sys.modules)
np.savez(sys.argv[3], *[np.asarray(v).astype(str) if np.asarray(v).dtype == object else v for v in outputs])
"""


def outputs_of(model, feeds, tmp_path):
    """The outputs of the saved artefact in a new process, which are ONNX Runtime's too."""
    library = byoc.compile(model)
    library.save(tmp_path / "m.byoc")
    np.savez(tmp_path / "in.npz", **{n: a.astype(str) if a.dtype == object else a for n, a in feeds.items()})
    paths = [str(tmp_path / name) for name in ("m.byoc", "in.npz", "out.npz")]
    subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS, *paths], check=True)
    found = list(np.load(paths[2]).values())
    wanted = onnx_outputs(model, feeds)
    for ours, theirs in zip(found, wanted, strict=True):
        if theirs.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        else:
            assert ours.tolist() == theirs.tolist()
    return found


def onnx_outputs(model, feeds):
    """What ONNX Runtime makes of the same model; it has no locale but this machine's, and C is on all."""
    from onnx import helper

    from byoc.driver.sklearn_model import onnx_of_estimator

    converted = onnx_of_estimator(model)
    for node in converted.graph.node:
        if node.op_type == "StringNormalizer":
            node.attribute.append(helper.make_attribute("locale", "C.UTF-8"))
    return onnxruntime.InferenceSession(converted.SerializeToString()).run(None, feeds)


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_of_numbers_predicts_as_scikit_learn(name, sklearn, flowers, tmp_path):
    rows, labels, numbers = flowers
    estimator, wanted = numeric(sklearn, name, labels, numbers)
    estimator.fit(rows, wanted)
    found = outputs_of(estimator, {"X": rows}, tmp_path)
    predict = getattr(estimator, "predict", None) or estimator.transform
    expected = np.asarray(predict(rows))
    if expected.dtype.kind == "U":
        assert found[0].tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(found[0].reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)
    if hasattr(estimator, "predict_proba"):
        np.testing.assert_allclose(found[1], estimator.predict_proba(rows), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("vectorizer", ["tf-idf", "counts of pairs"])
def test_a_pipeline_of_texts_predicts_as_scikit_learn(vectorizer, sklearn, tmp_path):
    text = sklearn.feature_extraction.text
    first = text.TfidfVectorizer() if vectorizer == "tf-idf" else text.CountVectorizer(ngram_range=(1, 2))
    pipeline = sklearn.pipeline.make_pipeline(first, sklearn.linear_model.LogisticRegression()).fit(TEXTS, KINDS)
    given = [*TEXTS, "the Fluß rose again", "a b c"]
    labels, probabilities = outputs_of(pipeline, {"X": np.array(given, object)}, tmp_path)
    assert labels.tolist() == pipeline.predict(given).tolist()
    np.testing.assert_allclose(probabilities, pipeline.predict_proba(given), rtol=1e-4, atol=1e-5)


def test_columns_of_numbers_strings_and_texts_are_inputs_of_their_own(sklearn, tmp_path):
    pandas = pytest.importorskip("pandas", reason="a DataFrame needs pandas")
    compose, preprocessing = sklearn.compose, sklearn.preprocessing
    count = np.arange(36)
    table = pandas.DataFrame(
        {
            "age": (count * 7 % 17) ** 1.3,  # of which none lies halfway between two others, where a tree may split
            "city": np.array(["Paris", "Rome", "Oslo"])[count % 3],
            "size": count % 4,
            "note": [TEXTS[k % len(TEXTS)] for k in count],
            "unused": ["?"] * 36,
        }
    )
    labels = np.where((table.age > 15) ^ (table.city == "Rome"), "yes", "no")
    columns = compose.ColumnTransformer(
        [
            (
                "age",
                sklearn.pipeline.make_pipeline(sklearn.impute.SimpleImputer(), preprocessing.StandardScaler()),
                ["age"],
            ),
            ("kinds", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["city", "size"]),
            ("note", sklearn.feature_extraction.text.CountVectorizer(), "note"),
        ]
    )
    forest = sklearn.ensemble.RandomForestClassifier(8, random_state=0)
    pipeline = sklearn.pipeline.make_pipeline(columns, forest).fit(table, labels)
    dtypes = {"age": "float32", "city": object, "size": "int64", "note": object}
    feeds = {name: table[[name]].values.astype(dtype) for name, dtype in dtypes.items()}
    found, probabilities = outputs_of(pipeline, feeds, tmp_path)
    assert found.tolist() == pipeline.predict(table).tolist()
    np.testing.assert_allclose(probabilities, pipeline.predict_proba(table), atol=1e-5)


def test_the_guide_runs(sklearn, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = GUIDE.read_text().split("```py\n")[1].split("```")[0]
    exec(compile(code, str(GUIDE), "exec"), {})
    assert "pets" in capsys.readouterr().out and (tmp_path / "texts.byoc").exists()


def test_lint_takes_an_estimator(sklearn, flowers):
    rows, labels, _ = flowers
    assert "the model compiles" in str(byoc.lint(sklearn.linear_model.LogisticRegression().fit(rows, labels)))


def test_an_estimator_that_is_not_fitted_says_so(sklearn):
    make = sklearn.pipeline.make_pipeline
    for model in (sklearn.linear_model.LogisticRegression(), make(sklearn.svm.SVC())):
        with pytest.raises(ImportModelError, match="it is not fitted; call fit"):
            byoc.compile(model)


def test_an_estimator_that_nothing_converts_says_so(sklearn, flowers):
    rows, labels, _ = flowers

    class Own(sklearn.linear_model.LogisticRegression):
        pass

    with pytest.raises(ImportModelError, match="<Own>: skl2onnx does not convert it: "):
        byoc.compile(Own().fit(rows, labels))


def test_numbers_and_strings_of_one_array_are_refused(sklearn):
    rows = np.array([["a", 1.0], ["b", 2.0]], object)
    encoder, scaler = sklearn.preprocessing.OneHotEncoder(), sklearn.preprocessing.StandardScaler()
    columns = sklearn.compose.ColumnTransformer([("a", encoder, [0]), ("b", scaler, [1])]).fit(rows)
    with pytest.raises(ImportModelError, match="fit it on a DataFrame, and pick its columns by name"):
        byoc.compile(columns)


def test_without_skl2onnx_an_estimator_says_what_is_missing(monkeypatch):
    base = type("BaseEstimator", (), {"__module__": "sklearn.base"})
    model = type("Model", (base,), {})()
    assert is_estimator(model) and not is_estimator("m.onnx")
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(UnavailableError, match=r"<Model>: an estimator of scikit-learn needs skl2onnx .*\[sklearn\]"):
        byoc.plan(model)
