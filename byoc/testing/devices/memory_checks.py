"""What devices say of themselves, and their memory: copies, places, limits, giving back."""

from __future__ import annotations

import numpy as np

from byoc.runtime.core.device import HardwareLevel
from byoc.runtime.core.errors import DeviceMemoryError
from byoc.runtime.devices.device_api import DeviceProperties
from byoc.testing.devices.trial import GUARD, Broken, DeviceTrial, same

SIZES = (0, 1, 63, 64, 4096, 100_003)  # bytes
DTYPES = ("int8", "float32", "float64")
ROUNDS = 8
GIVEN_BACK = 64 << 20  # bytes that are taken and given back, unless the device has less


def properties(trial: DeviceTrial) -> None:
    """It says what it is, and the same again."""
    found = trial.device.properties
    if not isinstance(found, DeviceProperties) or not found.name or not isinstance(found.level, HardwareLevel):
        raise Broken(f"properties is {found!r}, expected DeviceProperties with a name and a level")
    if found.memory_bytes is not None and found.memory_bytes <= 0:
        raise Broken(f"memory_bytes is {found.memory_bytes}, expected a number above 0, or None")
    if found.alignment < 1 or found.alignment & (found.alignment - 1):
        raise Broken(f"alignment is {found.alignment}, expected a power of two")
    if not found.level.runs:
        raise Broken(f"the level of a device that is open is {found.level}, expected emulated or real")
    if trial.device.properties != found:
        raise Broken("properties are others when they are asked again")


def round_trips(trial: DeviceTrial) -> None:
    """What is copied in comes out, of any size and dtype, and the host's array is not changed."""
    stream = trial.device.new_stream()
    for size in SIZES:
        for dtype in DTYPES:
            data = trial.numbers(size // 8 * 8 if dtype != "int8" else size, size, dtype)
            kept = data.copy()
            data.flags.writeable = False
            memory = trial.filled(stream, data)
            trial.expect(memory, kept, stream, f"{data.nbytes} bytes of {dtype} that were copied in and out")
            same(data, kept, "the host's array after it was copied in")
            trial.device.free(memory)


def offsets(trial: DeviceTrial) -> None:
    """A copy to or from the middle of a memory leaves the rest as it is."""
    device, stream = trial.device, trial.device.new_stream()
    data, piece = trial.numbers(4096, 1), trial.numbers(1000, 2)
    memory = trial.filled(stream, data)
    device.copy_in(stream, memory, piece, 129)
    wanted = data.copy()
    wanted[129:1129] = piece
    trial.expect(memory, wanted, stream, "a memory after a copy to byte 129")
    found = np.full(500, GUARD, np.uint8)
    device.copy_out(stream, found[100:300], memory, 1001)
    trial.finish(stream)
    same(found[100:300], wanted[1001:1201], "a copy from byte 1001")
    if np.any(found[:100] != GUARD) or np.any(found[300:] != GUARD):
        raise Broken("a copy to the host writes outside of its array")


def device_copies(trial: DeviceTrial) -> None:
    """Copies on the device, between memories and within one, at any place."""
    device, stream = trial.device, trial.device.new_stream()
    data = trial.numbers(4096, 3)
    source, target = trial.filled(stream, data), trial.filled(stream, np.zeros(4096, np.uint8))
    device.copy(stream, target, source, 1000, 33, 2001)
    device.copy(stream, target, target, 500, 3000, 33)
    device.copy(stream, target, source, 0, 4096, 4096)
    wanted = np.zeros(4096, np.uint8)
    wanted[33:1033] = data[2001:3001]
    wanted[3000:3500] = wanted[33:533]
    trial.expect(target, wanted, stream, "a memory after copies on the device")
    trial.expect(source, data, stream, "the source of copies on the device")


def apart(trial: DeviceTrial) -> None:
    """Memories do not overlap."""
    stream = trial.device.new_stream()
    held = [(trial.filled(stream, trial.numbers(size, seed)), size, seed) for seed, size in enumerate(SIZES * 3)]
    for memory, size, seed in held:
        trial.expect(memory, trial.numbers(size, seed), stream, f"a memory of {size} bytes beside others")


def limits(trial: DeviceTrial) -> None:
    """What reaches outside of a memory is refused, and the device goes on."""
    device, stream = trial.device, trial.device.new_stream()
    data = trial.numbers(64, 4)
    memory, other = trial.filled(stream, data), device.allocate(32)
    trial.refused(lambda: device.copy_in(stream, memory, np.zeros(65, np.uint8)), "a copy of 65 bytes into 64")
    trial.refused(lambda: device.copy_in(stream, memory, np.zeros(8, np.uint8), 60), "a copy of 8 bytes to byte 60")
    trial.refused(lambda: device.copy_in(stream, memory, np.zeros(8, np.uint8), -8), "a copy to byte -8")
    trial.refused(lambda: device.copy_out(stream, np.zeros(65, np.uint8), memory), "a copy of 65 bytes from 64")
    trial.refused(lambda: device.copy(stream, other, memory, 33), "a copy of 33 bytes into 32 on the device")
    trial.refused(lambda: device.allocate(-1), "an allocation of -1 bytes")
    trial.expect(memory, data, stream, "a memory after copies that were refused")


def freed(trial: DeviceTrial) -> None:
    """Memory that was given back cannot be used, nor given back again, nor that of another device."""
    device, stream = trial.device, trial.device.new_stream()
    memory = trial.filled(stream, trial.numbers(64, 5))
    trial.finish(stream)
    device.free(memory)
    trial.refused(lambda: device.free(memory), "giving memory back twice")
    trial.refused(lambda: device.copy_in(stream, memory, np.zeros(8, np.uint8)), "a copy into memory that was freed")
    trial.refused(lambda: device.copy_out(stream, np.zeros(8, np.uint8), memory), "a copy from memory that was freed")
    other = trial.open()
    if other is not device:
        foreign = other.allocate(64)
        trial.refused(lambda: device.copy_in(stream, foreign, np.zeros(8, np.uint8)), "another device's memory")
        other.free(foreign)


def unseen(trial: DeviceTrial) -> None:
    """The host cannot read a memory as an array."""
    memory = trial.device.allocate(8)
    trial.refused(lambda: np.asarray(memory), "np.asarray of a memory")


def out_of_memory(trial: DeviceTrial) -> None:
    """More memory than there is gives DeviceMemoryError, and the device goes on."""
    device, stream = trial.device, trial.device.new_stream()
    known = device.properties.memory_bytes
    asked = 1 << 60 if known is None else known + 1
    trial.refused(lambda: device.allocate(asked), f"an allocation of {asked} bytes", DeviceMemoryError)
    data = trial.numbers(1000, 6)
    trial.expect(trial.filled(stream, data), data, stream, "a memory after one that there is not")


def given_back(trial: DeviceTrial) -> None:
    """Memory that was given back can be had again."""
    known = trial.device.properties.memory_bytes
    size = GIVEN_BACK if known is None else min(GIVEN_BACK, known * 3 // 4)
    rounds = ROUNDS if known is None else min(max(ROUNDS, 2 * known // size), 4 * ROUNDS)
    for _ in range(rounds):
        trial.device.free(trial.device.allocate(size))
