"""Regions through ONNX Runtime and OpenVINO: what they take, the numbers, several outputs, threads, the artefact."""

import subprocess
import sys

import numpy as np
import pytest
from library_runs import run_by_threads, run_without_the_compiler

import byoc
from byoc import relay
from byoc.contract import get_backend
from byoc.errors import UserError
from byoc.relay.interpreter import evaluate
from byoc.runtime.core.errors import ArtifactError

LIBRARIES = {"onnxruntime": "onnxruntime", "openvino": "openvino"}
pytestmark = pytest.mark.needs_cc


@pytest.fixture(params=sorted(LIBRARIES))
def library_name(request):
    pytest.importorskip(LIBRARIES[request.param])
    return request.param


def network(batch=2):
    """A convolution, whose result goes out beside what becomes of it, and a sort that neither library is given."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(batch, 3, 8, 8))
    weight = relay.const(rng.standard_normal((4, 3, 3, 3)).astype("float32"))
    conv = relay.nn.relu(relay.nn.conv2d(x, weight, padding=(1, 1), channels=4, kernel_size=(3, 3)))
    pooled = relay.nn.batch_flatten(relay.nn.max_pool2d(conv, (2, 2), (2, 2)))
    dense = relay.nn.dense(pooled, relay.const(rng.standard_normal((5, 64)).astype("float32")))
    body = relay.Tuple([conv, relay.sort(relay.nn.softmax(dense)), relay.transpose(dense)])
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], body)))


def data(batch=2, seed=1):
    return np.random.default_rng(seed).standard_normal((batch, 3, 8, 8)).astype("float32")


def check(found, mod, array):
    for one, other in zip(found, evaluate(mod, [array]), strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-4, atol=1e-5)


def test_a_region_is_one_model_with_several_outputs(library_name):
    mod = network()
    library = byoc.compile(mod, [library_name, "c"])
    (module,) = (m for m in library.module.imports if m.type_key == library_name)
    (signature,) = module.signatures.values()
    assert len(signature.outputs) == 3
    check(library.run({"x": data()}), mod, data())
    assert library.report["plan_text"].splitlines()[0].endswith("1 on the host")


def test_the_artefact_runs_in_a_process_without_the_compiler(library_name, tmp_path):
    mod = network()
    check(run_without_the_compiler(byoc.compile(mod, [library_name, "c"]), data(), tmp_path), mod, data())


def test_free_sizes_and_threads(library_name):
    n = relay.Any(name="n")
    x = relay.var("x", shape=(n, 4))
    weight = relay.const(np.random.default_rng(0).standard_normal((3, 4)).astype("float32"))
    mod = relay.transform.InferType()(
        byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, weight))))
    )
    library = byoc.compile(mod, [library_name, "c"])
    assert any(m.type_key == library_name for m in library.module.imports)
    arrays = [np.random.default_rng(k).standard_normal((k + 1, 4)).astype("float32") for k in range(8)]
    for one, array in zip(run_by_threads(library, arrays), arrays, strict=True):
        np.testing.assert_allclose(one, np.maximum(array @ weight.data.numpy().T, 0), rtol=1e-4, atol=1e-5)


def test_inputs_are_not_written_to(library_name):
    library = byoc.compile(network(), [library_name, "c"])
    array = data()
    array.flags.writeable = False
    before = array.copy()
    library.run({"x": array})
    np.testing.assert_array_equal(array, before)


def test_what_is_refused_has_its_reason(library_name):
    plan = byoc.plan(network(), [library_name, "c"])
    (decision,) = plan.host
    assert decision.operator == "sort"
    assert "sort has no rule" in str(dict(decision.verdicts)[library_name])


def test_openvino_gets_float32_alone():
    x = relay.var("x", shape=(3, 4), dtype="float64")
    plan = byoc.plan(byoc.IRModule.from_expr(relay.Function([x], relay.tanh(x))), ["openvino", "c"])
    assert "float32 alone" in str(plan)


def test_what_openvino_computes_otherwise_is_reported_where_it_computes():
    x = relay.var("x", shape=(3,))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.clip(x, 0.0, 1.0)))
    texts = byoc.compile(mod, ["openvino", "c"]).report["deviations"]
    assert list(texts) == ["openvino"] and "a NaN may become a number" in texts["openvino"][0]
    assert "deviations" not in byoc.compile(mod, ["c"]).report


def test_onnx_runtime_is_asked_for_a_kernel():
    pytest.importorskip("onnxruntime")
    x = relay.var("x", shape=(3, 4), dtype="float64")
    plan = byoc.plan(byoc.IRModule.from_expr(relay.Function([x], relay.tan(x))), ["onnxruntime", "c"])
    assert "what ONNX Runtime has a kernel for" in str(plan) and not plan.regions


def test_onnx_runtime_gets_a_float64_product_with_a_transposed_operand():
    """Version 1.23 fuses these into an operator for which it has no kernel in float64."""
    pytest.importorskip("onnxruntime")
    q, k = relay.var("q", shape=(2, 3, 4), dtype="float64"), relay.var("k", shape=(2, 5, 4), dtype="float64")
    product = relay.nn.batch_matmul(q, relay.transpose(k, (0, 2, 1)), transpose_b=False)
    library = byoc.compile(byoc.IRModule.from_expr(relay.Function([q, k], relay.nn.relu(product))), ["onnxruntime"])
    (module,) = (m for m in library.module.imports if m.type_key == "onnxruntime")
    assert len(module.symbols) == 1
    rng = np.random.default_rng(0)
    given = {"q": rng.standard_normal((2, 3, 4)), "k": rng.standard_normal((2, 5, 4))}
    wanted = np.maximum(given["q"] @ given["k"].swapaxes(1, 2), 0)
    np.testing.assert_allclose(library.run(given)[0], wanted, rtol=1e-12, atol=1e-13)


def test_without_the_library_one_plans_and_compiles_for_elsewhere(library_name, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, LIBRARIES[library_name], None)
    problem = get_backend(library_name).unavailable()
    assert problem is not None and f"pip install {library_name}" in problem
    library = byoc.compile(network(), [library_name, "c"])
    library.save(tmp_path / "m.byoc")
    with pytest.raises(UserError, match=f"pip install {library_name}"):
        library.run({"x": data()})


def test_a_damaged_module_is_refused(library_name):
    library = byoc.compile(network(), [library_name, "c"])
    (module,) = (m for m in library.module.imports if m.type_key == library_name)
    members = module.save()
    assert type(module).load(members).save() == members
    (name,) = (n for n in members if n.endswith(".onnx"))
    with pytest.raises(ArtifactError):
        type(module).load({**members, name: members[name][:-1] + b"x"})
    with pytest.raises(ArtifactError):
        type(module).load({})


FORKED = """
import os, sys
import numpy as np
import byoc
from byoc import relay

def library():
    x, y = relay.var("x", shape=(2, 3, 4)), relay.var("y", shape=(2, 5, 4))
    mod = byoc.IRModule.from_expr(relay.Function([x, y], relay.nn.batch_matmul(x, y)))
    return byoc.compile(mod, ["openvino", "c"])

feed = {"x": np.ones((2, 3, 4), "float32"), "y": np.ones((2, 5, 4), "float32")}
kept = library()
assert "openvino" in str(kept.plan)
kept.run(feed)
library().run(feed)  # and gone again: its threads wait for the next model
pid = os.fork()
if pid:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
assert (kept.run(feed)[0] == 4).all()
try:
    print(library().run(feed))
except byoc.errors.ByocError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
os._exit(0)
"""


def test_openvino_does_not_wait_for_threads_that_a_forked_process_has_not():
    """A certification in forked workers came to no end, in compile_model, which waited for the parent's threads."""
    pytest.importorskip("openvino")
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "this process was forked from one that had used OpenVINO, whose threads are not in a child" in done.stdout
    assert "start processes anew" in done.stdout and done.stdout.startswith("DeviceError: ")
