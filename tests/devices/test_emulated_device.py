"""The emulated device: its settings, its faults, its waits, and what it refuses."""

import numpy as np
import pytest

from byoc.errors import UserError
from byoc.runtime import DeviceError, DeviceMemoryError, DeviceTimeoutError, RunTimeoutError, device_api
from byoc.runtime.core.time_limit import time_limit
from byoc.runtime.devices.emulation import Emulation, PlannedFault


def stream_with(device, *sizes):
    return device.new_stream(), *(device.allocate(size) for size in sizes)


def test_settings_are_read_from_one_text():
    text = "name=board0, seconds=0.5,seconds_per_byte=1e-9,memory=4096,seed=3,fail=launch@2,lose=any%0.5"
    faults = (PlannedFault("fail", "launch", 2), PlannedFault("lose", "any", None, 0.5))
    assert Emulation.read(text) == Emulation("board0", 0.5, 1e-9, 4096, faults, 3)
    assert [str(fault) for fault in faults] == ["fail=launch@2", "lose=any%0.5"]
    assert Emulation.read("") == Emulation()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed=1", "'speed=1': expected one of name, seconds"),
        ("seconds", "'seconds': expected one of"),
        ("seconds=1,seconds=2", "'seconds=2': expected one of .* once"),
        ("seconds=-1", "seconds=-1: expected a number of at least 0"),
        ("seconds=nan", "seconds=nan: expected a number"),
        ("memory=1.5", "memory=1.5: expected a whole number"),
        ("fail=launch", "fail=launch: expected an operation with its number"),
        ("fail=jump@1", "operations are allocate, copy_in"),
        ("fail=launch@0", "from 1 on"),
        ("hang=copy%2", "hang=copy%2: expected"),
    ],
)
def test_a_setting_that_there_is_not_is_one_sentence(text, said):
    with pytest.raises(DeviceError, match=said):
        device_api(f"emulated:{text}")


def test_the_nth_operation_fails_and_what_stands_behind_it_in_its_stream():
    device = device_api("emulated:fail=copy_in@2")
    stream, memory = stream_with(device, 8)
    other = device.new_stream()
    device.copy_in(stream, memory, np.arange(8, dtype="uint8"))
    before = device.record(stream)
    device.copy_in(stream, memory, np.zeros(8, "uint8"))
    found = np.full(8, 9, "uint8")
    device.copy_out(stream, found, memory)
    device.wait(before, 10)
    with pytest.raises(DeviceError, match=r"^emulated: copy_in 2 failed, a fault that was injected$"):
        device.wait(device.record(stream), 10)
    assert (found == 9).all()
    device.copy_out(other, found, memory)
    device.wait(device.record(other), 10)
    np.testing.assert_array_equal(found, np.arange(8))
    with pytest.raises(DeviceError, match="copy_in 2 failed"):
        device.synchronize(10)


def test_an_error_goes_on_to_the_streams_that_wait_for_it():
    device = device_api("emulated:fail=launch@1")
    first, second = device.new_stream(), device.new_stream()
    device.launch(first, lambda: None, [])
    device.wait_for(second, device.record(first))
    with pytest.raises(DeviceError, match="launch 1 failed"):
        device.wait(device.record(second), 10)


def test_a_hang_ends_waits_by_their_time_out_and_itself_when_the_device_is_closed():
    device = device_api("emulated:hang=launch@1")
    stream = device.new_stream()
    device.launch(stream, lambda: None, [])
    event = device.record(stream)
    with pytest.raises(DeviceTimeoutError, match=r"^waiting for emulated took longer than the time-out of 0.01 s: "):
        device.wait(event, 0.01)
    with pytest.raises(DeviceTimeoutError):
        device.synchronize(0.01)
    with time_limit(0.01), pytest.raises(RunTimeoutError, match=r"timeout of 0.01 s while waiting for emulated"):
        device.wait(event)
    assert not device.is_done(event)
    thread = stream._thread
    device.close()
    thread.join(10)
    assert not thread.is_alive()
    with pytest.raises(DeviceError, match="was closed: open it again"):
        device.is_done(event)


def test_a_wait_without_a_time_out_takes_that_of_the_process(monkeypatch):
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.01")
    device = device_api("emulated:hang=copy_in@1")
    stream, memory = stream_with(device, 8)
    device.copy_in(stream, memory, np.zeros(8, "uint8"))
    with pytest.raises(DeviceTimeoutError, match=r"\$BYOC_WAIT_SECONDS of 0.01 s"):
        device.wait(device.record(stream))


@pytest.mark.parametrize("timeout", [-1, "1", float("nan"), True])
def test_a_time_out_that_is_no_number_of_seconds_is_refused(timeout):
    device = device_api("emulated")
    with pytest.raises(UserError, match="a time-out is a number of seconds, or None"):
        device.wait(device.record(device.new_stream()), timeout)


def test_a_device_that_is_lost_refuses_all_from_then_on():
    device = device_api("emulated:lose=launch@1")
    stream, other = device.new_stream(), device.new_stream()
    device.launch(stream, lambda: None, [])
    with pytest.raises(DeviceError, match="is lost since launch 1"):
        device.wait(device.record(stream), 10)
    for ask in (lambda: device.allocate(1), device.new_stream, lambda: device.record(other)):
        with pytest.raises(DeviceError, match="is lost since launch 1"):
            ask()


def test_a_device_that_is_full_says_how_much_is_left_and_goes_on():
    device = device_api("emulated:memory=100")
    first = device.allocate(60)
    with pytest.raises(DeviceMemoryError, match="has 40 of its 100 bytes left, and 41 are asked for"):
        device.allocate(41)
    device.free(first)
    assert device.allocate(100).nbytes == 100


def test_faults_by_probability_are_the_same_for_the_same_seed():
    def failing(seed):
        device = device_api(f"emulated:fail=allocate%0.3,seed={seed}")
        found = []
        for k in range(60):
            try:
                device.allocate(1)
            except DeviceError:
                found.append(k)
        return found

    assert failing(1) == failing(1) != failing(2)
    assert 5 < len(failing(1)) < 40


def test_one_bit_of_a_corrupt_copy_is_wrong():
    device = device_api("emulated:corrupt=copy_out@1")
    stream, memory = stream_with(device, 64)
    found = np.zeros(64, "uint8")
    device.copy_in(stream, memory, found.copy())
    device.copy_out(stream, found, memory)
    device.wait(device.record(stream), 10)
    assert np.unpackbits(found).sum() == 1


def test_what_a_kernel_raises_is_reported_by_the_wait():
    device = device_api("emulated")
    stream, memory = stream_with(device, 8)
    device.launch(stream, lambda array: array[9], [memory])
    with pytest.raises(DeviceError, match="emulated: a kernel raised IndexError: "):
        device.wait(device.record(stream), 10)


def test_devices_of_one_name_and_settings_are_one_and_others_are_not():
    first = device_api("emulated:name=board0,memory=100")
    first.allocate(80)
    with pytest.raises(DeviceMemoryError):
        device_api("emulated:name=board0,memory=100").allocate(80)
    assert device_api("emulated:name=board1,memory=100").allocate(80)
    assert device_api("emulated:memory=100") is not device_api("emulated:memory=100")
    first.close()
    assert device_api("emulated:name=board0,memory=100").allocate(80)


def test_what_is_of_another_device_is_refused():
    device, other = device_api("emulated"), device_api("emulated")
    stream, memory = stream_with(device, 8)
    with pytest.raises(DeviceError, match="copy it by way of the host"):
        device.copy_in(stream, other.allocate(8), np.zeros(8, "uint8"))
    with pytest.raises(DeviceError, match="an event of another device"):
        device.wait_for(stream, other.record(other.new_stream()))
    with pytest.raises(DeviceError, match="a stream that was closed, or is another device's"):
        device.copy_in(other.new_stream(), memory, np.zeros(8, "uint8"))
    with pytest.raises(DeviceError, match="an array in C order, got"):
        device.copy_in(stream, memory, np.zeros((4, 4), "uint8")[:, :2])


def test_streams_without_work_have_no_thread():
    device = device_api("emulated")
    streams = [device.new_stream() for _ in range(20)]
    device.synchronize(10)
    for stream in streams:
        if stream._thread is not None:
            stream._thread.join(10)
    assert all(stream._thread is None for stream in streams)
