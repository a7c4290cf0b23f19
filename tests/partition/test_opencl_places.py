"""Ordered places over the real OpenCL backend: what it has no kernel for is the trailing host's, or a named error."""

import json

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.cli.main import main
from byoc.errors import PartitionError

pytestmark = [pytest.mark.needs_opencl, pytest.mark.needs_cc]
X = np.random.default_rng(1).standard_normal((4, 64)).astype("float32")
REASON = "no opencl kernel for topk: operators whose elements are defined by a tensor expression, got topk"
PLACES = ["opencl/float/NCHW", "opencl/float/any", "opencl/any/any"]


def model():
    """A product, a relu, the 32 largest of each row (of which the device has no kernel), and a tanh."""
    weight = (np.random.default_rng(0).standard_normal((64, 64)) / 8).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("TopK", ["b", "k"], ["v", "i"], "best", axis=-1),
        helper.make_node("Tanh", ["v"], ["y"], "tanh"),
    ]
    ends = (("x", TensorProto.FLOAT, [4, 64]), ("y", TensorProto.FLOAT, [4, 32]), ("i", TensorProto.INT64, [4, 32]))
    x, *outputs = (helper.make_tensor_value_info(*end) for end in ends)
    constants = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([32]), "k")]
    graph = helper.make_graph(nodes, "g", [x], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "m.onnx"
    file.write_bytes(model().SerializeToString())
    return file


@pytest.fixture(scope="module")
def expected():
    session = onnxruntime.InferenceSession(model().SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": X})


def close(found, expected):
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def decision_of(report, operator):
    (found,) = (d for d in report["plan"]["decisions"] if d["operator"] == operator)
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_opencl_has_no_kernel_for_lands_on_the_trailing_host_and_the_report_says_so(count, expected, tmp_path):
    plan = byoc.plan(model(), ["opencl"], policy="score", valid_places=[*PLACES[:count], "host"])
    library = byoc.compile(model(), plan=plan)
    loaded = byoc.load(library.save(tmp_path / "m.byoc"))
    for each in (library, loaded):
        close(each.run({"x": X}), expected)
        topk, tanh = (decision_of(each.report, name) for name in ("topk", "tanh"))
        assert topk["target"] is None and topk["chosen"].startswith("host/") and REASON in topk["detail"].splitlines()
        assert tanh["target"] == "opencl" and "no opencl kernel" not in tanh["detail"]
        assert each.device_counts["launches"] > 0 and not each.fallbacks
    on_host = library.report["plan_text"].partition("on the host:")[2]
    assert "topk (best)" in on_host and "tanh" not in on_host


@pytest.mark.parametrize("count", [1, 2, 3])
def test_without_a_trailing_host_it_is_an_error_that_names_operator_node_and_places(count, path, capsys):
    places = PLACES[:count]
    wanted = (
        f"no kernel for topk (best) at any of the places {', '.join(places)}; add a trailing place of the host, or "
        f"register one ({REASON})"
    )
    with pytest.raises(PartitionError) as caught:
        byoc.plan(model(), ["opencl"], policy="score", valid_places=places)
    assert str(caught.value) == wanted
    words = [word for place in places for word in ("--place", place)]
    assert main(["plan", str(path), "-t", "opencl", "--policy", "score", *words]) != 0
    assert capsys.readouterr().err.strip() == f"byoc plan: {wanted}"


def test_the_error_of_a_place_that_nobody_serves_names_the_hosts_too():
    with pytest.raises(PartitionError, match=r"nobody has a kernel for place c/float/NCHW; .*: host/any/any, opencl/"):
        byoc.plan(model(), ["opencl"], policy="score", valid_places=["opencl", "c"])


def test_a_plan_by_places_is_made_and_compiled_on_the_command_line(path, tmp_path, capsys, expected):
    plan, saved = tmp_path / "plan.json", tmp_path / "m.byoc"
    words = ["-t", "opencl", "--policy", "score", "--place", "opencl/float/any", "--place", "host"]
    assert main(["explain", str(path), *words, "--node", "best"]) == 0
    assert REASON in capsys.readouterr().out
    assert main(["plan", str(path), *words, "-o", str(plan)]) == 0
    assert main(["compile", str(path), "--plan", str(plan), "-o", str(saved)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(saved), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert REASON in json.dumps(shown)
    loaded = byoc.load(saved)
    close(loaded.run({"x": X}), expected)
    assert REASON in decision_of(loaded.report, "topk")["detail"] and loaded.device_counts["launches"] > 0
