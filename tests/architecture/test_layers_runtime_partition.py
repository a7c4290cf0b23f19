"""Layers inside of runtime, partition, driver and cli, lowest first: each imports what stands below it alone."""

import pytest

from tools.health.circles import circles, import_graph
from tools.health.sources import modules, package_of

LAYERS = {
    "byoc.runtime": [
        "byoc.runtime.core",
        "byoc.runtime.files",
        "byoc.runtime.artefact",
        "byoc.runtime.region",
        "byoc.runtime.graph",
        "byoc.runtime.modules",
        "byoc.runtime.executors",
        "byoc.runtime.dso",
        "byoc.runtime.kernels.core",
        "byoc.runtime.kernels",
        "byoc.runtime.kernels.movement",
        "byoc.runtime.kernels.nn",
        "byoc.runtime.kernels.images",
        "byoc.runtime.kernels.qnn",
        "byoc.runtime.json",
        "byoc.runtime.opencl",
        "byoc.runtime.vm",
        "byoc.runtime",
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
    "byoc.driver": ["byoc.driver", "byoc.driver.costs", "byoc.driver.compiler", "byoc.driver.vm"],
    "byoc.cli": ["byoc.cli"],
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
