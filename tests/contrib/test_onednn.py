"""Regions through oneDNN: numbers, what runs in one primitive, layouts, threads, forks, artefacts; and without it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from library_runs import run_by_threads, run_without_the_compiler

import byoc
from byoc import relay
from byoc.contract import get_backend
from byoc.contrib.onednn import library as onednn_library
from byoc.contrib.onednn.backend import ACTIVATIONS, inlined
from byoc.contrib.onednn.module import OnednnModule
from byoc.contrib.onednn.table import BUILDERS
from byoc.contrib.region_program import checked_program
from byoc.errors import UserError
from byoc.ir.op import OPS
from byoc.relay.interpreter import evaluate
from byoc.runtime.core.errors import ArtifactError

pytestmark = pytest.mark.needs_cc


@pytest.fixture
def onednn():
    missing = onednn_library.unavailable()
    if missing is not None:
        pytest.skip(missing)
    return onednn_library.library()


def const(rng, *shape):
    return relay.const(rng.standard_normal(shape).astype("float32"))


def typed(params, body):
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function(params, body)))


def gelu(x):
    return x * (relay.erf(x / relay.const(np.float32(2**0.5))) + relay.const(1.0)) * relay.const(0.5)


def network():
    """Sums that nobody and that somebody else reads, a function that is written as several operators, a sort."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(2, 3, 12, 12))

    def conv(y, inner, outer, **options):
        weight = const(rng, outer, inner // options.get("groups", 1), 3, 3)
        product = relay.nn.conv2d(y, weight, padding=(1, 1), channels=outer, kernel_size=(3, 3), **options)
        return relay.nn.bias_add(product, const(rng, outer))

    first = relay.nn.relu(conv(x, 3, 8))
    second = relay.nn.relu(relay.add(conv(first, 8, 8), first))  # what is added is read again below
    third = relay.clip(relay.add(first, conv(relay.sigmoid(second), 8, 8, groups=8)), 0.0, 6.0)
    pooled = relay.nn.max_pool2d(relay.concatenate([third, second], axis=1), (3, 3), (2, 2), padding=(1, 1))
    flat = relay.nn.batch_flatten(relay.mean(pooled, axis=[2, 3]))
    dense = gelu(relay.add(relay.nn.dense(flat, const(rng, 5, 16)), const(rng, 5)))
    body = relay.Tuple([relay.nn.softmax(dense), relay.sort(dense), pooled, first])
    return typed([x], body)


def data(seed=1):
    return np.random.default_rng(seed).standard_normal((2, 3, 12, 12)).astype("float32")


def check(found, mod, *arrays):
    wanted = evaluate(mod, list(arrays))
    for one, other in zip(found, wanted if isinstance(wanted, (list, tuple)) else [wanted], strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-4, atol=1e-4)


def module_of(library):
    (module,) = (m for m in library.module.imports if m.type_key == "onednn")
    return module


# without the library ------------------------------------------------------------------------------------------------


def test_every_builder_is_of_an_operator_or_an_activation():
    patterns = {entry.name for entry in get_backend("onednn").patterns()}
    assert set(BUILDERS) <= set(OPS) | patterns
    assert set(ACTIVATIONS) <= patterns and set(ACTIVATIONS) <= set(BUILDERS)


def test_without_the_library_one_plans_and_compiles_for_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv(onednn_library.VARIABLE, str(tmp_path / "libdnnl.so"))
    problem = get_backend("onednn").unavailable()
    assert problem is not None and "libdnnl.so" in problem and "pip install onednn-cpu-gomp" in problem
    library = byoc.compile(network(), ["onednn", "c"])
    library.save(tmp_path / "m.byoc")
    with pytest.raises(UserError, match="pip install onednn-cpu-gomp"):
        byoc.runtime.load(tmp_path / "m.byoc").run({"x": data()})


def test_a_product_and_all_that_stands_behind_it_are_one_primitive():
    source = module_of(byoc.compile(network(), ["onednn", "c"])).get_source()
    assert "nn.conv2d + nn.bias_add + nn.relu(" in source
    assert "nn.conv2d + nn.bias_add + add + nn.relu(" in source
    assert "nn.conv2d + nn.bias_add + add + clip(" in source
    assert "nn.dense + add + onednn.gelu(" in source


def test_a_damaged_program_is_refused():
    module = module_of(byoc.compile(network(), ["onednn", "c"]))
    members = module.save()
    assert OnednnModule.load(members).save() == members
    with pytest.raises(ArtifactError):
        OnednnModule.load({**members, "program.json": members["program.json"][:-1]})
    program = next(iter(module.programs.values()))
    with pytest.raises(ArtifactError, match=r"nn\.magic"):
        checked_program({**program, "steps": [{**program["steps"][0], "operator": "nn.magic"}]}, "program", BUILDERS)


def test_an_activation_with_other_constants_stays_what_it_is():
    x = relay.var("x", shape=(3,))
    other = x * (relay.erf(x / relay.const(np.float32(1.5))) + relay.const(1.0)) * relay.const(0.5)
    assert "onednn.gelu" in str(inlined(typed([x], gelu(x))["main"]))
    assert "onednn.gelu" not in str(inlined(typed([x], other)["main"]))


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda x: relay.nn.avg_pool2d(x, (3, 3), (3, 3), ceil_mode=True, count_include_pad=True), "ceil_mode"),
        (lambda x: relay.nn.max_pool2d(x, (2, 2), padding=(2, 2)), "padding"),
        (
            lambda x: relay.nn.layer_norm(x, relay.const(np.ones(4, "float32")), relay.const(np.ones(4, "float32")), 1),
            "axis 1",
        ),
        (lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), 1.0), "zeros around"),
        (lambda x: relay.strided_slice(x, [0], [4], [2], axes=[1]), "stride 2"),
        (lambda x: relay.log(x), "functions with right digits"),
        (lambda x: relay.sort(x), "its table of primitives has"),
        (lambda x: relay.cast(x, "int32"), "float32, float16 or bfloat16"),
    ],
)
def test_what_is_refused_has_its_reason(build, why):
    x = relay.var("x", shape=(1, 4, 10, 10))
    plan = byoc.plan(byoc.IRModule.from_expr(relay.Function([x], build(x))), ["onednn", "c"])
    assert not plan.regions and why in str(plan)


# with the library -----------------------------------------------------------------------------------------------------


def test_a_network_is_right_and_its_weights_are_reordered_once(onednn):
    mod = network()
    library = byoc.compile(mod, ["onednn", "c"])
    for seed in (1, 2):
        check(library.run({"x": data(seed)}), mod, data(seed))
    module = module_of(library)
    held = [len(constants.reordered) for constants in module._constants.values()]
    library.run({"x": data()})
    assert sum(held) and held == [len(constants.reordered) for constants in module._constants.values()]
    assert all(module.memory(symbol) for symbol in module.symbols)


def test_the_artefact_runs_in_a_process_without_the_compiler(onednn, tmp_path):
    mod = network()
    check(run_without_the_compiler(byoc.compile(mod, ["onednn", "c"]), data(), tmp_path), mod, data())


def test_a_forked_child_runs_too(onednn, tmp_path):
    byoc.compile(network(), ["onednn", "c"]).save(tmp_path / "m.byoc")
    code = (
        "import os, sys, signal, numpy as np, byoc.runtime\n"
        "library = byoc.runtime.load(sys.argv[1])\n"
        "x = np.ones((2, 3, 12, 12), 'float32')\n"
        "before = [a.copy() for a in library.run({'x': x})]\n"
        "if os.fork() == 0:\n"
        "    signal.alarm(60)\n"  # a child that waits for threads which it does not have
        "    same = all(np.allclose(a, b, 1e-5, 1e-5) for a, b in zip(library.run({'x': x}), before))\n"
        "    os._exit(0 if same else 1)\n"
        "print(os.wait()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "m.byoc")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
    )
    assert done.stdout.split() == ["0"]


def test_free_sizes_and_threads(onednn):
    n = relay.Any(name="n")
    x, rng = relay.var("x", shape=(n, 4)), np.random.default_rng(0)
    mod = typed([x], relay.sum(relay.nn.relu(relay.nn.dense(x, const(rng, 3, 4))), axis=[0]))
    library = byoc.compile(mod, ["onednn", "c"])
    arrays = [np.random.default_rng(k).standard_normal((k, 4)).astype("float32") for k in range(8)]  # one is empty
    for one, array in zip(run_by_threads(library, arrays), arrays, strict=True):
        check([one], mod, array)


def branches():
    """Products, pools and movements in every form, all of one input for each rank."""
    rng = np.random.default_rng(3)
    one, two, three = (relay.var(f"x{n}", shape=(2, 4, *(7,) * n)) for n in (1, 2, 3))
    last = relay.var("last", shape=(2, 7, 7, 4))
    nhwc = dict(data_layout="NHWC", kernel_layout="HWIO", channels=6, kernel_size=(3, 3))
    depthwise = dict(nhwc, kernel_layout="HWOI", channels=8, groups=4)
    results = [
        relay.nn.conv1d(one, const(rng, 6, 4, 3), strides=(2,), padding=(1,), dilation=(2,)),
        relay.nn.conv3d(three, const(rng, 6, 4, 2, 2, 2)),
        relay.nn.conv2d(last, const(rng, 3, 3, 4, 6), padding=(1, 0, 0, 1), **nhwc),
        relay.nn.conv2d(last, const(rng, 3, 3, 4, 2), **depthwise),
        relay.nn.conv2d(two, const(rng, 6, 2, 3, 3), groups=2, channels=6, kernel_size=(3, 3)),
        relay.nn.conv1d_transpose(one, const(rng, 4, 6, 3), strides=(2,), channels=6, kernel_size=(3,)),
        relay.nn.conv2d_transpose(
            two, const(rng, 4, 3, 3, 3), strides=(2, 2), padding=(1, 1), groups=2, channels=6, kernel_size=(3, 3)
        ),
        relay.nn.conv3d_transpose(three, const(rng, 4, 2, 2, 2, 2), channels=2, kernel_size=(2, 2, 2)),
        relay.nn.avg_pool1d(one, (3,), (2,), padding=(1,), ceil_mode=True),
        relay.nn.avg_pool2d(last, (3, 3), (2, 2), padding=(1, 1), layout="NHWC", count_include_pad=True),
        relay.nn.max_pool3d(three, (2, 2, 2), (2, 2, 2), ceil_mode=True),
        relay.nn.global_max_pool2d(two),
        relay.nn.log_softmax(two, axis=1),
        relay.nn.lrn(relay.concatenate([two] * 4, axis=1), size=5),
        relay.nn.layer_norm(last, const(rng, 4), const(rng, 4)),
        relay.nn.batch_norm(two, const(rng, 4), const(rng, 4), const(rng, 4), relay.const(np.ones(4, "float32")))[0],
        relay.image.resize2d(two, (14, 10), method="linear", coordinate_transformation_mode="half_pixel"),
        relay.prod(two, axis=[1, 3], keepdims=True),
        relay.transpose(relay.strided_slice(two, [1, 2], [4, 6], axes=[1, 2]), [0, 2, 3, 1]),
        relay.nn.pad(two, ((0, 0), (1, 0), (2, 1), (0, 0))),
        *relay.split(relay.reshape(two, (2, 2, 98)), [1, 40], axis=2),
        relay.nn.batch_matmul(relay.reshape(two, (8, 7, 7)), relay.reshape(last, (8, 7, 7))) * relay.const(0.5),
        relay.divide(two, relay.exp(relay.reshape(const(rng, 4), (4, 1, 1)))),
        relay.subtract(relay.const(1.0), relay.tanh(one)),
    ]
    return typed([one, two, three, last], relay.Tuple(results))


def test_every_form_is_right_in_one_region(onednn):
    mod = branches()
    library = byoc.compile(mod, ["onednn", "c"])
    left = [d["operator"] for d in library.report["plan"]["decisions"] if d["target"] is None]
    assert not left, left
    rng = np.random.default_rng(5)
    arrays = {
        p.name_hint: rng.standard_normal([int(d) for d in p.checked_type.shape]).astype("float32")
        for p in mod["main"].params
    }
    check(library.run(arrays), mod, *arrays.values())


def test_a_plan_by_cost_takes_it_where_it_is_cheaper(onednn):
    mod = network()
    costs = {"onednn": lambda unit, place: 0.0, "c": "typical"}
    assert byoc.plan(mod, ["onednn", "c"], policy="cost", costs=costs).regions
    check(byoc.compile(mod, ["onednn", "c"], policy="cost", costs="typical").run({"x": data()}), mod, data())


def test_slopes_of_channels_are_oneDNNs_in_any_order_of_axes(onednn):
    rng = np.random.default_rng(3)
    x = relay.var("x", shape=(2, 5, 7, 3))
    first = relay.nn.prelu(x, const(rng, 5), axis=1)
    weight = const(rng, 4, 5, 1, 1)
    product = relay.nn.conv2d(first, weight, channels=4, kernel_size=(1, 1))  # whose result lies as oneDNN likes
    last = relay.nn.prelu(x, const(rng, 3), axis=-1)
    mod = typed([x], relay.Tuple([relay.nn.prelu(product, const(rng, 4)), last]))
    library = byoc.compile(mod, ["onednn", "c"])
    assert {d.target for d in library.plan.decisions} == {"onednn"}
    array = rng.standard_normal((2, 5, 7, 3)).astype("float32")
    check(library.run({"x": array}), mod, array)


@pytest.mark.slow
def test_the_backend_is_certified(onednn):
    found = byoc.testing.certify("onednn")
    assert found.ok, str(found)
    assert {"nn.conv2d", "nn.dense", "onednn.conv_bias_sum_ending", "onednn.gelu"} <= set(found.covered)


def test_a_library_that_works_is_not_looked_for_again(onednn, monkeypatch):
    """Each call of a plan asks whether it is there, and the system's search starts compilers."""
    assert onednn_library.library() is onednn
    monkeypatch.setattr(onednn_library, "_candidates", lambda: pytest.fail("looked for once more"))
    assert onednn_library.unavailable() is None
