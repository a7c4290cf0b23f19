"""A plan in ONNX's own words: device configurations both ways, and a model whose regions are functions."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import DeviceConfigurationProto, TensorProto, helper, numpy_helper

import byoc
from byoc.cli.main import main
from byoc.driver.onnx_placement import read_placement, with_placement
from byoc.driver.onnx_regions import with_regions
from byoc.errors import PartitionError
from byoc.relay.frontend.onnx import import_onnx


def model(ir_version=8):
    """A small network with a batch norm (which is folded away), two branches and a softmax at the end."""
    rng = np.random.default_rng(0)

    def weight(name, *shape):
        return numpy_helper.from_array(rng.standard_normal(shape).astype("float32"), name)

    weights = [weight("w", 4, 3, 3, 3), weight("s", 4), weight("b", 4), weight("m", 4), weight("k", 4, 4, 1, 1)]
    weights.append(numpy_helper.from_array(np.abs(rng.standard_normal(4)).astype("float32") + 0.5, "v"))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], "norm"),
        helper.make_node("Relu", ["n"], ["r"], "relu"),
        helper.make_node("Tanh", ["r"], ["t"], "tanh"),
        helper.make_node("Conv", ["r", "k"], ["d"], "point"),
        helper.make_node("Add", ["t", "d"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"], "soft", axis=1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [value("y", TensorProto.FLOAT, [1, 4, 6, 6])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)


def plan(**options):
    return byoc.plan(model(), ["opencl", "json", "c"], **options)


def test_a_plan_travels_with_the_model():
    first = plan(exclude={"opencl": ["tanh"]}, force={"host": ["soft"]})
    carried, notes = with_placement(model(), first)
    onnx.checker.check_model(carried)
    assert carried.ir_version >= 11 and notes == []
    (configuration,) = carried.configuration
    assert list(configuration.device) == ["host", "opencl", "json"] and configuration.num_devices == 3
    said = {
        n.name or n.output[0]: [s.device[0] for d in n.device_configurations for s in d.sharding_spec]
        for n in carried.graph.node
    }
    assert said["conv"] == said["norm"] == [1] and said["tanh"] == [2] and said["soft"] == [0]
    again = byoc.plan(carried, policy="model")
    assert again.targets == ("opencl", "json")
    assert [(d.operator, d.target) for d in again.decisions] == [(d.operator, d.target) for d in first.decisions]


def test_what_others_wrote_is_kept_and_ours_replaced():
    other = model(11)
    other.configuration.append(DeviceConfigurationProto(name="theirs", num_devices=1, device=["gpu"]))
    once, _ = with_placement(other, plan())
    twice, _ = with_placement(once, plan(exclude=["tanh"]))
    assert [c.name for c in twice.configuration] == ["theirs", "byoc"]
    assert all(len(n.device_configurations) <= 1 for n in twice.graph.node)
    with pytest.raises(PartitionError, match="the model has no device configuration 'mine'; it has byoc, theirs"):
        read_placement(once, "mine")


def chain(*names, ir_version=8):
    """Relu, Sigmoid and Tanh one after another, of these names."""
    nodes = [
        helper.make_node(op_type, [source], [made], name)
        for op_type, source, made, name in zip(("Relu", "Sigmoid", "Tanh"), "xab", "aby", names, strict=True)
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy")
    return helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version
    )


def places(plan):
    return [d.target or "host" for d in plan.decisions]


def output_on(device, name="byoc"):
    """What puts the output of a node on *device*."""

    def put(node):
        said = node.device_configurations.add(configuration_id=name)
        said.sharding_spec.add(tensor_name=node.output[0], device=[device])
        return said.sharding_spec[0]

    return put


def configured(*said, devices=("host", "opencl", "json"), name="byoc", count=None):
    """A chain with a device configuration, where each of *said* says something of its node."""
    made = chain("a", "b", "c", ir_version=11)
    made.configuration.add(name=name, device=devices, num_devices=len(devices) if count is None else count)
    for put, node in zip(said, made.graph.node, strict=False):
        put(node)
    return made


def in_a_group(node):
    spec = output_on(-1)(node)
    spec.index_to_device_group_map.add(key=-1, value=[2])


def replicated(node):
    spec = output_on(-1)(node)
    spec.index_to_device_group_map.add(key=-1, value=[1, 2])


def in_shards(count):
    def put(node):
        output_on(2)(node).sharded_dim.add(axis=0).simple_sharding.add(dim_value=4, num_shards=count)

    return put


def input_from_the_host(node):
    output_on(2)(node)
    node.device_configurations[0].sharding_spec.add(tensor_name=node.input[0], device=[0])


@pytest.mark.parametrize("said", [in_a_group, in_shards(1), input_from_the_host])
def test_a_node_is_where_its_outputs_are_wholly(said):
    carried = configured(said, output_on(1), output_on(0))
    onnx.checker.check_model(carried)
    made = byoc.plan(carried, policy="model")
    assert places(made) == ["json", "opencl", "host"] and made.notes == ()


@pytest.mark.parametrize("said", [replicated, in_shards(2)])
def test_a_node_on_several_devices_is_refused(said):
    with pytest.raises(PartitionError, match="^node a is sharded over several devices, which a cut cannot do: put it"):
        byoc.plan(configured(said), policy="model")


def test_what_places_no_node_is_reported():
    carried = configured(
        output_on(2, "gone"),
        lambda n: n.device_configurations.add(configuration_id="byoc", pipeline_stage=1),
        lambda n: n.device_configurations.add(configuration_id="byoc").sharding_spec.add(tensor_name="b", device=[0]),
    )
    assert byoc.plan(carried, policy="model").notes == (
        "the model has no device configuration 'gone', which these nodes are in, so that it places none of them: a",
        "the device configuration 'byoc' gives no device for the outputs of these nodes, so that it places none of "
        "them: b, c",
    )


@pytest.mark.parametrize("devices, count, found", [((), 2, "no names for its 2"), (("host", "json"), 3, "2 names for")])
def test_devices_without_names_are_refused(devices, count, found):
    with pytest.raises(PartitionError, match=f"'byoc' has {found}.*name each device, as the target that it is"):
        byoc.plan(configured(output_on(1), devices=devices, count=count), policy="model")


def test_of_several_configurations_one_is_named(tmp_path, capsys):
    carried = configured(output_on(1, "big"), devices=("host", "opencl"), name="big")
    carried.configuration.add(name="small", device=["host", "json"], num_devices=2)
    output_on(1, "small")(carried.graph.node[1])
    with pytest.raises(PartitionError, match="configurations big, small; say which one to follow: configuration='big'"):
        byoc.plan(carried, policy="model")
    assert byoc.plan(carried, policy="model", configuration="small").targets == ("json",)
    assert byoc.compile(carried, policy="model", configuration="big").report["plan"]["targets"] == ["opencl"]
    path = tmp_path / "carried.onnx"
    onnx.save(carried, path)
    assert main(["plan", str(path), "--policy", "model", "--configuration", "small", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"] == ["json"]
    with pytest.raises(PartitionError, match="the configuration 'small' is followed by policy \"model\" alone"):
        byoc.plan(carried, configuration="small")


def test_nodes_that_share_a_name_have_places_of_their_own():
    nodes, targets = chain("n", "n", "n"), ["opencl", "json", "c"]
    first = byoc.plan(nodes, targets, force={"json": ["n_1"], "host": ["n_2"]})
    assert places(first) == ["opencl", "json", "host"]
    carried, notes = with_placement(nodes, first)
    assert notes == [] and places(byoc.plan(carried, policy="model")) == places(first)
    with pytest.raises(PartitionError, match="is called 'n'; the nearest: n_0, n_1, n_2$"):
        byoc.plan(nodes, targets, exclude=["n"])
    with pytest.raises(PartitionError, match="is called 'n'; the nearest: n_0, n_1, n_2$"):
        first.explain("n")


@pytest.mark.parametrize(
    "break_it, message",
    [
        (lambda m: m.graph.node[0].device_configurations[0].sharding_spec[0].device.append(2), "sharded over several"),
        (lambda m: m.graph.node[0].device_configurations[0].sharding_spec[0].device.__setitem__(0, 7), "device 7 of"),
        (lambda m: m.ClearField("configuration"), "has no device configuration"),
    ],
)
def test_a_placement_that_means_nothing_is_one_sentence(break_it, message):
    carried, _ = with_placement(model(), plan())
    break_it(carried)
    with pytest.raises(PartitionError, match=message):
        byoc.plan(carried, policy="model")


def test_regions_become_functions_and_the_model_stays_right(tmp_path):
    cut, notes = with_regions(model(), plan(exclude={"opencl": ["tanh"]}, force={"host": ["soft"]}))
    onnx.checker.check_model(cut)
    assert notes == [] and {f.domain for f in cut.functions} == {"byoc.opencl", "byoc.json"}
    x = np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype("float32")
    want, got = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"x": x})[0] for m in (model(), cut))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert [n.name for n in cut.graph.node][-1] == "soft"
    inside = {n.op_type for f in cut.functions for n in f.node}
    assert inside == {"Conv", "BatchNormalization", "Relu", "Tanh", "Add"}
    library = byoc.compile(cut)  # our own importer reads it too
    executor = library.executor()
    executor.set_input("x", x)
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), want, rtol=1e-4, atol=1e-5)


def biased():
    """Two convolutions with biases and a relu between them."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype("float32"), name)
        for name, shape in (("w", (4, 3, 3, 3)), ("b", (4,)), ("k", (2, 4, 1, 1)), ("c", (2,)))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["d"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["d"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "k", "c"], ["y"], "point"),
    ]
    value = helper.make_tensor_value_info
    ends = [[value(n, TensorProto.FLOAT, s)] for n, s in (("x", [1, 3, 6, 6]), ("y", [1, 2, 6, 6]))]
    graph = helper.make_graph(nodes, "g", *ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.parametrize("targets, whole", [(["opencl", "c"], True), (["opencl", "json", "c"], False)])
def test_a_node_whose_operators_are_divided_stands_in_the_first_region_and_is_reported(targets, whole):
    """The biases are elsewhere than their convolutions; a region that is a bias alone has no node of its own."""
    divided = byoc.plan(biased(), targets, exclude={"opencl": ["nn.bias_add", "nn.relu"]})
    assert {d.target for d in divided.decisions if "conv" in d.nodes} == {"opencl", None if whole else "json"}
    cut, notes = with_regions(biased(), divided)
    onnx.checker.check_model(cut)
    convolutions = [f.domain for f in cut.functions for node in f.node if node.op_type == "Conv"]
    assert convolutions == ["byoc.opencl"] * 2
    assert "2 nodes have operators at several places" in notes[0] and notes[0].endswith("conv, point")
    without = {r.symbol for r in divided.regions if not any(f.name.startswith(r.symbol) for f in cut.functions)}
    assert {note.split()[0] for note in notes if "is no function" in note} == without and bool(without) != whole
    x = np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype("float32")
    want, got = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"x": x})[0] for m in (biased(), cut))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_the_command_partition_writes_either(tmp_path, capsys):
    path, output = tmp_path / "m.onnx", tmp_path / "cut.onnx"
    path.write_bytes(model().SerializeToString())
    assert main(["partition", str(path), "-o", str(output), "-t", "opencl,c"]) == 0
    assert len(onnx.load(output).functions) == 1 and f"wrote {output}" in capsys.readouterr().out
    assert main(["partition", str(path), "-o", str(output), "-t", "opencl,c", "--placement"]) == 0
    assert onnx.load(output).configuration[0].name == "byoc"
    assert main(["partition", str(path), "-o", str(path), "-t", "opencl,c"]) == 2
    assert "this is the model itself" in capsys.readouterr().err


def test_the_policy_model_needs_no_targets_and_compiles(tmp_path, capsys):
    path = tmp_path / "carried.onnx"
    onnx.save(with_placement(model(), plan(force={"host": ["soft"]}))[0], path)
    assert main(["plan", str(path), "--policy", "model", "--json"]) == 0
    assert '"opencl"' in capsys.readouterr().out
    compiled = byoc.compile(str(path), policy="model").report["plan"]
    assert [d["target"] for d in compiled["decisions"]] == [d.target for d in plan(force={"host": ["soft"]}).decisions]
    with pytest.raises(PartitionError, match="give the model itself"):
        byoc.plan(import_onnx(model()), policy="model")
