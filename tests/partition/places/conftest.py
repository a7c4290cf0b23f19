"""Lets the tests of this folder share their graphs; registries of their own."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from place_graphs import SEED_KERNELS, register_conv2d

from byoc.partition.places.kernel import KernelRegistry


@pytest.fixture
def registry():
    return KernelRegistry()


@pytest.fixture
def seed_kernels(registry):
    """The five convolutions of the document, in its order."""
    for place in SEED_KERNELS:
        register_conv2d(registry, place)
    return registry
