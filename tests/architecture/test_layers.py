"""Layers inside of a top package, lowest first: each imports what stands below it, types and inner imports included."""

import networkx
import pytest

from tools.health.circles import circles, explained, holding_edges, import_graph, package_graph
from tools.health.sources import modules, package_of

LAYERS = {
    "byoc.runtime": [
        "byoc.runtime.core",
        "byoc.runtime.files",
        "byoc.runtime.artefact",
        "byoc.runtime.region",
        "byoc.runtime.devices",
        "byoc.runtime.graph",
        "byoc.runtime.modules",
        "byoc.runtime.executors",
        "byoc.runtime.page",
        "byoc.runtime.profile",
        "byoc.runtime.dso",
        "byoc.runtime.kernels.core",
        "byoc.runtime.kernels",
        "byoc.runtime.kernels.movement",
        "byoc.runtime.kernels.nn",
        "byoc.runtime.kernels.images",
        "byoc.runtime.kernels.qnn",
        "byoc.runtime.kernels.run_time",
        "byoc.runtime.kernels.strings",
        "byoc.runtime.json",
        "byoc.runtime.opencl.commands",
        "byoc.runtime.opencl.drivers",
        "byoc.runtime.opencl",
        "byoc.runtime.vm",
        "byoc.runtime",
    ],
    "byoc.base": [
        "byoc.base",
    ],
    "byoc.errors": [
        "byoc.errors",
    ],
    "byoc.options": [
        "byoc.options",
    ],
    "byoc.ir": [
        "byoc.ir",
        "byoc.ir.passes",
    ],
    "byoc.te": [
        "byoc.te",
    ],
    "byoc.relay": [
        "byoc.relay",
        "byoc.relay.analysis",
        "byoc.relay.interpreter",
        "byoc.relay.op.attributes",
        "byoc.relay.op.core",
        "byoc.relay.op.movement",
        "byoc.relay.op.nn.convolution",
        "byoc.relay.op.image",
        "byoc.relay.op.pointwise",
        "byoc.relay.op.nn",
        "byoc.relay.op",
        "byoc.relay.analysis.regions",
        "byoc.relay.op.numeric",
        "byoc.relay.op.run_time",
        "byoc.relay.op.strings",
        "byoc.relay.op.vision",
        "byoc.relay.qnn.op",
        "byoc.relay.qnn.lowering",
        "byoc.relay.text",
        "byoc.relay.onnx_writer",
        "byoc.relay.std",
        "byoc.relay.structure",
        "byoc.relay.dataflow_pattern",
        "byoc.relay.op.contrib",
        "byoc.relay.transform.base",
        "byoc.relay.qnn",
        "byoc.relay.transform.cut",
        "byoc.relay.transform.functional",
        "byoc.relay.transform.fuse",
        "byoc.relay.transform.layout",
        "byoc.relay.transform.simplify",
        "byoc.relay.frontend.onnx",
        "byoc.relay.frontend.onnx.run_time",
        "byoc.relay.frontend.onnx.control",
        "byoc.relay.frontend.onnx.converters",
        "byoc.relay.frontend.onnx.media",
        "byoc.relay.frontend.onnx.microsoft",
        "byoc.relay.frontend.onnx.ml",
        "byoc.relay.frontend.onnx.quantized",
        "byoc.relay.frontend.onnx.strings",
        "byoc.relay.frontend",
        "byoc.relay.qnn.fake",
        "byoc.relay.transform.scales",
        "byoc.relay.transform",
        "byoc.relay.qnn.quantize",
        "byoc.relay.verify",
    ],
    "byoc.contract": [
        "byoc.contract",
    ],
    "byoc.codegen": [
        "byoc.codegen",
        "byoc.codegen.kernel",
        "byoc.codegen.json",
        "byoc.codegen.c.toolchain",
        "byoc.codegen.c.language",
        "byoc.codegen.c.tiling",
        "byoc.codegen.c.vectors",
        "byoc.codegen.c.contraction",
        "byoc.codegen.c.winograd",
        "byoc.codegen.c.rows",
        "byoc.codegen.c.routines",
        "byoc.codegen.c.whole",
        "byoc.codegen.tune",
        "byoc.codegen.opencl.tuning",
        "byoc.codegen.opencl.device",
        "byoc.codegen.opencl.elements",
        "byoc.codegen.opencl.cpu",
        "byoc.codegen.opencl.products",
        "byoc.codegen.opencl.packed",
        "byoc.codegen.opencl.winograd",
        "byoc.codegen.opencl.rows",
        "byoc.codegen.opencl.images",
        "byoc.codegen.opencl",
        "byoc.codegen.c",
        "byoc.codegen.c.export",
    ],
    "byoc.partition": [
        "byoc.partition",
        "byoc.partition.places",
        "byoc.partition.solve",
        "byoc.partition.costs",
        "byoc.partition.cut",
        "byoc.partition.content",
        "byoc.partition.policy",
        "byoc.partition.show",
        "byoc.partition.plan",
    ],
    "byoc.kernels": [
        "byoc.kernels",
    ],
    "byoc.driver": [
        "byoc.driver",
        "byoc.driver.bytecode",
        "byoc.driver.costs",
        "byoc.driver.compiler",
        "byoc.driver.models",
        "byoc.driver.vm",
    ],
    "byoc.testing": [
        "byoc.testing.core",
        "byoc.testing.cases",
        "byoc.testing",
        "byoc.testing.devices",
    ],
    "byoc.debug": [
        "byoc.debug",
    ],
    "byoc.cli": [
        "byoc.cli.tensors",
        "byoc.cli.flags",
        "byoc.cli.report",
        "byoc.cli",
        "byoc.cli.checks",
        "byoc.cli.device",
    ],
    "byoc.onnx_backend": [
        "byoc.onnx_backend",
    ],
    "byoc.contrib": [
        "byoc.contrib",
        "byoc.contrib.onednn",
        "byoc.contrib.onednn.relay",
        "byoc.contrib.torch",
        "byoc.contrib.xnnpack",
    ],
    "byoc.annex": [
        "byoc.annex.analysis",
        "byoc.annex",
        "byoc.annex.collage",
        "byoc.annex.data_dep_optimization",
        "byoc.annex.devices",
        "byoc.annex.functional",
        "byoc.annex.gradients.rules",
        "byoc.annex.gradients",
        "byoc.annex.memory",
        "byoc.annex.node_json",
        "byoc.annex.testing",
        "byoc.annex.testing.references",
    ],
}


def within(top, name):
    """Whether module *name* is the package *top* or stands below it."""
    return name == top or name.startswith(f"{top}.")


@pytest.mark.parametrize("top", LAYERS)
def test_every_package_has_one_layer(top):
    packages = [name for name, path in modules().items() if within(top, name) and path.name == "__init__.py"]
    assert sorted(LAYERS[top]) == sorted(packages)


@pytest.mark.parametrize("top", LAYERS)
def test_no_layer_imports_one_above_it(top):
    height = {package: number for number, package in enumerate(LAYERS[top])}
    upwards = [
        f"{name} imports {other}"
        for name, other in import_graph().edges
        if within(top, name) and within(top, other) and height[package_of(name)] < height[package_of(other)]
    ]
    assert upwards == []


@pytest.mark.parametrize("top", LAYERS)
def test_no_files_import_each_other_in_circles(top):
    assert [c for c in circles(import_graph()) if any(within(top, name) for name in c)] == []


def test_no_packages_import_each_other_in_circles():
    assert list(explained()) == []


def test_what_nothing_stands_on_leads_to_every_package():
    packages = {package_of(name) for name in modules() if not within("byoc.compat", name)}
    assert {p for p in packages if not p.count(".")} == {"byoc"}
    assert [other for other in package_graph().predecessors("byoc") if not within("byoc.contrib", other)] == []


def test_a_circle_is_held_together_by_few_imports():
    graph = networkx.DiGraph()
    for own, their, count in [("top", "middle", 3), ("middle", "low", 2), ("low", "middle", 1), ("low", "top", 1)]:
        graph.add_edge(own, their, imports=[(f"{own}.{k}", f"{their}.{k}") for k in range(count)])
    assert sorted(holding_edges(graph)) == [("low", "middle"), ("low", "top")]
