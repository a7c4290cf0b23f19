"""The emulator of the example NPU: its instructions in numpy, and the runtime module that holds a program of them.

The NPU computes on int8 with channels innermost, sums in int32 and requantizes by 32-bit multipliers. It sees the
host's memory through copies of boxes alone: all else happens in :data:`MEMORY` bytes of its own. A program is a list of
instructions, each a name and integers:

* ``load``: buffer, item; rows, columns and channels of a box, each its begin and end; padding at the top, left, bottom
  and right; what fills it; address.
* ``constants``: offset in the program's constants, bytes, address.
* ``conv``: addresses of data, weights, parameters, sums and result; data (h, w, c); result (h, w, c); kernel, strides,
  dilation; depthwise; zero point of the data; least and greatest sum; zero point, least and greatest of the result.
* ``add``: addresses of both sides and of the result, count; of each side zero point, multiplier and shift; zero point,
  least and greatest of the result.
* ``max_pool``: addresses of data and result; data (h, w, c); result (h, w); window, strides, dilation.
* ``store``: address; buffer, item; rows, columns and channels of the box.

A module runs its program on a device (``npu_session.py``): the emulated one, unless the option ``device`` of the
backend, or ``$BYOC_INT8_NPU_DEVICE`` where it runs, says otherwise.

Invariant: this file imports numpy and ``byoc.runtime`` alone, so that a saved model runs without the compiler.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from byoc.contrib.npu_session import NpuSession
from byoc.runtime import ArtifactError, DeviceAPI, DeviceError, HardwareLevel, InputError, Module, NDArray, device_api
from byoc.runtime.core.fork import new_lock
from byoc.runtime.devices.waiting import wait_until
from byoc.runtime.modules.module import Members, PackedFunction

MEMORY = 64 << 10  # bytes on the chip
VERSION = 1
MAGIC = b"NPU8"
PARAMETERS = 12  # bytes for each channel: bias, multiplier, shift, each an int32
PROGRAM = "program.npu"
FRACTION = 31  # bits of a multiplier behind the point
DEVICE_VARIABLE = "BYOC_INT8_NPU_DEVICE"
DEVICE = "emulated:memory=4294967296"
DEVICE_KINDS = ("emulated", "host")  # on which a kernel is a function

Shape = Sequence[int]  # [n, h, w, c]


def scaled(values: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """``values: i32`` times ``multiplier * 2**(shift - 31)``, halves rounded up."""
    wide = np.left_shift(values.astype(np.int64), np.maximum(shift, 0))
    bits = FRACTION + np.maximum(-shift, 0)
    result: np.ndarray = np.right_shift(wide * multiplier + np.left_shift(np.int64(1), bits - 1), bits)
    return result.astype(np.int32)


class Emulator:
    """The chip: its memory, the host's *buffers* (``i8[n, h, w, c]``) and the *constants* of a program."""

    def __init__(self, buffers: Sequence[np.ndarray], constants: bytes | np.ndarray):
        self.memory = np.zeros(MEMORY, np.int8)
        self.buffers, self.rom = buffers, np.frombuffer(constants, np.int8)
        self.instructions: Mapping[str, Callable[..., None]] = {
            "load": self.load,
            "constants": self.constants,
            "conv": self.conv,
            "add": self.add,
            "max_pool": self.max_pool,
            "store": self.store,
        }

    def run(self, code: Sequence[Sequence[object]]) -> None:
        """Execute *code*. Raises ArtifactError for an instruction or an address that there is not."""
        for name, *operands in code:
            instruction = self.instructions.get(str(name))
            if instruction is None:
                raise ArtifactError(f"the NPU has no instruction {name!r}; it has {', '.join(self.instructions)}")
            instruction(*operands)

    def at(self, address: int, *shape: int, dtype: str = "int8") -> np.ndarray:
        """The memory at *address* as an array. Raises ArtifactError outside of it."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if address < 0 or address + size > MEMORY:
            raise ArtifactError(f"the NPU has {MEMORY} bytes, and a program reaches to {address + size}")
        return self.memory[address : address + size].view(dtype).reshape(shape)

    def load(self, buffer: int, item: int, *box: int) -> None:
        """A box of a buffer into the memory, its padding filled."""
        h0, h1, w0, w1, c0, c1, top, left, bottom, right, fill, address = box
        shape = (h1 - h0 + top + bottom, w1 - w0 + left + right, c1 - c0)
        target = self.at(address, *shape)
        target[...] = fill
        target[top : shape[0] - bottom, left : shape[1] - right] = self.buffers[buffer][item, h0:h1, w0:w1, c0:c1]

    def constants(self, offset: int, size: int, address: int) -> None:
        """A piece of the program's constants into the memory."""
        self.at(address, size)[...] = self.rom[offset : offset + size]

    def store(self, address: int, buffer: int, item: int, *box: int) -> None:
        """A box of a buffer from the memory."""
        h0, h1, w0, w1, c0, c1 = box
        self.buffers[buffer][item, h0:h1, w0:w1, c0:c1] = self.at(address, h1 - h0, w1 - w0, c1 - c0)

    def conv(self, *operands: int) -> None:
        """A convolution: sums in int32, bias, bounds, and their multipliers; exact in float64, which holds the sums."""
        data, weights, parameters, sums, result, h, w, c, out_h, out_w, out_c = operands[:11]
        kernel_h, kernel_w, stride_h, stride_w, dilate_h, dilate_w, depthwise, zero = operands[11:19]
        least_sum, greatest_sum, zero_out, least, greatest = operands[19:]
        x = self.at(data, h, w, c).astype(np.float64) - zero
        kernel = self.at(weights, kernel_h, kernel_w, 1 if depthwise else c, out_c).astype(np.float64)
        total = np.zeros((out_h, out_w, out_c))
        for i in range(kernel_h):
            for j in range(kernel_w):
                rows = slice(i * dilate_h, i * dilate_h + (out_h - 1) * stride_h + 1, stride_h)
                columns = slice(j * dilate_w, j * dilate_w + (out_w - 1) * stride_w + 1, stride_w)
                total += x[rows, columns] * kernel[i, j, 0] if depthwise else x[rows, columns] @ kernel[i, j]
        bias, multiplier, shift = self.at(parameters, 3, out_c, dtype="int32").astype(np.int64)
        accumulators = self.at(sums, out_h, out_w, out_c, dtype="int32")
        accumulators[...] = np.clip(total.astype(np.int64) + bias, least_sum, greatest_sum)
        self._put(result, scaled(accumulators, multiplier, shift) + zero_out, least, greatest)

    def add(self, *operands: int) -> None:
        """A sum of two tensors, each brought to the scale of the result."""
        left, right, result, count = operands[:4]
        total = np.zeros(count, np.int32)
        for address, (zero, multiplier, shift) in ((left, operands[4:7]), (right, operands[7:10])):
            value = self.at(address, count).astype(np.int32) - zero
            total += scaled(value, np.array(multiplier, np.int64), np.array(shift, np.int64))
        zero_out, least, greatest = operands[10:]
        self._put(result, total + zero_out, least, greatest)

    def max_pool(self, *operands: int) -> None:
        """The greatest number of each window."""
        data, result, h, w, c, out_h, out_w, pool_h, pool_w, stride_h, stride_w, dilate_h, dilate_w = operands
        x = self.at(data, h, w, c)
        found = np.full((out_h, out_w, c), -128, np.int8)
        for i in range(pool_h):
            for j in range(pool_w):
                rows = slice(i * dilate_h, i * dilate_h + (out_h - 1) * stride_h + 1, stride_h)
                columns = slice(j * dilate_w, j * dilate_w + (out_w - 1) * stride_w + 1, stride_w)
                np.maximum(found, x[rows, columns], out=found)
        self.at(result, out_h, out_w, c)[...] = found

    def _put(self, address: int, values: np.ndarray, least: int, greatest: int) -> None:
        self.at(address, *values.shape)[...] = np.clip(values, least, greatest)


def checked_device(text: object) -> str:
    """*text*, the name of a device that the emulator can run on. Raises DeviceError for others."""
    if not isinstance(text, str) or text.partition(":")[0] not in DEVICE_KINDS:
        raise DeviceError(
            f"the device of int8_npu is one of {', '.join(DEVICE_KINDS)}, with settings behind a colon, as in "
            f"emulated:seconds=0.001, got {text!r}"
        )
    return text


def chosen_device(compiled: str) -> str:
    """The device to run on: that of ``$BYOC_INT8_NPU_DEVICE``, else that for which a program was *compiled*."""
    return checked_device(os.environ.get(DEVICE_VARIABLE) or compiled)


class NpuModule(Module):
    """A region as a program of the NPU; its *buffers* are the shapes of inputs, then outputs, then what is between.

    Raises ArtifactError for a saved program of another version, or whose check value is wrong.
    """

    type_key = "int8_npu"
    thread_safe = True  # one run after the other
    keeps_time = True  # a run waits for the device, and for other runs, no longer than it may

    def __init__(self, program: Mapping[str, Any], rom: bytes):
        super().__init__()
        self.program, self.rom = dict(program), rom
        self.symbols = (str(program["symbol"]),)
        self.code: list[list[object]] = program["code"]
        self.buffers: list[list[int]] = program["buffers"]
        self.inputs, self.outputs = int(program["inputs"]), int(program["outputs"])
        self.device = checked_device(program.get("device", DEVICE))
        self._session: NpuSession | None = None
        self._opened: DeviceAPI | None = None
        self._lock, self._opening = new_lock(), new_lock()

    def level(self) -> HardwareLevel:
        """That of the device that it runs on. Raises DeviceError where there is none of that name."""
        return self._device().properties.level

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        return self.run if name in self.symbols else super().get_function(name, query_imports)

    def run(self, *arrays: NDArray) -> None:
        """The inputs, then the outputs, which are filled. Raises InputError for another number of them or sizes."""
        count = self.inputs + self.outputs
        if len(arrays) != count:
            raise InputError(f"{self.symbols[0]}: expected {count} tensors of int8, got {len(arrays)}")
        given = [a.numpy() if isinstance(a, NDArray) else np.asarray(a) for a in arrays]
        for number, (array, shape) in enumerate(zip(given, self.buffers, strict=False)):
            if array.dtype != np.int8 or array.size != int(np.prod(shape)):
                raise InputError(
                    f"{self.symbols[0]}: tensor {number} is int8 of shape {shape}, got {array.dtype}{list(array.shape)}"
                )
        inputs = [np.asarray(a, order="C") for a in given[: self.inputs]]
        outputs = given[self.inputs :]
        filled = [a if a.flags.c_contiguous else np.empty(a.shape, a.dtype) for a in outputs]
        wait_until(lambda seconds: self._lock.acquire(timeout=seconds), f"waiting for another run of {self.symbols[0]}")
        try:
            if self._session is None:
                self._session = NpuSession(self._device(), self.execute, self.buffers, self.rom)
            session, self._session = self._session, None  # of no use any more where it fails
            session.run(inputs, filled)
            self._session = session
        finally:
            self._lock.release()
        for array, result in zip(outputs, filled, strict=True):
            if array is not result:
                np.copyto(array, result)

    def execute(self, *memories: np.ndarray) -> None:
        """The program as a kernel: ``u8`` arrays for its buffers, then its constants."""
        buffers = [m.view(np.int8).reshape(shape) for m, shape in zip(memories, self.buffers, strict=False)]
        Emulator(buffers, memories[-1]).run(self.code)

    def _device(self) -> DeviceAPI:
        """The device, opened once."""
        with self._opening:
            if self._opened is None:
                self._opened = device_api(chosen_device(self.device))
            return self._opened

    def get_source(self, fmt: str = "") -> str:
        return "\n".join(f"{name} {', '.join(map(str, operands))}" for name, *operands in self.code)

    def save(self) -> dict[str, bytes]:
        text = json.dumps(self.program, separators=(",", ":")).encode()
        body = len(text).to_bytes(8, "little") + text + self.rom
        head = MAGIC + VERSION.to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little")
        return {PROGRAM: head + body}

    @classmethod
    def load(cls, members: Members) -> NpuModule:
        if PROGRAM not in members:
            raise ArtifactError(f"a module of the NPU has no {PROGRAM}; save the model again")
        data = bytes(members[PROGRAM])
        version, check = (int.from_bytes(data[k : k + 4], "little") for k in (4, 8))
        if data[:4] != MAGIC or version != VERSION:
            raise ArtifactError(f"{PROGRAM} is no program of version {VERSION} of the NPU; compile the model again")
        if zlib.crc32(data[12:]) != check:
            raise ArtifactError(f"{PROGRAM}: the check value is wrong, so the program is damaged; copy it again")
        size = int.from_bytes(data[12:20], "little")
        return cls(json.loads(data[20 : 20 + size]), data[20 + size :])
