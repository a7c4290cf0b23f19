"""scikit-learn's estimators and pipelines as ONNX models, by skl2onnx.

Neither is imported unless an estimator is given. What scikit-learn was fitted on says the inputs: one matrix ``X``, or,
where it was a DataFrame whose columns a ColumnTransformer picks by name, an input for each column. Numbers are float32,
as skl2onnx has them; strings and integers are asked for where an encoder or a vectorizer learnt such. Classifiers give
labels and a tensor of probabilities.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from onnx import ModelProto

from byoc.driver.model import is_estimator
from byoc.errors import ImportModelError, UnavailableError, UserError, in_one_line
from byoc.runtime.core.entry_points import install_command

MACHINE_LEARNING, MACHINE_LEARNING_OPSET = "ai.onnx.ml", 3  # the newest that all of skl2onnx's converters take
MATRIX, ROWS = "X", "rows"  # the name of the one input, and of the free size of all
FLOAT, INTEGER, TEXT = "FloatTensorType", "Int64TensorType", "StringTensorType"
_KINDS = {"O": TEXT, "U": TEXT, "S": TEXT, "T": TEXT, "i": INTEGER, "u": INTEGER}
_DEFAULT_WORDS = r"(?u)\b\w\w+\b"  # what scikit-learn's vectorizers take for a word, and the same for RE2
_RE2_WORDS = r"[\pL\pN_][\pL\pN_]+"


def onnx_of_estimator(model: object) -> ModelProto:
    """The ONNX model of a fitted estimator or pipeline, whose number of rows is free.

    Raises:
        ImportModelError: an estimator that is not fitted, or that skl2onnx does not convert.
        UnavailableError: skl2onnx is not installed.
    """
    name = f"<{type(model).__name__}>"
    converter = _skl2onnx(name)
    _check_fitted(model, name)
    types = importlib.import_module("skl2onnx.common.data_types")
    inputs = [(n, getattr(types, kind)([None, *sizes])) for n, kind, sizes in _inputs(model, name)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = _converted(converter, model, inputs)
    except UserError:
        raise
    except Exception as error:  # the converters raise whatever they find
        raise ImportModelError(f"{name}: skl2onnx does not convert it: {in_one_line(error)}") from error
    for value in made.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = ROWS
    return made


def _converted(converter: ModuleType, model: object, inputs: Sequence[tuple[str, object]]) -> ModelProto:
    words, last = _word_options(model), id(_last(model))
    opsets = {"": converter.get_latest_tested_opset_version(), MACHINE_LEARNING: MACHINE_LEARNING_OPSET}
    # a tensor of probabilities, no list of dictionaries; without an option of its own skl2onnx would ask for these of a
    # classifier that has no such option, which is a NameError
    own: Sequence[dict[str, object]] = ({"zipmap": False}, {"nocl": False}) if hasattr(_last(model), "classes_") else ()
    for options in own:
        try:
            made: ModelProto = converter.to_onnx(
                model, initial_types=inputs, options={**words, last: options}, target_opset=opsets
            )
            return made
        except NameError:
            continue
    made = converter.to_onnx(model, initial_types=inputs, options=words, target_opset=opsets)
    return made


def _skl2onnx(name: str) -> ModuleType:
    try:
        return importlib.import_module("skl2onnx")
    except ImportError as error:
        raise UnavailableError(
            f"{name}: an estimator of scikit-learn needs skl2onnx ({error.name} is missing); install it: "
            f"{install_command('sklearn')}"
        ) from error


def _check_fitted(model: object, name: str) -> None:
    """Raises ImportModelError for an estimator that has not learnt anything yet."""
    validation = importlib.import_module("sklearn.utils.validation")
    unfitted = importlib.import_module("sklearn.exceptions").NotFittedError
    try:
        for part in [model, *(part for part in _parts(model) if hasattr(part, "fit"))]:
            validation.check_is_fitted(part)
    except unfitted as error:
        raise ImportModelError(f"{name}: it is not fitted; call fit(X, y) before it is compiled") from error
    except TypeError as error:  # what cannot be fitted
        raise ImportModelError(f"{name}: is no estimator that can be fitted ({error}); give a fitted object") from error


def _parts(model: Any) -> Iterator[Any]:
    """The estimators inside of *model*, at whatever depth."""
    steps = [step for _, step in getattr(model, "steps", ())]
    steps += [row[1] for row in getattr(model, "transformers_", ())]
    steps += [row[1] for row in getattr(model, "transformer_list", ())]
    steps += [getattr(model, "best_estimator_", None)]
    for step in steps:
        if step is not None and is_estimator(step):
            yield step
            yield from _parts(step)


def _word_options(model: Any) -> dict[int, dict[str, object]]:
    """skl2onnx's options that have texts cut into scikit-learn's own words; without them letters are ASCII's."""
    found: dict[int, dict[str, object]] = {}
    for part in [model, *_parts(model)]:
        if getattr(part, "token_pattern", None) == _DEFAULT_WORDS and getattr(part, "analyzer", "") == "word":
            found[id(part)] = {"tokenexp": _RE2_WORDS}
    return found


def _last(model: Any) -> Any:
    """What gives the outputs: the last step of pipelines, at whatever depth."""
    while getattr(model, "steps", None) or hasattr(model, "best_estimator_"):
        model = model.steps[-1][1] if getattr(model, "steps", None) else model.best_estimator_
    return model


Input = tuple[str, str, Sequence[int]]  # name, skl2onnx's class of the type, sizes behind the rows


def _inputs(model: Any, name: str) -> list[Input]:
    """The inputs of *model*, from what it was fitted on."""
    first = _first(model)
    if _is_vectorizer(first):
        return [(MATRIX, TEXT, ())]
    count = getattr(model, "n_features_in_", getattr(first, "n_features_in_", None))
    if count is None:
        raise ImportModelError(
            f"{name}: it does not say how many features it was fitted on; convert it by skl2onnx.to_onnx(model, X) and "
            "give what that returns"
        )
    kinds = [_kind(found) for found in _kinds(first, int(count))]
    columns = [] if not hasattr(first, "transformers_") else getattr(first, "feature_names_in_", [])
    if len(columns):
        taken = {
            p for _, part, which in first.transformers_ if part != "drop" for p in _places(first, which, len(columns))
        }
        return [(str(columns[k]), kind, (1,)) for k, kind in enumerate(kinds) if k in taken]
    if len(set(kinds)) > 1 and TEXT in kinds:
        raise ImportModelError(
            f"{name}: it was fitted on one array with numbers and strings, which no tensor holds; fit it on a "
            "DataFrame, and pick its columns by name"
        )
    return [(MATRIX, kinds[0] if len(set(kinds)) == 1 else FLOAT, (int(count),))]


def _first(model: Any) -> Any:
    """What looks at the inputs first: the first step of pipelines, at whatever depth."""
    while True:
        steps = [step for _, step in getattr(model, "steps", ()) if step is not None and step != "passthrough"]
        inner = steps[0] if steps else getattr(model, "best_estimator_", None)
        if inner is None:
            return model
        model = inner


def _is_vectorizer(part: Any) -> bool:
    """Whether *part* takes texts, as CountVectorizer and TfidfVectorizer do; or all parts of a union do."""
    union = [row[1] for row in getattr(part, "transformer_list", ())]
    return hasattr(part, "token_pattern") or (bool(union) and all(_is_vectorizer(_first(inner)) for inner in union))


def _kinds(part: Any, count: int) -> list[set[str]]:
    """For each of *count* columns the kinds of elements that *part* was fitted on, or what stands in it was."""
    found: list[set[str]] = [set() for _ in range(count)]
    for _, inner, columns in getattr(part, "transformers_", ()):
        if not is_estimator(inner):
            continue
        places = _places(part, columns, count)
        first = _first(inner)
        inside = [{TEXT}] * len(places) if _is_vectorizer(first) else _kinds(first, len(places))
        for place, kinds in zip(places, inside, strict=True):
            found[place] |= kinds
    for row in getattr(part, "transformer_list", ()):
        for place, kinds in enumerate(_kinds(_first(row[1]), count)):
            found[place] |= kinds
    learnt = getattr(part, "categories_", None)
    if learnt is None and hasattr(part, "statistics_"):
        learnt = [part.statistics_] * count
    for place, table in enumerate(learnt[:count] if learnt is not None else ()):
        found[place].add(_KINDS.get(table.dtype.kind, FLOAT))
    return found


def _kind(kinds: set[str]) -> str:
    return next((kind for kind in (TEXT, FLOAT, INTEGER) if kind in kinds), FLOAT)


def _places(part: Any, columns: Any, count: int) -> list[int]:
    """The numbers of the *columns* that a ColumnTransformer gives to one of its transformers."""
    names = list(getattr(part, "feature_names_in_", []))
    if callable(columns):
        return []
    if isinstance(columns, slice):
        start = names.index(columns.start) if isinstance(columns.start, str) else columns.start
        # pandas' slices by name include their end
        stop = names.index(columns.stop) + 1 if isinstance(columns.stop, str) else columns.stop
        return list(range(count))[start : stop : columns.step]
    listed: Iterable[Any] = [columns] if isinstance(columns, (str, int)) else list(columns)
    found = list(listed)
    if found and all(str(one) in ("True", "False") for one in found):
        return [place for place, chosen in enumerate(found) if chosen]
    return [names.index(one) if isinstance(one, str) else int(one) % count for one in found]
