"""``BYOC_CHECK`` and generated OpenCL: right code is not reported, and what steps over a buffer is, with its kernel."""

import numpy as np
import pytest
from inverted_residuals import inverted_residuals
from test_index_errors import inputs_of, model_of
from test_opencl_module import SOURCE, WEIGHT, plan

import byoc
from byoc import relay
from byoc.runtime.core.errors import ContractError, IndexOutsideError
from byoc.runtime.core.ndarray import NDArray, array
from byoc.runtime.opencl.module import OpenCLModule
from byoc.runtime.region.checks import CallChecks

pytestmark = pytest.mark.needs_opencl
EVERY = CallChecks()
INPUT = "((__global float *)in)"
MISTAKES = [
    (
        "plus",
        "out[16 * y + N * 3] = 1;",
        r"kernel plus, step 2 of 2: it wrote 4 bytes behind the end of its output \d \(y\)",
    ),
    ("plus", "out[16 * y - 1] = 1;", r"kernel plus, step 2 of 2: it wrote 4 bytes before the beginning of its output"),
    (
        "twice",
        "out[16 * t + N * 3 + 1] = 1;",
        r"kernel twice, step 1 of 2: it wrote 8 bytes behind the end of its",
    ),
    ("twice", f"{INPUT}[16 * x] = 1e9f;", r"kernel twice, step 1 of 2: it wrote to its input 0 \(x\)"),
    ("plus", "((__global float *)w)[0] += 1;", r"kernel plus, step 2 of 2: it wrote to its constant f_const_0"),
    (
        "plus",
        "((__global float *)w)[3] = 1;",
        r"kernel plus, step 2 of 2: it wrote 4 bytes behind the end of its constant f_const_0",
    ),
]


def run(source, checks=EVERY, rows=5):
    made = OpenCLModule(source, [plan()])
    made.initialize("f", [array(WEIGHT)])
    x = np.random.default_rng(0).standard_normal((rows, 3)).astype("float32")
    x.flags.writeable = False
    y = np.full_like(x, 7)
    made["f"].with_checks(checks)(NDArray(x), NDArray(y))
    return x, y


@pytest.mark.parametrize("kernel, text, sentence", MISTAKES)
def test_what_a_generated_kernel_writes_elsewhere_is_reported(kernel, text, sentence):
    head, name, body = SOURCE.partition(f"__kernel void {kernel}(")
    planted = body.replace("  if (i >= N * 3) return;", f"  if (i >= N * 3) return;\n  if (i == 0) {text}", 1)
    with pytest.raises(ContractError, match=sentence):
        run(head + name + planted)


def test_what_generated_kernels_leave_of_an_output_stays_what_it_was_before():
    """So that the pattern around the region's call is found in it."""
    _, y = run(SOURCE.replace("out[16 * y + i] =", "if (i != 4) out[16 * y + i] ="))
    assert y[1, 1] == 7 and (y == 7).sum() == 1


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("checks", [CallChecks(), CallChecks(edges=False), CallChecks(False, False, False, True)])
def test_right_kernels_give_what_they_gave(rows, checks):
    x, y = run(SOURCE, checks, rows)
    np.testing.assert_array_equal(y, 2 * x + WEIGHT)


def several(rows):
    """Slices put together, a sum, a product and a table, over *rows* or any number of them."""
    x, which = relay.var("x", shape=(rows, 8)), relay.var("which", shape=(4,), dtype="int32")
    weight = relay.const(np.random.default_rng(0).standard_normal((6, 8)).astype("float32"))
    parts = relay.split(x, 2, axis=1)
    joined = relay.concatenate([parts[1], relay.exp(parts[0])], axis=1)
    taken = relay.take(relay.nn.dense(joined, weight), which, axis=1, mode="clip")
    body = relay.Tuple([relay.sum(joined, axis=[0]), relay.nn.softmax(taken), relay.argmax(joined, axis=[1])])
    return byoc.IRModule.from_expr(relay.Function([x, which], body))


@pytest.mark.parametrize("rows", [3, relay.Any("n")], ids=["static", "free"])
def test_generated_code_is_right_under_checks(rows, monkeypatch):
    feed = {"x": np.random.default_rng(1).standard_normal((3, 8)).astype("float32"), "which": np.int32([0, 5, 2, 2])}
    want = byoc.compile(several(rows), ["opencl", "c"]).run(feed)
    monkeypatch.setenv("BYOC_CHECK", "1")
    library = byoc.compile(several(rows), ["opencl", "c"])
    for _ in range(2):
        for got, value in zip(library.run(feed), want, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6)
    assert library.device_counts.get("launches", 0) == 0  # one by one, and not by the session


def test_a_network_is_right_under_checks(monkeypatch):
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype("float32")
    want = byoc.compile(inverted_residuals(32), ["c"])(x)
    monkeypatch.setenv("BYOC_CHECK", "1")
    np.testing.assert_allclose(byoc.compile(inverted_residuals(32), ["opencl"])(x), want, rtol=1e-4, atol=1e-5)


def test_an_index_outside_is_reported_under_checks_too(monkeypatch):
    model, feed = model_of("Gather"), inputs_of("Gather", 1)
    want = byoc.compile(model, ["c"]).run(feed)[0]
    monkeypatch.setenv("BYOC_CHECK", "1")
    library = byoc.compile(model, ["opencl"])
    for _ in range(2):
        with pytest.raises(IndexOutsideError):
            library.run(inputs_of("Gather", 1000))
        np.testing.assert_array_equal(library.run(feed)[0], want)
