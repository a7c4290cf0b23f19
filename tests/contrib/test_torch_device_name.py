"""The device that the torch backend names: NVIDIA's, with the version of its driver, or none for the processor."""

import pytest

from byoc.contrib.torch.module import nvidia_driver

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 UTC 2023\nGCC version:  gcc 12.3.0\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16)\n"


@pytest.mark.parametrize(("text", "version"), [(CLOSED, "535.104.05"), (OPEN, "570.86.15"), ("nothing", "")])
def test_the_driver_is_read_from_what_its_kernel_module_tells(tmp_path, text, version):
    file = tmp_path / "version"
    file.write_text(text)
    assert nvidia_driver(file) == version


def test_without_the_kernel_module_there_is_no_version(tmp_path):
    assert nvidia_driver(tmp_path / "none") == ""


def test_the_processor_has_no_device_name_and_a_gpu_its_own(monkeypatch):
    torch = pytest.importorskip("torch")
    from byoc.contract import get_backend

    backend = get_backend("torch")
    assert backend.device_name({"device": "cpu"}) is None
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"NVIDIA H200 ({device})")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert str(backend.device_name({"device": "cuda:1"})).startswith("NVIDIA H200 (cuda:1), CUDA 12.8")
