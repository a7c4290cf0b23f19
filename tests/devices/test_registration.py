"""What is missing of a vendor's classes is reported where they are registered: devices, modules, backends."""

import pytest

from byoc.contract import Backend, register_backend
from byoc.errors import PartitionError, UserError
from byoc.runtime import DeviceAPI, DeviceError, Module, device_api, register_device_api, register_module_loader
from byoc.runtime.devices.host import HostDevice
from byoc.runtime.devices.registry import DEVICE_APIS
from byoc.runtime.modules.module import LOADERS, module_class


class OfAVendor(HostDevice):
    """The host under another name."""


@pytest.mark.parametrize("method", sorted(DeviceAPI.__abstractmethods__))
def test_a_device_without_a_method_cannot_be_registered(method):
    kept = {name: getattr(HostDevice, name) for name in DeviceAPI.__abstractmethods__ if name != method}
    with pytest.raises(DeviceError, match=f"device kind 'test_part': Part has no {method}: write"):
        register_device_api("test_part", type("Part", (DeviceAPI,), kept))
    assert "test_part" not in DEVICE_APIS


def test_what_is_no_device_cannot_be_registered():
    with pytest.raises(DeviceError, match="expected a class made of byoc.runtime.DeviceAPI, got <class 'int'>"):
        register_device_api("test_part", int)
    with pytest.raises(DeviceError, match="device kind 'host' is byoc.runtime.devices.host:HostDevice; call"):
        register_device_api("host", OfAVendor)


def test_a_vendors_device_is_found_by_its_kind(monkeypatch):
    monkeypatch.setitem(DEVICE_APIS, "test_vendor", OfAVendor)
    register_device_api("test_vendor", OfAVendor)
    assert isinstance(device_api("test_vendor"), OfAVendor)
    with pytest.raises(DeviceError, match="no device is called 'test_vendors'; known: .*test_vendor"):
        device_api("test_vendors")


COMPLETE = {
    "get_function": lambda self, name, query_imports=False: None,
    "save": lambda self: {},
    "load": classmethod(lambda cls, members: cls()),
}


@pytest.mark.parametrize("missing", COMPLETE)
def test_a_module_that_cannot_be_run_saved_or_loaded_cannot_be_registered(missing):
    kind = type("Half", (Module,), {name: method for name, method in COMPLETE.items() if name != missing})
    with pytest.raises(
        UserError, match=rf"module type 'test_half': Half has no (class method )?{missing}\(.*: write it"
    ):
        register_module_loader("test_half", kind)
    assert "test_half" not in LOADERS


def test_a_module_named_by_its_place_is_looked_at_when_it_is_imported(monkeypatch):
    monkeypatch.setitem(LOADERS, "test_half", f"{__name__}:Half")
    monkeypatch.setitem(globals(), "Half", type("Half", (Module,), {"save": COMPLETE["save"]}))
    monkeypatch.setitem(__import__("sys").modules, __name__, __import__("types").SimpleNamespace(**globals()))
    with pytest.raises(UserError, match="Half has no get_function.*; no class method load"):
        module_class("test_half")


def test_what_is_no_module_cannot_be_registered():
    with pytest.raises(UserError, match="expected a class made of byoc.runtime.Module, got <class 'int'>"):
        register_module_loader("test_half", int)


def test_a_backend_that_cannot_build_a_model_cannot_be_registered():
    with pytest.raises(PartitionError, match="Empty has no method compile"):
        register_backend(type("Empty", (Backend,), {"name": "test_empty"}))
