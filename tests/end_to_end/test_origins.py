"""What runs can be traced to the model: names of ONNX nodes from import to the graph that runs, and text both ways."""

import pathlib

import onnx
import pytest

import byoc
from byoc import relay
from byoc.driver.pipeline import optimize
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.relay.expr import Call
from byoc.relay.structure.structural import structural_equal, structural_hash
from byoc.relay.traverse import post_order

ROOT = pathlib.Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "models"
MODELS = {
    "digits": ROOT / "examples" / "digits" / "digits.onnx",
    **{name: SHARED / f"{name}.onnx" for name in ("mnist", "face_rfb_320", "style_candy")},
}


@pytest.fixture(params=MODELS)
def path(request):
    if not MODELS[request.param].is_file():
        pytest.skip(f"{MODELS[request.param]} is absent")
    return MODELS[request.param]


def test_printing_and_parsing_a_model_is_the_identity(path):
    for mod in (imported := byoc.import_onnx(path), optimize(imported)):
        text = mod.astext()
        again = relay.transform.InferType()(relay.fromtext(text))
        assert structural_equal(mod, again)
        assert structural_hash(mod) == structural_hash(again)
        assert again.astext() == text


def test_every_call_has_the_name_of_its_onnx_node_before_and_after_the_passes(path):
    model = onnx.load(path)
    named = {n.name for n in model.graph.node if n.name}
    for mod in (imported := byoc.import_onnx(path), optimize(imported)):
        calls = [n for n in post_order(mod["main"]) if isinstance(n, Call) and isinstance(n.op, Op)]
        for call in calls:
            assert span_names(call.span), call.op.name
            if len(named) == len(model.graph.node):
                assert set(span_names(call.span)) <= named


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
def test_every_step_of_the_running_graph_names_its_nodes(path):
    if path.stem == "style_candy":
        pytest.skip("compiled by the other end-to-end tests")
    library = byoc.compile(path, targets=["opencl", "c"], exclude=["nn.softmax"] if path.stem != "mnist" else [])
    steps = [node for node in library.graph_json["nodes"] if node["op"] == "tvm_op"]
    assert steps
    for step in steps:
        assert step["attrs"]["origin"], step["name"]
