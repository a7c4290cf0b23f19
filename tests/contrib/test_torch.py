"""Regions through PyTorch: numbers, several outputs, free sizes, threads, devices, the artefact; and without it."""

import sys

import numpy as np
import pytest
from library_runs import run_by_threads, run_without_the_compiler

import byoc
from byoc import relay
from byoc.contract import get_backend
from byoc.contrib.region_program import checked_program
from byoc.contrib.torch.module import TorchModule
from byoc.contrib.torch.table import KERNELS
from byoc.errors import UserError
from byoc.ir.op import OPS
from byoc.relay.interpreter import evaluate
from byoc.runtime.core.errors import ArtifactError

pytestmark = pytest.mark.needs_cc


def network(batch=2):
    """A convolution with its bias, whose result goes out beside what becomes of it, and a sort that stays behind."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(batch, 3, 8, 8))
    weight, bias = (relay.const(rng.standard_normal(s).astype("float32")) for s in ((4, 3, 3, 3), (4,)))
    conv = relay.nn.bias_add(relay.nn.conv2d(x, weight, padding=(1, 1), channels=4, kernel_size=(3, 3)), bias)
    pooled = relay.nn.batch_flatten(relay.nn.max_pool2d(relay.nn.relu(conv), (2, 2), (2, 2)))
    dense = relay.nn.dense(pooled, relay.const(rng.standard_normal((5, 64)).astype("float32")))
    halves = relay.split(dense, 2, axis=0)
    body = relay.Tuple([conv, relay.sort(relay.nn.softmax(dense)), halves[1], halves[0]])
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], body)))


def data(batch=2, seed=1):
    return np.random.default_rng(seed).standard_normal((batch, 3, 8, 8)).astype("float32")


def check(found, mod, array):
    for one, other in zip(found, evaluate(mod, [array]), strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-4, atol=1e-5)


def compiled(mod, **options):
    return byoc.compile(mod, ["torch", "c"], backend_options={"torch": options})


# without PyTorch ------------------------------------------------------------------------------------------------------


def test_every_kernel_is_of_an_operator_or_a_pattern():
    patterns = {entry.name for entry in get_backend("torch").patterns()}
    assert set(KERNELS) <= set(OPS) | patterns
    assert patterns <= set(KERNELS)


def test_without_pytorch_one_plans_and_compiles_for_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    problem = get_backend("torch").unavailable()
    assert problem is not None and "pip install torch" in problem
    library = compiled(network())
    library.save(tmp_path / "m.byoc")
    with pytest.raises(UserError, match="pip install torch"):
        byoc.runtime.load(tmp_path / "m.byoc").run({"x": data()})


def test_the_product_and_its_bias_are_one_step():
    (module,) = (m for m in compiled(network()).module.imports if m.type_key == "torch")
    steps = [step["operator"] for program in module.programs.values() for step in program["steps"]]
    assert "torch.conv_bias" in steps and "nn.bias_add" not in steps


@pytest.mark.parametrize(
    ("options", "text"),
    [({"device": "gpu"}, "cuda, cuda:N or cpu"), ({"precision": "bf16"}, "f32 or tf32"), ({"stream": 1}, "stream")],
)
def test_an_option_that_there_is_not_is_refused(options, text):
    with pytest.raises(UserError, match=text):
        compiled(network(), **options)


def test_what_is_refused_has_its_reason():
    plan = byoc.plan(network(), ["torch", "c"])
    (decision,) = plan.host
    assert decision.operator == "sort" and "its table of kernels has" in str(plan)


def test_a_damaged_program_is_refused():
    (module,) = (m for m in compiled(network()).module.imports if m.type_key == "torch")
    members = module.save()
    assert TorchModule.load(members).save() == members
    with pytest.raises(ArtifactError):
        TorchModule.load({**members, "program.json": members["program.json"][:-1]})
    (program,) = module.programs.values()
    for damage, text in (
        ({"outputs": [10**6]}, "none of the"),
        ({"steps": [{**program["steps"][0], "operator": "nn.magic"}]}, "nn.magic"),
        ({"steps": [{**program["steps"][0], "arguments": [-1]}]}, "arguments"),
    ):
        with pytest.raises(ArtifactError, match=text):
            checked_program({**program, **damage}, "program", KERNELS)


# with PyTorch ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_a_region_has_several_outputs(torch):
    mod = network()
    check(compiled(mod).run({"x": data()}), mod, data())


def test_the_artefact_runs_in_a_process_without_the_compiler(torch, tmp_path):
    mod = network()
    check(run_without_the_compiler(compiled(mod), data(), tmp_path), mod, data())


def test_free_sizes_and_threads(torch):
    n = relay.Any(name="n")
    x = relay.var("x", shape=(n, 4))
    weight = relay.const(np.random.default_rng(0).standard_normal((3, 4)).astype("float32"))
    body = relay.nn.relu(relay.nn.dense(x, weight))
    library = compiled(relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], body))))
    arrays = [np.random.default_rng(k).standard_normal((k, 4)).astype("float32") for k in range(8)]  # one is empty
    for one, array in zip(run_by_threads(library, arrays), arrays, strict=True):
        np.testing.assert_allclose(one, np.maximum(array @ weight.data.numpy().T, 0), rtol=1e-4, atol=1e-5)


def test_inputs_are_not_written_to_and_constants_stay_on_the_device(torch):
    library = compiled(network())
    array = data()
    array.flags.writeable = False
    before = array.copy()
    library.run({"x": array})
    (module,) = (m for m in library.module.imports if m.type_key == "torch")
    held = [t.data_ptr() for tensors in module._constants.values() for t in tensors]
    library.run({"x": array})
    np.testing.assert_array_equal(array, before)
    assert held == [t.data_ptr() for tensors in module._constants.values() for t in tensors] and held


def test_a_device_that_is_not_here_is_one_sentence(torch):
    library = compiled(network(), device="cuda:63")
    with pytest.raises(UserError, match=r"cuda:63 is asked for: choose cpu"):
        library.run({"x": data()})


def test_the_environment_chooses_where_the_model_does_not(torch, monkeypatch):
    library = compiled(network())
    monkeypatch.setenv("BYOC_TORCH_DEVICE", "cuda:63")
    with pytest.raises(UserError, match=r"cuda:63 is asked for"):
        library.run({"x": data()})
    check(compiled(network(), device="cpu").run({"x": data()}), network(), data())


@pytest.mark.parametrize("precision", ["f32", "tf32"])
def test_the_switches_of_the_process_are_as_they_were(torch, precision):
    from byoc.contrib.torch.module import _switches

    before = [getattr(owner, name) for owner, name, _ in _switches(False)]
    compiled(network(), precision=precision, device="cpu").run({"x": data()})
    assert [getattr(owner, name) for owner, name, _ in _switches(False)] == before
