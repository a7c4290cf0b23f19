"""Bad inputs of a run, through the public faces."""

import pathlib

import numpy as np
import pytest

import byoc
from byoc.errors import InputError, UserError
from byoc.runtime.dso.aot import AotExecutor
from byoc.runtime.executors.graph_executor import GraphExecutor

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
pytestmark = pytest.mark.needs_cc
IMAGE = np.zeros((2, 1, 8, 8), "float32")


@pytest.fixture(scope="module", params=["in process", "loaded"])
def library(request, tmp_path_factory):
    made = byoc.compile(DIGITS, targets=["json", "c"], exclude=["nn.softmax"])
    if request.param == "in process":
        return made
    return byoc.runtime.load(made.save(tmp_path_factory.mktemp("run") / "m.byoc"))


def test_a_missing_input_is_named_with_what_is_expected(library):
    with pytest.raises(InputError, match=r"input 'image' is missing; the inputs are image: float32\[batch, 1, 8, 8\]"):
        library.run({})


def test_a_missing_input_is_not_taken_from_the_run_before(library):
    library.run({"image": IMAGE})
    with pytest.raises(InputError, match="input 'image' is missing"):
        library.run({})


def test_an_unknown_input_is_named(library):
    with pytest.raises(InputError, match="the model has no input 'picture'; its inputs are image"):
        library.run({"image": IMAGE, "picture": IMAGE})


def test_a_wrong_number_of_inputs_is_reported_with_their_shapes(library):
    with pytest.raises(InputError, match=r"the model takes 1 inputs \(image\[batch, 1, 8, 8\]\), got 2"):
        library(IMAGE, IMAGE)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 1, 8, 9), r"input 'image': expected shape \[batch, 1, 8, 8\] with batch=2, got \[2, 1, 8, 9\]"),
        ((64,), r"expected shape \[batch, 1, 8, 8\].*, got \[64\]"),
        ((), r"expected shape \[batch, 1, 8, 8\].*, got \[\]"),
        ((1, 1, 1, 8, 8), r"expected shape \[batch, 1, 8, 8\].*, got \[1, 1, 1, 8, 8\]"),
    ],
)
def test_a_misshapen_input_is_named(library, shape, message):
    with pytest.raises(InputError, match=message):
        library(np.zeros(shape, "float32"))


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8", "bool"])
def test_an_input_of_another_dtype_is_named_with_the_way_out(library, dtype):
    message = rf"input 'image': expected dtype float32, got {dtype}; convert it with \.astype\('float32'\)"
    with pytest.raises(InputError, match=message):
        library(IMAGE.astype(dtype))


def test_a_library_works_after_a_refusal(library):
    expected = library(IMAGE)
    with pytest.raises(InputError):
        library(np.zeros((3, 1, 8, 9), "float32"))
    np.testing.assert_array_equal(library(IMAGE), expected)


def test_what_is_no_array_is_refused(library):
    for thing in ("image", None, {"a": 1}, [[1, 2], [3]]):
        with pytest.raises(InputError, match="input 'image': "):
            library(thing)


@pytest.mark.parametrize("kind", ["executor", "graph_executor"])
def test_the_executors_say_the_same(library, kind):
    executor = getattr(library, kind)()
    assert isinstance(executor, AotExecutor if kind == "executor" else GraphExecutor)
    with pytest.raises(UserError, match="there is no output yet: call run first"):
        executor.get_output(0)
    with pytest.raises(InputError, match="input 'image' is missing"):
        executor.run()
    with pytest.raises(InputError, match="the model has no input 7; its inputs are image"):
        executor.set_input(7, IMAGE)
    with pytest.raises(InputError, match="input 'image': expected dtype float32, got float64"):
        executor.run(image=IMAGE.astype("float64"))


def test_the_inputs_of_run_are_a_dictionary(library):
    with pytest.raises(InputError, match="run takes the inputs by name, as a dictionary, got a ndarray"):
        library.run(IMAGE)


WAYS = {
    "run": lambda library, inputs: library.run(inputs),
    "bind": lambda library, inputs: library.bind([]).run(inputs),
    "map": lambda library, inputs: list(library.map([inputs])),
    "executor": lambda library, inputs: library.executor(1).run(**inputs),
    "prepare": lambda library, inputs: library.prepare({name: v.shape for name, v in inputs.items()}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_no_input_has_is_one_sentence_by_every_way(library, way):
    for inputs in ({"imag": IMAGE}, {"image": IMAGE, "imag": IMAGE}):
        with pytest.raises(InputError, match="^the model has no input 'imag'; its inputs are image$"):
            WAYS[way](library, inputs)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "prepare"])  # which takes sizes from other inputs
def test_an_input_that_is_missing_is_one_sentence_by_every_way(library, way):
    sentence = r"^input 'image' is missing; the inputs are image: float32\[batch, 1, 8, 8\]$"
    with pytest.raises(InputError, match=sentence):
        WAYS[way](library, {})


@pytest.mark.parametrize("way", ["run", "bind", "map"])
def test_inputs_without_names_are_one_sentence_by_every_way(library, way):
    with pytest.raises(InputError, match="^run takes the inputs by name, as a dictionary, got a ndarray$"):
        WAYS[way](library, IMAGE)


@pytest.mark.parametrize("value", [None, {"image": IMAGE}, object()])
def test_what_is_no_array_is_named_by_its_type(library, value):
    by_name = "; inputs by name are for run: library.run" if isinstance(value, dict) else "$"
    with pytest.raises(InputError, match=f"input 'image': a {type(value).__name__} is no array{by_name}"):
        library(value)


def test_nested_lists_of_numbers_take_the_dtype_of_the_input(library):
    np.testing.assert_array_equal(library(IMAGE.tolist()), library(IMAGE))
    np.testing.assert_array_equal(library(IMAGE.astype(int).tolist()), library(IMAGE))


@pytest.mark.parametrize("kind", ["executor", "graph_executor"])
@pytest.mark.parametrize("index", [1, -1, "probabilities"])
def test_an_output_that_is_not_there_is_refused(library, index, kind):
    executor = getattr(library, kind)()
    executor.run(image=IMAGE)
    with pytest.raises(UserError, match=f"the outputs are numbered from 0 to 0, got {index!r}"):
        executor.get_output(index)
