"""The checks of devices: they pass on the host, the emulated device and OpenCL, and find what is broken."""

import json

import pytest
from broken_devices import BROKEN

from byoc.cli.main import main
from byoc.errors import UserError
from byoc.runtime import DeviceAPI
from byoc.testing import DEVICE_CHECKS, certify_device, device_tests

test_the_host_conforms = device_tests("host")
test_the_emulated_device_conforms = device_tests("emulated")
test_a_slow_and_small_emulated_device_conforms = device_tests("emulated:seconds=0.0001,memory=1000000")
test_opencl_conforms = pytest.mark.needs_opencl(device_tests("opencl"))


@pytest.mark.parametrize(("broken", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_device_is_found_by_the_check_of_what_is_broken(broken, check):
    found = certify_device(broken, only=[check], seconds=0.5)
    assert [result.check for result in found.failures] == [check], str(found)
    assert not found.ok


def test_every_check_finds_some_device():
    assert {check for _, check in BROKEN} | {"copies on the device"} == set(DEVICE_CHECKS)


def test_a_copy_on_the_device_that_lies_is_found():
    found = certify_device("emulated:corrupt=copy@2", only=["copies on the device"])
    assert "1 of 4096 bytes are wrong" in found.failures[0].text


def test_a_device_that_hangs_is_reported_and_not_waited_for():
    found = certify_device("emulated:hang=copy_out@1", only=["round trips", "offsets"], seconds=0.2)
    assert [result.verdict for result in found.results] == ["wrong", "wrong"]
    assert "does not end" in found.failures[0].text


def test_a_vendors_test_file_fails_for_a_broken_device_and_names_the_check():
    broken, check = BROKEN[0]
    test = device_tests(broken, only=[check], seconds=0.2)
    with pytest.raises(AssertionError, match=r"LosesEvents: events: "):
        test(check)


def test_what_could_not_be_tried_is_skipped_aloud():
    with pytest.raises(pytest.skip.Exception, match="work is done when the call returns"):
        device_tests("host")("time-outs")


def test_an_unknown_check_is_refused():
    with pytest.raises(UserError, match="no check of devices is called 'speed'; they are properties, round trips"):
        certify_device("host", skip=["speed"])


def test_the_command_writes_a_certificate_and_exits_by_it(tmp_path, capsys):
    assert main(["certify", "--device", "host", "-o", str(tmp_path / "host.json")]) == 0
    shown = json.loads((tmp_path / "host.json").read_text())
    assert shown["ok"] and shown["properties"]["kind"] == "host"
    assert main(["certify", "--device", "emulated:corrupt=copy_in@10", "--only", "round trips"]) == 2
    assert (
        "emulated:corrupt=copy_in@10 (emulated; threads of this process): does not conform" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a backend to certify, or a device by --device"),
        (["c", "--device", "host"], "name a backend to certify, or a device by --device"),
        (["--device", "host", "--speed"], "--speed is about backends"),
        (["--device", "nothing"], "no device is called 'nothing'; known: emulated, host, opencl"),
    ],
)
def test_a_command_that_names_no_device_is_one_sentence(arguments, said, capsys):
    assert main(["certify", *arguments]) in (2, 3)
    assert said in capsys.readouterr().err


def test_every_method_of_the_interface_says_what_it_does():
    assert [name for name in DeviceAPI.__abstractmethods__ if not getattr(DeviceAPI, name).__doc__] == []
