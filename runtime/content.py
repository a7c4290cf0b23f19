"""What an artefact holds of a library: its manifest, and the members with graph, constants, report and modules."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any

from byoc.runtime.core.errors import UnavailableError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.files.weights import write_weights
from byoc.runtime.graph.graph import ModelPorts
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import packages_of, saved_members

INITIALIZATION = "initialization"  # in the report: of this process, and so not saved
FIXED_INPUTS = "fixed_inputs"  # in the report: inputs of the model that were compiled as constants
GRAPH_MEMBER, WEIGHTS_MEMBER, REPORT_MEMBER = "graph.json", "weights.safetensors", "report.json"
DEFAULTS_MEMBER = "defaults.safetensors"  # of inputs that a call may leave out, where there are some


def library_content(
    graph: Mapping[str, object],
    module: MetadataModule,
    ports: ModelPorts,
    report: Mapping[str, object],
) -> tuple[dict[str, object], dict[str, bytes]]:
    """The manifest and the members of the library of *graph* over *module*, with the inputs and outputs *ports*.

    Raises UserError when a vendor's module cannot be saved.
    """
    modules = [
        {"type_key": m.type_key, "symbols": list(m.symbols), "path": f"modules/{k}_{m.type_key}", **packages_of(m)}
        for k, m in enumerate(module.imports)
    ]
    kept = {key: value for key, value in report.items() if key != INITIALIZATION}
    members: dict[str, bytes] = {
        GRAPH_MEMBER: json.dumps(graph, indent=1).encode(),
        WEIGHTS_MEMBER: write_weights(module.constant_arrays),
        REPORT_MEMBER: json.dumps(kept, indent=1).encode(),
    }
    members.update((f"metadata/{name}", data) for name, data in module.save().items())
    for entry, below in zip(modules, module.imports, strict=True):
        members.update((f"{entry['path']}/{name}", data) for name, data in saved_members(below).items())
    if ports.input_defaults:
        members[DEFAULTS_MEMBER] = write_weights({name: NDArray(a) for name, a in ports.input_defaults.items()})
    manifest = {"inputs": [s.to_json() for s in ports.inputs], "outputs": [s.to_json() for s in ports.outputs]}
    return {"modules": modules, **manifest}, members


def fixed_inputs(report: Mapping[str, object]) -> tuple[str, ...]:
    """The inputs of the model that were compiled as constants, by the *report* of its library."""
    names = report.get(FIXED_INPUTS)
    return tuple(map(str, names)) if isinstance(names, (list, tuple)) else ()


def plan_of(report: Mapping[str, object]) -> Any:
    """The plan in a library's *report*, a ``byoc.partition.Plan``.

    Raises UnavailableError where the compiler is not installed.
    """
    try:
        home = importlib.import_module("byoc.partition.plan.plan")  # by name: the runtime is there without it
    except ImportError as error:
        why = f'plans are the compiler\'s, of which {error.name} is missing: see report["plan"]'
        raise UnavailableError(why) from error
    return home.Plan.from_json(report["plan"])
