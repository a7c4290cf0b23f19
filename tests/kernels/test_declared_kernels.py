"""Declared kernels are executed: in Python, C and OpenCL C, beside code generators, and chosen by grade or cost."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from kernel_sources import CONCAT_C, EXP_OPENCL, LEAKY_C, SPLIT_C

import byoc
from byoc import relay
from byoc.contract import PatternEntry, constraint
from byoc.errors import CompileError, PartitionError, RegistryError
from byoc.kernels import CSource, KernelBackend, OpenCLSource, kernel
from byoc.partition.place import register_target
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.runtime.errors import KernelError

pytestmark = pytest.mark.needs_cc
ARM = "arm/float/any"


def model(body, *shapes, dtype="float32"):
    params = [relay.var(f"x{k}", shape=shape, dtype=dtype) for k, shape in enumerate(shapes)]
    return byoc.IRModule.from_expr(relay.Function(params, body(*params)))


def placed(library):
    return {d.operator: d.target for d in library.plan.decisions}


def test_kernels_in_python_and_c_run_in_one_region_of_a_target_that_has_no_backend():
    called = []

    @kernel("nn.relu", ARM)
    def relu(x):
        called.append(x.shape)
        return np.maximum(x, 0)

    kernel("nn.leaky_relu", ARM)(LEAKY_C)
    mod = model(lambda x: relay.nn.leaky_relu(relay.subtract(relay.nn.relu(x), x), 0.25), (2, 3))
    library = byoc.compile(mod, ["arm", "c"])
    assert placed(library) == {"nn.relu": "arm", "subtract": None, "nn.leaky_relu": "arm"}
    x = np.float32([[-1, 2, -3], [4, 0, 6]])
    np.testing.assert_array_equal(library(x), np.where(np.maximum(x, 0) - x < 0, 0, np.maximum(x, 0) - x))
    assert called == [(2, 3)]


def test_a_region_of_python_and_c_kernels_is_saved_with_its_code(tmp_path):
    kernel("nn.relu", ARM)(lambda x: np.maximum(x, np.float32(0)))
    kernel("nn.leaky_relu", ARM, inputs={"data": None})(LEAKY_C)
    mod = model(lambda x: relay.nn.relu(relay.add(relay.nn.leaky_relu(x, 0.5), relay.const(np.float32(1)))), (2, 3))
    kernel("add", ARM)(
        CSource("""
    void KERNEL(const IN0_TYPE *a, const IN1_TYPE *b, OUT0_TYPE *out SIZES) {
      for (int64_t i = 0; i < OUT0_SIZE; ++i) out[i] = a[i] + b[i % IN1_SIZE];
    }""")
    )
    library = byoc.compile(mod, ["arm", "c"])
    assert [r.target for r in library.plan.regions] == ["arm"]
    x = np.float32([[-1, 2, -3], [4, 0, 6]])
    expected = np.maximum(np.where(x < 0, x / 2, x) + 1, 0)
    np.testing.assert_array_equal(library(x), expected)
    library.save(tmp_path / "model.byoc")
    np.testing.assert_array_equal(byoc.load(tmp_path / "model.byoc")(x), expected)


VENDOR = """
import numpy as np
from byoc.kernels import CSource, kernel

@kernel("nn.relu", "arm/float/any")
def relu(x):
    return np.maximum(x, np.float32(0))
"""
PYTHON_IN_ANOTHER = """
import sys, numpy as np, byoc.runtime
print(byoc.runtime.load(sys.argv[1])(np.float32([-1, 2])).tolist(), "byoc.kernels" in sys.modules)
"""


def run(code, *words, **environment):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, words)]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    return found.stdout.strip(), found.stderr


def test_c_kernels_alone_need_no_compiler_in_a_new_process(tmp_path):
    kernel("nn.leaky_relu", ARM)(LEAKY_C)
    path = byoc.compile(model(lambda x: relay.nn.leaky_relu(x, 0.5), (2,)), ["arm", "c"]).save(tmp_path / "model.byoc")
    assert run(PYTHON_IN_ANOTHER, path) == ("[-0.5, 2.0] False", "")


def test_python_kernels_are_found_in_a_new_process_by_an_entry_point(tmp_path):
    (tmp_path / "acme_arm.py").write_text(VENDOR)
    info = tmp_path / "acme_arm-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-arm\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[byoc.runtime]\narm_kernels = acme_arm\n[byoc.backends]\narm = acme_arm\n")
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    compile_it = """
    import sys, byoc
    from byoc import relay
    x = relay.var("x", shape=(2,))
    library = byoc.compile(byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))), ["arm", "c"])
    print([r.target for r in library.plan.regions], library.save(sys.argv[1]).exists())
    """
    path = tmp_path / "model.byoc"
    assert run(compile_it, path, **environment) == ("['arm'] True", "")
    assert run(PYTHON_IN_ANOTHER, path, **environment) == ("[0.0, 2.0] True", "")
    without, errors = run(PYTHON_IN_ANOTHER, path)
    assert without == "" and "'arm_kernels'" in errors.splitlines()[-1]


@pytest.mark.needs_opencl
def test_an_opencl_kernel_stands_for_what_the_generator_would_make_and_both_run_in_one_model(tmp_path):
    kernel("exp", "opencl/any/any")(EXP_OPENCL)
    mod = model(lambda x: relay.tanh(relay.exp(relay.negative(x))), (70, 3))
    library = byoc.compile(mod, ["opencl", "c"])
    assert placed(library) == {"negative": "opencl", "exp": "opencl_kernels", "tanh": "opencl"}
    x = np.linspace(-2, 2, 210, dtype="float32").reshape(70, 3)
    np.testing.assert_allclose(library(x), np.tanh(np.exp(-x)), rtol=1e-5)
    loaded = byoc.load(library.save(tmp_path / "model.byoc"))
    np.testing.assert_array_equal(loaded(x), library(x))


@pytest.mark.needs_opencl
def test_opencl_kernels_behind_each_other_find_their_own_buffers(tmp_path):
    kernel("exp", "opencl/any/any")(EXP_OPENCL)
    mod = model(lambda x: relay.Tuple([relay.exp(relay.exp(relay.exp(x))), relay.exp(x), x]), (70, 3))
    library = byoc.compile(mod, ["opencl_kernels", "c"])
    assert set(placed(library).values()) == {"opencl_kernels"}
    x = np.linspace(-2, 0, 210, dtype="float32").reshape(70, 3)
    once = np.exp(x)
    for run in (library, byoc.load(library.save(tmp_path / "model.byoc"))):
        for got, want in zip(run(x), (np.exp(np.exp(once)), once, x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_per_operator_kernels_and_a_generator_of_whole_regions_share_a_model():
    kernel("nn.leaky_relu", "host/float/any")(LEAKY_C)
    mod = model(lambda x: relay.nn.leaky_relu(relay.nn.softmax(relay.exp(x)), 0.5), (2, 3))
    library = byoc.compile(mod, ["blas", "c"])
    assert placed(library)["nn.leaky_relu"] == "host_kernels"
    library = byoc.compile(mod, ["json", "c"])
    assert {r.target for r in library.plan.regions} == {"json"}  # a target that is named comes before the host
    library = byoc.compile(mod, ["json", "c"], exclude=["nn.leaky_relu"])
    assert [r.target for r in library.plan.regions] == ["json"]
    library = byoc.compile(mod, ["json", "c"], exclude={"json": ["nn.leaky_relu"]})
    assert [r.target for r in library.plan.regions] == ["json", "host_kernels"]
    x = np.float32([[1, 2, 3], [0, -1, 1]])
    np.testing.assert_allclose(library(x), byoc.compile(mod, ["c"], exclude=["nn.leaky_relu"])(x), rtol=1e-5)


def test_policy_score_takes_the_kernel_of_the_first_preference_and_reports_its_grade():
    kernel("exp", ARM)(lambda x: np.exp(x))
    kernel("exp", "arm/fp16/any")(lambda x: np.exp(x) if x.dtype == np.float16 else pytest.fail("not converted"))
    mod = model(relay.exp, (2,))
    x = np.float32([0.1, 1])
    for wish, place in ((["arm/fp16", "arm", "host"], "arm/fp16/any"), (["arm", "arm/fp16", "host"], "arm/float/any")):
        plan = byoc.plan(mod, ["arm", "c"], policy="score", valid_places=wish)
        (decision,) = [d for d in plan.decisions if d.operator == "exp"]
        assert (decision.target, decision.chosen) == ("arm", place)
        assert "winner" in decision.detail and f"exp:def@{place}" in decision.detail
        library = byoc.compile(mod, ["arm", "c"], plan=plan)
        assert np.array_equal(library(x), np.exp(x)) == (place == "arm/float/any")
        np.testing.assert_allclose(library(x), np.exp(x), rtol=1e-3)


def test_values_are_converted_to_a_wider_float_and_to_a_narrower_only_where_a_place_asks_for_it():
    seen = []
    kernel("exp", "arm/float/any")(lambda x: seen.append(x.dtype) or np.exp(x))
    library = byoc.compile(model(relay.exp, (2,), dtype="float16"), ["arm", "c"])
    result = library(np.float16([0.1, 1]))
    assert result.dtype == np.float16 and seen == [np.float32]
    np.testing.assert_array_equal(result, np.exp(np.float32(np.float16([0.1, 1]))).astype("float16"))
    plan = byoc.plan(model(relay.exp, (2,), dtype="float64"), ["arm", "c"])
    assert "exp:def@arm/float/any has float for its input 0, output 0, got float64" in str(plan)


def test_among_kernels_of_one_place_the_fastest_is_taken_where_all_say_what_they_take():
    ran = []
    for alias, seconds in (("slow", 2e-3), ("fast", 1e-3), ("middle", 1.5e-3)):

        def run(x, alias=alias):
            ran.append(alias)
            return np.exp(x)

        kernel("exp", ARM, alias, inputs={"x": None}, seconds=lambda call, seconds=seconds: seconds)(
            lambda x, run=run: run(x)
        )
    library = byoc.compile(model(relay.exp, (2,)), ["arm", "c"])
    library(np.zeros(2, "float32"))
    assert ran == ["fast"]


def test_policy_cost_believes_what_a_kernel_says_that_it_takes():
    big = (512, 512)
    for seconds, target in ((1e-9, "arm"), (1.0, None)):
        kernel("exp", ARM, seconds=lambda call, seconds=seconds: seconds)(lambda x: np.exp(x))
        library = byoc.compile(model(lambda x: relay.exp(relay.exp(relay.exp(x))), big), ["arm", "c"], policy="cost")
        assert {d.target for d in library.plan.decisions} == {target}
    kernel("tanh", ARM, seconds=lambda call: -1.0)(lambda x: np.tanh(x))
    with pytest.raises(PartitionError, match=r"'arm' says that tanh takes -1\.0 seconds"):
        byoc.plan(model(relay.tanh, big), ["arm", "c"], policy="cost")


def test_free_sizes_and_several_outputs_in_c():
    rows = relay.Any(name="rows")
    kernel("split", ARM, constraints=[two_parts])(
        CSource(SPLIT_C.text + "/* ATTR_indices_or_sections, ATTR_axis: what the sizes say */")
    )
    kernel("nn.leaky_relu", ARM)(LEAKY_C)
    x = relay.var("x", shape=(rows, 5))
    first, second = (relay.TupleGetItem(relay.split(relay.nn.leaky_relu(x, 0.5), (2,), 1).astuple(), k) for k in (0, 1))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.exp(first), second])))
    library = byoc.compile(mod, ["arm", "c"])
    assert placed(library) == {"nn.leaky_relu": "arm", "split": "arm", "exp": None}
    for count in (1, 4, 0):
        data = np.arange(-5, 5 * count - 5, dtype="float32").reshape(count, 5)
        bent = np.where(data < 0, data / 2, data)
        a, b = library(data)
        np.testing.assert_allclose(a, np.exp(bent[:, :2]), rtol=1e-6)
        np.testing.assert_array_equal(b, bent[:, 2:])


@constraint("parts")
def two_parts(call):
    """two parts along the second of two axes"""
    fits = call.args[0].checked_type.ndim == 2 and call.attrs.axis == 1 and len(call.attrs.indices_or_sections) == 1
    return None if fits else str(call.attrs.indices_or_sections)


def test_a_tuple_of_inputs_is_flattened_and_other_numbers_of_inputs_are_refused_with_the_reason():
    kernel("concatenate", ARM, inputs={"a": None, "b": None}, constraints=[first_axis])(CONCAT_C)
    mod = model(lambda a, b: relay.concatenate([a, b], 0), (2, 3), (1, 3))
    library = byoc.compile(mod, ["arm", "c"])
    assert placed(library) == {"concatenate": "arm"}
    a, b = np.ones((2, 3), "float32"), np.zeros((1, 3), "float32")
    np.testing.assert_array_equal(library(a, b), np.concatenate([a, b]))
    plan = byoc.plan(model(lambda a, b, c: relay.concatenate([a, b, c], 0), (2, 3), (1, 3), (1, 3)), ["arm", "c"])
    assert "concatenate:def@arm/float/any takes 2 inputs, got 3" in str(plan)
    plan = byoc.plan(model(lambda a, b: relay.concatenate([a, b], 1), (2, 3), (2, 3)), ["arm", "c"])
    assert "along the first axis, got 1" in str(plan)


@constraint("axis")
def first_axis(call):
    """along the first axis"""
    return None if call.attrs.axis == 0 else call.attrs.axis


def test_an_attribute_that_a_kernel_does_not_know_keeps_the_call_away_from_it():
    kernel("nn.softmax", ARM)(lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True))
    assert placed(byoc.compile(model(relay.nn.softmax, (2, 3)), ["arm", "c"])) == {"nn.softmax": "arm"}
    plan = byoc.plan(model(lambda x: relay.nn.softmax(x, 0), (2, 3)), ["arm", "c"])
    assert plan.decisions[0].target is None
    assert "nn.softmax:def@arm/float/any knows nothing of axis: declare it (*, axis: ...)" in str(plan)
    kernel("nn.leaky_relu", ARM)(CSource("void KERNEL(const float *x, float *out SIZES) { (void)x; (void)out; }"))
    plan = byoc.plan(model(lambda x: relay.nn.leaky_relu(x, 0.3), (2, 3)), ["arm", "c"])
    assert "knows nothing of alpha: name ATTR_alpha in its text" in str(plan)


def test_a_function_of_another_number_of_arrays_is_refused_with_the_reason():
    kernel("add", ARM)(lambda a: a)
    plan = byoc.plan(model(relay.add, (2,), (2,)), ["arm", "c"])
    assert plan.decisions[0].target is None and "add:def@arm/float/any takes 1 inputs, got 2" in str(plan)


def test_other_dtypes_are_refused_with_the_reason():
    kernel("exp", ARM)(CSource("void KERNEL(const float *x, float *out SIZES) { *out = *x; }"))
    plan = byoc.plan(model(relay.exp, (2,), dtype="float64"), ["arm", "c"])
    assert "exp:def@arm/float/any has float for its input 0, output 0, got float64" in str(plan)
    assert "arm has kernels for exp, got tanh" in str(byoc.plan(model(relay.tanh, (2,)), ["arm", "c"]))


def test_mistakes_are_one_sentence_that_names_the_kernel():
    kernel("exp", ARM)(CSource("void KERNEL(const float *x, float *out SIZES) { *out = undeclared; }"))
    with pytest.raises(CompileError, match=r"(?s)backend 'arm' failed on .*exp:def@arm/float/any:1.*undeclared"):
        byoc.compile(model(relay.exp, (2,)), ["arm", "c"])
    kernel("tanh", ARM)(lambda x: np.tanh(x)[:1])
    with pytest.raises(KernelError, match=r"tanh:def@arm/float/any gave float32\[1\] for its output 0"):
        byoc.compile(model(relay.tanh, (2,)), ["arm", "c"])(np.zeros(2, "float32"))
    with pytest.raises(PartitionError, match="a CSource does not name KERNEL"):
        CSource("void relu(const float *x, float *out) {}")
    with pytest.raises(PartitionError, match="groups of 48: expected a power of two"):
        OpenCLSource(EXP_OPENCL.text, local=48)


def test_a_kernel_that_is_declared_again_in_its_place_takes_it_and_another_is_an_error():
    for factor in (1, 2):
        kernel("exp", ARM)(lambda x, factor=factor: factor * np.exp(x))
    library = byoc.compile(model(relay.exp, (1,)), ["arm", "c"])
    np.testing.assert_array_equal(library(np.zeros(1, "float32")), np.float32([2]))

    def other(x):
        return x

    with pytest.raises(RegistryError, match="exp:def@arm/float/any is registered twice"):
        kernel("exp", ARM)(other)


class Acme(KernelBackend):
    """A backend with a pattern of its own, whose kernels are declared."""

    name = "acme_kernel_test"

    def patterns(self):
        biased = is_op("add")(is_op("nn.dense")(wildcard(), is_constant()), is_constant())
        return [PatternEntry(f"{self.name}.dense_bias", biased)]


def test_a_backend_of_kernels_may_have_patterns(backends):
    byoc.register_backend(Acme)
    kernel(f"{Acme.name}.dense_bias", f"{Acme.name}/float/any")(
        CSource("""
        void KERNEL(const IN0_TYPE *x, const IN1_TYPE *w, const IN2_TYPE *b, OUT0_TYPE *out SIZES) {
          for (int64_t i = 0; i < OUT0_DIM0; ++i)
            for (int64_t j = 0; j < OUT0_DIM1; ++j) {
              float sum = b[j % IN2_SIZE];
              for (int64_t k = 0; k < IN0_DIM1; ++k) sum += x[i * IN0_DIM1 + k] * w[j * IN0_DIM1 + k];
              out[i * OUT0_DIM1 + j] = sum;
            }
        }""")
    )
    weight, bias = np.arange(6, dtype="float32").reshape(2, 3), np.float32([1, -1])
    mod = model(lambda x: relay.add(relay.nn.dense(x, relay.const(weight)), relay.const(bias)), (4, 3))
    library = byoc.compile(mod, [Acme.name, "c"])
    assert placed(library) == {f"{Acme.name}.dense_bias": Acme.name}
    x = np.arange(12, dtype="float32").reshape(4, 3)
    np.testing.assert_allclose(library(x), x @ weight.T + bias)


class Twice(KernelBackend):
    """Patterns whose wildcards may match one value."""

    name = "twice_kernel_test"

    def patterns(self):
        product = is_op("nn.dense")(wildcard(), wildcard())
        swish = wildcard()
        return [
            PatternEntry(f"{self.name}.dense_bias", is_op("add")(product, is_constant())),
            PatternEntry(f"{self.name}.swish", is_op("multiply")(swish, is_op("sigmoid")(swish))),
        ]


@pytest.mark.parametrize("language", ["python", "c"])
def test_a_value_that_a_pattern_reads_twice_comes_as_often_as_the_kernel_takes_it(language, backends):
    byoc.register_backend(Twice)
    place = f"{Twice.name}/float/any"
    dense = CSource("""
    void KERNEL(const IN0_TYPE *x, const IN1_TYPE *w, const IN2_TYPE *b, OUT0_TYPE *out SIZES) {
      for (int i = 0; i < OUT0_DIM0; ++i)
        for (int j = 0; j < OUT0_DIM1; ++j) {
          out[i * OUT0_DIM1 + j] = b[j];
          for (int k = 0; k < IN0_DIM1; ++k) out[i * OUT0_DIM1 + j] += x[i * IN0_DIM1 + k] * w[j * IN0_DIM1 + k];
        }
    }""")
    swish = CSource("""
    void KERNEL(const IN0_TYPE *x, OUT0_TYPE *out SIZES) {
      for (int64_t i = 0; i < OUT0_SIZE; ++i) out[i] = x[i] / (1 + expf(-x[i]));
    }""")
    in_c = language == "c"
    kernel(f"{Twice.name}.dense_bias", place)(dense if in_c else lambda x, w, b: x @ w.T + b)
    kernel(f"{Twice.name}.swish", place, inputs={"x": None})(swish if in_c else lambda x: x / (1 + np.exp(-x)))

    def body(x):
        made = relay.add(relay.nn.dense(x, x), relay.const(np.float32([1, 2, 3])))
        return relay.multiply(made, relay.sigmoid(made))

    library = byoc.compile(model(body, (3, 3)), [Twice.name, "c"])
    assert set(placed(library)) == {f"{Twice.name}.dense_bias", f"{Twice.name}.swish"}
    x = np.linspace(-1, 1, 9, dtype="float32").reshape(3, 3)
    expected = x @ x.T + np.float32([1, 2, 3])
    np.testing.assert_allclose(library(x), expected / (1 + np.exp(-expected)), rtol=1e-5)


@pytest.mark.parametrize("language", ["python", "c"])
def test_the_parameters_of_a_kernel_do_not_depend_on_whether_a_model_shares_constants(language, backends):
    byoc.register_backend(Twice)
    source = CSource("""
    void KERNEL(const IN0_TYPE *x, const IN1_TYPE *w, const IN2_TYPE *b, OUT0_TYPE *out SIZES) {
      for (int i = 0; i < OUT0_SIZE; ++i) {
        out[i] = b[i];
        for (int k = 0; k < IN0_DIM1; ++k) out[i] += x[i / OUT0_DIM1 * IN0_DIM1 + k] * w[i % OUT0_DIM1 * IN0_DIM1 + k];
      }
    }""")
    kernel(f"{Twice.name}.dense_bias", f"{Twice.name}/float/any")(
        source if language == "c" else lambda x, w, b: x @ w.T + b
    )
    square = relay.const(np.arange(9, dtype="float32").reshape(3, 3))
    library = byoc.compile(model(lambda x: relay.add(relay.nn.dense(x, square), square), (3, 3)), [Twice.name, "c"])
    assert set(placed(library)) == {f"{Twice.name}.dense_bias"}
    x, weight = np.eye(3, dtype="float32"), np.arange(9, dtype="float32").reshape(3, 3)
    np.testing.assert_allclose(library(x), x @ weight.T + weight)


def test_a_target_of_the_users_own_needs_no_backend():
    register_target("kernels_only_test", host_memory=True)
    kernel("exp", "kernels_only_test/any/any")(lambda x: np.exp(x))
    assert placed(byoc.compile(model(relay.exp, (2,)), ["kernels_only_test", "c"])) == {"exp": "kernels_only_test"}


def test_an_error_in_a_vendors_kernel_is_reported_as_what_it_is_and_where():
    def broken(x):
        return len(3) + x

    kernel("exp", ARM)(broken)
    kernel("tanh", ARM)(lambda x: None)
    words = r"kernel exp:def@arm/float/any failed: TypeError: object of type 'int' .* \(test_declared_kernels.py:\d+\)"
    with pytest.raises(KernelError, match=words):
        byoc.compile(model(relay.exp, (2,)), ["arm", "c"])(np.zeros(2, "float32"))
    with pytest.raises(KernelError, match=r"kernel tanh:def@arm/float/any gave nothing \(None\)"):
        byoc.compile(model(relay.tanh, (2,)), ["arm", "c"])(np.zeros(2, "float32"))


def test_kernels_of_c_are_given_sizes_that_follow_from_others(tmp_path):
    """The value in the middle has N+2 elements, the output N+4, and the input gives N alone."""
    kernel("concatenate", ARM, inputs={"a": None, "b": None}, constraints=[first_axis])(CONCAT_C)
    kernel("nn.leaky_relu", ARM)(LEAKY_C)
    ends = relay.const(np.array([-5.0, -6.0], "float32"))
    mod = model(
        lambda x: relay.concatenate([relay.nn.leaky_relu(relay.concatenate([x, ends], 0), 0.5), ends], 0),
        (relay.Any("N"),),
    )
    library = byoc.compile(mod, ["arm", "c"])
    assert set(placed(library).values()) == {"arm"}, str(library.plan)
    assert library.outputs[0].shape == ("(N+4)",)
    loaded = byoc.load(library.save(tmp_path / "m.byoc"))
    for n in (1, 3, 8, 3):
        x = np.arange(n, dtype="float32") - 2
        middle = np.concatenate([x, [-5, -6]])
        want = np.concatenate([np.where(middle < 0, middle / 2, middle), [-5, -6]])
        for run in (library, loaded):
            np.testing.assert_array_equal(run(x), want.astype("float32"))
