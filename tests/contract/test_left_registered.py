"""The fixtures by which tests forget what they register leave nothing, and leave what byoc brings."""

import numpy as np

from byoc.codegen.json.backend import JsonBackend
from byoc.contract import BACKENDS, get_backend, register_backend
from byoc.contract.registration import backend_names
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.runtime import Module, register_module_loader
from byoc.runtime.json import KernelTable
from byoc.runtime.json.table import TABLES
from byoc.runtime.modules.module import LOADERS


class Left(JsonBackend):
    """Would be left."""

    name = table = "test_left"

    def optimize(self, region):
        return region


class LeftModule(Module):
    """Would be left."""

    type_key = "test_left"
    get_function = save = load = lambda *args: None


def test_first_something_is_registered(of_this_test):
    KernelTable("test_left").kernel("exp")(np.exp)
    register_backend(Left)
    register_module_loader("test_left", LeftModule)
    assert "test_left" in backend_names() and get_backend("blas").table == "blas"


def test_then_nothing_is_left_of_it():
    assert "test_left" not in backend_names()
    for registry in (BACKENDS, PATTERN_TABLES, TARGET_PREDICATES, TABLES, LOADERS):
        assert "test_left" not in registry
    assert get_backend("blas").table == "blas" and "blas" in TABLES
