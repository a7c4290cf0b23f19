"""What tests of backends share: registries as they were before."""

import pytest

from byoc.contract import BACKENDS
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.runtime.modules.module import LOADERS


@pytest.fixture
def forget():
    """A function that gets the names of backends which are forgotten when the test ends."""
    names = []
    yield names.append
    for name in names:
        LOADERS.pop(name, None)
        for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
            registry.unregister(name)
        GLOBAL_FUNCTIONS.unregister(f"relay.ext.{name}")
