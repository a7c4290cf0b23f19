"""What tests of the code's shape share: each file's syntax tree, read once in a process."""

import gc

import pytest

from byoc.ir.collector import paused_collector
from tools.health.sources import modules, tree


@pytest.fixture(scope="session", autouse=True)
def parsed():
    """Two million objects that live until the end: the garbage collector does not walk over them for every test."""
    with paused_collector():
        for path in modules().values():
            tree(path)
        gc.freeze()
