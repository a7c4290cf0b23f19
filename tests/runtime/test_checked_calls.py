"""Mistakes of a backend's function are reported in one sentence with backend, region and nodes, in every executor."""

import ctypes
import threading

import numpy as np
import pytest
from careless_backend import NAME, exp, registered

import byoc
from byoc import relay
from byoc.contract import register_backend
from byoc.driver.vm import compile_module
from byoc.errors import UserError
from byoc.ir.types import TensorType
from byoc.kernels import CSource, KernelBackend, kernel
from byoc.runtime import cpu, fill_outputs
from byoc.runtime.core.errors import ContractError, DeviceError, InputError, RegionTimeoutError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.region.checks import CallArrays, CallChecks, CheckedCall, checks_asked
from byoc.runtime.region.fences import ZONE, FencedArrays
from byoc.runtime.region.function import RegionFunction
from byoc.runtime.region.guard import RegionGuard
from byoc.runtime.region.record import Region, reporting_running
from byoc.runtime.vm import VirtualMachine

pytestmark = pytest.mark.needs_cc
X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
WAYS = ("aot", "graph", "vm", "started")


@pytest.fixture
def does():
    yield from registered()


@pytest.fixture
def checked(monkeypatch):
    monkeypatch.setenv("BYOC_CHECK", "1")


def module(dtype="float32"):
    x = relay.var("x", TensorType((3, 4), dtype))
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], relay.negative(relay.exp(x)))))
    return mod


def runner(way, does, dtype="float32", **options):
    """What runs the model in a way, and gives its first output."""
    does.starts = way == "started"
    if way == "vm":
        mod = module(dtype)
        for step in ("AnnotateTarget", "MergeCompilerRegions", "PartitionGraph"):
            mod = getattr(relay.transform, step)(*([NAME] if step == "AnnotateTarget" else []))(mod)
        machine = VirtualMachine(compile_module(mod, **options), cpu())
        return lambda x: np.asarray(machine.run(x))
    library = byoc.compile(module(dtype), [NAME, "c"], **options)
    executor = library.graph_executor() if way == "graph" else library.executor()
    return lambda x: executor({"x": x})[0]


def shown(way, does, *words, x=X):
    with pytest.raises(ContractError) as raised:
        runner(way, does)(x)
    text = str(raised.value)
    assert f"on {NAME} failed at launch" in text and "region " in text and "operators exp" in text, text
    for word in words:
        assert word in text, text


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_does_as_the_contract_says_is_not_reported(does, checked, way):
    does.run = exp
    run = runner(way, does)
    for k in range(3):
        np.testing.assert_array_equal(run(X + k), -np.exp(X + k))


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_returns_its_result_is_always_reported(does, way):
    does.run = lambda x, out: np.exp(x)
    shown(way, does, "returned a ndarray", "fill_outputs", "returns None")


@pytest.mark.parametrize("way", WAYS)
def test_an_output_that_is_not_filled_is_reported_with_its_number_and_the_first_element(does, checked, way):
    does.run = lambda x, out: None
    shown(way, does, "12 of 12 elements of its output 0 (out0) unset")

    def half(x, out):
        out[:1] = np.exp(x[:1])

    does.run = half
    shown(way, does, "8 of 12 elements", "the first at [1, 0]")


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_writes_to_its_input_is_reported_and_the_callers_array_is_whole(does, checked, way):
    def writes(x, out):
        exp(x, out)
        ctypes.memset(x.ctypes.data, 0, x.nbytes)

    does.run = writes
    mine = X.copy()
    mine.flags.writeable = False
    shown(way, does, "it wrote to its input 0 (", x=mine)
    np.testing.assert_array_equal(mine, X)


@pytest.mark.parametrize("way", WAYS)
def test_numpy_does_not_write_to_an_input_whether_checked_or_not(does, way):
    def writes(x, out):
        x += 1

    does.run = writes
    mine = X.copy()
    with pytest.raises(DeviceError, match="read-only"):
        runner(way, does)(mine)
    np.testing.assert_array_equal(mine, X)


@pytest.mark.parametrize("way", WAYS)
def test_a_nan_that_no_input_has_is_reported_where_it_first_comes_up(does, checked, way, monkeypatch):
    def divides(x, out):
        out[...] = x
        out[2, 1] = np.nan

    does.run = divides
    shown(way, does, "has NaN in 1 of 12 elements, the first at [2, 1]")
    with_nan = X.copy()
    with_nan[0, 0] = np.nan
    run = runner(way, does)
    assert np.isnan(run(with_nan)[2, 1])
    monkeypatch.setenv("BYOC_CHECK", "outputs, inputs")
    assert np.isnan(runner(way, does)(X)[2, 1])


def test_nothing_is_poisoned_or_copied_where_nobody_asked(does):
    does.run = lambda x, out: None
    run = runner("graph", does)
    run(X)
    assert does.seen == 1


@pytest.mark.parametrize("way", ["aot", "graph", "vm"])
def test_with_fallback_a_mistake_is_recorded_and_the_host_computes_from_what_the_inputs_were(does, checked, way):
    def spoils(x, out):
        ctypes.memset(x.ctypes.data, 0, x.nbytes)
        exp(x, out)

    does.run = spoils
    np.testing.assert_allclose(runner(way, does, fallback=True)(X.copy()), -np.exp(X), rtol=1e-6)


def returning(does, dtype="float32"):
    does.returns = True
    return runner("vm", does, dtype)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (np.exp(X).astype("float64"), "output 0 is float64[3, 4], and the graph has float32[3, 4]"),
        (np.exp(X[:1]), "output 0 is float32[1, 4]"),
        (3.0, "gave a float, and it has 1 outputs"),
    ],
)
def test_results_of_another_dtype_shape_or_number_are_always_reported(does, result, words):
    does.run = lambda x: [result] if isinstance(result, np.ndarray) else result
    with pytest.raises(ContractError, match=words.replace("[", r"\[").replace("]", r"\]")):
        returning(does)(X)


def test_bytes_that_look_like_the_pattern_are_results():
    out = np.empty(4, "uint8")

    def work():
        out[...] = (0xA5, 0x5A, 0, 255)

    CheckedCall(work, CallChecks(), CallArrays([out], 0))()

    def lazy():
        out[1:] = (0x5A, 0, 255)

    with pytest.raises(ContractError, match=r"1 of 4 elements of its output 0 unset, the first at \[0\]"):
        CheckedCall(lazy, CallChecks(), CallArrays([out], 0))()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int64", "bool", "complex64"])
def test_an_unset_element_is_found_in_every_dtype(dtype):
    out = np.empty((2, 3), dtype)
    with pytest.raises(ContractError, match=r"6 of 6 elements"):
        CheckedCall(lambda: None, CallChecks(), CallArrays([out], 0))()


def test_strings_are_guarded_too():
    texts, out = np.array(["a", "b"], object), np.empty(2, object)

    def work():
        out[0] = "x"

    with pytest.raises(ContractError, match=r"1 of 2 elements .* first at \[1\]"):
        CheckedCall(work, CallChecks(), CallArrays([texts, out], 1))()


def test_what_the_variable_may_say(monkeypatch):
    for text, wanted in (("", None), ("0", None), ("1", CallChecks()), ("nan", CallChecks(False, False, True, False))):
        monkeypatch.setenv("BYOC_CHECK", text)
        assert checks_asked() == wanted
    monkeypatch.setenv("BYOC_CHECK", "yes")
    with pytest.raises(UserError, match="BYOC_CHECK is 1, or some of outputs,inputs,nan,edges"):
        checks_asked()


def test_fill_outputs_takes_nothing_that_would_be_converted_or_broadcast():
    out = np.zeros((2, 2), "float32")
    fill_outputs([out], [np.ones((2, 2), "float32")])
    assert (out == 1).all()
    for wrong in ([np.ones((2, 2))], [np.ones(2, "float32")], []):
        with pytest.raises(ContractError):
            fill_outputs([out], wrong)


DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]
SMALL_FLOATS = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu", "float4_e2m1fn"]
NUMBERS = [0, 1, -1, 0.5, 1e-3, 3.4e38, np.nan, np.inf, -np.inf, -np.nan]
REPEATED = [bytes([byte]) for byte in range(256)] + [np.float32(x).tobytes() for x in NUMBERS]
REPEATED += [np.float64(x).tobytes() for x in NUMBERS] + [np.float16(x).tobytes() for x in NUMBERS if abs(x) != 3.4e38]


def fenced(dtype, count=2):
    arrays = FencedArrays([np.zeros(12, numpy_dtype(dtype)) for _ in range(count)], 1)
    arrays.raise_fences()
    assert arrays.broken() is None
    return arrays


@pytest.mark.parametrize("dtype", DTYPES + SMALL_FLOATS)
def test_no_number_that_is_written_again_and_again_looks_like_a_fence(dtype):
    """Of two elements and of more, and of one where it is not a single byte; before an array and behind it."""
    width, arrays = numpy_dtype(dtype).itemsize, fenced(dtype)
    for repeated in REPEATED:
        for size in {max(2 * width, 2), max(width, 4), ZONE} | ({width} if width > 1 else set()):
            for number, memory in enumerate(arrays.arrays):
                written = (repeated * size)[:size]
                ctypes.memmove(memory.ctypes.data + memory.nbytes, written, size)
                assert arrays.broken()[0] == number, (repeated, size)
                arrays.raise_fences()
                ctypes.memmove(memory.ctypes.data - size, written, size)
                assert "before the beginning" in arrays.broken()[1], (repeated, size)
                arrays.raise_fences()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("more", [1, 2, 3, 100])
def test_a_copy_of_an_array_and_what_stands_beside_it_is_seen(dtype, more):
    for source in range(2):
        arrays = fenced(dtype, 3)
        one, other = arrays.arrays[source], arrays.arrays[source + 1]
        ctypes.memmove(other.ctypes.data, one.ctypes.data, one.nbytes + more * one.itemsize)
        assert arrays.broken()[0] == source + 1
        arrays = fenced(dtype, 3)
        one, other = arrays.arrays[source], arrays.arrays[source + 1]
        begin = more * one.itemsize
        ctypes.memmove(other.ctypes.data - begin, one.ctypes.data - begin, one.nbytes + begin)
        assert arrays.broken()[0] == source + 1


@pytest.mark.parametrize("dtype", [d for d in DTYPES if "float" in d or "complex" in d] + SMALL_FLOATS[:2])
def test_what_is_read_beside_an_array_of_floats_is_no_number(dtype):
    memory = fenced(dtype).arrays[0]
    for begin in (memory.ctypes.data - ZONE, memory.ctypes.data + memory.nbytes):
        beside = np.frombuffer((ctypes.c_ubyte * ZONE).from_address(begin), memory.dtype)
        assert np.isnan(beside).all()


EDGES = [
    ("out[OUT0_SIZE] = 0.0f / 0.0f;", r"it wrote 4 bytes behind the end of its output 0 \(out0\)"),
    ("for (int i = 0; i <= OUT0_SIZE; ++i) out[i] = x[i];", r"it wrote 4 bytes behind the end of its output 0"),
    ("for (int i = 0; i < 16; ++i) ((char *)(out + OUT0_SIZE))[i] = -1;", r"it wrote 1[56] bytes behind the end"),
    ("out[OUT0_SIZE] = 1;", r"it wrote 4 bytes behind the end of its output 0 \(out0\)"),
    ("out[-2] = 1;", r"it wrote 8 bytes before the beginning of its output 0 \(out0\)"),
    ("((float *)x)[OUT0_SIZE] = 1;", r"it wrote 4 bytes behind the end of its input 0 \("),
    ("for (int i = 0; i < OUT0_SIZE; ++i) out[i] += x[i + 1];", r"NaN in 1 of 12 elements, the first at \[2, 3\]"),
    ("for (int i = 0; i < OUT0_SIZE; ++i) out[i] += x[i - 1];", r"NaN in 1 of 12 elements, the first at \[0, 0\]"),
]


@pytest.fixture
def overstepping(of_this_test):
    """A function that makes a library whose ``exp`` is C that copies, and then does what a text says."""

    def made(text):
        @register_backend
        class Steps(KernelBackend):
            """exp, in C"""

            name = "oversteps"

        kernel("exp", "oversteps/float/any")(
            CSource(
                "void KERNEL(const float *x, float *out SIZES) {"
                f"for (int i = 0; i < OUT0_SIZE; ++i) out[i] = x[i]; {text} }}"
            )
        )
        return byoc.compile(module(), ["oversteps", "c"])

    return made


@pytest.mark.parametrize("text, sentence", EDGES)
def test_a_step_over_an_edge_is_reported_with_its_array(overstepping, checked, text, sentence):
    with pytest.raises(ContractError, match=rf"on oversteps failed at launch: .*{sentence}"):
        overstepping(text).run({"x": X})


@pytest.mark.parametrize("way", WAYS)
def test_a_step_of_python_over_an_edge_is_reported(does, checked, way):
    def steps(x, out):
        np.exp(x, out=out)
        ctypes.memset(out.ctypes.data + out.nbytes, 0, 3)

    does.run = steps
    shown(way, does, "3 bytes behind the end of its output 0 (out0)")


def test_kernels_that_keep_to_their_arrays_give_what_they_gave(overstepping, checked):
    library = overstepping("")
    for k in range(3):
        np.testing.assert_array_equal(library.run({"x": X + k})[0], -(X + k))


def test_a_constant_that_is_written_to_is_reported_and_put_back(of_this_test, checked):
    @register_backend
    class Scribbles(KernelBackend):
        """nn.bias_add, in C"""

        name = "scribbles"

    kernel("add", "scribbles/float/any")(
        CSource(
            "void KERNEL(const float *x, const float *b, float *out SIZES) {"
            "for (int i = 0; i < OUT0_SIZE; ++i) out[i] = x[i] + b[i]; ((float *)b)[0] += 1; }"
        )
    )
    x = relay.var("x", shape=(3, 4))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const(X))))
    library = byoc.compile(mod, ["scribbles", "c"])
    for _ in range(2):
        with pytest.raises(ContractError, match="it wrote to its constant .*, which the next call"):
            library.run({"x": X})


class Filling:
    """A function that fills its outputs by *act*, and could return them."""

    def __init__(self, act, can_start=False):
        self.act = act
        if can_start:
            self.start = None

    def bind(self, arrays):
        return lambda: self.act(*arrays)

    def call_returning(self, inputs):
        raise AssertionError("what it returns cannot be guarded")


def outputs_of(act, can_start=False):
    """What executors call for the outputs of a region whose function is *act*."""
    signature = Signature("f", (TensorSpec("x", ("n",), "float32"),), (TensorSpec("out", ("n",), "float32"),))
    region = Region("acme", operators=("exp",), signature=signature)
    return RegionFunction(RegionGuard("f", region, lambda: Filling(act, can_start))).call_returning


def test_a_call_for_outputs_says_what_runs_and_guards_them(checked):
    said = []
    with reporting_running(lambda text: said.append(text)):
        np.testing.assert_array_equal(outputs_of(exp)([X[0]])[0], np.exp(X[0]))
    assert "region f (operators exp) on acme was running" in said
    with pytest.raises(ContractError, match="4 of 4 elements of its output 0"):
        outputs_of(lambda x, out: None)([X[0]])


def test_a_call_for_outputs_of_what_can_be_started_has_the_limit_of_a_wait(checked, monkeypatch):
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.2")
    end = threading.Event()
    try:
        with pytest.raises(RegionTimeoutError, match="it took longer than the 0.2 s"):
            outputs_of(lambda x, out: end.wait(30), can_start=True)([X[0]])
    finally:
        end.set()


def test_a_call_for_outputs_on_inputs_that_do_not_fit_says_so(checked):
    with pytest.raises(InputError, match="input 'x': expected dtype float32, got float64"):
        outputs_of(exp)([X[0].astype("float64")])
