"""Kernels and backends that are made in a test are gone behind it."""

import pathlib
import sys

import pytest

from byoc.contract import BACKENDS
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.kernels import KERNELS
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def declared():
    with KERNELS.temporary() as kernels:
        yield kernels


@pytest.fixture
def backends():
    """Forgets what is registered within."""
    before = set(BACKENDS)
    yield BACKENDS
    for name in set(BACKENDS) - before:
        for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
            registry.unregister(name)
        GLOBAL_FUNCTIONS.unregister(f"relay.ext.{name}")
