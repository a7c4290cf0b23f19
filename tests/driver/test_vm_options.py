"""Precision and tuning on the virtual machine: what it takes is done, what it does not take is refused by name."""

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.json.backend import JsonBackend
from byoc.codegen.tune.database import Database
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.record import Trial
from byoc.codegen.tune.tuner import Tuner
from byoc.contract import constraints, register_backend
from byoc.driver.compiler import tuners
from byoc.driver.options import CompileRequest
from byoc.driver.vm import compile_module
from byoc.driver.vm.cut_model import compile_for_vm
from byoc.errors import PartitionError, UserError
from byoc.relay import transform
from byoc.runtime import cpu
from byoc.runtime.vm import VirtualMachine

pytestmark = pytest.mark.needs_cc
X = np.random.default_rng(0).standard_normal((24, 64)).astype("float32")
W = np.random.default_rng(1).standard_normal((48, 64)).astype("float32")


def dense():
    x = relay.var("x", shape=X.shape)
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, relay.const(W)))))


def branches():
    x, which = relay.var("x", shape=X.shape), relay.var("which", shape=(), dtype="bool")
    product = relay.nn.dense(x, relay.const(W))
    return relay.IRModule.from_expr(relay.Function([x, which], relay.If(which, product, relay.negative(product))))


def run(mod, *inputs, **options):
    return np.asarray(VirtualMachine(compile_module(mod, **options), cpu()).run(*inputs))


def test_bfloat16_is_computed_within_its_rounding_where_nothing_branches():
    if "dot_bf16" not in find_compiler().machine.dots:
        pytest.skip("this processor has no instruction for products of bfloat16")
    exact = np.maximum(X @ W.T, 0)
    error = np.abs(run(dense(), X, precision="bf16") - exact).max() / exact.max()
    assert 1e-4 < error < 2.0**-7  # it did round
    kept = run(dense(), X, precision="bf16", keep_f32=["nn.dense"])
    np.testing.assert_allclose(kept, exact, rtol=1e-4, atol=1e-4)


def test_functions_with_branches_stay_in_f32():
    found = run(branches(), X, np.array(True), precision="bf16")
    np.testing.assert_allclose(found, X @ W.T, rtol=1e-4, atol=1e-4)


OPTIONED = "test_optioned"


@pytest.fixture
def optioned(of_this_test):
    """A backend that has an option."""

    @register_backend
    class Optioned(JsonBackend):
        """products"""

        name, options, table = OPTIONED, ("speed",), "numpy"
        constraints = (constraints.operators("nn.dense", "nn.relu"),)


def test_options_of_a_backend_without_a_region_are_refused(optioned):
    with pytest.raises(PartitionError, match="is given the option speed, and is no target here") as e:
        compile_module(dense(), {OPTIONED: {"speed": 2}})
    assert "(the targets are c): add test_optioned to the targets, or leave its options out" in str(e.value)
    cut = dense()
    for step in (transform.AnnotateTarget(OPTIONED), transform.MergeCompilerRegions(), transform.PartitionGraph()):
        cut = step(cut)
    for mod, options in ((cut, {OPTIONED: {"speed": 2}}), (dense(), {"c": {"strict": True}})):
        found = np.asarray(VirtualMachine(compile_module(mod, options), cpu()).run(X))
        np.testing.assert_allclose(found, np.maximum(X @ W.T, 0), rtol=1e-4, atol=1e-4)


def test_options_of_a_target_that_takes_nothing_are_no_mistake(optioned):
    """As in byoc.compile: what is asked for counts, not what came of it."""
    asked = {"backend_options": {OPTIONED: {"speed": 2}}, "exclude": ["nn.dense", "nn.relu"]}
    executable = compile_for_vm(CompileRequest(dense(), [OPTIONED, "c"], **asked))
    assert not executable.lib.regions
    with pytest.raises(PartitionError, match="add test_optioned to the targets"):
        compile_for_vm(CompileRequest(dense(), ["c"], **asked))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"precision": "int8"}, "the virtual machine has no int8"),
        ({"precision": "half"}, "precision is one of"),
        ({"precision": "bf16", "keep_f32": ["nn.dens"]}, "no operator or ONNX node of the model is called 'nn.dens'"),
        ({"tune": "much"}, "the level of tuning is one of"),
    ],
)
def test_what_it_does_not_take_is_one_sentence(options, message):
    with pytest.raises(UserError, match=message):
        compile_module(dense(), **options)


class Contrary:
    """Trials in which the model's own choice is the slowest; they remember the threads that they were opened for."""

    def __init__(self):
        self.opened = []

    def __call__(self, bench, rounds, threads):
        self.opened.append(threads)
        return self

    def __enter__(self):
        return lambda space, candidates, rest: [Trial(c, 9.0 - k / 99, 9.0) for k, c in enumerate(candidates)]

    def __exit__(self, *error):
        return None


@pytest.mark.parametrize("mod, inputs", [(dense(), (X,)), (branches(), (X, np.array(False)))])
def test_kernels_are_tuned_for_one_thread_and_what_is_known_is_taken(mod, inputs, tmp_path):
    trial_runner, database = Contrary(), Database(tmp_path)
    first = Tuner(LEVELS["heavy"], database, trial_runner=trial_runner)
    tuned = compile_module(mod, tune=first)
    assert trial_runner.opened == [1] and first.report.tuned[0].choice != first.report.tuned[0].expected
    assert tuned.lib.imported_modules[0].get_source() != compile_module(mod).lib.imported_modules[0].get_source()
    np.testing.assert_allclose(np.asarray(VirtualMachine(tuned, cpu()).run(*inputs)), run(mod, *inputs), rtol=1e-4)
    second = Tuner(LEVELS["heavy"], database, trial_runner=trial_runner)
    compile_module(mod, tune=second)
    assert trial_runner.opened == [1] and second.report.known and not second.report.tuned


def test_a_backend_that_cannot_be_used_does_not_keep_others_from_being_tuned(monkeypatch):
    """The name of a target with a mistake in it is among those that there are."""

    def refuse(name):
        if name == "mistaken":
            raise PartitionError("backend 'mistaken': a kernel of it is about no operator")
        return get_backend(name)

    get_backend = tuners.get_backend
    monkeypatch.setattr(tuners, "backend_names", lambda: ["mistaken", "c"])
    monkeypatch.setattr(tuners, "get_backend", refuse)
    tuner = tuners.tuner_for("fast", {})
    assert list(tuners.with_tuner({}, tuner, "fast")) == ["c"]
