"""The ahead-of-time executor: a whole model by one call of native code.

All that can be decided before a run is: the arena is taken, constants and places are bound. A run puts the addresses
of its inputs and of new outputs into the table of arguments and calls; an input is copied only where its memory is not
laid out as the code reads it. Functions that are not native code are called back through a table.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.fork import new_lock
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.time_limit import LIMIT, patience, seconds_left, timed_out
from byoc.runtime.dso.externals import External, Externals
from byoc.runtime.dso.native_block import BoundProgram
from byoc.runtime.dso.native_loop import FEWEST, LoopTables, NativeLoop, can_repeat
from byoc.runtime.dso.native_program import NativeProgram, Team, Workspace
from byoc.runtime.dso.run_state import FFI, RunState
from byoc.runtime.graph.executor_base import ComputingExecutor, as_input, check_sizes, thread_count
from byoc.runtime.graph.graph import Graph, Kind, LoopCall, LoopResult
from byoc.runtime.graph.memory_plan import MemoryPlan
from byoc.runtime.region.abandoned_work import at_work, hold
from byoc.runtime.region.function import guards_of
from byoc.runtime.region.vendor_time_limit import run_again

if TYPE_CHECKING:
    from byoc.runtime.dso.growing_loop import GrowingLoop

LONG_RUN = 0.01  # seconds of a run during which signals are looked for


class AotExecutor(ComputingExecutor):
    """Runs a graph by its native function, with a team of *threads*; calls from several threads wait for each other.

    *constants* are those of the program in order, *externals* the functions that it calls back.
    """

    def __init__(
        self,
        graph: Graph,
        native: NativeProgram,
        constants: Sequence[np.ndarray],
        externals: Sequence[External],
        threads: int | None = None,
    ):
        super().__init__(graph)
        self.threads = thread_count(threads, native.whole.operations)
        self._workspace = Workspace()
        self._native = native
        self._growing: dict[LoopCall, GrowingLoop | None] = {}
        self._loops: dict[LoopCall, LoopTables | None] = {}  # for the present sizes
        self._dtypes = [numpy_dtype(s.dtype) for s in self._specs]
        heads = [graph.specs[head] for head in graph.heads]
        self._head_specs, self._head_dtypes = heads, [numpy_dtype(s.dtype) for s in heads]
        self._constants = list(constants)
        self._first_output = len(self._specs) + len(self._constants)
        self._args = FFI.new("void *[]", self._first_output + len(heads))
        for k, array in enumerate(self._constants, len(self._specs)):
            self._args[k] = FFI.cast("void *", array.ctypes.data)
        self._guards = guards_of(externals)
        self._externals = Externals(native.whole.externals, externals)
        self._shapes: list[tuple[int, ...] | None] = [None] * len(self._specs)
        self._output_kinds: list[Kind] = []
        self._bound: dict[str, int] = {}
        self._state = RunState()
        self._is_long = True  # until a run with the present sizes was short
        self._last_runs = FEWEST  # of a loop
        self._team: Team | None = None
        self._team_process = 0
        self._run: Callable[..., int] | None = None
        plain = all(d.kind in "fiub" for d in (*self._dtypes, *self._head_dtypes))
        self._address = FFI.from_buffer if plain else _address
        self._lock = new_lock()

    @property
    def memory(self) -> MemoryPlan:
        """Where the values between nodes lie."""
        return self._workspace.memory

    def compute(self, inputs: Sequence[object]) -> list[np.ndarray]:
        """The outputs, in new arrays, for all inputs in their order. Raises InputError for one that does not fit."""
        with self._alone():
            return self._computed(inputs) if not self._guards else self._guarded(inputs)

    def _guarded(self, inputs: Sequence[object]) -> list[np.ndarray]:
        return run_again(lambda: self._computed(inputs), len(self._guards))

    def _alone(self) -> contextlib.AbstractContextManager[object]:
        """The lock, for which a run under a time limit waits as long as there is time."""
        return self._lock if not LIMIT.deadline else self._locked_in_time()

    @contextlib.contextmanager
    def _locked_in_time(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=seconds_left() or 0):
            raise timed_out(" while another run of its executor went on")
        try:
            yield
        finally:
            self._lock.release()

    def loop(self, call: LoopCall, inputs: Sequence[object]) -> LoopResult | None:
        if self._guards:
            return None
        with self._alone():
            return self._looped(call, inputs)

    def _looped(self, call: LoopCall, inputs: Sequence[object]) -> LoopResult | None:
        """As :meth:`loop`. Requires the lock."""
        growing = self._growing_loop(call)
        if growing is not None:
            return self._grown(growing, inputs)
        arrays = self._ready(inputs)
        if self._team is not None and self._team_process != os.getpid():
            self._start_team()
        runs, tables = self._native.loop_runner(self._team, self._state), self._loop_tables(call, arrays)
        if runs is None or tables is None:
            return None
        for k, array in enumerate(arrays):
            self._args[k] = self._address(array)
        kinds = {k: self._output_kinds[k] for k in call.collected}
        loop = NativeLoop(call, self._args, self._first_output, kinds)
        loop.begin(tables)
        self._state.watch(is_long=True)
        status, is_going, most = 0, True, self._last_runs
        while is_going and status == 0:
            status, is_going = loop.go_on(
                min(most, loop.most_room),
                lambda struct: runs(self._args, self._sizes, self._place, self._externals.table, struct),
            )
            most = loop.done
        self._last_runs = max(loop.done, 1)
        if status != 0:
            self._loops.clear()
            self._failed(status, (arrays, loop))
        found = loop.result()
        return LoopResult([v.copy() for v in found.kept], found.collected) if tables.may_stay else found

    def _loop_tables(self, call: LoopCall, arrays: Sequence[np.ndarray]) -> LoopTables | None:
        """Those of *call* for *arrays*, which are bound; None where runs cannot follow each other so."""
        if call not in self._loops:
            kinds = [(a.shape, a.dtype) for a in arrays]
            fits = can_repeat(call, kinds, self._output_kinds)
            self._loops[call] = LoopTables(call, self._first_output, self._output_kinds) if fits else None
        tables = self._loops[call]
        if tables is not None and not tables.may_stay:
            del self._loops[call]  # the values are handed on
        return tables

    def _growing_loop(self, call: LoopCall) -> GrowingLoop | None:
        """What runs *call* where sizes change from run to run; None where they do not, or it cannot be."""
        if call not in self._growing:
            from byoc.runtime.dso.growing_loop import growing_loop

            self._growing[call] = growing_loop(call, self._native, self._specs, self._head_specs)
        return self._growing[call]

    def _grown(self, growing: GrowingLoop, inputs: Sequence[object]) -> LoopResult | None:
        """As :meth:`_looped` with sizes that change. Requires the lock."""
        arrays, sizes = growing.begun(inputs)
        if self.threads != 1:
            self._start_team()
        runs = self._native.growing_runner(self._team, self._state)
        if runs is None:
            return None
        for k, array in enumerate(arrays):
            self._args[k] = self._address(array)
        loop = NativeLoop(growing.call, self._args, self._first_output, growing.collected_kinds(sizes))
        self._state.watch(is_long=True)
        status = growing.run(
            loop,
            sizes,
            lambda rows, row, place, struct: runs(self._args, rows, row, place, self._externals.table, struct),
            lambda largest: check_sizes(self.graph, largest),
        )
        if status != 0:
            self._failed(status, (arrays, loop, growing.workspace.leave()))
        return growing.result(loop)

    def _computed(self, inputs: Sequence[object]) -> list[np.ndarray]:
        """The outputs. Requires the lock."""
        arrays = self._ready(inputs)
        if self._team is not None and self._team_process != os.getpid():
            self._start_team()  # the threads of a parent process are not in its child
        outputs = [np.empty(shape, dtype) for shape, dtype in self._output_kinds]
        args, address, state = self._args, self._address, self._state
        run: Callable[..., int] = self._run  # type: ignore[assignment]  # _ready has bound it
        for k, array in enumerate(arrays):
            args[k] = address(array)
        for k, array in enumerate(outputs, self._first_output):
            args[k] = address(array)
        if self._is_long or LIMIT.deadline or state.is_watched:
            state.watch(self._is_long)
            start = time.monotonic()
            status = run(args, self._sizes, self._place, self._externals.table)
            self._is_long = time.monotonic() - start >= LONG_RUN
        else:
            status = run(args, self._sizes, self._place, self._externals.table)
        if status != 0:
            self._failed(status, (arrays, outputs))
        return outputs

    def _failed(self, status: int, arrays: object) -> None:
        """Raise what a run on *arrays* came to that gave *status*, when nothing is at work any more."""
        checks, inner = self.failed_inside()
        error = self._state.error_of(status, checks) or inner or self._externals.take_error()
        self._externals.abandon(patience(error))
        if at_work():  # on the memory of this run: the next one gets other
            hold((self._workspace.leave(), self._args, arrays))
            self._run = None
        raise error

    def bound(self, inputs: Sequence[Kind]) -> BoundProgram | None:
        """This program ready for inputs of these kinds, on the memory of this executor, for native code to call.

        None where Python has to stand around its runs. Raises InputError for kinds that do not fit.
        """
        if self._guards:
            return None
        sizes = Sizes()
        for spec, (shape, dtype) in zip(self._specs, inputs, strict=True):
            spec.bind(np.broadcast_to(np.zeros((), dtype), shape), sizes)
        self._allocate(sizes)
        fields = {
            "program": FFI.cast("Program", FFI.cast("void *", self._native.run)),
            "args": self._args,
            "sizes": self._sizes,
            "workspace": self._place,
            "externals": self._externals.table,
        }
        return BoundProgram(fields, self._first_output, self._output_kinds, self._native.whole.checks, self)

    def failed_inside(self) -> tuple[Sequence[str], BaseException | None]:
        """Of a run by native code that failed: the checks that an index outside is one of, or what was raised."""
        return self._externals.failed_inside(self._native.whole.checks)

    def end(self) -> None:
        """End the threads of this executor now; another run starts them anew."""
        with self._lock:
            if self._team is not None:
                self._team.end()
            self._team = self._run = None
            self._shapes = [None] * len(self._specs)

    def _ready(self, inputs: Sequence[object]) -> Sequence[np.ndarray]:
        """*inputs* as the code reads them: themselves where their memory is laid out so."""
        for value, shape, dtype in zip(inputs, self._shapes, self._dtypes, strict=True):
            if type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
                return self._bind(inputs)
            flags = value.flags
            if not (flags.c_contiguous and flags.aligned):
                return self._bind(inputs)
        return inputs if self._run is not None else self._bind(inputs)  # type: ignore[return-value]  # arrays, as seen above

    def _bind(self, inputs: Sequence[object]) -> list[np.ndarray]:
        """Check and convert *inputs*, and make ready for their sizes. Raises InputError, UserError."""
        arrays = [as_input(value, spec) for value, spec in zip(inputs, self._specs, strict=True)]
        self._loops.clear()
        sizes = Sizes()
        for array, spec in zip(arrays, self._specs, strict=True):
            spec.bind(array, sizes)
        if self._run is None or sizes != self._bound:
            self._run = None  # until all is in place: a failure below must not leave half of it in use
            self._allocate(sizes)
            self._start_team()
            self._is_long = True
        self._shapes = [array.shape for array in arrays]
        return [np.require(array, dtype, ["C", "A"]) for array, dtype in zip(arrays, self._dtypes, strict=True)]

    def _allocate(self, sizes: Sizes) -> None:
        """Take the arena for named *sizes*, and bind all that depends on them."""
        check_sizes(self.graph, sizes)
        whole = self._native.whole
        numbers = [sizes[name] for name in whole.sizes]
        if whole.arena_bytes is None:
            self._workspace.take_rooms(self._native.buffer_bytes(numbers), whole.lifetimes)
        else:
            self._workspace.take(MemoryPlan((), whole.arena_bytes))
        self._place = self._workspace.place
        self._sizes = FFI.new("int64_t[]", [*numbers, *self.memory.offsets])
        shapes = [spec.concrete_shape(sizes) for spec in self._head_specs]
        self._output_kinds = list(zip(shapes, self._head_dtypes, strict=True))
        self._externals.bind(sizes)
        self._bound = sizes

    def _start_team(self) -> None:
        """Have runs made by a team of the wanted size, whose threads start now unless they run already."""
        if self.threads == 1:
            run, alone = self._native.run, self._state.alone
            self._run = lambda args, sizes, place, externals: run(args, sizes, place, alone, externals)
            return
        if self._team is None or self._team_process != os.getpid():
            self._team, self._team_process = self._new_team(), os.getpid()
        self._run = self._team.runner()

    def _new_team(self) -> Team:
        return self._native.team(self.threads, self._state, self._lock)


def _address(array: np.ndarray) -> object:
    """The address of an array whose dtype the buffer protocol does not know."""
    return FFI.cast("void *", array.ctypes.data)
