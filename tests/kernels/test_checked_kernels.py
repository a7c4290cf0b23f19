"""``BYOC_CHECK`` looks at each C kernel inside of a region, whatever executes it, and names the one that is wrong."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from saved_run import NEGATIVE_OF_RELU, run_saved

import byoc
from byoc import relay
from byoc.kernels import CSource, kernel
from byoc.runtime.errors import ContractError

pytestmark = pytest.mark.needs_cc
ARM = "arm/float/any"
HEAD = "void KERNEL(const IN0_TYPE *x, OUT0_TYPE *out SIZES) "
LOOP = "for (int64_t i = 0; i < OUT0_SIZE; ++i) "
NEGATIVE = HEAD + "{ " + LOOP + "out[i] = -x[i]; }"
RIGHT = HEAD + "{ " + LOOP + "out[i] = x[i] < 0 ? 0 : x[i]; }"
MISTAKES = {
    "behind": (RIGHT[:-1] + "out[OUT0_SIZE] = 1; }", "it wrote 4 bytes behind the end of its output 0"),
    "before": (RIGHT[:-1] + "out[-1] = 1; }", "it wrote 4 bytes before the beginning of its output 0"),
    "unset": (
        RIGHT.replace("i = 0", "i = 1"),
        r"it left 1 of \d+ elements of its output 0 \(value_2\) unset, the first at \[0, 0\]",
    ),
    "input": (RIGHT[:-1] + "((IN0_TYPE *)x)[0] = 7; }", r"it wrote to its input 0 \(out1\)"),
    "nan": (RIGHT[:-1] + "out[0] = NAN; }", r"its output 0 \(value_2\) has NaN in 1 of"),
}


def model(rows=3):
    x = relay.var("x", shape=(rows, 4))
    inner = relay.nn.relu(relay.negative(x))
    return byoc.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.negative(inner), relay.negative(x)])))


def declared(relu):
    kernel("nn.relu", ARM)(CSource(relu))
    kernel("negative", ARM)(CSource(NEGATIVE))


@pytest.mark.parametrize("rows", [3, relay.Any("rows")], ids=["static", "free"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_between_the_kernels_of_a_region_is_found_where_it_is(mistake, rows, monkeypatch):
    text, sentence = MISTAKES[mistake]
    declared(text)
    library = byoc.compile(model(rows), ["arm", "c"])
    assert len(library.plan.regions) == 1
    x = np.float32([[-1, 2, -3, 4]] * 3)
    library(x)  # which says nothing
    monkeypatch.setenv("BYOC_CHECK", "1")
    library = byoc.compile(model(rows), ["arm", "c"])
    with pytest.raises(ContractError, match=rf"on arm failed at launch: kernel nn.relu:\S+, step 2 of 3: {sentence}"):
        library(x)


@pytest.mark.parametrize("mistake", ["none", "behind"])
def test_it_is_found_in_what_was_saved_by_the_runtime_alone(mistake, monkeypatch, tmp_path):
    declared(RIGHT if mistake == "none" else MISTAKES[mistake][0])
    byoc.compile(model(relay.Any("rows")), ["arm", "c"]).save(tmp_path / "m.byoc")
    monkeypatch.setenv("BYOC_CHECK", "1")
    printed, problem = run_saved(tmp_path / "m.byoc")
    if mistake == "none":
        assert printed == NEGATIVE_OF_RELU, problem
    else:
        assert "step 2 of 3: it wrote 4 bytes behind the end of its output 0" in problem


def test_a_kernel_of_c_beside_kernels_of_python_is_looked_at_too(monkeypatch):
    monkeypatch.setenv("BYOC_CHECK", "1")
    kernel("nn.relu", ARM)(CSource(MISTAKES["behind"][0]))
    kernel("negative", ARM)(lambda x: np.negative(x))
    with pytest.raises(ContractError, match="kernel nn.relu:.*it wrote 4 bytes behind the end of its output 0"):
        byoc.compile(model(), ["arm", "c"])(np.ones((3, 4), "float32"))


def test_constants_and_values_that_are_outputs_too_are_right_under_checks(monkeypatch):
    declared(RIGHT)
    add = HEAD.replace("x,", "a, const IN1_TYPE *b,") + "{ " + LOOP + "out[i] = a[i] + b[i % IN1_SIZE]; }"
    kernel("add", ARM)(CSource(add))
    x = relay.var("x", shape=(relay.Any("rows"), 4))
    first = relay.nn.relu(relay.add(x, relay.const(np.float32([1, 2, 3, 4]))))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.Tuple([first, relay.negative(first)])))
    value = np.float32([[-3, -2, 0, 1], [1, -9, -9, 0]])
    expected = [np.maximum(value + np.float32([1, 2, 3, 4]), 0), -np.maximum(value + np.float32([1, 2, 3, 4]), 0)]
    for asked in ("0", "1", "outputs,inputs"):
        monkeypatch.setenv("BYOC_CHECK", asked)
        for got, want in zip(byoc.compile(mod, ["arm", "c"])(value), expected, strict=True):
            np.testing.assert_array_equal(got, want)


ADD = HEAD.replace("x,", "a, const IN1_TYPE *b,") + "{ " + LOOP + "out[i] = a[i] + TERM; }"
BESIDE_CONSTANTS = {
    "reads": ("b[i]", r"its output 0 \(out0\) has NaN in 8 of 12 elements, the first at \[1, 0\]"),
    "writes": ("b[i % 4]; ((float *)b)[IN1_SIZE] = 3", "it wrote 4 bytes behind the end of its constant "),
}


def sum_with(constant):
    x = relay.var("x", shape=(3, 4))
    return byoc.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const(np.float32(constant)))))


@pytest.mark.parametrize("checks", ["1", "edges,nan"])
@pytest.mark.parametrize("mistake", BESIDE_CONSTANTS)
def test_a_kernel_that_goes_beyond_a_constant_is_found(mistake, checks, monkeypatch):
    term, sentence = BESIDE_CONSTANTS[mistake]
    kernel("add", ARM)(CSource(ADD.replace("TERM", term)))
    monkeypatch.setenv("BYOC_CHECK", checks)
    with pytest.raises(ContractError, match=rf"kernel add:\S+, step 1 of 1: {sentence}"):
        byoc.compile(sum_with([1, 2, 3, 4]), ["arm", "c"])(np.ones((3, 4), "float32"))


# calls of two threads, one with a mistake, that are in the kernel at the same time (or give up waiting for the other)
MEETING = """static volatile int inside;
static void wait_for(int stage) { for (long k = 0; inside < stage && k < 1000000000; ++k) {} }
"""
BESIDE_IN_ONE = (
    "if (a[0] < 0) { ((float *)b)[IN1_SIZE] = 3; inside = 1; wait_for(2); } else { wait_for(1); inside = 2; }"
)


def test_of_two_calls_at_once_the_one_that_writes_beside_a_constant_is_reported(monkeypatch):
    text = ADD.replace("TERM", "b[i % 4]")[:-1] + BESIDE_IN_ONE + " }"
    kernel("add", ARM)(CSource(MEETING + text))
    monkeypatch.setenv("BYOC_CHECK", "edges")
    library = byoc.compile(sum_with([1, 2, 3, 4]), ["arm", "c"])
    x = np.ones((3, 4), "float32")
    with ThreadPoolExecutor() as pool:
        wrong, right = pool.submit(library.executor(), {"x": -x}), pool.submit(library.executor(), {"x": x})
    assert "it wrote 4 bytes behind the end of its constant " in str(wrong.exception())
    np.testing.assert_array_equal(right.result()[0], x + np.float32([1, 2, 3, 4]))


def test_a_nan_that_a_constant_has_is_no_mistake(monkeypatch):
    kernel("add", ARM)(CSource(ADD.replace("TERM", "b[i % 4]")))
    monkeypatch.setenv("BYOC_CHECK", "1")
    found = byoc.compile(sum_with([1, np.nan, 3, 4]), ["arm", "c"])(np.ones((3, 4), "float32"))
    assert np.isnan(found).tolist() == [[False, True, False, False]] * 3


def test_a_kernel_whose_inputs_are_no_pointers_to_const_is_taken_and_looked_at(monkeypatch):
    declared(RIGHT.replace("const ", ""))
    x = np.float32([[-1, 2, -3, 4]] * 3)
    np.testing.assert_array_equal(byoc.compile(model(), ["arm", "c"])(x)[0], -np.maximum(-x, 0))
    declared(RIGHT.replace("const ", "")[:-1] + "x[0] = 7; }")
    monkeypatch.setenv("BYOC_CHECK", "1")
    with pytest.raises(ContractError, match=r"kernel nn.relu:.*it wrote to its input 0 \(out1\)"):
        byoc.compile(model(), ["arm", "c"])(x)
