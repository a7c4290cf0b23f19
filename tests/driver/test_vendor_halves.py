"""What ``precision="fp16"`` gives vendors whose kernels or constraints declare float16, and what the report says."""

import json
import subprocess
import sys

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.contract import PatternEntry, constraints, register_backend
from byoc.kernels import CSource, KernelBackend, kernel
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(11)
DENSE = """
void KERNEL(const IN0_TYPE *x, const IN1_TYPE *w, OUT0_TYPE *out SIZES) {
  for (int64_t i = 0; i < IN0_DIM0; ++i)
    for (int64_t k = 0; k < IN1_DIM0; ++k) {
      float sum = 0;
      for (int64_t j = 0; j < IN0_DIM1; ++j) sum += (float)x[i * IN0_DIM1 + j] * (float)w[k * IN1_DIM1 + j];
      out[i * IN1_DIM0 + k] = sum;
    }
}"""
RELU = """
void KERNEL(const IN0_TYPE *x, OUT0_TYPE *out SIZES) {
  for (int64_t i = 0; i < OUT0_SIZE; ++i) out[i] = x[i] > 0 ? x[i] : 0;
}"""


def const(*shape, scale=1.0):
    return relay.const((RNG.standard_normal(shape) * scale).astype("float32"))


def network(scale=1.0, biased=False):
    """dense, where *biased* a bias, relu, dense, softmax"""
    x = relay.var("x", shape=(2, 8))
    first = relay.nn.dense(x, const(16, 8, scale=scale))
    hidden = relay.nn.relu(relay.add(first, const(16)) if biased else first)
    return byoc.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.nn.dense(hidden, const(4, 16)))))


def given():
    return RNG.standard_normal((2, 8)).astype("float32")


@pytest.fixture
def halves(of_this_test):
    """Kernels in C of dense and relu in float16 alone, of the target ``halves``."""

    @register_backend
    class Halves(KernelBackend):
        """float16 alone"""

        name = "halves"

    kernel("nn.dense", "halves/fp16/any")(CSource(DENSE))
    kernel("nn.relu", "halves/fp16/any")(CSource(RELU))


def text(library):
    return library.report["half_precision"]["text"]


def test_kernels_of_float16_are_given_the_products_and_what_follows_them(halves, tmp_path):
    mod, x = network(), given()
    expected = byoc.compile(mod, targets=["c"])(x)
    library = byoc.compile(mod, targets=["halves", "c"], precision="fp16")
    assert library.plan.regions
    taken = [d.operator for d in library.plan.decisions if d.target == "halves"]
    assert taken.count("nn.dense") == 2 and "nn.relu" in taken
    assert all(d.precision == "fp16" for d in library.plan.decisions if d.operator == "nn.dense")
    assert text(library) == "fp16: 2 of 2 products of halves are given to it in float16\n"
    got = library(x)
    np.testing.assert_allclose(got, expected, atol=5e-3)
    assert not np.array_equal(got, expected)  # which float32 would be
    path = tmp_path / "halves.byoc"
    library.save(path)
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, numpy as np; from byoc.runtime import load; "
        "np.save(sys.argv[3], load(sys.argv[1])(np.load(sys.argv[2]))); assert 'byoc.relay' not in sys.modules"
    )
    words = [sys.executable, "-c", code, str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    subprocess.run(words, check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), got)


def test_without_the_precision_they_are_given_nothing_and_the_plan_says_why(halves):
    library = byoc.compile(network(), targets=["halves", "c"])
    assert not library.plan.regions and "has fp16 for its input 0, input 1, output 0, got float32" in str(library.plan)


def test_a_plan_in_the_precision_is_compiled_and_another_is_refused(halves):
    mod = network()
    plan = byoc.plan(mod, ["halves", "c"], precision="fp16")
    assert plan.regions and byoc.compile(mod, plan=plan, precision="fp16").plan.regions
    with pytest.raises(byoc.errors.PartitionError, match="make it again, for the shapes, the precision"):
        byoc.compile(mod, plan=byoc.plan(mod, ["halves", "c"]), precision="fp16")


def test_patterns_are_matched_in_float16(of_this_test):
    @register_backend
    class Fused(KernelBackend):
        """float16 alone, fused"""

        name = "fused_halves"

        def patterns(self):
            dense = is_op("nn.dense")(wildcard(), is_constant())
            return [PatternEntry("fused_halves.dense_bias", is_op("add")(dense, is_constant()))]

    seen = []

    @kernel("fused_halves.dense_bias", "fused_halves/fp16/any")
    def dense_bias(x, weight, bias):
        seen.append({x.dtype, weight.dtype, bias.dtype})
        return x @ weight.T + bias

    mod, x = network(biased=True), given()
    library = byoc.compile(mod, targets=["fused_halves", "c"], precision="fp16")
    np.testing.assert_allclose(library(x), byoc.compile(mod, targets=["c"])(x), atol=5e-3)
    assert seen == [{np.dtype("float16")}]
    assert "1 of 2 products of fused_halves are given to it in float16; not: nn.dense: not taken in float16:" in text(
        library
    )


def test_what_leaves_the_range_or_is_kept_stays_in_float32_with_its_reason(halves):
    far = byoc.compile(network(1e6), targets=["halves", "c"], precision="fp16")
    assert "1 of 2 products" in text(far) and "its operand 1, a constant, reaches" in text(far)
    kept = byoc.compile(network(), targets=["halves", "c"], precision="fp16", keep_f32=["nn.dense"])
    assert not kept.plan.regions and "0 of 2 products" in text(kept) and "the user keeps it in f32" in text(kept)
    samples = [{"x": given() * 1e5} for _ in range(2)]
    ranged = byoc.compile(network(), targets=["halves", "c"], precision="fp16", calibration=samples)
    assert "on the samples" in text(ranged)


def test_a_model_without_products_says_so(halves):
    x = relay.var("x", shape=(2, 8))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    library = byoc.compile(mod, targets=["halves", "c"], precision="fp16")
    assert not library.plan.regions
    assert "halves stays in f32: the model has no product of float32" in text(library)


def test_what_the_plan_keeps_from_it_is_reported(halves):
    library = byoc.compile(network(), targets=["halves", "c"], precision="fp16", exclude=["nn.dense"])
    assert not any(d.target for d in library.plan.decisions if d.operator == "nn.dense")
    assert "0 of 2 products of halves" in text(library) and "the plan has it on the host" in text(library)


def test_a_backend_that_declares_float32_alone_is_given_no_halves(of_this_test):
    @register_backend
    class Floats(KernelBackend):
        """float32"""

        name = "floats_alone"

    kernel("nn.relu", "floats_alone/float/any")(CSource(RELU))
    library = byoc.compile(network(), targets=["floats_alone", "c"], precision="fp16")
    assert len(library.plan.regions) == 1 and "floats_alone stays in f32: backend floats_alone computes" in text(
        library
    )


def test_a_generator_whose_constraint_names_float16_is_given_it(of_this_test):
    from byoc.codegen.json.backend import JsonBackend

    @register_backend
    class Graphs(JsonBackend):
        """float16 by numpy"""

        name = "half_graphs"
        constraints = (constraints.operators("nn.dense"), constraints.dtypes("float16"))

    library = byoc.compile(network(), targets=["half_graphs", "c"], precision="fp16")
    assert len(library.plan.regions) == 2 and "2 of 2 products of half_graphs are given" in text(library)


def test_on_the_command_line(tmp_path, of_this_test, capsys):
    from byoc.cli.main import main

    source = tmp_path / "line_halves.py"
    source.write_text(
        "from byoc.contract import register_backend\nfrom byoc.kernels import CSource, KernelBackend, kernel\n"
        "@register_backend\nclass Line(KernelBackend):\n    'halves'\n    name = 'line_halves'\n"
        f"kernel('nn.conv2d', 'line_halves/fp16/any')(CSource('''{RELU}'''))\n"
        f"kernel('nn.dense', 'line_halves/fp16/any')(CSource('''{DENSE}'''))\n"
    )
    model = byoc.__path__[0] + "/../examples/digits/digits.onnx"
    words = ["compile", model, "-t", "line_halves,c", "--import", str(source), "--precision", "fp16", "--json"]
    assert main([*words, "-o", str(tmp_path / "m.byoc")]) == 0
    assert "products of line_halves are given to it in float16" in json.dumps(json.loads(capsys.readouterr().out))


def test_what_stays_with_the_host_is_in_float32_whether_the_plan_is_made_now_or_before(halves):
    mod, x = network(biased=True), given()
    expected = byoc.compile(mod, targets=["c"])(x)
    asked = {"precision": "fp16", "exclude": ["nn.dense", "nn.relu"]}
    library = byoc.compile(mod, targets=["halves", "c"], **asked)
    assert not library.plan.regions
    np.testing.assert_array_equal(library(x), expected)
    plan = byoc.plan(mod, ["halves", "c"], **asked)
    np.testing.assert_array_equal(byoc.compile(mod, plan=plan, precision="fp16")(x), expected)
    mod = network()
    mixed = byoc.compile(mod, targets=["halves", "c"], precision="fp16", exclude=["nn.dense"])
    assert [r.target for r in mixed.plan.regions] == ["halves"]  # the relu between the products
    np.testing.assert_allclose(mixed(x), byoc.compile(mod, targets=["c"])(x), atol=5e-3)


def test_float16_that_a_model_has_itself_stays_where_a_target_is_excluded(halves):
    x, weight = relay.var("x", shape=(2, 8)), RNG.standard_normal((4, 8)).astype("float32")
    rounded = relay.cast(relay.cast(x, "float16"), "float32")
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.nn.dense(rounded, relay.const(weight))))
    library = byoc.compile(mod, targets=["halves", "c"], precision="fp16", exclude=["nn.dense"])
    value = given()
    same = value.astype("float16").astype("float32")  # to whom reads halves
    np.testing.assert_array_equal(library(value), library(same))
