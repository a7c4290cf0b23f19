"""Lets the tests of this folder share their graphs; registries of their own."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from place_graphs import DOCUMENTED_KERNELS, register_conv2d

from byoc.partition.places.kernel import KernelRegistry


@pytest.fixture
def registry():
    return KernelRegistry()


@pytest.fixture
def documented_kernels(registry):
    """The five convolutions of Paddle Lite's documentation, in its order."""
    for place in DOCUMENTED_KERNELS:
        register_conv2d(registry, place)
    return registry
