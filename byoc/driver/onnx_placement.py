"""Placement in ONNX's own words: a plan written into a model's device configurations, and read from them.

The model has a ``DeviceConfigurationProto`` whose devices are the targets, the host among them. Each node has a
``NodeDeviceConfigurationProto`` for it, in which every output is wholly on one device: a sharding specification that
names one device and shards no axis. Nodes that were computed when compiling have none. Source: ONNX IR version 11.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx
from onnx import DeviceConfigurationProto, ModelProto, NodeDeviceConfigurationProto, NodeProto, ShardingSpecProto

from byoc.errors import PartitionError
from byoc.partition.boundaries import FORCE, HOST, PlacementRule
from byoc.partition.plan.plan import Plan
from byoc.relay.frontend.onnx.named_nodes import named_nodes
from byoc.runtime.files.whole_file import read_file

CONFIGURATION = "byoc"
FIRST_IR_VERSION = 11
NAMED = 8  # nodes that a note names


@dataclass(frozen=True)
class Placement:
    """What a model says: the devices of its configuration, the device of each node by name, and notes on the nodes of
    which it says something that places them nowhere.
    """

    devices: tuple[str, ...]
    nodes: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def targets(self) -> list[str]:
        """The devices as targets, the host last."""
        return [*dict.fromkeys(d for d in self.devices if d != HOST), HOST]

    def rules(self) -> Iterator[PlacementRule]:
        """What the model says, as rules that put each node on its device."""
        for node, device in self.nodes.items():
            yield PlacementRule(FORCE, node, device, "the model's device configuration", strict=False, exact=True)


def with_placement(model: ModelProto, plan: Plan) -> tuple[ModelProto, list[str]]:
    """A copy of *model* that carries *plan*, and a sentence for each node that the plan divides between places.

    A configuration of ours that the model had is replaced; others stay.
    """
    places = places_of_nodes(plan)
    devices = [HOST, *plan.targets]
    result = ModelProto()
    result.CopyFrom(model)
    result.ir_version = max(result.ir_version, FIRST_IR_VERSION)
    kept = [c for c in result.configuration if c.name != CONFIGURATION]
    del result.configuration[:]
    result.configuration.extend(
        [*kept, DeviceConfigurationProto(name=CONFIGURATION, num_devices=len(devices), device=devices)]
    )
    notes: list[str] = []
    for node, named in zip(result.graph.node, named_nodes(model), strict=True):
        others = [c for c in node.device_configurations if c.configuration_id != CONFIGURATION]
        del node.device_configurations[:]
        node.device_configurations.extend(others)
        found = places.get(named.name, ())
        if len(found) > 1:
            notes.append(f"node {named.name} is divided between {', '.join(found)}; the model cannot say so")
        elif found:
            node.device_configurations.append(_on(node, devices.index(found[0])))
    return result, notes


def _on(node: NodeProto, device: int) -> NodeDeviceConfigurationProto:
    """The configuration of a node whose outputs are all on one device."""
    specs = [ShardingSpecProto(tensor_name=name, device=[device]) for name in node.output if name]
    return NodeDeviceConfigurationProto(configuration_id=CONFIGURATION, sharding_spec=specs)


def places_of_nodes(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The targets (or ``host``) of the operators that came from each ONNX node."""
    found: dict[str, dict[str, None]] = {}
    for decision in plan.decisions:
        for node in decision.nodes:
            found.setdefault(node, {})[decision.target or HOST] = None
    return {node: tuple(places) for node, places in found.items()}


def read_placement(model: ModelProto, configuration: str | None = None) -> Placement:
    """The placement in *model*: of the *configuration* that is named, else of ours, else of the only one.

    Raises PartitionError for a model without one, a name that it has not, devices without names, a device that is not
    among them, and a node that is on several.
    """
    name = _followed([c.name for c in model.configuration], configuration)
    devices = _names_of(next(c for c in model.configuration if c.name == name))
    places: dict[str, str] = {}
    problems: dict[str, list[str]] = {}
    known = {c.name for c in model.configuration}
    for node, named in zip(model.graph.node, named_nodes(model), strict=True):
        for said in node.device_configurations:
            if said.configuration_id not in known:
                problem = f"the model has no device configuration {said.configuration_id!r}, which these nodes are in"
                problems.setdefault(problem, []).append(named.name)
        mine = [said for said in node.device_configurations if said.configuration_id == name]
        device = _device_of(node, named.name, mine, devices)
        if device is not None:
            places[named.name] = device
        elif mine:
            problem = f"the device configuration {name!r} gives no device for the outputs of these nodes"
            problems.setdefault(problem, []).append(named.name)
    return Placement(devices, places, tuple(_problem_text(*problem) for problem in problems.items()))


def _followed(known: Sequence[str], wanted: str | None) -> str:
    """The name of the configuration to follow."""
    if not known:
        raise PartitionError(
            "the model has no device configuration: write one with byoc partition --placement, or give a policy"
        )
    if wanted is not None and wanted not in known:
        raise PartitionError(f"the model has no device configuration {wanted!r}; it has {', '.join(sorted(known))}")
    if wanted is None and CONFIGURATION not in known and len(known) > 1:
        raise PartitionError(
            f"the model has the device configurations {', '.join(sorted(known))}; say which one to follow: "
            f"configuration={known[0]!r}, or --configuration"
        )
    return wanted if wanted is not None else CONFIGURATION if CONFIGURATION in known else known[0]


def _names_of(configuration: DeviceConfigurationProto) -> tuple[str, ...]:
    devices = tuple(configuration.device)
    count = configuration.num_devices if configuration.HasField("num_devices") else len(devices)
    if not devices or count != len(devices):
        raise PartitionError(
            f"the device configuration {configuration.name!r} has {len(devices) or 'no'} names for its {count} "
            "devices; name each device, as the target that it is"
        )
    return devices


def _device_of(
    node: NodeProto, name: str, said: Iterable[NodeDeviceConfigurationProto], devices: Sequence[str]
) -> str | None:
    """The device that makes the outputs of *node*, which is called *name*; where its inputs are from says nothing of
    it.
    """
    specs = [spec for one in said for spec in one.sharding_spec if spec.tensor_name in node.output]
    numbers = sorted({number for spec in specs for number in _devices_in(spec)})
    other = next((number for number in numbers if not 0 <= number < len(devices)), None)
    if other is not None:
        raise PartitionError(f"node {name} is on device {other} of a configuration of {len(devices)}, counted from 0")
    if len(numbers) > 1 or any(_is_sharded(spec) for spec in specs):
        raise PartitionError(f"node {name} is sharded over several devices, which a cut cannot do: put it on one")
    return devices[numbers[0]] if numbers else None


def _devices_in(spec: ShardingSpecProto) -> Iterator[int]:
    """The devices of *spec*; a number in its map is not a device but stands for a group of them."""
    groups = {entry.key: list(entry.value) for entry in spec.index_to_device_group_map}
    for number in spec.device:
        yield from groups.get(number, [number])


def _is_sharded(spec: ShardingSpecProto) -> bool:
    return any(axis.num_shards > 1 for dim in spec.sharded_dim for axis in dim.simple_sharding)


def _problem_text(problem: str, nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
    return f"{problem}, so that it places none of them: {', '.join(nodes[:NAMED])}{more}"


def proto_of(model: ModelProto | str | os.PathLike[str] | bytes) -> ModelProto:
    """The model of a file or of bytes, weights in other files left there. Raises PartitionError for anything else."""
    if isinstance(model, ModelProto):
        return model
    try:
        if isinstance(model, (bytes, bytearray, memoryview)):
            return onnx.load_model_from_string(bytes(model))
        return onnx.load_model_from_string(read_file(model))
    except Exception as error:  # protobuf and the file system raise what they like
        raise PartitionError(f"this cannot be read as an ONNX model: {error}") from error
