"""The functions that a whole program calls back: other backends' regions, and the host's numpy kernels.

Native code calls them through a table, by the addresses of their inputs and outputs; what one raises is kept, and is
raised again behind the native call. A region that works while the program goes on has two places in the table: one
starts it, after those that still make its inputs, the other waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from byoc.runtime.core.errors import InternalError, OutOfMemoryError, UserError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.dso.native_block import NativeBlock
from byoc.runtime.dso.run_state import FAILED, FFI
from byoc.runtime.dso.whole_program import ExternalCall
from byoc.runtime.region.call import RegionCall, bound

External = Callable[..., object]
CALLS_BEFORE = 2  # of a function by Python, before native code calls it: sizes that come once cost no more than that


class Externals:
    """The table for *calls* of *functions*, and what the last of them raised."""

    def __init__(self, calls: Sequence[ExternalCall], functions: Sequence[External]):
        self._natives = FFI.new("Native *[]", max(len(calls), 1))
        self._made: dict[int, RegionCall] = {}  # what is at work, by the address of each of its outputs
        self._functions: list[_External] = []
        for call, function in zip(calls, functions, strict=True):
            if call.waits_for is not None:
                started = self._functions[call.waits_for]
                assert isinstance(started, _Started)
                self._functions.append(_Waited(call, started))
            else:
                place = len(self._functions)
                made = (
                    _Started(call, function, self._made)
                    if call.starts
                    else _Decided(call, function, self._natives, place)
                )
                self._functions.append(made)
        self._callbacks = [
            FFI.callback("int32_t(const void **)", f, error=FAILED, onerror=f.failed) for f in self._functions
        ]
        self._addresses = FFI.new("int32_t (*[])(const void **)", self._callbacks or 1)
        self.table = FFI.new("Externals *", {"functions": self._addresses, "natives": self._natives})

    def bind(self, sizes: Mapping[str, int]) -> None:
        """Know the shapes of the arrays when the named sizes are *sizes*."""
        for place, function in enumerate(self._functions):
            self._natives[place], function.block = FFI.NULL, None
            function.bind(sizes)

    def failed_inside(self, checks: Sequence[str]) -> tuple[Sequence[str], BaseException | None]:
        """Where the last run failed in a program that native code called: its checks, and what was raised in it."""
        for function in self._functions:
            program = function.block.failed_program() if function.block is not None else None
            if program is not None:
                return program.owner.failed_inside()
        return checks, self.kept_error()

    def abandon(self, seconds: float | None = None) -> None:
        """Return when nothing is at work any more, whatever becomes of it; leave behind what takes *seconds*."""
        for call in self._made.values():
            call.abandon(seconds)
        self._made.clear()

    def take_error(self) -> BaseException:
        """What the function that failed raised."""
        return self.kept_error() or InternalError("the compiled program failed without a reason")

    def kept_error(self) -> BaseException | None:
        """As :meth:`take_error`; None where no function raised."""
        for function in self._functions:
            error, function.error = function.error, None
            if isinstance(error, MemoryError) and not isinstance(error, OutOfMemoryError):
                problem = UserError(f"{function.call.node}: this machine has too little memory ({error})")
                problem.__cause__ = error
                return problem
            if error is not None:
                return error
        return None


class _External:
    """A place in the table; called with addresses, it gives 0, or FAILED when it raised, which is kept."""

    def __init__(self, call: ExternalCall):
        self.call = call
        self.error: BaseException | None = None
        self.block: NativeBlock | None = None  # what native code calls instead

    def bind(self, sizes: Mapping[str, int]) -> None:
        """Know the shapes of the arrays when the named sizes are *sizes*."""

    def __call__(self, places: Sequence[object]) -> int:
        self.run(places)
        return 0

    def failed(self, kind: object, error: BaseException, traceback: object) -> None:
        """Keep what was raised, here or by a signal's handler: it goes on behind the native code."""
        self.error = error

    def run(self, places: Sequence[object]) -> None:
        """Do what the place is for with the arrays at *places*."""
        raise NotImplementedError


class _Called(_External):
    """A function that is called at once."""

    def __init__(self, call: ExternalCall, function: External):
        super().__init__(call)
        self._function = function
        self._arrays: list[tuple[tuple[int, ...], np.dtype]] = []
        self.addresses: tuple[int, ...] = ()
        self._prepared: Callable[[], object] | None = None

    def bind(self, sizes: Mapping[str, int]) -> None:
        specs = (*self.call.inputs, *self.call.outputs)
        self._arrays = [(s.concrete_shape(sizes), numpy_dtype(s.dtype)) for s in specs]
        self._prepared = None

    def run(self, places: Sequence[object]) -> None:
        self.prepared(places)()

    def prepared(self, places: Sequence[object]) -> Callable[[], object]:
        """The call on the arrays at *places*: the last one, where they are the same."""
        addresses = tuple(int(FFI.cast("intptr_t", places[k])) for k in range(len(self._arrays)))
        if self._prepared is None or addresses != self.addresses:
            count = len(self.call.inputs)
            arrays = [_array_at(places[k], *kind, k >= count) for k, kind in enumerate(self._arrays)]
            self._prepared, self.addresses = bound(self._function, arrays), addresses
        return self._prepared


class _Decided(_Called):
    """A function that native code may be able to call itself, which its second call with the same sizes asks.

    Its block then stands in *natives* at *place*, and the function is not called back any more.
    """

    def __init__(self, call: ExternalCall, function: External, natives: Any, place: int):
        super().__init__(call, function)
        self._natives, self._place = natives, place
        self._calls = 0

    def bind(self, sizes: Mapping[str, int]) -> None:
        super().bind(sizes)
        self._calls = 0

    def run(self, places: Sequence[object]) -> None:
        super().run(places)
        self._calls += 1
        make = getattr(self._function, "native", None)
        if make is not None and self._calls == CALLS_BEFORE:
            count = len(self.call.inputs)
            self.block = make(self._arrays[:count], self._arrays[count:])
            if self.block is not None:
                self._natives[self._place] = self.block.struct


class _Started(_Called):
    """A region that is started; *made* knows what is at work."""

    def __init__(self, call: ExternalCall, function: External, made: dict[int, RegionCall]):
        super().__init__(call, function)
        self._made = made
        self._region: RegionCall | None = None

    def run(self, places: Sequence[object]) -> None:
        region = self.prepared(places)
        assert isinstance(region, RegionCall)
        count = len(self.call.inputs)
        after = dict.fromkeys(self._made[a] for a in self.addresses[:count] if a in self._made)
        self._region = region
        region.start(list(after))
        self._made.update((address, region) for address in self.addresses[count:])

    def wait(self) -> None:
        """Have the outputs filled."""
        if self._region is not None:
            self._region.wait()
        for address in self.addresses[len(self.call.inputs) :]:
            self._made.pop(address, None)


class _Waited(_External):
    """The place that waits for a region."""

    def __init__(self, call: ExternalCall, started: _Started):
        super().__init__(call)
        self._started = started

    def run(self, places: Sequence[object]) -> None:
        self._started.wait()


def _array_at(place: object, shape: tuple[int, ...], dtype: np.dtype, is_output: bool) -> np.ndarray:
    """The memory at *place* as an array, which only an output's may be written to."""
    size = math.prod(shape) * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    array = np.frombuffer(FFI.buffer(FFI.cast("uint8_t *", place), size), dtype).reshape(shape)
    array.flags.writeable = is_output
    return array
