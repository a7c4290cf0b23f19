"""A module cut for one backend in one call, as Relay's vendors know it, against the plan that it is short for."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.contract import callee_name
from byoc.errors import UserError
from byoc.relay.bind import module_with_params
from byoc.relay.expr import Call
from byoc.relay.interpreter import evaluate
from byoc.relay.op.contrib import get_pattern_table
from byoc.relay.structure.structural import structural_equal
from byoc.relay.traverse import post_order

BACKENDS = ("json", "c", "opencl", "onnxruntime", "openvino", "onednn", "torch", "int8_npu")


def network():
    x, w, b = (relay.var(n, shape=s) for n, s in (("x", (2, 3, 8, 8)), ("w", (4, 3, 3, 3)), ("b", (4,))))
    convolved = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=(1, 1)), b))
    return relay.Function([x, w, b], relay.add(convolved, relay.sigmoid(convolved)))


def weights():
    rng = np.random.default_rng(2)
    return {"w": rng.standard_normal((4, 3, 3, 3)).astype("float32"), "b": rng.standard_normal(4).astype("float32")}


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_is_what_relays_passes_make_one_after_another(backend):
    """Source of the sequence: ``partition_for_*`` of TVM's integrations."""
    steps = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(get_pattern_table(backend)),
        relay.transform.AnnotateTarget(backend),
        relay.transform.MergeCompilerRegions(),
        relay.transform.PartitionGraph(),
    ]
    want = relay.transform.Sequential(steps)(module_with_params(network(), weights()))
    got = byoc.partition_for(backend, network(), weights())
    assert structural_equal(got, want)
    taken = [f.attrs["Compiler"] for f in got.functions.values() if "Compiler" in f.attrs]
    assert taken == ([] if backend == "int8_npu" else [backend]), "floats are not int8_npu's"


def test_a_layout_that_a_backend_asks_for_is_made():
    """Which the passes alone leave to others: XNNPACK's convolutions have their channels innermost."""
    (region,) = (f for f in byoc.partition_for("xnnpack", network(), weights()).functions.values() if f.attrs)
    convolution = next(n for n in post_order(region) if isinstance(n, Call) and callee_name(n) == "nn.conv2d")
    assert convolution.attrs.data_layout == "NHWC"


def test_what_is_cut_compiles_and_gives_the_functions_numbers():
    cut = byoc.partition_for("json", byoc.IRModule.from_expr(network()), weights(), mod_name="net")
    (region,) = (f for v, f in cut.functions.items() if v.name_hint == "tvmgen_net_json_main_0")
    assert region.attrs["Compiler"] == "json"
    x = np.random.default_rng(3).standard_normal((2, 3, 8, 8)).astype("float32")
    (got,) = byoc.compile(cut, targets="json").run({"x": x})
    want = evaluate(network(), [x, *weights().values()])
    np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5, atol=1e-5)


def test_options_of_the_plan_hold():
    both = byoc.partition_for("json", network(), weights())
    few = byoc.partition_for("json", network(), weights(), limits={"json": byoc.Limits(max_operators=2)})
    assert len(few.functions) > len(both.functions)


@pytest.mark.parametrize(
    ("backend", "mod", "options", "message"),
    [
        ("nosuch", network(), {}, "no backend is called 'nosuch'; known: .*json"),
        ("json", network(), {"polcy": "cost"}, "byoc.plan has no option 'polcy': the nearest is 'policy'"),
        ("json", network(), {"targets": "c"}, r"partition_for\('json'\) cuts for that backend alone, got targets="),
        ("json", 3, {}, "a module or a function is compiled, got int"),
    ],
    ids=["a backend", "an option", "targets", "no module"],
)
def test_mistakes_are_one_sentence(backend, mod, options, message):
    with pytest.raises(UserError, match=message):
        byoc.partition_for(backend, mod, **options)


def test_a_new_backends_package_has_it_by_its_own_name(tmp_path, monkeypatch):
    assert main(["new-backend", "acme", "--kind", "kernels", "-o", str(tmp_path / "made")]) == 0
    (package,) = (tmp_path / "made").rglob("byoc_acme")
    monkeypatch.syspath_prepend(str(package.parent))
    made = importlib.import_module("byoc_acme")
    monkeypatch.setattr(byoc, "partition_for", lambda *given, **options: (given, options))
    assert made.partition_for_acme(3, {"w": 4}, policy="cost") == (("acme", 3, {"w": 4}), {"policy": "cost"})
