"""Layers inside of a top package, lowest first: each imports what stands below it, types and inner imports included."""

import pytest

from tools.health.circles import circles, import_graph
from tools.health.sources import modules, package_of

LAYERS = {
    "byoc.codegen": [
        "byoc.codegen",
        "byoc.codegen.kernel",
        "byoc.codegen.json",
        "byoc.codegen.opencl",
        "byoc.codegen.c.toolchain",
        "byoc.codegen.c.language",
        "byoc.codegen.c.tiling",
        "byoc.codegen.c.vectors",
        "byoc.codegen.c.contraction",
        "byoc.codegen.c.winograd",
        "byoc.codegen.c.rows",
        "byoc.codegen.c.whole",
        "byoc.codegen.tune",
        "byoc.codegen.c",
        "byoc.codegen.c.export",
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
