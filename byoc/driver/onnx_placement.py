"""Placement in ONNX's own words: a plan written into a model's device configurations, and read from them.

The model has a ``DeviceConfigurationProto`` whose devices are the targets, the host among them. Each node has a
``NodeDeviceConfigurationProto`` for it, in which every output is wholly on one device: a sharding specification that
names one device and shards no axis. Nodes that were computed when compiling have none. Source: ONNX IR version 11.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
from onnx import DeviceConfigurationProto, ModelProto, NodeDeviceConfigurationProto, NodeProto, ShardingSpecProto

from byoc.errors import PartitionError
from byoc.partition.boundaries import FORCE, HOST, Rule
from byoc.partition.plan import Plan
from byoc.relay.frontend.onnx.named_nodes import named_nodes

CONFIGURATION = "byoc"
FIRST_IR_VERSION = 11


@dataclass(frozen=True)
class Placement:
    """What a model says: the devices of its configuration, and the device of each node by name."""

    devices: tuple[str, ...]
    nodes: dict[str, str]

    @property
    def targets(self) -> list[str]:
        """The devices as targets, the host last."""
        return [*(d for d in self.devices if d != HOST), HOST]

    def rules(self) -> Iterator[Rule]:
        """What the model says, as rules that put each node on its device."""
        for node, device in self.nodes.items():
            yield Rule(FORCE, node, device, "the model's device configuration", strict=False, exact=True)


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
    """The placement in *model*: of our configuration, of the only one, or of the one that is named.

    Raises PartitionError for a model without one, a name that it has not, a device that is not in it, and a node that
    is sharded over several devices.
    """
    known = {c.name: c for c in model.configuration}
    if not known:
        raise PartitionError(
            "the model has no device configuration: write one with byoc partition --placement, or give a policy"
        )
    name = configuration
    if name is None and (CONFIGURATION in known or len(known) == 1):
        name = CONFIGURATION if CONFIGURATION in known else next(iter(known))
    if name not in known:
        raise PartitionError(
            f"the model has the device configurations {', '.join(sorted(known))}; say which one to follow"
        )
    devices = tuple(known[name].device)
    places: dict[str, str] = {}
    for node, named in zip(model.graph.node, named_nodes(model), strict=True):
        for said in node.device_configurations:
            if said.configuration_id == name:
                place = _device_of(named.name, said, devices)
                if place is not None:
                    places[named.name] = place
    return Placement(devices, places)


def _device_of(node: str, said: NodeDeviceConfigurationProto, devices: Sequence[str]) -> str | None:
    numbers = sorted({number for spec in said.sharding_spec for number in spec.device})
    if len(numbers) > 1 or any(spec.sharded_dim for spec in said.sharding_spec):
        raise PartitionError(f"node {node} is sharded over several devices, which a cut cannot do: put it on one")
    if not numbers:
        return None
    if not 0 <= numbers[0] < len(devices):
        raise PartitionError(f"node {node} is on device {numbers[0]} of a configuration of {len(devices)}")
    return devices[numbers[0]]


def proto_of(model: ModelProto | str | os.PathLike[str] | bytes) -> ModelProto:
    """The model of a file or of bytes, weights in other files left there. Raises PartitionError for anything else."""
    if isinstance(model, ModelProto):
        return model
    try:
        if isinstance(model, (bytes, bytearray, memoryview)):
            return onnx.load_model_from_string(bytes(model))
        return onnx.load(os.fspath(model), load_external_data=False)
    except Exception as error:  # protobuf and the file system raise what they like
        raise PartitionError(f"this cannot be read as an ONNX model: {error}") from error
