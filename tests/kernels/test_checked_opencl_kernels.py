"""``BYOC_CHECK`` looks at what each kernel in OpenCL C leaves in device memory, and names the one that is wrong."""

import numpy as np
import pytest
from saved_run import NEGATIVE_OF_RELU, run_saved

import byoc
from byoc import relay
from byoc.kernels import OpenCLSource, kernel
from byoc.runtime.errors import ContractError

pytestmark = pytest.mark.needs_opencl
PLACE = "arm/float/any"
HEAD = "__kernel void KERNEL(__global const IN0_TYPE *x, __global OUT0_TYPE *out SIZES) { const long i = "
HEAD += "get_global_id(0); "
NEGATIVE = HEAD + "out[i] = -x[i]; }"
RIGHT = HEAD + "out[i] = x[i] < 0 ? 0 : x[i]; }"
MISTAKES = {
    "behind": (RIGHT[:-1] + "if (i == 0) out[OUT0_SIZE] = 1; }", "it wrote 4 bytes behind the end of its output 0"),
    "before": (RIGHT[:-1] + "if (i == 0) out[-1] = 1; }", "it wrote 4 bytes before the beginning of its output 0"),
    "unset": (
        RIGHT.replace("out[i] =", "if (i) out[i] ="),
        r"it left 1 of 12 elements of its output 0 \(buffer \d\) unset",
    ),
    "input": (RIGHT[:-1] + "if (i == 0) ((__global IN0_TYPE *)x)[0] = 7; }", r"it wrote to its input 0 \(\w+\)"),
    "nan": (RIGHT[:-1] + "if (i == 0) out[0] = NAN; }", r"its output 0 \(buffer \d\) has NaN in 1 of 12"),
    "beside an input": (HEAD + "out[i] = x[i + 1]; }", r"its output 0 \(buffer \d\) has NaN in 1 of 12"),
}
X = np.float32([[-1, 2, -3, 4]] * 3)


def model(rows=3):
    x = relay.var("x", shape=(rows, 4))
    inner = relay.nn.relu(relay.negative(x))
    return byoc.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.negative(inner), relay.negative(x)])))


def declared(relu):
    kernel("nn.relu", PLACE)(OpenCLSource(relu))
    kernel("negative", PLACE)(OpenCLSource(NEGATIVE))


@pytest.mark.parametrize("rows", [3, relay.Any("rows")], ids=["static", "free"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_one_kernel_of_a_region_is_found_where_it_is(mistake, rows, monkeypatch):
    text, sentence = MISTAKES[mistake]
    declared(text)
    monkeypatch.setenv("BYOC_CHECK", "1")
    library = byoc.compile(model(rows), ["arm", "c"])
    assert len(library.plan.regions) == 1
    with pytest.raises(ContractError, match=rf"on arm failed at launch: kernel nn.relu:\S+, step 2 of 3: {sentence}"):
        library(X)


@pytest.mark.parametrize("rows", [3, relay.Any("rows")], ids=["static", "free"])
@pytest.mark.parametrize("asked", ["1", "outputs,inputs", "edges", "nan"])
def test_kernels_that_keep_to_their_buffers_give_what_they_gave(asked, rows, monkeypatch):
    declared(RIGHT)
    monkeypatch.setenv("BYOC_CHECK", asked)
    library = byoc.compile(model(rows), ["arm", "c"])
    for k in range(3):
        one, two = library(X + k)
        np.testing.assert_array_equal(one, -np.maximum(-(X + k), 0))
        np.testing.assert_array_equal(two, -(X + k))


ADD = HEAD.replace("*x,", "*a, __global const IN1_TYPE *b,") + "out[i] = a[i] + TERM; }"
WITH_CONSTANTS = {
    "right": ("b[i % 4]", None),
    "writes": ("b[i % 4]; if (i == 0) ((__global IN1_TYPE *)b)[0] += 1", "it wrote to its constant "),
    "writes behind": (
        "b[i % 4]; if (i == 0) ((__global IN1_TYPE *)b)[IN1_SIZE] = 3",
        "it wrote 4 bytes behind the end of its constant ",
    ),
    "writes before": (
        "b[i % 4]; if (i == 0) ((__global IN1_TYPE *)b)[-1] = 3",
        "it wrote 4 bytes before the beginning of its constant ",
    ),
    "reads behind": ("b[i]", r"its output 0 \(\w+\) has NaN in 8 of 12 elements, the first at \[4\]"),
}


@pytest.mark.parametrize("use", WITH_CONSTANTS)
def test_a_kernel_that_writes_to_a_constant_or_goes_beyond_it_is_found(use, monkeypatch):
    term, sentence = WITH_CONSTANTS[use]
    kernel("add", PLACE)(OpenCLSource(ADD.replace("TERM", term)))
    x = relay.var("x", shape=(3, 4))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const(np.float32([1, 2, 3, 4])))))
    monkeypatch.setenv("BYOC_CHECK", "1")
    library = byoc.compile(mod, ["arm", "c"])
    for _ in range(2):
        if sentence is None:
            np.testing.assert_array_equal(library(X), X + np.float32([1, 2, 3, 4]))
        else:
            with pytest.raises(ContractError, match=rf"kernel add:\S+, step 1 of 1: {sentence}"):
                library(X)


@pytest.mark.parametrize("mistake", ["none", "unset"])
def test_it_is_found_in_what_was_saved_by_the_runtime_alone(mistake, monkeypatch, tmp_path):
    declared(RIGHT if mistake == "none" else MISTAKES[mistake][0])
    byoc.compile(model(relay.Any("rows")), ["arm", "c"]).save(tmp_path / "m.byoc")
    monkeypatch.setenv("BYOC_CHECK", "1")
    printed, problem = run_saved(tmp_path / "m.byoc")
    if mistake == "none":
        assert printed == NEGATIVE_OF_RELU, problem
    else:
        assert "step 2 of 3: it left 1 of 4 elements of its output 0 (buffer " in problem


def test_with_fallback_a_mistake_is_recorded_and_the_host_computes(monkeypatch):
    declared(MISTAKES["behind"][0])
    monkeypatch.setenv("BYOC_CHECK", "1")
    library = byoc.compile(model(), ["arm", "c"], fallback=True)
    np.testing.assert_array_equal(library(X)[0], -np.maximum(-X, 0))
    assert "kernel nn.relu" in str(library.fallbacks[0])
