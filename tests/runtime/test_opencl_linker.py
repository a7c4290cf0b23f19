"""A machine without ``ld``: PoCL gets the one of the ziglang package, or the user one sentence, never an abort."""

import os
import subprocess

import pytest

from byoc.errors import DeviceError
from byoc.runtime.opencl import devices
from byoc.runtime.opencl.drivers import linker


@pytest.fixture
def no_ld(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    linker._linker_folder.cache_clear()
    yield
    linker._linker_folder.cache_clear()


def test_nothing_changes_where_there_is_a_linker(monkeypatch, tmp_path):
    (tmp_path / "ld").write_text("#!/bin/sh\n")
    (tmp_path / "ld").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    linker.provide_linker()
    assert os.environ["PATH"] == str(tmp_path)


def test_without_a_linker_and_without_zig_one_sentence_says_what_to_install(no_ld, monkeypatch):
    monkeypatch.setattr(linker.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        DeviceError, match=r"no ld on the search path: install binutils, or run pip install 'byoc-compiler\[zig\]'"
    ):
        linker.provide_linker()


def test_the_linker_of_zig_is_put_on_the_path_once_and_is_given_no_libraries(no_ld, monkeypatch, tmp_path):
    monkeypatch.setattr(linker.importlib.util, "find_spec", lambda name: object())
    python = tmp_path / "py thon"
    python.write_text('#!/bin/sh\nfor a in "$@"; do echo "<$a>"; done\n')
    python.chmod(0o755)
    monkeypatch.setattr(linker.sys, "executable", str(python))
    linker.provide_linker()
    linker.provide_linker()
    first, *others = os.environ["PATH"].split(os.pathsep)
    assert first == str(tmp_path)
    assert others == [linker._linker_folder()]
    command = ["ld", "-shared", "-o", "a b.so", "-L/usr/lib", "x.o", "-lgcc", "--as-needed", "-lc"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == [
        "<-m>",
        "<ziglang>",
        "<ld.lld>",
        "<-shared>",
        "<-o>",
        "<a b.so>",
        "<-L/usr/lib>",
        "<x.o>",
        "<--as-needed>",
    ]


@pytest.mark.needs_opencl
def test_a_pocl_device_without_a_linker_is_unavailable_and_the_process_lives(no_ld, monkeypatch):
    if devices.list_devices()[0].platform != devices.POCL_PLATFORM:
        pytest.skip("the OpenCL device is not PoCL's")
    monkeypatch.setattr(linker.importlib.util, "find_spec", lambda name: None)
    devices._context_of.cache_clear()
    devices._open.cache_clear()
    try:
        with pytest.raises(DeviceError, match="PoCL needs a linker"):
            devices.open_device()
    finally:
        devices._context_of.cache_clear()
        devices._open.cache_clear()
