"""The compatibility installed for one test, and every registration of that test taken back."""

import pathlib
import sys

import pytest

import byoc.compat.tvm as compat
import byoc.compat.tvm_modules.relay.analysis_api
import byoc.contrib.bnns
import byoc.contrib.onednn.relay
import byoc.relay.qnn.fake.fake_quantization_to_integer
import byoc.relay.qnn.op
import byoc.relay.transform
import byoc.relay.transform.layout.convert_layout
import byoc.relay.transform.layout.rules  # noqa: F401 - these, too, register what would else be a test's
from byoc.ir.op import OPS
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.op.contrib.register import PATTERN_TABLES

sys.path.append(str(pathlib.Path(__file__).parent))  # for what tests here share

VENDORS = pathlib.Path(__file__).parent / "vendors"


@pytest.fixture
def installed():
    """``import tvm`` is byoc within the test."""
    functions, tables = set(GLOBAL_FUNCTIONS), {name: PATTERN_TABLES[name] for name in PATTERN_TABLES}
    attributes = {name: dict(OPS[name]._attr_map) for name in OPS}
    compat.install()
    yield compat
    compat.uninstall()
    for registry, before in ((GLOBAL_FUNCTIONS, functions), (PATTERN_TABLES, tables)):
        for name in [name for name in registry if name not in before]:
            registry.unregister(name)
    for name, table in tables.items():
        if PATTERN_TABLES[name] is not table:  # a mounted integration has replaced ours
            PATTERN_TABLES.register(name, table, override=True)
    for name in list(OPS):
        if name not in attributes:
            OPS.unregister(name)
        else:
            for key in [key for key in OPS[name]._attr_map if key not in attributes[name]]:
                OPS[name].reset_attr(key)


@pytest.fixture
def vendors(installed):
    """The folder of the three integrations, mounted under ``tvm.relay.op.contrib``."""
    installed.mount(VENDORS)
    return VENDORS


@pytest.fixture
def tvm(installed):
    """The package ``tvm``, which is byoc within the test."""
    import tvm
    import tvm.contrib.graph_executor
    import tvm.ir.supply
    import tvm.relay.testing

    return tvm


@pytest.fixture
def relay(tvm):
    """``tvm.relay``."""
    from tvm import relay

    return relay


@pytest.fixture
def dnnl(relay):
    """``tvm.relay.op.contrib.dnnl``."""
    from tvm.relay.op.contrib import dnnl

    return dnnl
